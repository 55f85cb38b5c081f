"""Order: sorting along an axis, the greatest and least elements, and quantiles.

NaN is greater than all other values, as in NumPy and PyTorch, and of equal elements that which comes first is before
the other in both directions: all orders are stable. Gradients go to the elements that were chosen.

Two algorithms:

- By default ranks are counted: the rank of an element is the number of those before it in order. One contraction
  compares each element with each along the axis, without memory for the pairs. It works for every size, is a short
  program, and nothing waits for anything; time grows as ``n²``.
- With ``longest``, a bound on the size of the axis, a bitonic network (Batcher, "Sorting networks and their
  applications", 1968) exchanges elements in ``p * (p + 1) / 2`` steps for the least ``2^p`` that is not below. Time
  grows as ``n log² n``, and it is faster from some hundred elements on, but a long program, which takes longer to
  compile.
"""

from __future__ import annotations

from tileir.ops.foundation import (
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
    real,
    tensor_of,
)
from tileir.ops.indexing import take, take_along_axis
from tileir.ops.networks import network_order, ordered
from tileir.ops.positions import element_numbers
from tileir.ops.shaping import product
from tileir.tile import builder_functions as tf


def sort(x: Tensor, axis: int = -1, *, descending: bool = False, longest: int | None = None) -> Tensor:
    """Return the elements of ``x`` in order along ``axis``.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, ``longest`` is no positive integer; TIL312 when compiling, the
            axis is longer.

    Source: NumPy's ``sort``.
    """
    return take_along_axis(x, argsort(x, axis, descending=descending, longest=longest), axis)


def argsort(x: Tensor, axis: int = -1, *, descending: bool = False, longest: int | None = None) -> Tensor:
    """Return where the elements of ``x`` come from when they are sorted along ``axis``; i32, i64 on axes of 2^31.

    Raises:
        TileError: As for :func:`sort`.

    Source: NumPy's and PyTorch's ``argsort``, with ``stable``; PlaidML's ``argsort``.
    """
    place = axis_of(x, axis)
    if longest is not None:
        return network_order(x, place, descending=descending, longest=_positive(longest, "longest"))
    dims = dims_of(x)
    flat = tf.reshape(x, product(x, dims))
    numbers = element_numbers(flat, dims, ranks(x, place, descending=descending), place)
    return tf.reshape(call("scatter", tf.index(x, place), numbers, flat), *dims)


def ranks(x: Tensor, axis: int = -1, *, descending: bool = False) -> Tensor:
    """Return the position that each element of ``x`` has when it is sorted along ``axis``; i32.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: the inverse of :func:`argsort`, as SciPy's ``rankdata`` with ``ordinal``, counted from 0.
    """
    place, dims = axis_of(x, axis), dims_of(x)
    before, size, after = dims[:place], dims[place], dims[place + 1 :]
    mine, other = tf.reshape(x, *before, size, 1, *after), tf.reshape(x, *before, 1, size, *after)
    low, high = (other, mine) if not descending else (mine, other)
    first = tf.index(low == high, place + 1) < tf.index(low == high, place)
    is_before = tf.where(first, tf.logical_not(ordered(high, low)), ordered(low, high))
    counted = cast_to(is_before, "i32")
    indices = indices_of(counted)
    return aggregate(Aggregation.SUM, counted[indices], [*indices[: place + 1], *indices[place + 2 :]], dims)


def top_k(
    x: Tensor, k: int, axis: int = -1, *, largest: bool = True, longest: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` greatest (or least) elements along ``axis``, in order, and where they stand.

    Raises:
        TileError: TIL314, there is no such axis, or it is known to have fewer elements; TIL217, ``k`` or ``longest`` is
            no positive integer; TIL312 when compiling, the axis has fewer than ``k`` or more than ``longest``.

    Source: PyTorch's ``topk``.
    """
    place, count = axis_of(x, axis), _positive(k, "k")
    order = argsort(x, place, descending=largest, longest=longest)
    sizes, indices = list(dims_of(x)), indices_of(order)
    sizes[place] = inside(dim_like(x, count - 1), sizes[place]) + 1
    best = aggregate(Aggregation.ASSIGN, order[indices], indices, sizes)
    return take_along_axis(x, best, place), best


def kth_value(
    x: Tensor, k: int, axis: int = -1, *, keepdims: bool = False, longest: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the ``k``-th least element along ``axis``, counted from 1, and where it stands.

    Raises:
        TileError: As for :func:`top_k`.

    Source: PyTorch's ``kthvalue``.
    """
    place, position = axis_of(x, axis), _positive(k, "k") - 1
    order = argsort(x, place, longest=longest)
    dims, indices = dims_of(x), list[Polynomial | Dim](indices_of(order))
    kept = [*indices[:place], *indices[place + 1 :]]
    sizes = [*dims[:place], *dims[place + 1 :]]
    indices[place] = inside(dim_like(x, position), dims[place])
    where = aggregate(Aggregation.ASSIGN, order[tuple(indices)], kept, sizes)
    column = tf.reshape(where, *dims[:place], 1, *dims[place + 1 :])
    value = take_along_axis(x, column, place)
    return (value, column) if keepdims else (tf.reshape(value, *sizes), where)


def median(x: Tensor, axis: int = -1, *, keepdims: bool = False, longest: int | None = None) -> Tensor:
    """Return the median along ``axis``, the mean of both middle elements where there are two; integers give floats.

    Raises:
        TileError: As for :func:`sort`.

    Source: NumPy's ``median``.
    """
    return quantile(x, 0.5, axis, keepdims=keepdims, longest=longest)


def quantile(
    x: Tensor,
    q: float,
    axis: int = -1,
    *,
    interpolation: str = "linear",
    keepdims: bool = False,
    longest: int | None = None,
) -> Tensor:
    """Return the quantile ``q`` along ``axis``: the sorted elements at ``p = q * (n - 1)``; integers give floats.

    Between two elements it is ``"linear"`` in p, ``"lower"``, ``"higher"``, ``"nearest"`` (the even one of two) or
    ``"midpoint"``. It is NaN where an element is.

    Raises:
        TileError: As for :func:`sort`; TIL217, ``q`` is not in [0, 1], or there is no such interpolation.

    Source: NumPy's and PyTorch's ``quantile``.
    """
    place = axis_of(x, axis)
    chosen(interpolation, ("linear", "lower", "higher", "nearest", "midpoint"), "interpolation")
    if not 0 <= q <= 1:
        raise mistaken(f"a quantile is from 0 to 1, not {q}")
    dims = dims_of(x)
    floats = sort(x, place, longest=longest) * 1.0
    # All of this is known when compiling, in double precision.
    position = tensor_of(x, float(q)) * real(dims[place] - 1)
    low, high = tf.floor(position), tf.ceil(position)
    if interpolation == "nearest":
        half = tf.floor(position + 0.5)
        low = tf.where(half == position + 0.5, half - tf.mod(half, 2), half)
    below, above, last = (take(floats, cast_to(number, "i32"), place) for number in (low, high, dims[place] - 1))
    match interpolation:
        case "linear":  # where p is an element, no infinity beside it counts, nor its own times 0
            part = position - low
            result = tf.where(part == 0, below, below * (1 - part) + above * part)
        case "midpoint":
            result = tf.where(low == high, below, below * 0.5 + above * 0.5)
        case "higher":
            result = above
        case _:
            result = below
    result = tf.where(last != last, last, result)
    return tf.reshape(result, *dims[:place], 1, *dims[place + 1 :]) if keepdims else result


def _positive(value: int, what: str) -> int:
    number = integer_of(value, what)
    if number < 1:
        raise mistaken(f"{what} is positive, not {number}")
    return number
