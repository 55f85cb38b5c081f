"""Refusal of derivatives through the bits of numbers, which jump where the numbers do not."""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet
from operator import attrgetter

from tileir.core import Op, fail
from tileir.core.graphs.reaching import needed
from tileir.typed.ir import Elementwise, Operation, Override, operands


def sources(operation: Operation) -> tuple[str, ...]:
    """Return what makes ``operation`` move: for an override the tensors that get gradients, not their template."""
    return tuple(name for name, _ in operation.pairs) if isinstance(operation, Override) else operands(operation)


def refuse_patterns(operations: Sequence[Operation], results: AbstractSet[str], moving: AbstractSet[str]) -> None:
    """Refuse to differentiate ``results`` by ``moving`` where the bits of something between them are read.

    Raises:
        TileError: TIL335, with the place where they are.

    """
    if not any(isinstance(each, Elementwise) and each.op is Op.BITS for each in operations):
        return
    active = set(moving)
    for operation in needed(operations, set(results), attrgetter("name"), sources):
        if active.isdisjoint(sources(operation)):
            continue
        if isinstance(operation, Elementwise) and operation.op is Op.BITS:
            advice = "where none is meant, read those of stop_gradient(…)"
            raise fail("TIL335", f"the bits of a number have no derivative; {advice}", operation.span)
        if operation.dtype.is_float:
            active.add(operation.name)
