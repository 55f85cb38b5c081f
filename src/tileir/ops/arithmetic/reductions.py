"""Reductions over axes: sums, extrema, their positions, moments and norms.

``axes`` is one axis, several, or None for all; negative axes count from the end. The result lacks them, or has size 1
there with ``keepdims``. Over no elements sums, maxima and minima are 0, by Tile's rule for contractions, but products
are 1, and ``all`` is true. An axis that does not exist is TIL314, one that is given twice TIL217.
"""
# ruff: noqa: A001  NumPy's names

from __future__ import annotations

import math

from tileir.ops.arithmetic.comparisons import isfinite
from tileir.ops.shared.foundation import (
    Aggregation,
    Axes,
    Operand,
    Size,
    Tensor,
    aggregate,
    axes_of,
    axis_of,
    call,
    chosen,
    dim_like,
    dims_of,
    full,
    indices_of,
    mistaken,
    narrowed,
    real,
    wide,
)
from tileir.tile.builder_functions import reduce


def sum(x: Tensor, axes: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the sum over ``axes``; that of bool is i32, other integers wrap. f16 and bf16 are added up in f32."""
    return _reduced(Aggregation.SUM, x, axes, keepdims)


def prod(x: Tensor, axes: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the product over ``axes``; that of bool is i32, other integers wrap."""
    return _reduced(Aggregation.PROD, x, axes, keepdims, 1)


def max(x: Tensor, axes: Axes = None, *, keepdims: bool = False, empty: Operand | None = None) -> Tensor:
    """Return the greatest element over ``axes``; NaN if one is NaN; of no elements ``empty``, by default 0."""
    return _reduced(Aggregation.MAX, x, axes, keepdims, None if empty is None else call("as_like", empty, x))


def min(x: Tensor, axes: Axes = None, *, keepdims: bool = False, empty: Operand | None = None) -> Tensor:
    """Return the least element over ``axes``; NaN if one is NaN; of no elements ``empty``, by default 0."""
    return _reduced(Aggregation.MIN, x, axes, keepdims, None if empty is None else call("as_like", empty, x))


def all(x: Tensor, axes: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return whether no element over ``axes`` is 0, as bool."""
    return _reduced(Aggregation.MIN, call("as_bool", x), axes, keepdims, True)


def any(x: Tensor, axes: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return whether an element over ``axes`` is not 0, as bool."""
    return _reduced(Aggregation.MAX, call("as_bool", x), axes, keepdims)


def count_nonzero(x: Tensor, axes: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the number of elements over ``axes`` that are not 0, as i32."""
    return sum(x != 0, axes, keepdims=keepdims)


def mean(x: Tensor, axes: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the sum over ``axes`` divided by the number of elements; that of integers is a float.

    It is computed in f32 at least, so that sums of integers do not wrap, and those of f16 do not overflow.
    """
    return narrowed(_mean(wide(x), axes, keepdims), x)


def variance(x: Tensor, axes: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Return the mean of the squared distance from the mean over ``axes``, computed in two passes.

    ``correction`` is subtracted from the number of elements: 0 as in NumPy, 1 for PyTorch's default. It is computed in
    f32 at least, that of integers is a float.
    """
    return narrowed(_variance(wide(x), axes, correction, keepdims), x)


var = variance


def std(x: Tensor, axes: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Return the square root of the variance over ``axes``; the gradient is 0 where that is 0, as in PyTorch."""
    return narrowed(root(_variance(wide(x), axes, correction, keepdims)), x)


def argmax(x: Tensor, axis: int | None = None, *, keepdims: bool = False, ties: str = "first") -> Tensor:
    """Return the position of the greatest element on ``axis``, as i32 (i64 on an axis of 2**31 elements).

    Args:
        x: A tensor.
        axis: The axis; without one, the position is that in row-major order.
        keepdims: Whether the axis stays, with size 1; without one, all axes do.
        ties: Of several greatest elements the ``"first"``, as in NumPy and PyTorch, or the ``"last"``, as in PlaidML.
            NaN counts as the greatest.

    Raises:
        TileError: TIL314, there is no such axis; TIL217, another word for ties.
    """
    return _position("argmax", x, axis, keepdims, ties)


def argmin(x: Tensor, axis: int | None = None, *, keepdims: bool = False, ties: str = "first") -> Tensor:
    """Return the position of the least element on ``axis``; all else as for :func:`argmax`."""
    return _position("argmin", x, axis, keepdims, ties)


def is_max(x: Tensor, axes: Axes = None) -> Tensor:
    """Return whether elements of ``x`` are equal to its greatest one over ``axes``, as bool of the shape of ``x``."""
    return x == max(x, axes, keepdims=True)


def hardmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return 1 at the first greatest element on ``axis``, and 0 elsewhere, in the dtype of ``x``.

    Raises:
        TileError: TIL314, there is no such axis.

    Source: PlaidML's and ONNX' ``Hardmax``.

    """
    return call("as_like", call("index", x, axis_of(x, axis)) == argmax(x, axis, keepdims=True), x)


def logsumexp(x: Tensor, axes: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return ``log(sum(exp(x)))`` over ``axes``, less the greatest element before, so that nothing overflows.

    For minus infinities only, it is minus infinity, with a gradient of 0.
    """
    wider = wide(x)
    greatest = max(wider, axes, keepdims=True)
    shift = call("stop_gradient", call("cond", isfinite(greatest), greatest, 0))
    result = narrowed(log_of_sum(sum(call("exp", wider - shift), axes, keepdims=True)) + shift, x)
    gone = axes_of(x, axes)
    return result if keepdims else call("reshape", result, *(d for a, d in enumerate(dims_of(x)) if a not in gone))


def log_of_sum(total: Tensor) -> Tensor:
    """Return the logarithm of sums of powers; a sum of 0, to which no element contributes, gets no gradient."""
    return call("cond", total == 0, -math.inf, call("log", call("cond", total == 0, 1, total)))


def norm(x: Tensor, axes: Axes = None, *, order: float = 2, keepdims: bool = False) -> Tensor:
    """Return the vector norm over ``axes``: ``sum(|x|**order)**(1 / order)``.

    ``order`` may be 0 (the number of elements other than 0), infinite (the greatest magnitude) or minus infinity (the
    least). The gradient of zeros is 0, as in PyTorch.

    Raises:
        TileError: TIL217, the order is NaN.
    """
    if math.isnan(order):
        raise mistaken("the order of a norm is a number, not NaN")
    return narrowed(_norm(wide(x), axes, order, keepdims), x)


def _norm(x: Tensor, axes: Axes, order: float, keepdims: bool) -> Tensor:
    if order == 0:
        return sum(abs(call("sign", x)), axes, keepdims=keepdims)
    if order == 2:
        return root(sum(x * x, axes, keepdims=keepdims))
    magnitudes = magnitude(x)
    if math.isinf(order):
        return (max if order > 0 else min)(magnitudes, axes, keepdims=keepdims)
    if order == 1:
        return sum(magnitudes, axes, keepdims=keepdims)
    return power(sum(power(magnitudes, float(order)), axes, keepdims=keepdims), 1 / order)


def magnitude(x: Tensor) -> Tensor:
    """Return ``|x|`` with the gradient 0 at 0, as in PyTorch; that of ``abs`` is 1 there."""
    return x * call("sign", x)


def root(x: Tensor) -> Tensor:
    """Return the square root with the gradient 0 at 0, where it has none."""
    return call("cond", x == 0, 0, call("sqrt", call("cond", x == 0, 1, x)))


def power(x: Tensor, exponent: float) -> Tensor:
    """Return a power of non-negative numbers, with the gradient 0 at 0."""
    if exponent < 0:
        return x**exponent
    return call("cond", x == 0, 0, call("cond", x == 0, 1, x) ** exponent)


def _reduced(aggregation: Aggregation, x: Tensor, axes: Axes, keepdims: bool, empty: Operand | None = None) -> Tensor:
    """Aggregate ``x`` over axes; even over no axes it is a contraction, so that dtypes do not depend on that.

    Over no elements it is ``empty``, by default 0.
    """
    gone = axes_of(x, axes)
    source, dims = indices_of(x), dims_of(x)
    kept = [axis for axis in range(len(source)) if keepdims or axis not in gone]
    indices = [0 if axis in gone else source[axis] for axis in kept]
    sizes = [1 if axis in gone else dims[axis] for axis in kept]
    default = None if empty is None else full(x, sizes, empty)
    return aggregate(aggregation, x[source], indices, sizes, default=default)


def _mean(x: Tensor, axes: Axes, keepdims: bool) -> Tensor:
    return sum(x, axes, keepdims=keepdims) / real(_count(x, axes))


def _variance(x: Tensor, axes: Axes, correction: float, keepdims: bool) -> Tensor:
    distance = x - _mean(x, axes, True)
    total = sum(distance * distance, axes, keepdims=keepdims)
    count = real(_count(x, axes))
    return total / (call("max", count - correction, 0) if correction else count)  # type: ignore[operator, arg-type]  # sizes take floats here


def _count(x: Tensor, axes: Axes) -> Size:
    """Return the number of elements over axes."""
    dims = dims_of(x)
    count = dim_like(x, 1)
    for axis in axes_of(x, axes):
        count = dims[axis] * count
    return count


def _position(combine: str, x: Tensor, axis: int | None, keepdims: bool, ties: str) -> Tensor:
    chosen(ties, ("first", "last"), "ties")
    gone = axes_of(x, axis)
    kept = [1 if place in gone else dim for place, dim in enumerate(dims_of(x))]
    if axis is None:
        x, axis = call("reshape", x, _count(x, None)), 0
    _, position = reduce(combine if ties == "first" else f"last_{combine}", x, axis_of(x, axis))
    return call("reshape", position, *kept) if keepdims else position
