"""Computing forward values again for the backward pass, from those that are kept.

The rule is that of Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost" (2016). Kept are
inputs, outputs, constants, and what a checkpoint marks. Every other value that the backward pass recalls is computed
again, with all that leads to it from what is kept, just before the backward pass first reads it. So it goes segment by
segment, from one checkpoint to the next. A backward pass computes a value again only once; another one does so anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from tileir.core.text.names import NameScope
from tileir.typed.dataflow import with_operands
from tileir.typed.ir import (
    ArrayConstant,
    Checkpoint,
    Constant,
    Function,
    Operation,
    Override,
    Recall,
    Reshape,
    operands,
)

_SAME: Final = (Override, Checkpoint, Recall)


def rematerialised(function: Function) -> Function:
    """Return ``function`` with repeated operations before each recall that needs them; itself without recalls.

    A recall stays, and reads what was computed for it. The cost is linear in the number of operations, before and
    after, but for sorting those that one recall needs.
    """
    if not any(isinstance(operation, Recall) for operation in function.operations):
        return function
    work = _Work.of(function)
    return attrs.evolve(function, operations=tuple(after for op in function.operations for after in work.visit(op)))


@attrs.define(repr=False)
class _Work:
    """Which values are kept, and what each backward pass has computed again."""

    positions: dict[str, int]
    operations: tuple[Operation, ...]
    kept: frozenset[str]
    names: NameScope
    again: dict[int, dict[str, str]] = attrs.field(factory=dict, init=False)  # by backward pass and name

    @classmethod
    def of(cls, function: Function) -> _Work:
        """Find what ``function`` keeps."""
        positions = {operation.name: number for number, operation in enumerate(function.operations)}
        inputs = [value.name for value in function.inputs]
        kept = {*inputs, *function.outputs}
        for operation in reversed(function.operations):
            if isinstance(operation, Checkpoint | Constant | ArrayConstant):
                kept.add(operation.name)
            if operation.name in kept and isinstance(operation, Reshape | Override | Checkpoint):
                kept.add(operation.input)  # the same memory
        return cls(positions, function.operations, frozenset(kept), NameScope.of((*inputs, *positions)))

    def visit(self, operation: Operation) -> Iterator[Operation]:
        """Yield what comes in place of an operation: itself, and what a recall needs before it."""
        if not isinstance(operation, Recall):
            yield operation
            return
        again = self.again.setdefault(operation.sweep, {})
        yield from self._repeated(operation.input, again)
        yield with_operands(operation, again)

    def _repeated(self, name: str, again: dict[str, str]) -> Iterator[Operation]:
        """Yield the operations that compute ``name``, unless it is kept or was computed; ``again`` gets their names."""
        for position in self._missing(name, again):
            operation = self.operations[position]
            if isinstance(operation, _SAME):
                again[operation.name] = again.get(operation.input, operation.input)
            else:
                copy = self.names.fresh(operation.name)
                yield attrs.evolve(with_operands(operation, again), name=copy)
                again[operation.name] = copy

    def _missing(self, name: str, again: dict[str, str]) -> list[int]:
        """Return where those values are defined, in order, that ``name`` needs and nobody has."""
        found: set[int] = set()
        pending = [name]
        while pending:
            wanted = pending.pop()
            position = self.positions.get(wanted)
            if position is None or position in found or wanted in self.kept or wanted in again:
                continue
            found.add(position)
            operation = self.operations[position]
            pending.extend((operation.input,) if isinstance(operation, _SAME) else operands(operation))
        return sorted(found)
