"""The state of one reverse sweep: cotangents that were found so far, and values for which one is wanted."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import attrs

from tileir.core.dtype import arithmetic_type
from tileir.typed.derivatives.algebra import Algebra
from tileir.typed.derivatives.recall import next_sweep, to_recall
from tileir.typed.ir import Recall, operands

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tileir.typed.inference.values import Tensor
    from tileir.typed.ir import Operation

SweepKey: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], bool]
"""What is differentiated, the cotangents that come in, and whether ties are split evenly."""


@attrs.frozen(eq=False)
class Path:
    """The float operations that some results depend on, in program order, and the positions of those that read a value.

    What the results depend on is complete when it is made, so it stays true while operations are added.
    """

    operations: Sequence[Operation]
    readers: Mapping[str, Sequence[int]]

    @classmethod
    def to(cls, operations: Sequence[Operation], results: AbstractSet[str]) -> Path:
        """Return the path that ends in ``results``."""
        needed = set(results)
        path: list[Operation] = []
        for operation in reversed(operations):
            if operation.name in needed and operation.dtype.is_float:
                path.append(operation)
                needed.update(operands(operation))
        path.reverse()
        readers: dict[str, list[int]] = {}
        for position, operation in enumerate(path):
            for name in dict.fromkeys(operands(operation)):
                readers.setdefault(name, []).append(position)
        return cls(path, readers)


@attrs.define(eq=False)
class Sweep(Algebra):
    """Cotangents of values: the derivatives of what is differentiated with respect to them.

    A cotangent has the arithmetic type of its value, and a shape that broadcasts to that of its value. Contributions
    are added up as they arrive; once its operation was visited, a cotangent is final.

    Attributes:
        results: The values that are differentiated.
        finished: Values whose cotangents are final; one that has none has the cotangent 0.

    """

    results: frozenset[str] = frozenset()
    finished: set[str] = attrs.field(factory=set, init=False)
    _cotangents: dict[str, Tensor] = attrs.field(factory=dict, init=False)
    _wanted: AbstractSet[str] = attrs.field(factory=frozenset, init=False)
    _recalled: dict[str, Tensor] = attrs.field(factory=dict, init=False)

    def value(self, name: str) -> Tensor:
        """Return the value of ``name`` as the backward pass reads it: where a checkpoint says so, computed again."""
        if name not in self._to_recall:
            return super().value(name)
        found = self._recalled.get(name)
        if found is None:
            definition, copy = self.definition(name), self.emission.names.fresh(name)
            recall = Recall(copy, name, self._number, definition.dtype, definition.shape)
            found = self._recalled[name] = self.emission.add(recall)
        return self.emission.current(found)

    @cached_property
    def path(self) -> Path:
        """The operations that the sweep goes through."""
        return Path.to(self.emission.operations, self.results)

    @cached_property
    def _to_recall(self) -> AbstractSet[str]:
        return to_recall(self.emission.operations, self.results)

    @cached_property
    def _number(self) -> int:
        return next_sweep(self.emission.operations)

    def wanted(self, name: str) -> bool:
        """Return whether a contribution to the cotangent of ``name`` is needed; rules skip the others."""
        return name in self._wanted

    def want(self, names: AbstractSet[str]) -> None:
        """Say for which values contributions are needed from now on."""
        self._wanted = names

    def toward(self, name: str) -> None:
        """Call what is emitted from now on after the derivative with respect to ``name``."""
        self.emission.stem = f"D{name}"

    def contribute(self, name: str, contribution: Tensor) -> None:
        """Add to the cotangent of ``name``, in the arithmetic type of that value."""
        contribution = self.emission.cast(contribution, arithmetic_type(self.definition(name).dtype))
        before = self.cotangent(name)
        self._cotangents[name] = contribution if before is None else self.add(before, contribution)

    def cotangent(self, name: str) -> Tensor | None:
        """Return the cotangent of ``name``, or None where it is 0 or nothing has arrived yet."""
        found = self._cotangents.get(name)
        return None if found is None else self.emission.current(found)
