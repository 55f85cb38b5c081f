"""Rows of operations with positions that tensors tell: takes, scatters, searches, interpolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fuzz.wide.pointwise import real
from fuzz.wide.row import ALL, FLOATS, INTEGERS, Arguments, Array, Draw, Row

_WHOLE: Final = ("i32", "i64", "i8", "u8", "i16")


def placed(indices: Array, size: int, mode: str) -> tuple[Array, Array]:
    """Return positions inside of an axis, and which were so before."""
    whole = indices.astype(np.int64)
    if not size and indices.size and mode == "clamp":
        raise ValueError
    inside = (whole >= 0) & (whole < size)
    return (whole % max(1, size) if mode == "wrap" else whole.clip(0, max(0, size - 1))), inside


def _indices(draw: Draw, shape: Sequence[int], below: int) -> str:
    return draw.tensor(shape, "wild", draw.pick(_WHOLE), below=below)


def _mode(draw: Draw, filled: bool = True) -> dict[str, Any]:
    mode = draw.pick(("clamp", "fill", "wrap") if filled else ("clamp", "drop", "wrap"))
    return {"mode": mode, **({"fill": draw.pick((0, 1))} if mode == "fill" else {})}


def _take(draw: Draw) -> Arguments:
    shape = draw.full() if draw.integer(0, 7) else draw.shape(1, 3, axes=False)
    axis = draw.integer(0, len(shape) - 1)
    indices = _indices(draw, draw.shape(0, 2, axes=False), shape[axis])
    return [draw.tensor(shape), indices, axis], _mode(draw)


def _taken(x: Array, i: Array, axis: int, mode: str, fill: float = 0) -> Array:
    wide = x if x.shape[axis] else np.zeros([max(1, s) if a == axis else s for a, s in enumerate(x.shape)], x.dtype)
    read = wide.size and i.size
    if not x.shape[axis] and mode != "fill" and read:
        raise ValueError
    place, inside = placed(i, x.shape[axis] if read else 1, mode)
    found = np.take(wide, place, axis)
    shape = [1] * axis + list(i.shape) + [1] * (x.ndim - axis - 1)
    return np.where(inside.reshape(shape), found, np.asarray(fill).astype(x.dtype)) if mode == "fill" else found


def _take_along(draw: Draw) -> Arguments:
    shape = draw.full()
    axis = draw.axis(shape)
    sizes = list(shape)
    sizes[axis] = draw.integer(0, 5)
    return [draw.tensor(shape), _indices(draw, sizes, shape[axis]), axis], _mode(draw)


def _taken_along(x: Array, i: Array, axis: int, mode: str, fill: float = 0) -> Array:
    place, inside = placed(i, x.shape[axis], mode)
    found = np.take_along_axis(x, place, axis)
    return np.where(inside, found, np.asarray(fill).astype(x.dtype)) if mode == "fill" else found


def _gather_nd(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    depth = draw.integer(1, len(shape))
    indices = _indices(draw, (*draw.shape(0, 2, axes=False), depth), min(shape[:depth]))
    return [draw.tensor(shape), indices], {"depth": depth, **_mode(draw)}


def _gathered(x: Array, i: Array, depth: int, mode: str, fill: float = 0) -> Array:
    parts = [placed(i[..., k], x.shape[k], mode) for k in range(depth)]
    found = x[tuple(part for part, _ in parts)]
    inside = np.logical_and.reduce([each for _, each in parts])
    inside = inside.reshape((*inside.shape, *(1,) * (x.ndim - depth)))
    return np.where(inside, found, np.asarray(fill).astype(x.dtype)) if mode == "fill" else found


def _embedding(draw: Draw) -> Arguments:
    table = draw.full(2, 2)
    return [draw.tensor(table), _indices(draw, draw.shape(0, 2, axes=False), table[0])], {}


_UPDATES: Final[dict[str, Any]] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _put(x: Array, at: tuple[Array, ...], kept: Array, updates: Array, mode: str) -> Array:
    """Return a copy that is updated at points, one after the other."""
    x = x.astype(np.int64) if x.dtype == bool else x.copy()
    for place in np.ndindex(at[0].shape):
        if kept[place]:
            point = tuple(part[place] for part in at)
            x[point] = updates[place] if mode == "set" else _UPDATES[mode](x[point], updates[place])
    return x


def _changes(draw: Draw) -> dict[str, Any]:
    return {"mode": draw.pick(("add", "mul", "max", "min", "set")), "bounds": draw.pick(("clamp", "drop", "wrap"))}


def _scatter(draw: Draw) -> Arguments:
    shape = draw.full()
    axis = draw.integer(0, len(shape) - 1)
    sizes = draw.shape(0, 2, axes=False)
    indices = _indices(draw, sizes, shape[axis])
    return [draw.tensor(shape), indices, draw.tensor((*shape[:axis], *sizes, *shape[axis + 1 :]))], {
        "axis": axis,
        **_changes(draw),
    }


def _scattered(x: Array, i: Array, u: Array, axis: int, mode: str, bounds: str) -> Array:
    place, inside = placed(i.ravel(), x.shape[axis], bounds)
    kept = inside | (bounds != "drop")
    rows = np.moveaxis(u.reshape(*x.shape[:axis], i.size, *x.shape[axis + 1 :]), axis, 0)
    return np.moveaxis(_put(np.moveaxis(x, axis, 0), (place,), kept, rows, mode), 0, axis)


def _scatter_along(draw: Draw) -> Arguments:
    shape = draw.full()
    axis = draw.axis(shape)
    sizes = list(shape)
    sizes[axis] = draw.integer(0, 5)
    return [draw.tensor(shape), _indices(draw, sizes, shape[axis]), draw.tensor(sizes), axis], _changes(draw)


def _scattered_along(x: Array, i: Array, u: Array, axis: int, mode: str, bounds: str) -> Array:
    place, inside = placed(i, x.shape[axis], bounds)
    at = list(np.indices(i.shape))
    at[axis] = place
    return _put(x, tuple(at), inside | (bounds != "drop"), u, mode)


def _scatter_nd(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    depth, sizes = draw.integer(1, len(shape)), draw.shape(1, 2, axes=False)
    indices = _indices(draw, (*sizes, depth), min(shape[:depth]))
    return [draw.tensor(shape), indices, draw.tensor((*sizes, *shape[depth:]))], {"depth": depth, **_changes(draw)}


def _scattered_nd(x: Array, i: Array, u: Array, depth: int, mode: str, bounds: str) -> Array:
    parts = [placed(i[..., k], x.shape[k], bounds) for k in range(depth)]
    kept = np.logical_and.reduce([each for _, each in parts]) | (bounds != "drop")
    return _put(x, tuple(part for part, _ in parts), kept, u, mode)


def _update_terms(x: Array, i: Array, u: Array, *rest: Any, **options: Any) -> Array:
    size = np.max(np.where(np.isfinite(x), abs(x), 0), initial=0)
    return np.asarray(size + np.where(np.isfinite(u), abs(u), 0).sum())


def _searched(draw: Draw) -> Arguments:
    sequence = draw.tensor((draw.size(),), "ordered")
    return [sequence, draw.tensor(draw.shape(1, 2, axes=False))], {"right": draw.flag()}


def _bucketed(draw: Draw) -> Arguments:
    arguments, options = _searched(draw)
    return arguments[::-1], options


def _search(sequence: Array, values: Array, right: bool) -> Array:
    return np.searchsorted(sequence, values, side="right" if right else "left")


def _interpolated(draw: Draw) -> Arguments:
    shape = draw.full(1, 3)
    axis = draw.integer(0, len(shape) - 1)
    options = {"interpolation": draw.pick(("linear", "cubic", "nearest")), "mode": draw.pick(("clamp", "wrap"))}
    if options["interpolation"] == "nearest":
        options["nearest"] = draw.pick(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"))
    return [draw.tensor(shape), draw.tensor(draw.shape(0, 1), "normal"), axis], options


_NEAREST: Final[dict[str, Callable[[Array], Array]]] = {
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
    "simple": np.trunc,
}


def keys(t: Array, c: float) -> Array:
    """Return cubic weights by distances."""
    t = abs(t)
    near, far = (c + 2) * t**3 - (c + 3) * t**2 + 1, c * t**3 - 5 * c * t**2 + 8 * c * t - 4 * c
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def _between(x: Array, p: Array, axis: int, interpolation: str, mode: str, nearest: str = "") -> Array:
    def tap(place: Array) -> Array:
        return np.take(x, placed(place, x.shape[axis], mode)[0], axis)

    if interpolation == "nearest":
        return tap(_NEAREST[nearest](p))
    low = np.floor(p)
    part = (p - low).reshape((*(1,) * axis, *p.shape, *(1,) * (x.ndim - axis - 1)))
    if interpolation == "linear":
        return tap(low) * (1 - part) + tap(low + 1) * part
    return np.asarray(sum(tap(low + k) * keys(k - part, -0.5) for k in (-1, 0, 1, 2)))


def _largest(x: Array, *_: Any, **__: Any) -> Array:
    return np.asarray(8 * np.max(np.where(np.isfinite(x), abs(x), 0), initial=0))


_CHANGED: Final[dict[str, Any]] = {
    "dtypes": (*FLOATS, "i8", "i32", "u16"),
    "terms": _update_terms,
    "units": 32,
    "flavours": ("normal", "ties", "zeros"),
    "shared": True,
}


def _turned(draw: Draw) -> Arguments:
    shape = draw.full(2, 3)
    batch = draw.axis(shape)
    time = draw.pick([axis for axis in range(len(shape)) if axis != batch % len(shape)])
    lengths = draw.tensor((shape[batch],), "count", draw.pick(("i32", "i64")), below=shape[time] + 1)
    return [draw.tensor(shape), lengths], {"batch_axis": batch, "time_axis": time}


def reversed_sequences(x: Array, lengths: Array, batch_axis: int = 0, time_axis: int = 1) -> Array:
    """Return the first elements of each example turned around."""
    rows = np.moveaxis(x, (batch_axis, time_axis), (0, 1)).copy()
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    return np.moveaxis(rows, (0, 1), (batch_axis, time_axis))


def _cache(draw: Draw) -> Arguments:
    shape = draw.full(2, 4)
    axis = draw.integer(1, len(shape) - 1)
    new = tuple(draw.integer(1, size) if place == axis else size for place, size in enumerate(shape))
    arguments = [draw.tensor(shape), draw.tensor(new)]
    if draw.flag():
        arguments.append(draw.tensor((shape[0],), "count", "i32", below=shape[axis] + 1))
    return arguments, {"axis": axis - draw.pick((0, len(shape))), "circular": draw.flag()}


def cached(cache: Array, update: Array, positions: Array | None = None, *, axis: int, circular: bool = False) -> Array:
    """Return a cache with what is new from a position of each example on."""
    result = np.moveaxis(cache, axis, 1).copy()
    for number, new in enumerate(np.moveaxis(update, axis, 1)):
        for step, value in enumerate(new):
            place = step if positions is None else int(positions[number]) + step
            if circular or place < result.shape[1]:
                result[number, place % result.shape[1]] = value
    return np.moveaxis(result, 1, axis)


ROWS_INDEXING: Final = (
    Row("reverse_sequence", _turned, reversed_sequences, ALL, exact=True, shared=True),
    Row("update_cache", _cache, cached, ALL, exact=True, shared=True),
    Row("take", _take, _taken, ALL, exact=True),
    Row("take_along_axis", _take_along, _taken_along, ALL, exact=True, shared=True),
    Row("gather_nd", _gather_nd, _gathered, ALL, exact=True),
    Row("embedding", _embedding, lambda t, i: _taken(t, i, 0, "clamp"), ALL, exact=True),
    Row("scatter", _scatter, _scattered, **_CHANGED),
    Row("scatter_along_axis", _scatter_along, _scattered_along, **_CHANGED),
    Row("scatter_nd", _scatter_nd, _scattered_nd, **_CHANGED),
    Row("searchsorted", _searched, _search, FLOATS + INTEGERS, exact=True),
    Row(
        "bucketize",
        _bucketed,
        lambda x, b, right: np.searchsorted(b, x, side="right" if right else "left"),
        FLOATS + INTEGERS,
        exact=True,
    ),
    Row(
        "interpolated_take",
        _interpolated,
        lambda x, p, *a, **o: real(_between(x, p, *a, **o)),
        terms=_largest,
        flavours=("normal", "ties", "zeros", "tiny"),
        constant="B",
    ),
)
