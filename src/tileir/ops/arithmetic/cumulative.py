"""Running sums, products and extrema along an axis.

All but :func:`logcumsumexp` are one contraction ``O[i] = +(X[i - k]), k < N``, which the pass ``scan`` turns into a
loop that is linear in the size of the axis. Shapes are those of ``x``, dtypes those of Tile's aggregations: sums and
products of bool are i32.
"""

from __future__ import annotations

from tileir.ops.arithmetic.comparisons import isfinite
from tileir.ops.arithmetic.reductions import log_of_sum
from tileir.ops.shared.foundation import (
    Aggregation,
    Polynomial,
    Tensor,
    aggregate,
    axis_of,
    dims_of,
    full,
    index_of,
    indices_of,
    narrowed,
    wide,
)
from tileir.tile import builder_functions as tf


def cumsum(x: Tensor, axis: int = -1, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Return sums of the elements up to each one: ``y[i] = Σ x[k]`` over ``k <= i``.

    ``exclusive`` leaves the element itself out, so that the first sum is 0; ``reverse`` sums from the end of the axis.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: NumPy's ``cumsum``; the options are TensorFlow's and PlaidML's.
    """
    return _running(x, axis, Aggregation.SUM, exclusive=exclusive, reverse=reverse)


def cumprod(x: Tensor, axis: int = -1, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Return products of the elements up to each one: ``y[i] = Π x[k]`` over ``k <= i``; options as in :func:`cumsum`.

    The first exclusive product is 1.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: NumPy's ``cumprod``.
    """
    return _running(x, axis, Aggregation.PROD, exclusive=exclusive, reverse=reverse)


def cummax(x: Tensor, axis: int = -1, *, reverse: bool = False) -> tuple[Tensor, Tensor]:
    """Return the greatest element up to each one, and its position: of equal elements the nearest one.

    ``reverse`` goes from the end of the axis. NaN is greater than all others. Positions are i32, i64 along axes of 2^31
    elements and more.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: PyTorch's ``cummax``.
    """
    return _extremes(x, axis, Aggregation.MAX, reverse=reverse)


def cummin(x: Tensor, axis: int = -1, *, reverse: bool = False) -> tuple[Tensor, Tensor]:
    """Return the least element up to each one, and its position; as :func:`cummax`, NaN is less than all others.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: PyTorch's ``cummin``.
    """
    return _extremes(x, axis, Aggregation.MIN, reverse=reverse)


def logcumsumexp(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``y[i] = log Σ exp(x[k])`` over ``k <= i``, without overflow.

    It is ``m[i] + log Σ exp(x[k] - m[i])`` with the running maximum ``m``, so that each element is as precise as if it
    were computed alone. The terms depend on ``i``: time grows with the square of the axis. Floats; integers become
    floats.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: PyTorch's ``logcumsumexp``.
    """
    position, sizes, given, x = axis_of(x, axis), dims_of(x), x, wide(x)
    # The maximum cancels, so its gradient is stopped.
    greatest = tf.stop_gradient(_running(x, axis, Aggregation.MAX))
    # Rows whose elements are all -infinity must not compute infinity - infinity.
    finite = tf.where(isfinite(greatest), greatest, 0)
    before, size, after = sizes[:position], sizes[position], sizes[position + 1 :]
    columns = tf.reshape(x, *before, 1, size, *after)
    rows = tf.reshape(finite, *before, size, 1, *after)
    # Later terms, which no sum includes, may be greater: they must not overflow, not even in gradients.
    powers = tf.exp(tf.where(columns <= rows, columns - rows, 0))
    indices, k = list(indices_of(x)), index_of(x, "k")
    place = indices[position]
    terms = powers[(*indices[:position], place, place - k, *indices[position + 1 :])]
    return narrowed(log_of_sum(aggregate(Aggregation.SUM, terms.given(k < size), indices, sizes)) + greatest, given)


def _running(
    x: Tensor, axis: int, aggregation: Aggregation, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Aggregate all elements up to each one."""
    position, sizes = axis_of(x, axis), dims_of(x)
    indices, k = list(indices_of(x)), index_of(x, "k")
    place = indices[position]
    read = list[Polynomial](indices)
    read[position] = place + k if reverse else place - k
    if exclusive:
        read[position] += 1 if reverse else -1
    empty = full(x, sizes, 1) if exclusive and aggregation is Aggregation.PROD else None
    return aggregate(aggregation, x[tuple(read)].given(k < sizes[position]), indices, sizes, default=empty)


def _extremes(x: Tensor, axis: int, aggregation: Aggregation, *, reverse: bool) -> tuple[Tensor, Tensor]:
    """Return running extrema, and the position of each: that of the nearest element equal to it."""
    values = _running(x, axis, aggregation, reverse=reverse)
    places = tf.index(x, axis)
    reached = tf.logical_or(x == values, x != x)
    if reverse:
        last = dims_of(x)[axis_of(x, axis)] - 1
        return values, _running(tf.where(reached, places, last), axis, Aggregation.MIN, reverse=True)
    return values, _running(tf.where(reached, places, 0), axis, Aggregation.MAX)
