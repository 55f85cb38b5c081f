"""Parts of tensors: slices, single positions, and reversed axes."""
# ruff: noqa: A001  Python's name

from __future__ import annotations

import builtins
from collections.abc import Sequence
from types import EllipsisType
from typing import TypeAlias, TypeVar

from tileir.ops.arrays.shaping import transpose
from tileir.ops.shared.foundation import (
    Aggregation,
    Axes,
    Dim,
    Polynomial,
    Size,
    Tensor,
    aggregate,
    axes_of,
    axis_of,
    dim_like,
    dims_of,
    for_sums,
    indices_of,
    inside,
    integer_of,
    mistake,
    mistaken,
    promoted,
    rank_of,
)

T = TypeVar("T")

Key: TypeAlias = "int | Dim | builtins.slice | EllipsisType | None"


def slice(x: Tensor, *keys: Key | tuple[Key, ...]) -> Tensor:
    """Return ``x[keys]`` as in NumPy: ``slice(x, numpy.s_[1:-1, ::-2])``, or with the keys one by one.

    A key is a position (negative ones count from the end), a Python ``slice`` whose bounds are integers or dimensions
    and whose step is an integer, ``...``, or ``None`` for a new axis of size 1. Bounds outside the axis are clamped to
    it. A dimension counts from the front.

    Shapes: an axis for each slice, of ``max(0, ceil((stop - start) / step))`` elements.

    Raises:
        TileError: TIL209, there are more keys than axes; TIL217, something is no key, or a step is 0; TIL314, a
            position is outside its axis (TIL312 if that is known only when compiling).
    """
    flat = keys[0] if len(keys) == 1 and isinstance(keys[0], tuple) else keys
    source: list[Polynomial | Size] = []
    output: list[Polynomial | Size] = []
    sizes: list[Size] = []
    variables = iter(indices_of(x))
    dims = iter(dims_of(x))
    for key in _complete(x, flat):
        if key is None:
            output.append(0)
            sizes.append(1)
            continue
        variable, dim = next(variables), next(dims)
        if isinstance(key, builtins.slice):
            start, step, size = _range(dim, key)
            scaled = variable if step == 1 else -variable if step == -1 else variable * step
            source.append(scaled if start.value == 0 else scaled + start)
            output.append(variable)
            sizes.append(size)
        else:
            source.append(_position(dim, key))
    return aggregate(Aggregation.ASSIGN, x[tuple(source)], output, sizes)


def narrow(x: Tensor, axis: int, start: Size, length: Size) -> Tensor:
    """Return ``length`` positions of an axis from ``start`` on, all of which have to exist.

    A negative ``start`` that is an integer counts from the end.

    Raises:
        TileError: TIL314, there is no such axis, or it has not all these positions (TIL312 if that is known only when
            compiling); TIL217, the length is below 0.
    """
    place, variables, sizes = axis_of(x, axis), indices_of(x), list(dims_of(x))
    size, count = sizes[place], dim_like(x, length)
    first = size + start if _from_end(start) else dim_like(x, start)
    if count.value is not None and count.value < 0:
        raise mistaken(f"a length is 0 or above, not {count.value}")
    stop = first + count
    if size.value is not None and stop.value is not None and stop.value > size.value:
        raise mistake("TIL314", f"an axis of size {size.value} has no positions from {first.value} to {stop.value - 1}")
    begin = first if first.value is not None and first.value >= 0 else first.call("match", first.max(0))
    position = variables[place] if begin.value == 0 else variables[place] + begin
    known = stop == size or (size.value is not None and stop.value is not None)
    checks = () if known else (position < size.call("match", size.max(stop)),)
    source = [position if axis == place else variable for axis, variable in enumerate(variables)]
    sizes[place] = count
    return aggregate(Aggregation.ASSIGN, x[tuple(source)].given(*checks), variables, sizes)


def diff(x: Tensor, order: int = 1, axis: int = -1) -> Tensor:
    """Return ``x[i + 1] - x[i]`` along an axis, which becomes shorter by one, unless it is empty; ``order`` times.

    Dtype: that of ``x``; differences of integers wrap around, those of f16 and bf16 are rounded once.
    Source: NumPy's ``diff``.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, the order is below 0.

    """
    place, count = axis_of(x, axis), integer_of(order, "an order")
    if count < 0:
        raise mistaken(f"an order is 0 or above, not {count}")
    found = for_sums(x) if count > 1 else x
    for _ in range(count):
        variables, sizes = indices_of(found), [*dims_of(found)]
        following = [i + 1 if axis == place else i for axis, i in enumerate(variables)]
        sizes[place] = (sizes[place] - 1).max(0)
        later, earlier = (
            aggregate(Aggregation.ASSIGN, found[tuple(at)], variables, sizes) for at in (following, variables)
        )
        found = later - earlier
    return promoted(found, x, 1) if count > 1 else found


def select(x: Tensor, axis: int, position: Size) -> Tensor:
    """Return one position of an axis, which is removed; a negative position counts from the end.

    Raises:
        TileError: TIL314, there is no such axis or position (TIL312 if that is known only when compiling).
    """
    place = axis_of(x, axis)
    return slice(x, *[builtins.slice(None)] * place, position)


def flip(x: Tensor, axes: Axes = None) -> Tensor:
    """Return ``x`` with the order of positions reversed on ``axes``, by default all.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, one is given twice.
    """
    turned, variables, dims = axes_of(x, axes), indices_of(x), dims_of(x)
    source = [dims[axis] - 1 - i if axis in turned else i for axis, i in enumerate(variables)]
    return aggregate(Aggregation.ASSIGN, x[tuple(source)], variables, dims)


def rot90(x: Tensor, turns: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Return ``x`` rotated by quarter turns from the first of two axes towards the second, as in NumPy.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, there are not two different axes.
    """
    if len(axes_of(x, tuple(axes))) != 2:
        raise mistaken(f"a rotation has two axes, not {len(axes)}")
    first, second = (axis_of(x, axis) for axis in axes)
    quarter = integer_of(turns, "the number of turns") % 4
    if quarter % 2 == 0:
        return flip(x, (first, second)) if quarter else x
    order = list(range(rank_of(x)))
    order[first], order[second] = second, first
    return transpose(flip(x, second), order) if quarter == 1 else flip(transpose(x, order), second)


def roll(x: Tensor, shift: Size | Sequence[Size], axes: Axes) -> Tensor:
    """Return ``x`` moved by ``shift`` positions on ``axes``; elements beyond the end come back at the front.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, there are not as many shifts as axes.
    """
    places = list(axes) if isinstance(axes, list | tuple) else [axes]
    shifts = list(shift) if isinstance(shift, list | tuple) else [shift] * len(places)
    if len(shifts) != len(places):
        raise mistaken(f"there are {len(shifts)} shifts but {len(places)} axes")
    for amount, axis in zip(shifts, places, strict=True):
        x = _rolled(x, dim_like(x, amount), axis_of(x, axis))  # type: ignore[arg-type]  # anything, from users
    return x


def _rolled(x: Tensor, shift: Dim, place: int) -> Tensor:
    """Write the elements that do not wrap around, then those that do, with the former as their default."""
    variables, dims = indices_of(x), dims_of(x)
    if shift.value == 0:
        return x
    size = dims[place]
    moved = ((shift % size.max(1)) + size) % size.max(1)
    ahead = [i + moved if axis == place else i for axis, i in enumerate(variables)]
    behind = [i + moved - size if axis == place else i for axis, i in enumerate(variables)]
    stayed = aggregate(Aggregation.ASSIGN, x[variables], ahead, dims)
    return aggregate(Aggregation.ASSIGN, x[variables], behind, dims, default=stayed)


def _complete(x: Tensor, keys: Sequence[object]) -> list[int | Dim | builtins.slice | None]:
    """Return keys for all axes: missing keys, in place of ``...`` or at the end, take everything."""
    for key in keys:
        if isinstance(key, Tensor):
            raise mistaken("a tensor is no key of a slice; use gather")
        if not (key is None or key is ... or isinstance(key, Dim | builtins.slice)):
            integer_of(key, "a position")
    if sum(key is ... for key in keys) > 1:
        raise mistaken("at most one key of a slice is ...")
    missing = rank_of(x) - sum(1 for key in keys if key is not None and key is not ...)
    if missing < 0:
        raise mistake("TIL209", f"there are {rank_of(x) - missing} keys, but the tensor has rank {rank_of(x)}")
    return filled(keys, missing)  # type: ignore[arg-type]  # checked above


def filled(keys: Sequence[T], missing: int) -> list[T | builtins.slice]:
    """Return keys with as many whole axes as are missing in place of ``...``, or at the end."""
    place = next((place for place, key in enumerate(keys) if key is ...), len(keys))
    return [*keys[:place], *[builtins.slice(None)] * missing, *keys[place + 1 :]]


def _position(dim: Dim, key: int | Dim) -> Size:
    """Return a position that exists, counted from the front."""
    if isinstance(key, Dim):
        return inside(key, dim)
    number = integer_of(key, "a position")
    if dim.value is None:
        return inside(dim_like(dim, number), dim) if number >= 0 else dim - inside(dim_like(dim, -number - 1), dim) - 1
    if not -dim.value <= number < dim.value:
        raise mistake("TIL314", f"the position is {number}, but the axis has size {dim.value}")
    return number % dim.value


def _range(dim: Dim, key: builtins.slice) -> tuple[Dim, int, Dim]:
    """Return start, step and number of positions of a slice, as Python computes them.

    A bound is clamped only where the number of positions, which is at least 0, would be wrong otherwise.
    """
    step = 1 if key.step is None else integer_of(key.step, "a step")
    if step == 0:
        raise mistaken("the step of a slice is not 0")
    start = None if key.start is None else _bound(dim, key.start)
    stop = None if key.stop is None else _bound(dim, key.stop)
    if step > 0:
        start = dim_like(dim, 0) if start is None else start.max(0) if _from_end(key.start) else start
        stop = dim if stop is None else stop if _from_end(key.stop) else stop.min(dim)
        count = stop - start
    else:
        start = dim - 1 if start is None else start if _from_end(key.start) else start.min(dim - 1)
        count = start + 1 if stop is None else start - (stop.max(-1) if _from_end(key.stop) else stop)
    whole = count == dim
    count = count if abs(step) == 1 else (count + (abs(step) - 1)) / abs(step)
    return start, step, count if whole else count.max(0)


def _from_end(bound: Size) -> bool:
    return not isinstance(bound, Dim) and bound < 0


def _bound(dim: Dim, bound: object) -> Dim:
    """Return a bound of a slice, counted from the front, which may be outside the axis."""
    if isinstance(bound, Dim):
        return bound
    number = integer_of(bound, "a bound of a slice")
    return dim - -number if number < 0 else dim_like(dim, number)
