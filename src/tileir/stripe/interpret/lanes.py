"""Scalar statements of the Stripe interpreter, vectorised over some points."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never

import attrs
import numpy as np

from tileir.core.numbers.number_system import REAL, NumberSystem
from tileir.stripe.ir import Constant, Convert, Intrinsic, Load, LoadIndex, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileir.stripe.interpret.memory import Array, Elements

    ScalarStatement: TypeAlias = Load | Store | LoadIndex | Constant | Intrinsic | Convert


@attrs.define(eq=False)
class Lanes:
    """The scalars and the elements of one block body at ``points`` points."""

    points: int
    numbers: NumberSystem = REAL
    elements: dict[str, Elements] = attrs.field(factory=dict, init=False)
    _scalars: dict[str, Array] = attrs.field(factory=dict, init=False)

    def execute(self, statement: ScalarStatement, index_values: Array | None) -> None:
        """Execute one statement at all points; ``index_values`` are the values for a :class:`LoadIndex`."""
        match statement:
            case Intrinsic(op=op, inputs=inputs, into=into, dtype=dtype):
                self._scalars[into] = self.numbers.apply(op, dtype, *(self._scalars[name] for name in inputs))
            case Load(source=source, into=into, index=index):
                self._scalars[into] = self.elements[source].load(None if index is None else self._scalars[index])
            case Store(source=source, into=into, index=index):
                displacement = None if index is None else self._scalars[index]
                self.elements[into].store(self._scalars[source], displacement)
            case LoadIndex(into=into, dtype=dtype):
                values = np.zeros(self.points, np.int64) if index_values is None else index_values
                self._scalars[into] = self.numbers.cast(values, dtype)
            case Constant(into=into, dtype=dtype, value=value):
                self._scalars[into] = np.full(self.points, self.numbers.constant(value, dtype))
            case Convert(input=value, into=into, dtype=dtype):
                self._scalars[into] = self.numbers.cast(self._scalars[value], dtype)
            case _:
                assert_never(statement)


def interfere(pairs: Iterable[tuple[Load | Store, Store]], elements: Mapping[str, Elements]) -> bool:
    """Return whether one point might access an element that another stores, so that their order could matter."""
    for other, store in pairs:
        first, second = elements[other.source if isinstance(other, Load) else other.into], elements[store.into]
        if first.view.memory is second.view.memory and (
            other.index is not None or store.index is not None or not _pointwise(first.offsets, second.offsets)
        ):
            return True
    return False


def _pointwise(loaded: Array, stored: Array) -> bool:
    """Return whether each point accesses only elements that no other point stores."""
    if np.array_equal(loaded, stored):
        return np.unique(stored).size == stored.size
    return np.intersect1d(loaded, stored).size == 0
