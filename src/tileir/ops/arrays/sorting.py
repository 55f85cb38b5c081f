"""Order: sorting along an axis, the greatest and least elements, and quantiles.

NaN is greater than all other values, as in NumPy and PyTorch, and all orders are stable in both directions: of equal
elements, the one with the lower position comes first. Gradients go to the chosen elements.

All of them use the primitive ``argsort``, limited to the necessary number of elements, and take elements in that order.
The compiler decides how to sort a row.
"""

from __future__ import annotations

from typing import Any

from tileir.ops.arithmetic.comparisons import isfinite
from tileir.ops.arithmetic.reductions import count_nonzero
from tileir.ops.arrays.indexing import take, take_along_axis
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Polynomial,
    Tensor,
    aggregate,
    axis_of,
    call,
    cast_to,
    chosen,
    dim_like,
    dims_of,
    indices_of,
    inside,
    integer_of,
    mistaken,
    narrowed,
    real,
    tensor_of,
    wide,
)
from tileir.tile import builder_functions as tf


def sort(x: Tensor, axis: int = -1, *, descending: bool = False) -> Tensor:
    """Return the elements of ``x`` in order along ``axis``.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: NumPy's ``sort``.
    """
    return take_along_axis(x, argsort(x, axis, descending=descending), axis)


def argsort(x: Tensor, axis: int = -1, *, descending: bool = False) -> Tensor:
    """Return the positions of the elements of ``x`` in sorted order along ``axis``; i32, i64 on axes of 2^31.

    Raises:
        TileError: As for :func:`sort`.

    Source: NumPy's and PyTorch's ``argsort``, with ``stable``; PlaidML's ``argsort``.
    """
    return tf.argsort(x, axis_of(x, axis), descending)


def ranks(x: Tensor, axis: int = -1, *, descending: bool = False) -> Tensor:
    """Return the position of each element of ``x`` in sorted order along ``axis``; i32.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: the inverse of :func:`argsort`, as SciPy's ``rankdata`` with ``ordinal``, counted from 0.
    """
    return argsort(argsort(x, axis, descending=descending), axis)


def top_k(x: Tensor, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """Return the ``k`` greatest (or least) elements along ``axis``, in order, and their positions.

    Raises:
        TileError: TIL314, there is no such axis, or it is known to have fewer elements; TIL217, ``k`` is no
            positive integer; TIL312 when compiling, the axis has fewer.

    Source: PyTorch's ``topk``.
    """
    place, count = axis_of(x, axis), _positive(k, "k")
    best = tf.argsort(x, place, largest, inside(dim_like(x, count - 1), dims_of(x)[place]) + 1)
    return take_along_axis(x, best, place), best


def kth_value(x: Tensor, k: int, axis: int = -1, *, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Return the ``k``-th least element along ``axis``, counted from 1, and its position.

    Raises:
        TileError: As for :func:`top_k`.

    Source: PyTorch's ``kthvalue``.
    """
    place, position = axis_of(x, axis), _positive(k, "k") - 1
    dims = dims_of(x)
    wanted = inside(dim_like(x, position), dims[place])
    order = tf.argsort(x, place, count=wanted + 1)
    indices = list[Polynomial | Dim](indices_of(order))
    kept = [*indices[:place], *indices[place + 1 :]]
    sizes = [*dims[:place], *dims[place + 1 :]]
    indices[place] = wanted
    where = aggregate(Aggregation.ASSIGN, order[tuple(indices)], kept, sizes)
    column = tf.reshape(where, *dims[:place], 1, *dims[place + 1 :])
    value = take_along_axis(x, column, place)
    return (value, column) if keepdims else (tf.reshape(value, *sizes), where)


def median(x: Tensor, axis: int = -1, *, keepdims: bool = False) -> Tensor:
    """Return the median along ``axis``, the mean of both middle elements if there are two; integers give floats.

    Raises:
        TileError: As for :func:`sort`.

    Source: NumPy's ``median``.
    """
    return quantile(x, 0.5, axis, keepdims=keepdims)


def quantile(
    x: Tensor,
    q: float,
    axis: int = -1,
    *,
    interpolation: str = "linear",
    keepdims: bool = False,
    skips_nan: bool = False,
) -> Tensor:
    """Return the quantile ``q`` along ``axis``: the sorted elements at ``p = q * (n - 1)``; integers give floats.

    Between two elements it is ``"linear"`` in p, ``"lower"``, ``"higher"``, ``"nearest"`` (the even one of two) or
    ``"midpoint"``. It is NaN if an element is; with ``skips_nan``, only if all are, and n counts the others.

    Raises:
        TileError: As for :func:`sort`; TIL217, ``q`` is not in [0, 1], or there is no such interpolation.

    Source: NumPy's and PyTorch's ``quantile``.
    """
    place = axis_of(x, axis)
    chosen(interpolation, ("linear", "lower", "higher", "nearest", "midpoint"), "interpolation")
    if not 0 <= q <= 1:
        raise mistaken(f"a quantile is from 0 to 1, not {q}")
    dims = dims_of(x)
    floats = wide(sort(x, place))
    if skips_nan:  # these are last
        end: Any = tf.max(count_nonzero(floats == floats, place, keepdims=True) - 1, 0)
        position = cast_to(end, "f64") * float(q)
    else:  # all of this is known when compiling, in double precision
        end = dims[place] - 1
        position = tensor_of(x, float(q)) * real(end)
    low, high = tf.floor(position), tf.ceil(position)
    if interpolation == "nearest":
        half = tf.floor(position + 0.5)
        low = tf.where(half == position + 0.5, half - tf.mod(half, 2), half)
    part = call("as_like", position - low, floats) if skips_nan else position - low
    choose = take_along_axis if skips_nan else take
    below, above, last = (choose(floats, cast_to(number, "i32"), place) for number in (low, high, end))
    match interpolation:
        case "linear":
            result = _between(below, above, part)
        case "midpoint":
            result = _between(below, above, tf.where(part == 0, 0.0, 0.5))
        case "higher":
            result = above
        case _:
            result = below
    result = narrowed(tf.where(last != last, last, result), x)
    return tf.reshape(result, *dims[:place], *[1] * keepdims, *dims[place + 1 :]) if keepdims or skips_nan else result


def _between(below: Tensor, above: Tensor, part: Tensor) -> Tensor:
    """Interpolate between two elements, exactly if they are equal, and without overflow of their distance."""
    distance = above - below
    weighed = tf.where(isfinite(distance), below + distance * part, below * (1 - part) + above * part)
    return tf.where(part == 0, below, weighed)  # ignores an infinity with the weight 0


def _positive(value: int, what: str) -> int:
    number = integer_of(value, what)
    if number < 1:
        raise mistaken(f"{what} is positive, not {number}")
    return number
