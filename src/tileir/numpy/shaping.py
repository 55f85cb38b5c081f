"""Functions of NumPy that move elements: shapes, joins, padding, windows and positions, on tensors."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import tileir.ops as ops
from tileir.numpy.dispatch import REFUSED, entered, like_array, named
from tileir.numpy.elementwise import divide, product
from tileir.numpy.indexing import indexed
from tileir.ops.shared.foundation import (
    Aggregation,
    aggregate,
    axes_of,
    axis_within,
    floating,
    index_of,
    mistaken,
    tensor_of,
)
from tileir.tile.building.indices import Dim, value_for_arrays
from tileir.tile.building.tensors import Operand, Tensor, constant_of

Sizes = Any


@named("reshape", tensors=1)
def reshape(x: Tensor, *shape: Sizes, order: str = "C", newshape: Sizes = None, **_: object) -> Tensor:
    """Return the elements in order in another shape, of which one size may be -1."""
    sizes = shape if newshape is None else (newshape,)
    if order != "F":
        return ops.reshape(x, *sizes)
    whole = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
    return ops.transpose(ops.reshape(ops.transpose(x), *reversed(whole)))


@named("ravel", "flatten", tensors=1)
def ravel(x: Tensor, order: str = "C") -> Tensor:
    """Return all elements in order along one axis: that of C, or "F" for that of Fortran."""
    return reshape(x, -1, order=order) if x.rank != 1 else x


@named("transpose", "permute_dims", tensors=1)
def transpose(x: Tensor, *axes: Any) -> Tensor:
    """Return ``x`` with its axes in another order, by default reversed."""
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return ops.transpose(x, list(order) if order else None)


@named("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x: Tensor) -> Tensor:
    """Return ``x`` with its last two axes swapped."""
    return ops.swapaxes(x, -1, -2)


@named("moveaxis", tensors=1)
def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Return ``x`` with some axes moved, and all others in order."""
    start, end = ([each] if isinstance(each, int) else list(each) for each in (source, destination))
    from_, to = ([axis_within(x.rank, axis) for axis in each] for each in (start, end))
    if len(from_) != len(to):
        raise mistaken("as many axes are moved as there are places for them")
    order = [axis for axis in range(x.rank) if axis not in from_]
    for place, axis in sorted(zip(to, from_, strict=True)):
        order.insert(place, axis)
    return ops.transpose(x, order)


@named("rollaxis", tensors=1)
def rollaxis(x: Tensor, axis: int, start: int = 0) -> Tensor:
    """Return ``x`` with an axis moved before another one."""
    place = axis_within(x.rank, axis)
    target = start + x.rank if start < 0 else start
    return moveaxis(x, place, target - (place < target))


@named("squeeze", tensors=1)
def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return ``x`` without axes of size 1."""
    return ops.squeeze(x, axis)


@named("expand_dims", tensors=1)
def expand_dims(x: Tensor, axis: int | Sequence[int] = 0) -> Tensor:
    """Return ``x`` with new axes of size 1."""
    return ops.expand_dims(x, axis)


@named("broadcast_to", tensors=1)
def broadcast_to(x: Tensor, shape: Sizes) -> Tensor:
    """Return ``x`` repeated along axes of size 1 and new leading axes."""
    return ops.broadcast_to(x, shape)


@named("broadcast_arrays")
def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Return tensors of one shape."""
    whole = functools.reduce(lambda x, y: x | y, [ops.zeros_like(ops.cast(each, "bool")) for each in arrays])
    return tuple(ops.broadcast_to(each, whole.dims) for each in arrays)


@named("concatenate", "concat")
def concatenate(arrays: Sequence[Tensor], axis: int | None = 0) -> Tensor:
    """Return tensors one after the other along an axis; without one, all elements in order."""
    if axis is None:
        return ops.concatenate([ravel(each) for each in arrays])
    return ops.concatenate(list(arrays), axis)


@named("stack")
def stack(arrays: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Return tensors of one shape along a new axis."""
    return ops.stack(list(arrays), axis)


@named("atleast_1d")
def atleast_1d(*arrays: Tensor) -> Any:
    """Return tensors with one axis or more."""
    return _each(arrays, lambda x: ops.reshape(x, 1) if x.rank == 0 else x)


@named("atleast_2d")
def atleast_2d(*arrays: Tensor) -> Any:
    """Return tensors with two axes or more."""
    return _each(arrays, lambda x: ops.reshape(x, *[1] * (2 - x.rank), *x.dims) if x.rank < 2 else x)


@named("atleast_3d")
def atleast_3d(*arrays: Tensor) -> Any:
    """Return tensors with three axes or more."""

    def deeper(x: Tensor) -> Tensor:
        if x.rank > 2:
            return x
        return ops.reshape(x, *[1] * (2 - max(x.rank, 1)), *x.dims, *[1] * (1 + (x.rank == 0)))

    return _each(arrays, deeper)


def _each(arrays: Sequence[Tensor], change: Any) -> Any:
    changed = tuple(change(each) for each in arrays)
    return changed[0] if len(changed) == 1 else changed


def _as_columns(arrays: Sequence[Tensor]) -> list[Tensor]:
    return [ops.reshape(each, *(each.dims or [1]), 1) if each.rank < 2 else each for each in arrays]


@named("hstack")
def hstack(arrays: Sequence[Tensor]) -> Tensor:
    """Return tensors side by side."""
    parts = [ops.reshape(each, 1) if each.rank == 0 else each for each in arrays]
    return ops.concatenate(parts, 0 if parts[0].rank == 1 else 1)


@named("split", tensors=1)
def split(x: Tensor, parts: Any, axis: int = 0) -> list[Tensor]:
    """Return equal parts of an axis, or those between some positions."""
    place = axis_within(x.rank, axis)
    if isinstance(parts, int):
        return list(ops.split(x, parts, place))
    bounds = [0, *parts, x.dims[place]]
    keys = [builtins.slice(None)] * place
    return [ops.slice(x, *keys, builtins.slice(low, high)) for low, high in pairwise(bounds)]


@named("array_split", tensors=1)
def array_split(x: Tensor, parts: Any, axis: int = 0) -> list[Tensor]:
    """Return parts of an axis, the first ones longer by one if it cannot be divided evenly."""
    if not isinstance(parts, int):
        return split(x, parts, axis)
    least, longer = divmod(x.dims[axis].known(), parts)
    return split(x, [least * number + min(number, longer) for number in range(1, parts)], axis)


@named("repeat", tensors=1)
def repeat(x: Tensor, repeats: Any, axis: int | None = None) -> Tensor:
    """Return each position of an axis several times, or each its own number of times; without one, each element."""
    if isinstance(repeats, Tensor):
        raise mistaken("how often positions are repeated is a number: the size of the result depends on it")
    whole, place = (ravel(x), 0) if axis is None else (x, axis)
    if isinstance(repeats, list | tuple) and len(repeats) > 1:
        positions = constant_of(x.recorder, np.repeat(np.arange(len(repeats)), repeats))
        return ops.take(whole, positions, axis_within(whole.rank, place))
    return ops.repeat(whole, repeats[0] if isinstance(repeats, list | tuple) else repeats, place)


@named("tile", tensors=1)
def tile(x: Tensor, reps: Any) -> Tensor:
    """Return ``x`` several times along each axis."""
    return ops.tile(x, reps)


@named("flip", tensors=1)
def flip(x: Tensor, axis: Any = None) -> Tensor:
    """Return ``x`` with positions in reverse order."""
    return ops.flip(x, axis)


@named("roll", tensors=1)
def roll(x: Tensor, shift: Any, axis: Any = None) -> Tensor:
    """Return ``x`` with positions shifted cyclically."""
    if axis is None:
        return ops.reshape(ops.roll(ravel(x), shift, 0), *x.dims)
    return ops.roll(x, shift, axis)


def _centred(sign: int) -> Any:
    def shifted(x: Tensor, axes: Any = None) -> Tensor:
        """Return ``x`` with the first half of each axis moved behind the second one, or back."""
        places = axes_of(x, axes)
        return ops.roll(x, [sign * (x.dims[place] // 2) for place in places], places)

    return shifted


@named("delete", tensors=1)
def delete(arr: Tensor, obj: Any, axis: int | None = None) -> Tensor:
    """Return the tensor without some positions of an axis, or of all elements in order."""
    if isinstance(obj, Tensor):
        raise mistaken("deleted positions are numbers that are known while the function is built")
    x, place = (ops.flatten(arr), 0) if axis is None else (arr, axes_of(arr, axis)[0])
    try:
        kept = np.delete(np.arange(int(x.dims[place])), obj)
    except (IndexError, ValueError) as error:
        raise mistaken(f"delete: {error}") from None
    return ops.take(x, constant_of(x.recorder, kept.astype(np.int32)), place)


@named("pad", tensors=1)
def pad(x: Tensor, pad_width: Any, mode: str = "constant", *, constant_values: Operand = 0) -> Tensor:
    """Return ``x`` with a border of a value, or by one of the other modes."""
    modes = ("constant", "edge", "reflect", "symmetric", "wrap")
    if mode not in modes:
        raise mistaken(f"mode is one of {', '.join(modes)}, not {mode!r}")
    widths: list[Any] = [pad_width] if isinstance(pad_width, int | Dim) else list(pad_width)
    if all(isinstance(each, int | Dim) for each in widths):
        widths = [tuple(widths) if len(widths) == 2 else (widths[0], widths[0])]
    pairs: list[Any] = [tuple(each) * (2 // len(each)) for each in (widths * x.rank if len(widths) == 1 else widths)]
    if any(isinstance(width, int) and width < 0 for pair in pairs for width in pair):
        raise mistaken("a border has no negative widths; slice the tensor to cut some of it off")
    return ops.pad(x, pairs, mode=mode, value=constant_values)


@named("meshgrid")
def meshgrid(*vectors: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Return the coordinates of a grid whose axes have these values."""
    rank = len(vectors)
    sizes = [each.dims[0] for each in vectors]
    grids = []
    for place, vector in enumerate(vectors):
        shaped = ops.reshape(vector, *[vector.dims[0] if axis == place else 1 for axis in range(rank)])
        grids.append(ops.broadcast_to(shaped, sizes))
    swapped = indexing == "xy" and rank > 1
    return [ops.swapaxes(each, 0, 1) for each in grids] if swapped else grids


@named("append")
def append(x: Tensor, values: Any, axis: int | None = None) -> Tensor:
    """Return ``x`` followed by further values."""
    return concatenate([x, like_array(x, values)], axis)


@named("take")
def take(x: Tensor, indices: Any, axis: int | None = None, mode: str = "raise") -> Tensor:
    """Return elements or slices at some positions; negative ones count from the end, or are 0 if ``mode`` is "clip"."""
    whole = ravel(x) if axis is None else x
    place = 0 if axis is None else axis_within(x.rank, axis)
    if mode not in ("raise", "wrap", "clip"):
        raise mistaken(f"mode is 'raise', 'wrap' or 'clip', not {mode!r}")
    if mode != "raise":
        found, size = tensor_of(x, indices), whole.dims[place]
        indices = ops.remainder(found, size) if mode == "wrap" else ops.clip(found, 0, size - 1)
    return indexed(whole, (*[builtins.slice(None)] * place, indices))


@named("take_along_axis")
def take_along_axis(x: Tensor, indices: Tensor, axis: int = -1) -> Tensor:
    """Return elements at one position for each place of the others."""
    place = axis_within(x.rank, axis)
    return ops.take_along_axis(x, ops.where(indices < 0, indices + x.dims[place], indices), place)


@named("convolve")
@product
def convolve(a: Tensor, v: Tensor, mode: str = "full") -> Tensor:
    """Return the convolution of two vectors."""
    first, second = like_array(v, a), like_array(a, v)
    if mode != "full" and _is_longer(second, first):
        first, second = second, first
    return correlate(first, ops.flip(second), mode)


@named("correlate")
def correlate(a: Tensor, v: Tensor, mode: str = "valid") -> Tensor:
    """Return the correlation of two vectors."""
    a, v = like_array(v, a), like_array(a, v)
    if mode != "full" and _is_longer(v, a):
        return ops.flip(correlate(v, a, mode))
    size = v.dims[0]
    if mode not in ("valid", "full", "same"):
        raise mistaken(f"mode is 'valid', 'same' or 'full', not {mode!r}")
    before: Any = {"valid": 0, "full": size - 1, "same": size / 2}[mode]
    after: Any = {"valid": 0, "full": size - 1, "same": (size - 1) / 2}[mode]
    count = a.dims[0] + before + after - size + 1
    i, k = (index_of(a, name) for name in "ik")
    return aggregate(Aggregation.SUM, a[i + k - before] * v[k], [i], [count])


@named("sliding_window_view", tensors=1)
def sliding_window_view(x: Tensor, window_shape: Any, axis: Any = None) -> Tensor:
    """Return windows that begin at each position, along new last axes."""
    sizes = list(window_shape) if isinstance(window_shape, list | tuple) else [window_shape]
    places = range(x.rank) if axis is None else [axis] if isinstance(axis, int) else axis
    starts = [index_of(x, f"i{place}") for place in range(x.rank)]
    steps = [index_of(x, f"w{number}") for number in range(len(sizes))]
    keys: list[Any] = list(starts)
    counts = list(x.dims)
    for place, size, step in zip(places, sizes, steps, strict=True):
        at = axis_within(x.rank, place)
        keys[at], counts[at] = keys[at] + step, counts[at] - size + 1
    return aggregate(Aggregation.ASSIGN, x[tuple(keys)], [*starts, *steps], [*counts, *sizes])


def _is_longer(x: Tensor, y: Tensor) -> bool:
    """Return whether a vector is certainly the longer one while the function is built."""
    long, short = (value_for_arrays(each.recorder, each.dims[0].expr) for each in (x, y))
    return long is not None and short is not None and long > short


@named("interp")
def interp(x: Operand, xp: Any, fp: Any, left: Operand | None = None, right: Operand | None = None) -> Tensor:
    """Return a piecewise linear function with values ``fp`` at ascending points ``xp``."""
    tensor = next(each for each in (x, xp, fp) if isinstance(each, Tensor))
    x, xp, fp = (like_array(tensor, each) for each in (x, xp, fp))
    last = xp.dims[0] - 1
    place = ops.clip(ops.searchsorted(xp, x, right=True) - 1, 0, last - 1)
    low, high = (ops.take(xp, place + step) for step in (0, 1))
    start, end = (ops.take(fp, place + step) for step in (0, 1))
    inner = start + divide(end - start, high - low) * (x - low)
    first, final = ops.slice(fp, 0), ops.slice(fp, -1)
    below = ops.where(x < ops.slice(xp, 0), first if left is None else left, inner)
    return ops.where(
        x >= ops.slice(xp, -1), ops.where(x > ops.slice(xp, -1), final if right is None else right, final), below
    )


@named("gradient", tensors=1)
def gradient(x: Tensor, *spacings: float, axis: Any = None) -> Any:
    """Return second-order differences along each axis, for one spacing or one for each axis."""
    places = axes_of(x, axis)
    steps = spacings * len(places) if len(spacings) == 1 else spacings or (1.0,) * len(places)
    found = [_slope(floating(x), place, step) for place, step in zip(places, steps, strict=True)]
    return found[0] if len(found) == 1 else found


def _slope(x: Tensor, axis: int, spacing: float) -> Tensor:
    keys = [builtins.slice(None)] * axis

    def part(start: int | None, stop: int | None) -> Tensor:
        return ops.slice(x, *keys, builtins.slice(start, stop))

    inner = (part(2, None) - part(None, -2)) / (2 * spacing)
    first, last = (part(1, 2) - part(0, 1)) / spacing, (part(-1, None) - part(-2, -1)) / spacing
    return ops.concatenate([first, inner, last], axis)


@named("trapezoid", "trapz")
def trapezoid(y: Tensor, x: Tensor | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """Return the integral by the trapezoidal rule along an axis."""
    place = axis_within(y.rank, axis)
    keys = [builtins.slice(None)] * place
    values = floating(y)
    middle = (
        ops.slice(values, *keys, builtins.slice(1, None)) + ops.slice(values, *keys, builtins.slice(None, -1))
    ) / 2
    if x is None:
        return ops.sum(middle, place) * dx
    widths = ops.diff(x, 1, -1 if x.rank == 1 else place)
    if x.rank == 1 and y.rank > 1:
        widths = ops.reshape(widths, *[-1 if each == place else 1 for each in range(y.rank)])
    return ops.sum(middle * widths, place)


@named("select")
def select(conditions: Sequence[Tensor], choices: Sequence[Operand], default: Operand = 0) -> Tensor:
    """Return the choice of the first condition that holds."""
    pairs = list(zip(conditions, choices, strict=True))
    found = default
    for condition, choice in reversed(pairs):
        found = ops.where(condition, choice, found)
    return found  # type: ignore[return-value]  # with one condition or more


@named("polyval")
def polyval(p: Any, x: Operand) -> Any:
    """Return the value of a polynomial whose coefficients begin with that of the highest power."""
    terms = [ops.slice(p, number) for number in range(p.dims[0].known())] if isinstance(p, Tensor) else list(p)
    return functools.reduce(lambda total, term: total * x + term, terms)


@named("block")
def block(arrays: Any) -> Tensor:
    """Return tensors of nested lists side by side, those of the innermost lists along the last axis."""

    def depth(part: Any) -> int:
        return 1 + depth(part[0]) if isinstance(part, list) else 0

    def joined(part: Any, axis: int) -> Tensor:
        if not isinstance(part, list):
            return ops.reshape(part, *[1] * (rank - part.rank), *part.dims)
        return ops.concatenate([joined(each, axis + 1) for each in part], axis)

    def leaves(part: Any) -> Iterator[Tensor]:
        if isinstance(part, list):
            for each in part:
                yield from leaves(each)
        else:
            yield part

    rank = max(depth(arrays), *(each.rank for each in leaves(arrays)))
    return joined(arrays, rank - depth(arrays))


entered(
    {
        "swapaxes": ops.swapaxes,
        "fft.fftshift": _centred(1),
        "fft.ifftshift": _centred(-1),
        "fliplr": lambda x: ops.flip(x, 1),
        "flipud": lambda x: ops.flip(x, 0),
        "rot90": lambda x, k=1, axes=(0, 1): ops.rot90(x, k, axes),
        "unstack": lambda x, *, axis=0: ops.unstack(x, x.dims[axis].known(), axis),
        "hsplit": lambda x, parts: split(x, parts, 0 if x.rank == 1 else 1),
        "vsplit": lambda x, parts: split(x, parts, 0),
        "dsplit": lambda x, parts: split(x, parts, 2),
    },
    tensors=1,
)
entered(
    {
        "choose": lambda a, choices: select([a == number for number in range(len(choices))], choices),
        "vstack row_stack": lambda arrays: ops.concatenate([atleast_2d(each) for each in arrays], 0),
        "dstack": lambda arrays: ops.concatenate([atleast_3d(each) for each in arrays], 2),
        "column_stack": lambda arrays: ops.concatenate(_as_columns(arrays), 1),
        "ediff1d": lambda x: ops.diff(ravel(x)),
        "argpartition": lambda x, _, axis=-1: ops.argsort(x, axis),
        "partition": lambda x, _, axis=-1: ops.sort(x, axis),
    }
)

REFUSED.update(
    {
        f"fft.{name}": "tensors have no complex numbers; multiply by matrices of cosines and sines"
        for name in (each for each in np.fft.__all__ if each.endswith(("fft", "fft2", "fftn")))
    }
)
