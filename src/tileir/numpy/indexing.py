"""Indexing of tensors: NumPy's keys, and updated copies."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Final, TypeAlias

import numpy as np

import tileir.ops as ops
from tileir.core import DType, attrs, methods_at_the_call, nearest, with_short_traceback
from tileir.numpy.dispatch import named
from tileir.numpy.elementwise import known_dtype
from tileir.ops.arrays.slicing import filled
from tileir.ops.shared.foundation import mistake, mistaken
from tileir.tile.building.indices import Dim, is_natural, value_for_arrays
from tileir.tile.building.recording import INSIDE
from tileir.tile.building.tensors import Operand, Tensor, constant_of

Part: TypeAlias = "int | Dim | builtins.slice | EllipsisType | Tensor | None"

_UPDATES: Final = ("set", "add", "multiply", "min", "max", "get")


@with_short_traceback
def indexed(x: Tensor, key: object) -> Tensor:
    """Return ``x[key]`` as in NumPy: positions, slices, ``None``, ``...``, and arrays or tensors of positions.

    Positions in tensors are clamped to their axis.

    Raises:
        TileError: TIL215, a mask whose number of elements is not known; as for :func:`tileir.ops.slice`.
    """
    inside, INSIDE.operation = INSIDE.operation, True
    try:
        return _indexed(x, _parts(x, key))
    finally:
        INSIDE.operation = inside


def _indexed(x: Tensor, given: Sequence[Part]) -> Tensor:
    parts = _counted_from_the_front(x, given)
    if not any(isinstance(part, Tensor) for part in parts):
        return x if all(part is ... or part == builtins.slice(None) for part in parts) else ops.slice(x, *parts)  # type: ignore[arg-type]  # no tensors are left
    complete = _complete(x, parts)
    arrays = [part for part in complete if isinstance(part, Tensor | int | Dim)]
    basic = tuple(builtins.slice(None) if isinstance(part, Tensor | int | Dim) else part for part in complete)
    sliced = x if all(part == builtins.slice(None) for part in basic) else ops.slice(x, *basic)
    places = [place for place, part in enumerate(complete) if isinstance(part, Tensor | int | Dim)]
    together = places == list(range(places[0], places[0] + len(places)))
    sizes = [sliced.dims[place] for place in places]
    positions = [_from_the_front(sliced, part, size) for part, size in zip(arrays, sizes, strict=True)]
    if len(places) == 1:
        return ops.take(sliced, positions[0], places[0])
    front = ops.transpose(sliced, [*places, *(axis for axis in range(sliced.rank) if axis not in places)])
    whole = sum(positions[1:], positions[0])
    found = ops.gather_nd(front, ops.stack([ops.broadcast_to(each, whole.dims) for each in positions], -1))
    if not together or places[0] == 0:
        return found
    rank = whole.rank
    others = list(range(rank, found.rank))
    return ops.transpose(found, [*others[: places[0]], *range(rank), *others[places[0] :]])


def _counted_from_the_front(x: Tensor, parts: Sequence[Part]) -> Sequence[Part]:
    """Return parts in which possibly negative sizes count from the front: in traced functions they are integers."""
    if x.recorder.trace is None or not any(_has_sizes(part) for part in parts):
        return parts
    complete = _complete(x, parts)
    dims = iter(x.dims)
    return [part if part is None else _shifted(part, next(dims)) for part in complete]


def _has_sizes(part: Part) -> bool:
    if isinstance(part, builtins.slice):
        return isinstance(part.start, Dim) or isinstance(part.stop, Dim)
    return isinstance(part, Dim)


def _shifted(part: Any, size: Dim) -> Any:
    """Return a position or bound, plus the size of its axis if it is negative."""
    if isinstance(part, builtins.slice):
        least = -1 if isinstance(part.step, int) and part.step < 0 else 0  # a bound before all positions
        usual = isinstance(part.stop, Dim) and least == 0 and part.stop.expr == (size - 1).expr
        start, stop = (_shifted(bound, size) for bound in (part.start, part.stop))
        return builtins.slice(_at_least(start, least), part.stop if usual else _at_least(stop, least), part.step)
    if not isinstance(part, Dim) or is_natural(part.expr):
        return part
    return part.value if part.value is not None else part + size * (-part).max(0).min(1)


def _at_least(bound: Any, least: int) -> Any:
    return bound.max(least) if isinstance(bound, Dim) and not is_natural(bound.expr) else bound


def _from_the_front(x: Tensor, part: Any, size: Dim) -> Tensor:
    """Return positions with negative ones, which count from the end, replaced."""
    if not isinstance(part, Tensor):
        return ops.full(x, (), part + size if isinstance(part, int) and part < 0 else part, dtype="i32")
    kind = known_dtype(part)
    if kind is not None and kind.is_float:
        raise mistake("TIL302", f"positions are integers, not {kind.value}; write x.astype('i32')")
    if kind is not None and not kind.is_signed:
        return ops.cast(part, "i64") if kind is DType.U64 else part
    return ops.where(part < 0, part + size, part)


def _parts(x: Tensor, key: object) -> list[Part]:
    """Return the parts of a key, with arrays as constants and masks of the program as positions."""
    given = [
        np.asarray(part) if isinstance(part, list) else part for part in (key if isinstance(key, tuple) else (key,))
    ]
    if sum(part is ... for part in given) > 1:
        raise mistaken("an index has one '...' at most")
    parts: list[Part] = []
    for number, value in enumerate(given):
        if isinstance(value, np.ndarray) and value.dtype.kind in "biu" and value.size:
            _check_within(x, value, given, number)
        if _is_mask_array(value):
            parts.extend(constant_of(x.recorder, each.astype(np.int32)) for each in np.nonzero(value))
        elif isinstance(value, bool | np.bool_):
            raise mistake("TIL215", "True and False are no positions; write x[None] for a new axis")
        elif isinstance(value, np.ndarray) and value.shape:
            parts.append(constant_of(x.recorder, value if value.size else value.astype(np.int32)))
        elif isinstance(value, np.ndarray | np.integer):
            parts.append(int(value))
        elif isinstance(value, Tensor):
            kind = known_dtype(value)
            if kind is not None and kind.is_bool:
                message = "how many elements a mask has depends on values; write numpy.where(mask, x, 0) for the others"
                raise mistake("TIL215", message)
            parts.append(value)
        elif isinstance(value, float):
            raise mistake("TIL217", f"a position is an integer, not {value}")
        elif isinstance(value, builtins.slice) and any(
            isinstance(b, Tensor) for b in (value.start, value.stop, value.step)
        ):
            message = "a slice whose bounds depend on values has no size that is known"
            raise mistake("TIL215", f"{message}; write numpy.where(numpy.arange(len(x)) < bound, x, 0)")
        elif value is None or isinstance(value, int | Dim | builtins.slice | EllipsisType):
            parts.append(value)
        else:
            raise mistaken(f"a {type(value).__name__} is no key of a tensor: {value!r:.60}")
    return parts


def _check_within(x: Tensor, value: np.ndarray[Any, Any], given: Sequence[Any], number: int) -> None:
    """Refuse masks of other sizes than the axes have, and positions outside of an axis, as far as sizes are known."""

    def count(parts: Sequence[Any]) -> int:
        return sum(part.ndim if _is_mask_array(part) else 1 for part in parts if part is not None and part is not ...)

    before = given[:number]
    axis = x.rank - count(given[number:]) if any(part is ... for part in before) else count(before)
    wanted = value.shape if _is_mask_array(value) else (int(max(value.max() + 1, -value.min())),)
    for dim, size in zip(x.dims[axis:], wanted, strict=False):
        known = value_for_arrays(x.recorder, dim.expr)
        if known is not None and _is_mask_array(value) and known != size:
            raise mistake("TIL215", f"a mask of {size} elements goes with an axis of as many, and this one has {known}")
        if known is not None and size > known:
            raise mistake("TIL215", f"positions of an axis with {known} elements are -{known} to {known - 1}")


def _is_mask_array(part: object) -> bool:
    return isinstance(part, np.ndarray) and part.dtype == bool


def _complete(x: Tensor, parts: Sequence[Part]) -> list[Part]:
    """Return a part for each axis, and those for new axes."""
    given = sum(1 for part in parts if part is not None and part is not ...)
    if given > x.rank:
        raise mistake("TIL209", f"this tensor has rank {x.rank}, but there are {given} indices")
    if sum(part is ... for part in parts) > 1:
        raise mistaken("an index has one '...' at most")
    return filled(parts, x.rank - given)


@named("at")
def at(x: Tensor) -> Places:
    """Return the indexer of a tensor for updated copies."""
    return Places(x)


@methods_at_the_call
@attrs.frozen(eq=False, repr=False)
class Places:
    """Indexer of a tensor: ``x.at[key]``."""

    tensor: Tensor

    def __getitem__(self, key: object) -> SelectedElements:
        return SelectedElements(self.tensor, key)


@methods_at_the_call
@attrs.frozen(eq=False, repr=False)
class SelectedElements:
    """Elements of a tensor to replace in copies. If positions are repeated, the last value wins."""

    tensor: Tensor
    key: object

    def get(self) -> Tensor:
        """Return the elements."""
        return indexed(self.tensor, self.key)

    def set(self, value: Operand) -> Tensor:
        """Return the tensor with these values there."""
        return self._updated("set", value)

    def add(self, value: Operand) -> Tensor:
        """Return the tensor with values added there, all of them if a position is repeated."""
        return self._updated("add", value)

    def multiply(self, value: Operand) -> Tensor:
        """Return the tensor with elements multiplied there."""
        return self._updated("multiply", value)

    def min(self, value: Operand) -> Tensor:
        """Return the tensor with the least of the elements and values there."""
        return self._updated("min", value)

    def max(self, value: Operand) -> Tensor:
        """Return the tensor with the greatest of the elements and values there."""
        return self._updated("max", value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"places have no {name!r}{nearest(name, _UPDATES)}")

    def _updated(self, mode: str, value: Any) -> Tensor:
        """Scatter values to the row-major numbers of the positions."""
        x = self.tensor
        inside, INSIDE.operation = INSIDE.operation, True
        try:
            parts = _parts(x, self.key)
            if _is_mask(parts):
                raise mistake("TIL215", "write numpy.where(mask, value, x)")
            flat = ops.flatten(x) if x.rank else ops.reshape(x, 1)
            count = flat.dims[0]
            numbers = ops.reshape(ops.arange(x, count), *x.dims)
            places = _indexed(numbers, parts)
            unique = not any(isinstance(part, Tensor) for part in parts)
            given = constant_of(x.recorder, value) if isinstance(value, np.ndarray) else value
            if isinstance(given, Tensor):
                given = ops.reshape(ops.broadcast_to(given, places.dims), -1)
            rows = ops.reshape(places, -1)
            made = ops.scatter(flat, rows, given, mode="mul" if mode == "multiply" else mode, unique=unique)
            return ops.reshape(made, *x.dims)
        finally:
            INSIDE.operation = inside


def _is_mask(parts: Sequence[Part]) -> bool:
    return any(isinstance(part, Tensor) and (kind := known_dtype(part)) is not None and kind.is_bool for part in parts)


@named("unravel_index", tensors=1)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Return the position along each axis of elements that are counted in row-major order."""
    found, left = [], indices
    for size in reversed([shape] if isinstance(shape, int | Dim) else list(shape)):
        found.append(ops.remainder(left, size))
        left = ops.floor_divide(left, size)
    return tuple(reversed(found))


@named("ravel_multi_index", tensors=1)
def ravel_multi_index(multi_index: Sequence[Tensor], dims: Any) -> Tensor:
    """Return the row-major numbers of elements at positions along each axis."""
    first, *others = multi_index
    if len(others) != len(dims) - 1:
        raise mistaken(f"{len(others) + 1} positions do not fit {len(dims)} axes")
    for place, size in zip(others, list(dims)[1:], strict=True):
        first = first * size + place
    return first
