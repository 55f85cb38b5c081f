"""Which forward values a backward pass computes again instead of reading them where they were computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.typed.ir import ArrayConstant, Checkpoint, Constant, Recall, Upstream, operands
from tileir.typed.templates import free_upstreams

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tileir.typed.ir import Operation


def to_recall(operations: Sequence[Operation], results: Iterable[str]) -> frozenset[str]:
    """Return the values that come before the last checkpoint on which ``results`` depend, but for what is kept.

    Without such a checkpoint there are none. What comes after the last one is read where it is: the backward pass
    begins with it.
    """
    last = _last_checkpoint(operations, set(results))
    if last is None:
        return frozenset()
    before = operations[:last]
    open_templates = free_upstreams(before)
    return frozenset(
        operation.name
        for operation in before
        if not isinstance(operation, Constant | ArrayConstant | Checkpoint | Upstream)
        and operation.name not in open_templates
    )


def next_sweep(operations: Iterable[Operation]) -> int:
    """Return a number that no backward pass among ``operations`` has."""
    return 1 + max((operation.sweep for operation in operations if isinstance(operation, Recall)), default=-1)


def _last_checkpoint(operations: Sequence[Operation], needed: set[str]) -> int | None:
    """Return the position of the last checkpoint that ``needed`` depends on."""
    if not any(isinstance(operation, Checkpoint) for operation in operations):
        return None
    for position in range(len(operations) - 1, -1, -1):
        operation = operations[position]
        if operation.name in needed:
            if isinstance(operation, Checkpoint):
                return position
            needed.update(operands(operation))
    return None
