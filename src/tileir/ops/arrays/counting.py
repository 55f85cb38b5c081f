"""Results of data-dependent sizes: arrays of the greatest possible size, with the results in front, and their number.

After them, positions are -1, and elements 0. Counts are i32; positions too, i64 from 2^31 elements on.
"""

from __future__ import annotations

from tileir.ops.arithmetic.comparisons import isnan
from tileir.ops.arithmetic.cumulative import cumsum
from tileir.ops.arithmetic.reductions import any as some, min as least, sum as total
from tileir.ops.arrays.indexing import take
from tileir.ops.arrays.joining import stack
from tileir.ops.arrays.scattering import scatter
from tileir.ops.arrays.shaping import moveaxis, product
from tileir.ops.arrays.sorting import argsort
from tileir.ops.shared.foundation import (
    Tensor,
    axis_of,
    call,
    cast_to,
    dims_of,
    full,
    mistaken,
    rank_of,
)
from tileir.ops.shared.positions import resized
from tileir.tile import builder_functions as tf


def nonzero(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positions of elements that are not 0, in row-major order, and their number.

    Shapes: positions are [axes of ``x``, elements of ``x``].

    Raises:
        TileError: TIL217, ``x`` has no axis.

    Source: NumPy's ``nonzero``, ONNX' ``NonZero``.
    """
    if rank_of(x) == 0:
        raise mistaken("a number has no positions; compare it with 0")
    dims = dims_of(x)
    found, count = in_front(tf.reshape(cast_to(x, "bool"), product(x, dims)))
    rows, rest = [], tf.max(found, 0)
    for size in reversed(dims):
        rows.append(tf.where(found < 0, -1, call("mod", rest, size.max(1))))
        rest = rest / size.max(1)
    return stack(rows[::-1], 0), count


def compress(x: Tensor, condition: Tensor, axis: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the slices of ``x`` along ``axis`` where a condition is not 0, and their number.

    Without an axis they are the elements, in row-major order. The condition has one axis, and may be shorter: later
    slices are left out. Dtype: that of ``x``, which gets gradients.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, the condition has not one axis.

    Source: NumPy's ``compress``, ONNX' ``Compress``.
    """
    if rank_of(condition) != 1:
        raise mistaken(f"a condition has one axis, not {rank_of(condition)}")
    if axis is None:
        x, axis = tf.reshape(x, product(x, dims_of(x))), 0
    place = axis_of(x, axis)
    whole = resized(cast_to(cast_to(condition, "bool"), "i32"), [dims_of(x)[place]])
    found, count = in_front(whole > 0)
    return take(x, found, place, mode="fill"), count


def unique(
    x: Tensor, axis: int | None = None, *, ordered: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the distinct elements, or slices along ``axis``; their first positions and counts; and two more results.

    Shapes: with N elements, or slices, the first three have size N; then come [N], the number of each element among
    those results, and the number of results. They are ``ordered`` from the least to the greatest, slices by their first
    element that differs, or by their first positions. NaN is equal to NaN, and greater than all else. Slices are
    compared in pairs: their time grows with the square of N.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: NumPy's ``unique``, ONNX' ``Unique``.
    """
    if axis is None:
        x, place = tf.reshape(x, product(x, dims_of(x))), 0
        keys = x
    else:
        place = axis_of(x, axis)
        keys = _ranks(moveaxis(x, place, 0))
    (size,) = dims_of(keys)
    order = argsort(keys, 0)
    among = take(keys, order)
    where = tf.index(among, 0)
    before = take(among, where - 1)
    same = tf.logical_or(among == before, tf.logical_and(isnan(among), isnan(before)))
    new = tf.logical_or(where == 0, tf.logical_not(same))
    group = cumsum(cast_to(new, "i32"), 0) - 1
    count = total(cast_to(new, "i32"))
    first = scatter(full(x, [size], -1), tf.where(new, group, size), order, mode="set", bounds="drop", unique=True)
    often = scatter(full(x, [size], 0), group, 1)
    inverse = scatter(full(x, [size], 0), order, group, mode="set", unique=True)
    if not ordered:
        places = argsort(tf.where(first < 0, size, first), 0)
        inverse = take(argsort(places, 0), inverse)
        first, often = take(first, places), take(often, places)
    return take(x, first, place, mode="fill"), first, often, inverse, count


def in_front(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positions where a mask of one axis holds, followed by -1, and their number."""
    (size,) = dims_of(mask)
    ones = cast_to(mask, "i32")
    goal = tf.where(mask, cumsum(ones, 0) - 1, size)
    place = tf.index(mask, 0)
    found = scatter(tf.as_like(full(mask, [size], -1), place), goal, place, mode="set", bounds="drop", unique=True)
    return found, total(ones)


def _ranks(rows: Tensor) -> Tensor:
    """Return the number of rows before each one, in the order of the first element that differs."""
    size = dims_of(rows)[0]
    width = product(rows, dims_of(rows)[1:])
    flat = tf.reshape(rows, size, width)
    one, other = tf.reshape(flat, size, 1, width), tf.reshape(flat, 1, size, width)
    nan, others = isnan(one), isnan(other)
    less = tf.logical_or(other < one, tf.logical_and(nan, tf.logical_not(others)))
    differs = tf.logical_or(less, tf.logical_or(one < other, tf.logical_and(others, tf.logical_not(nan))))
    place = tf.index(differs, 2)
    first = least(tf.where(differs, place, width), 2, keepdims=True)
    return total(cast_to(some(tf.logical_and(less, place == first), 2), "i32"), 1)
