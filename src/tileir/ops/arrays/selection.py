"""Choices by conditions, coordinates, and positions of values in order."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.core.dtype import DType
from tileir.ops.arithmetic.comparisons import isnan
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Operand,
    Size,
    Tensor,
    aggregate,
    axis_of,
    axis_within,
    cast_to,
    dim_like,
    dims_of,
    dtype_of,
    full as spread,
    indices_of,
    integer_of,
    mistaken,
    position,
    rank_of,
    real,
    tensor_of,
)
from tileir.tile import builder_functions as tf


def one_hot(
    indices: Tensor,
    depth: Size,
    *,
    axis: int = -1,
    on: Operand = 1,
    off: Operand = 0,
    dtype: DType | str = "f32",
) -> Tensor:
    """Return ``on`` where a new axis of size ``depth`` is at the index, and ``off`` elsewhere.

    Indices outside of the axis give ``off`` only. The new axis is ``axis`` of the result.

    Raises:
        TileError: TIL314, there is no such axis; TIL206, there is no such dtype.

    Source: JAX's ``one_hot``; PyTorch's gives integers.
    """
    rank = rank_of(indices)
    place = axis_within(rank + 1, axis)
    sizes = dims_of(indices)
    column = tf.reshape(indices, *sizes[:place], 1, *sizes[place:])
    places = tf.reshape(tf.index(spread(indices, [depth], 0), 0), dim_like(indices, depth), *[1] * (rank - place))
    values = (cast_to(tensor_of(indices, value), dtype) for value in (on, off))
    return tf.where(places == column, *values)


def where(condition: Operand, then: Operand, otherwise: Operand) -> Tensor:
    """Return ``then`` where the condition is not 0, else ``otherwise``; all three are broadcast.

    Source: NumPy's ``where``.
    """
    return tf.where(condition, then, otherwise)


def masked_fill(x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """Return ``x`` with ``value``, in the dtype of ``x``, where ``mask`` is not 0; both are broadcast.

    Source: PyTorch's ``masked_fill``.
    """
    return tf.where(mask, tf.as_like(value, x), x)


def index(x: Tensor, axis: int) -> Tensor:
    """Return the coordinate of each element of ``x`` along an axis: i32, or i64 for 2^31 elements and more.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: PlaidML's ``index``.
    """
    return tf.index(x, axis_of(x, axis))


def arange(x: Operand, start: Size, stop: Size | None = None, step: int = 1, *, dtype: DType | str = "i32") -> Tensor:
    """Return ``start``, ``start + step`` and so on, before ``stop``; a single bound is ``stop``, and ``start`` is 0.

    ``x`` only identifies the builder: any tensor or dimension of it will do.

    Raises:
        TileError: TIL217, ``step`` is no integer, or 0; TIL206, there is no such dtype.

    Source: NumPy's ``arange``.
    """
    first, last = (0, start) if stop is None else (start, stop)
    pace = integer_of(step, "step")
    if pace == 0:
        raise mistaken("step is not 0")
    low, high = dim_like(x, first), dim_like(x, last)
    if low.value == 0 and pace == 1 and (high.value is None or high.value >= 0):
        return cast_to(tf.index(spread(x, [high], 0), 0), dtype)
    if low.value is not None and high.value is not None:
        return cast_to(_numbers(x, range(low.value, high.value, pace)), dtype)
    distance = high - low if pace > 0 else low - high
    count = ((distance + (abs(pace) - 1)) / abs(pace)).max(0)
    reach = low.max(0 - low).max(high).max(0 - high) + abs(pace)
    return cast_to(position(spread(x, [count], 0), 0, reach) * pace + low, dtype)


def _numbers(x: Operand, numbers: range) -> Tensor:
    """Return known numbers in i32, i64, or u64; bounds and steps that no number meets may be beyond these."""
    first, last = (numbers[0], numbers[-1]) if numbers else (0, 0)
    pace = numbers.step if first != last else 1
    ones = spread(x, [(last - first) // pace + 1 if numbers else 0], 0)
    reach = max(abs(first), abs(last)) + abs(pace)
    if reach <= DType.I64.maximum:
        return position(ones, 0, reach) * pace + first
    places = cast_to(tf.index(ones, 0), DType.U64) * (pace % 2**64) + first % 2**64  # right modulo 2^64
    return cast_to(places, DType.I64) if max(first, last) <= DType.I64.maximum else places


def zeros(x: Operand, sizes: Size | Sequence[Size], *, dtype: DType | str = "f32") -> Tensor:
    """Return a tensor of zeros; all else as for :func:`full`."""
    return full(x, sizes, 0, dtype=dtype)


def ones(x: Operand, sizes: Size | Sequence[Size], *, dtype: DType | str = "f32") -> Tensor:
    """Return a tensor of ones; all else as for :func:`full`."""
    return full(x, sizes, 1, dtype=dtype)


def full(x: Operand, sizes: Size | Sequence[Size], value: Operand, *, dtype: DType | str = "f32") -> Tensor:
    """Return a tensor of these sizes with every element equal to ``value``.

    ``x`` only identifies the builder: any tensor or dimension of it will do.

    Raises:
        TileError: TIL206, there is no such dtype.
    """
    return spread(x, [sizes] if isinstance(sizes, Dim | int) else sizes, value, dtype)


def linspace(
    x: Operand, start: Operand, stop: Operand, count: Size, *, endpoint: bool = True, dtype: DType | str = "f32"
) -> Tensor:
    """Return ``count`` equidistant numbers from ``start`` to ``stop``, which is the last one if ``endpoint`` is set.

    ``y[i] = start * (1 - t) + stop * t`` with ``t = i / max(count - 1, 1)``, or ``i / count``, computed in f32, and for
    f64 in f64. For integers it is the greatest one not above ``y[i]``: exact between integers, else, as in NumPy, that
    of ``start + i * step`` in f64. ``x`` only identifies the builder: any tensor or dimension of it will do.

    Source: NumPy's ``linspace``.
    """
    size = dim_like(x, count)
    parts = (size - 1).max(1) if endpoint else size
    element = dtype_of(dtype)
    if not element.is_float and isinstance(start, int) and isinstance(stop, int):
        reach = parts * (abs(stop - start) + 1) + abs(start)
        steps = position(spread(x, [size], 0), 0, reach)
        return cast_to(_floor_divided(steps * (stop - start), parts) + start, element)
    places = tf.index(spread(x, [size], 0), 0)
    if not element.is_float:
        step = cast_to(tensor_of(x, stop), "f64") - start
        return cast_to(tf.floor(cast_to(places, "f64") * (step / real(parts)) + start), element)
    part = cast_to(places, DType.F64 if element is DType.F64 else DType.F32) / real(parts)
    return cast_to((1 - part) * start + part * stop, element)


def _floor_divided(x: Tensor, by: Dim) -> Tensor:
    return tf.where(x < 0, (x - (by - 1)) / by, x / by)


def searchsorted(sequence: Tensor, values: Tensor, *, right: bool = False) -> Tensor:
    """Return the positions of values in ascending sequences, which lie along the last axis of ``sequence``.

    The result counts the elements that are less than the value, or with ``right`` not greater; i32, in the shape of
    ``values``. NaN is greater than all numbers, as for :func:`tileir.ops.sort`. All axes of both but the last are
    equal; a sequence of one axis is for all values. Each value is compared with each element, so that memory accesses
    have no order.

    Raises:
        TileError: TIL217, a sequence without axes, or with several axes but not as many as the values.

    Source: NumPy's and PyTorch's ``searchsorted``.
    """
    if rank_of(sequence) == 0 or rank_of(sequence) not in (1, rank_of(values)):
        raise mistaken(
            f"a sequence has one axis, or as many as the values, {rank_of(values)}; this one has {rank_of(sequence)}"
        )
    dims = dims_of(sequence)
    wide = tf.reshape(values, *dims_of(values), 1)
    rows = sequence if len(dims) == 1 else tf.reshape(sequence, *dims[:-1], 1, dims[-1])
    less = rows <= wide if right else rows < wide
    last = isnan(wide) if right else tf.logical_and(isnan(wide), rows == rows)
    before = cast_to(tf.logical_or(less, last), "i32")
    indices = indices_of(before)
    return aggregate(Aggregation.SUM, before[indices], indices[:-1], dims_of(before)[:-1])


def bucketize(x: Tensor, boundaries: Tensor, *, right: bool = False) -> Tensor:
    """Return the number of the interval between ascending ``boundaries`` that contains each element; i32.

    Intervals contain their upper end, or with ``right`` their lower one.

    Raises:
        TileError: TIL217, the boundaries have not one axis.

    Source: PyTorch's ``bucketize``.
    """
    if rank_of(boundaries) != 1:
        raise mistaken(f"boundaries have one axis, not {rank_of(boundaries)}")
    return searchsorted(boundaries, x, right=right)
