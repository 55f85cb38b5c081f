"""Order along an axis: sorting, the greatest elements, and running extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.table import row


def _ordered(x: Tensor) -> Tensor:
    return ops.cast(x, DType.I8) if x.dtype.is_bool else x


@row("sort.default", "sort.stable")
def sort(
    call: Call, x: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> tuple[Tensor, Tensor]:
    if not x.rank:
        return x, call.full(0, (), DType.I64)
    places = ops.argsort(_ordered(x), dim % x.rank, descending=descending)
    return ops.take_along_axis(x, places, dim % x.rank), places


@row("argsort.default", "argsort.stable")
def argsort(call: Call, x: Tensor, *arguments: Any, **named: Any) -> Tensor:
    if "stable" in str(call.node.target):
        return sort(call, x, named.get("dim", -1), named.get("descending", False))[1]
    return sort(call, x, *arguments, **named)[1]


@row("topk.default")
def top_k(
    call: Call, x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    if not x.rank:
        return x, call.full(0, (), DType.I64)
    if k == 0:
        return call.full(0, call.sizes, call.dtype), call.full(0, call.sizes, DType.I64)
    if k == x.shape[dim % x.rank]:
        return sort(call, x, dim, largest)
    _, places = ops.top_k(_ordered(x), k, dim % x.rank, largest=largest)
    return ops.take_along_axis(x, places, dim % x.rank), places


@row("kthvalue.default")
def kth_value(call: Call, x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if not x.rank:
        return x, call.full(0, (), DType.I64)
    dim %= x.rank
    places = ops.narrow(ops.argsort(_ordered(x), dim), dim, k - 1, 1)
    found = ops.take_along_axis(x, places, dim)
    return (found, places) if keepdim else (ops.squeeze(found, dim), ops.squeeze(places, dim))


@row("median.default")
def median(call: Call, x: Tensor) -> Tensor:
    if not x.rank:
        return x
    count = int(x.size)
    flat = ops.reshape(x, count)
    found = ops.reshape(kth_value(call, flat, (count - 1) // 2 + 1, 0)[0])
    if not x.dtype.is_float:
        return found
    return ops.where(ops.any(flat != flat), call.number(float("nan"), x.dtype), found)


@row("median.dim")
def median_along(call: Call, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower of two middle elements, or the first NaN, and its place."""
    if not x.rank:
        return x, call.full(0, (), DType.I64)
    dim %= x.rank
    found, place = kth_value(call, x, (int(x.shape[dim]) - 1) // 2 + 1, dim, True)
    if x.dtype.is_float:
        is_nan = ops.cast(x != x, DType.I32)
        first = ops.cast(ops.argmax(is_nan, dim, keepdims=True), DType.I64)
        place = ops.where(ops.max(is_nan, [dim], keepdims=True) > 0, first, ops.cast(place, DType.I64))
        found = ops.take_along_axis(x, place, dim)
    return (found, place) if keepdim else (ops.squeeze(found, dim), ops.squeeze(place, dim))


@row("nanmedian.default")
def median_of_numbers(call: Call, x: Tensor) -> Tensor:
    if not x.rank:
        return x
    return ops.reshape(median_of_numbers_along(call, ops.reshape(x, int(x.size)), 0)[0])


@row("nanmedian.dim")
def median_of_numbers_along(call: Call, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower of two middle elements among those that are not NaN, and its place."""
    if not x.rank:
        return x, call.full(0, (), DType.I64)
    dim %= x.rank
    count = ops.sum(ops.cast(x == x, DType.I64), [dim], keepdims=True)
    middle = ops.floor_divide(ops.maximum(count - 1, 0), 2)
    place = ops.take_along_axis(ops.cast(ops.argsort(_ordered(x), dim), DType.I64), middle, dim)
    found = ops.take_along_axis(x, place, dim)
    return (found, place) if keepdim else (ops.squeeze(found, dim), ops.squeeze(place, dim))


@row("mode.default")
def mode(call: Call, x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the least of the most frequent elements, and a place of it."""
    if not x.rank:
        return x, call.full(0, (), DType.I64)
    dim %= x.rank
    places = ops.cast(ops.argsort(_ordered(x), dim), DType.I64)
    ordered = ops.moveaxis(ops.take_along_axis(x, places, dim), dim, -1)
    if int(ordered.size) * int(ordered.shape[-1]) > _MOST:
        raise call.refuse("elements are too many to compare all of them")
    same = ops.expand_dims(ordered, x.rank) == ops.expand_dims(ordered, x.rank - 1)
    counts = ops.moveaxis(ops.sum(ops.cast(same, DType.I32), [x.rank]), -1, dim)
    place = ops.take_along_axis(places, ops.cast(ops.argmax(counts, dim, keepdims=True), DType.I64), dim)
    found = ops.take_along_axis(x, place, dim)
    return (found, place) if keepdim else (ops.squeeze(found, dim), ops.squeeze(place, dim))


@row("histc.default")
def histogram(call: Call, x: Tensor, bins: int = 100, low: Any = 0, high: Any = 0) -> Tensor:
    """Return the number of elements between equidistant bounds, of which only the last belongs to its bin."""
    count = int(x.size)
    if not count:
        return call.full(0, call.sizes, call.dtype)
    if count * bins > _MOST:
        raise call.refuse("elements and bounds are too many to compare all of them")
    flat = ops.reshape(x, count, 1)
    if low == high:
        low, high = ops.min(x), ops.max(x)
        equal = low == high
        low, high = ops.where(equal, low - 1, low), ops.where(equal, high + 1, high)
    low, high = (call.operand(each, x.dtype) for each in (low, high))
    numbers = call.tensor(np.arange(bins).astype(x.dtype.numpy))
    step = (high - low) / float(bins)
    edges = ops.where(numbers < (bins + 1) // 2, low + step * numbers, high - step * (float(bins) - numbers))
    above = ops.sum(ops.cast(flat >= edges, DType.I64), [0])
    beyond = ops.sum(ops.cast(flat > high, DType.I64), [0])
    return above - ops.concatenate([ops.slice(above, slice(1, bins)), beyond], 0) if bins > 1 else above - beyond


def _found(call: Call, edges: Tensor, x: Tensor, right: bool) -> Tensor:
    """Return the number of edges, sorted along the last axis, before each value."""
    if int(edges.size) * int(x.size) > _MOST:
        raise call.refuse("values and edges are too many to compare all of them")
    dtype = DType.F64 if DType.F64 in (edges.dtype, x.dtype) or not x.dtype.is_float else edges.dtype
    dtype = dtype if edges.dtype is not x.dtype else x.dtype
    edges, x = ops.cast(edges, dtype), ops.cast(x, dtype)
    if edges.rank == 1:
        y = ops.expand_dims(x, x.rank)
        edges = ops.reshape(edges, *[1] * x.rank, edges.size)
    else:
        y, edges = ops.expand_dims(x, x.rank), ops.expand_dims(edges, edges.rank - 1)
    before = ops.logical_not(edges > y) if right else ops.logical_not(edges >= y)
    return ops.sum(ops.cast(before, DType.I64), [y.rank - 1])


_MOST = 1 << 24
"""Maximum number of comparisons up to which all edges are compared with all values."""


@row("bucketize.Tensor")
def bucketize(call: Call, x: Tensor, edges: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return _found(call, edges, x, right)


@row("searchsorted.Scalar")
def searchsorted_number(call: Call, edges: Tensor, x: Any, **named: Any) -> Tensor:
    return searchsorted(call, edges, ops.cast(call.tensor(np.asarray(x)), edges.dtype), **named)


@row("searchsorted.Tensor")
def searchsorted(
    call: Call,
    edges: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    if sorter is not None:
        edges = ops.take_along_axis(edges, sorter, edges.rank - 1)
    return _found(call, edges, x, right or side == "right")


@row("cummax.default")
def running_max(call: Call, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running(call, x, dim, "max")


@row("cummin.default")
def running_min(call: Call, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running(call, x, dim, "min")


def _running(call: Call, x: Tensor, dim: int, word: str) -> tuple[Tensor, Tensor]:
    if not x.rank:
        return x, call.full(0, (), DType.I64)
    if not x.size:
        return x, call.full(0, call.sizes, DType.I64)
    plain = ops.cast(x, DType.I8) if x.dtype.is_bool else x
    return (ops.cummax if word == "max" else ops.cummin)(plain, dim % x.rank)
