"""Sums, extrema and other reductions, and scans along an axis."""

from __future__ import annotations

from math import inf, prod as product
from typing import Any

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import axes_of, wide, with_axis
from tileir_torch.rows.table import row


def _reduced(call: Call, x: Tensor, dim: Any, keepdim: bool) -> tuple[Tensor, dict[str, Any]]:
    """Return a tensor in the dtype to compute in, and the arguments of a reduction."""
    return call.operand(x, wide(call.dtype)), {"axes": axes_of(dim, x.rank), "keepdims": keepdim}


@row("sum.default", "sum.dim_IntList")
def sum_of(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    x, named = _reduced(call, x, dim, keepdim)
    return ops.sum(x, **named) if x.rank else x


@row("mean.default", "mean.dim")
def mean(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    x, named = _reduced(call, x, dim, keepdim)
    if not x.rank:
        return x
    return ops.sum(x, **named) / float(product(int(x.shape[axis]) for axis in named["axes"]))


@row("prod.default", "prod.dim_int")
def prod(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    x, named = _reduced(call, x, dim, keepdim)
    return ops.prod(x, **named) if x.rank else x


@row("amax.default", "max.default")
def amax(call: Call, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    if not x.rank:
        return x
    return ops.max(x, axes_of(dim, x.rank), keepdims=keepdim)


@row("amin.default", "min.default")
def amin(call: Call, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    if not x.rank:
        return x
    return ops.min(x, axes_of(dim, x.rank), keepdims=keepdim)


@row("any.default", "any.dim", "any.dims")
def any_of(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    truth = x if x.dtype.is_bool else x != 0
    return ops.any(truth, axes_of(dim, x.rank), keepdims=keepdim) if x.rank else truth


@row("all.default", "all.dim", "all.dims")
def all_of(call: Call, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    truth = x if x.dtype.is_bool else x != 0
    return ops.all(truth, axes_of(dim, x.rank), keepdims=keepdim) if x.rank else truth


def _place(call: Call, x: Tensor, dim: int | None, keepdim: bool, word: str) -> Tensor:
    """Return the place of the first extreme element, or of the first NaN."""
    function = ops.argmax if word == "max" else ops.argmin
    x = ops.cast(x, DType.I32) if x.dtype.is_bool else x
    if not x.rank:
        return call.full(0, (), DType.I64)
    if dim is None:
        flat = ops.reshape(x, x.size)
        return ops.reshape(_place(call, flat, 0, True, word), *call.sizes)
    found = function(x, dim % x.rank, keepdims=True)
    if x.dtype.is_float:
        is_nan = ops.cast(x != x, DType.I32)
        found = ops.where(
            ops.max(is_nan, [dim % x.rank], keepdims=True) > 0, ops.argmax(is_nan, dim % x.rank, keepdims=True), found
        )
    return found if keepdim else ops.squeeze(found, dim % x.rank)


@row("argmax.default")
def argmax(call: Call, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _place(call, x, dim, keepdim, "max")


@row("argmin.default")
def argmin(call: Call, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _place(call, x, dim, keepdim, "min")


@row("max.dim")
def max_along(call: Call, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return amax(call, x, [dim], keepdim), _place(call, x, dim, keepdim, "max")


@row("min.dim")
def min_along(call: Call, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return amin(call, x, [dim], keepdim), _place(call, x, dim, keepdim, "min")


def _variance(call: Call, x: Tensor, dim: Any, correction: Any, keepdim: bool) -> tuple[Tensor, Tensor]:
    x = with_axis(call.operand(x, wide(call.dtype)))
    axes = axes_of(dim, x.rank)
    count = product(int(x.shape[axis]) for axis in axes)
    mean = ops.sum(x, axes, keepdims=True) / float(count)
    centred = x - mean
    divisor = max(count - (1 if correction is None else correction), 0)
    found = ops.sum(centred * centred, axes, keepdims=True) / float(divisor)
    return tuple(ops.reshape(each, *call.sizes) for each in (found, mean))  # type: ignore[return-value]


@row("var.correction", "var.dim", "var.default")
def variance(
    call: Call, x: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = 1
) -> Tensor:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = correction if unbiased else 0
    return _variance(call, x, dim, correction, keepdim)[0]


@row("std.correction", "std.dim", "std.default")
def deviation(
    call: Call, x: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = 1
) -> Tensor:
    return ops.sqrt(variance(call, x, dim, unbiased, keepdim, correction=correction))


@row("var_mean.correction")
def variance_and_mean(
    call: Call, x: Tensor, dim: Any = None, *, correction: Any = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _variance(call, x, dim, correction, keepdim)


@row("std_mean.correction")
def deviation_and_mean(
    call: Call, x: Tensor, dim: Any = None, *, correction: Any = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    found, mean = _variance(call, x, dim, correction, keepdim)
    return ops.sqrt(found), mean


@row("logsumexp.default")
def logsumexp(call: Call, x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    x, named = _reduced(call, x, dim, keepdim)
    return ops.logsumexp(x, **named) if x.rank else x


@row("linalg_vector_norm.default")
def vector_norm(
    call: Call, x: Tensor, order: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    x, named = _reduced(call, x, dim, keepdim)
    x = ops.abs(x)
    if not x.rank:
        return x if order else x != 0
    if order == 0:
        return ops.sum(ops.cast(x != 0, x.dtype), **named)
    if order in (inf, -inf):
        return (ops.max if order > 0 else ops.min)(x, **named)
    if order == 1:
        return ops.sum(x, **named)
    if order == 2:
        return ops.sqrt(ops.sum(x * x, **named))
    return ops.pow(ops.sum(ops.pow(x, float(order)), **named), 1 / float(order))


@row("cumsum.default")
def cumsum(call: Call, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    x = call.operand(x, wide(call.dtype))
    return ops.cumsum(x, dim % x.rank) if x.rank else x


@row("cumprod.default")
def cumprod(call: Call, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    x = call.operand(x, wide(call.dtype))
    return ops.cumprod(x, dim % x.rank) if x.rank else x


@row("logcumsumexp.default")
def logcumsumexp(call: Call, x: Tensor, dim: int) -> Tensor:
    x = call.operand(x, wide(call.dtype))
    return ops.logcumsumexp(x, dim % x.rank) if x.rank else x


@row("count_nonzero.dim_IntList", "count_nonzero.default")
def count_nonzero(call: Call, x: Tensor, dim: Any = None) -> Tensor:
    counted = ops.cast(x != 0, DType.I64)
    return ops.sum(counted, axes_of(dim, x.rank)) if x.rank else counted
