"""Memory of the Stripe interpreter, with views at one or many points."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tileir.core import Aggregation, DType, attrs, fail
from tileir.core.numbers.number_system import REAL, NumberSystem
from tileir.stripe.ir import TensorShape

Array: TypeAlias = np.ndarray[Any, Any]

ScopeKey: TypeAlias = tuple[int, str]
"""The block, by number, and the refinement that open an aggregation scope."""


@attrs.define(eq=False)
class Memory:
    """The elements of one allocation.

    ``stored`` holds, for each aggregation scope over this memory, the execution of the scope that stored each element
    last: a comparison with the current one identifies first stores without clearing anything.
    ``written`` is the mask of stored elements, if requested.
    """

    data: Array
    numbers: NumberSystem = REAL
    stored: dict[ScopeKey, Array] = attrs.field(factory=dict, init=False)
    written: Array | None = attrs.field(default=None, init=False)

    @classmethod
    def undefined(cls, shape: TensorShape, numbers: NumberSystem = REAL) -> Memory:
        """Return fresh memory with conspicuous content: NaN, or an extreme integer."""
        return cls(np.full(max(shape.span, 1), numbers.constant(poison(shape.dtype), shape.dtype)), numbers)

    def hidden(self, view: View) -> Hidden:
        """Make the elements of a view undefined, until :meth:`Hidden.reveal`."""
        offsets = view.offsets().ravel()
        offsets = offsets[(offsets >= 0) & (offsets < self.data.size)]  # tiles extend beyond edges
        if self.written is None:
            self.written = np.zeros(self.data.size, np.bool_)
        found = Hidden(self, offsets, self.data[offsets], self.written[offsets])
        self.data[offsets] = self.numbers.constant(poison(view.shape.dtype), view.shape.dtype)
        self.written[offsets] = False
        return found

    def first_stores(self, scope: ScopeKey, execution: int, offsets: Array) -> Array:
        """Return the offsets that this execution of ``scope`` has not stored to, and record the stores."""
        stored = self.stored.get(scope)
        if stored is None:
            stored = self.stored[scope] = np.full(self.data.size, -1, np.int64)
        first = stored[offsets] != execution
        stored[offsets] = execution
        return np.asarray(first)


@attrs.frozen(eq=False)
class Hidden:
    """Temporarily hidden content of memory, with the mask of its stored elements."""

    memory: Memory
    offsets: Array
    data: Array
    written: Array

    def reveal(self) -> None:
        """Restore the content of elements that were not stored since."""
        now = self.memory.written
        assert now is not None
        kept = ~now[self.offsets]
        self.memory.data[self.offsets[kept]] = self.data[kept]
        now[self.offsets[kept]] = self.written[kept]


def poison(dtype: DType) -> bool | int | float:
    """Return the content of undefined memory."""
    if dtype.is_float:
        return float("nan")
    return True if dtype.is_bool else (dtype.minimum if dtype.is_signed else dtype.maximum)


@attrs.define(eq=False)  # frozen ones take twice as long to make, and each point of a block makes some
class View:
    """A refinement at one point.

    Attributes:
        memory: The allocation behind it.
        offset: Its first element.
        shape: Its extent and strides.
        limits: Extents of the allocation, if all views in between have its axes; else None.
        corner: Position of the first element along these axes.
        aggregation: Aggregation of stores; None and ASSIGN overwrite.
        scope: The aggregation scope of stores, with its execution; None merges with the content.
    """

    memory: Memory
    offset: int
    shape: TensorShape
    limits: tuple[int, ...] | None
    corner: tuple[int, ...]
    aggregation: Aggregation | None = None
    scope: tuple[ScopeKey, int] | None = None

    def offsets(self) -> Array:
        """Return the offset of each element of the view, in its shape."""
        offsets = np.asarray(self.offset, np.int64)
        for dim in self.shape.dims:
            offsets = offsets[..., np.newaxis] + np.arange(dim.size, dtype=np.int64) * dim.stride
        return offsets

    def loaded(self, name: str) -> Array:
        """Return all elements; faults call the view ``name``."""
        offsets = self.offsets()
        check_offsets(name, offsets, self.memory)
        return np.asarray(self.memory.data[offsets])

    def fill(self, name: str, values: Array) -> None:
        """Set all elements; faults call the view ``name``."""
        offsets = self.offsets()
        check_offsets(name, offsets, self.memory)
        if self.memory.written is not None:
            self.memory.written[offsets] = True
        self.memory.data[offsets] = values


@attrs.define(eq=False)
class Elements:
    """The first element of a view at each of some points: ``offsets`` has one entry for each point."""

    view: View
    name: str
    offsets: Array

    def load(self, index: Array | None) -> Array:
        """Read the elements; ``index`` displaces them along axis 0, clamped to its extent."""
        return np.asarray(self.view.memory.data[self.displaced(index)])

    def store(self, values: Array, index: Array | None) -> None:
        """Write or merge one value for each point."""
        memory, offsets = self.view.memory, self.displaced(index)
        if values.shape != offsets.shape:
            values = np.broadcast_to(values, offsets.shape)
        if memory.written is not None:
            memory.written[offsets] = True
        aggregation = self.view.aggregation
        if aggregation is None or aggregation is Aggregation.ASSIGN:
            memory.data[offsets] = values
            return
        dtype = self.view.shape.dtype
        if self.view.scope is not None:
            first = memory.first_stores(*self.view.scope, offsets)
            memory.data[offsets[first]] = memory.numbers.constant(neutral(aggregation, dtype), dtype)
        memory.numbers.merge_at(aggregation, dtype, memory.data, offsets, values)

    def displaced(self, index: Array | None) -> Array:
        """Return the offsets of the displaced elements."""
        if index is None:
            return self.offsets
        dim = self.view.shape.dims[0]
        if index.dtype == np.uint64:
            index = np.minimum(index, np.uint64(dim.size))
        offsets = self.offsets + np.clip(index.astype(np.int64), 0, dim.size - 1) * dim.stride
        check_offsets(self.name, offsets, self.view.memory)
        return offsets


def neutral(aggregation: Aggregation, dtype: DType) -> int | float:
    """Return the value whose merge changes nothing: for sums of floats it is -0, as 0 + -0 is 0."""
    if aggregation is Aggregation.SUM and dtype.is_float:
        return -0.0
    return aggregation.identity(dtype)


def _outside(places: Array, limit: int) -> int | None:
    """Return the first or last place if it is below 0 or not below ``limit``; None if all are within."""
    ends = (int(places.min()), int(places.max())) if places.size else ()
    return next((place for place in ends if not 0 <= place < limit), None)


def check_offsets(name: str, offsets: Array, memory: Memory) -> None:
    """Raise unless all offsets are in ``memory``."""
    if (outside := _outside(offsets, memory.data.size)) is not None:
        raise fail("TIL511", f"{name!r} is accessed at element {outside} of {memory.data.size}")


def check_axis(name: str, axis: int, positions: Array, limit: int) -> None:
    """Raise unless all positions along one axis are within its extent."""
    if (outside := _outside(positions, limit)) is not None:
        raise fail("TIL511", f"{name!r} is accessed at {outside} along axis {axis}, whose extent is {limit}")
