"""Gathers and updates of elements at data-dependent places."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import wide, widened, with_axis
from tileir_torch.rows.reductions import vector_norm
from tileir_torch.rows.table import row


def counted(indices: Tensor, size: int) -> Tensor:
    """Return non-negative places for those that may count from the end."""
    places = ops.cast(indices, DType.I64)
    return ops.where(places < 0, places + size, places)


@row("embedding.default")
def embedding(call: Call, table: Tensor, indices: Tensor, *_: Any) -> Tensor:
    return ops.take(table, indices, 0)


@row("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(
    call: Call,
    table: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding: int = -1,
) -> tuple[Tensor, ...]:
    """Return sums or means of the rows of each bag, and for gradients the bag of each row, and the sizes of bags."""
    bags, width = call.importer.sizes(call.value[0])
    count = int(indices.size)
    if mode not in (0, 1) or not count or not bags:
        raise call.refuse("bags of no rows, and the greatest elements of bags, are left to eager")
    offsets = ops.slice(ops.cast(offsets, DType.I64), slice(0, bags))
    numbers = call.tensor(np.arange(count).reshape(count, 1))
    bag_of = ops.sum(ops.cast(numbers >= offsets, DType.I64), [1]) - 1
    indices = ops.cast(indices, DType.I64)
    counted_rows = ops.cast(indices != padding, DType.I64)
    values = widened(ops.take(table, indices, 0))
    if weights is not None:
        values = values * ops.expand_dims(ops.cast(weights, values.dtype), 1)
    values = values * ops.expand_dims(ops.cast(counted_rows, values.dtype), 1)
    found = ops.scatter(call.full(0, (bags, width), values.dtype), bag_of, values)
    sizes = ops.scatter(call.full(0, (bags,), DType.I64), bag_of, counted_rows)
    if mode == 1:
        found = found / ops.expand_dims(ops.cast(ops.maximum(sizes, 1), found.dtype), 1)
    others = [call.importer.sizes(each) for each in call.value[1:]]
    known = (bag_of, sizes, call.full(0, (bags,), DType.I64))
    rest = [
        each if tuple(each.shape) == wanted else call.full(0, wanted, DType.I64)
        for each, wanted in zip(known, others, strict=True)
    ]
    return (found, *rest)


@row("embedding_dense_backward.default")
def embedding_backward(
    call: Call, g: Tensor, indices: Tensor, count: int, padding: int, scale_by_frequency: bool
) -> Tensor:
    if scale_by_frequency:
        raise call.refuse("it scales gradients by frequency")
    flat = prod(int(size) for size in indices.shape)
    g = ops.cast(g, wide(g.dtype))
    rows, width = ops.reshape(ops.cast(indices, DType.I64), flat), int(g.shape[-1])
    updates = ops.reshape(g, flat, width)
    if padding >= 0:
        updates = ops.where(ops.reshape(rows == padding, flat, 1), 0, updates)
    return ops.scatter(call.full(0, (count, width), g.dtype), rows, updates)


@row("index_select.default")
def index_select(call: Call, x: Tensor, dim: int, index: Tensor) -> Tensor:
    found = ops.take(with_axis(x), with_axis(index), dim % max(x.rank, 1))
    return ops.reshape(found, *call.sizes) if call.sizes else ops.reshape(found)


def _spread(call: Call, x: Tensor, indices: Sequence[Tensor | None]) -> tuple[list[int], Tensor, tuple[int, ...]]:
    """Return the indexed axes, the points [..., axes], and the broadcast sizes of the indices."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype.is_bool for index in given) or (
        len(given) > 0 and any(index.dtype is DType.U8 for index in given)
    ):
        raise call.refuse("masks choose how many elements there are")
    places = [counted(index, int(x.shape[axis])) for axis, index in zip(axes, given, strict=True)]
    whole = places[0]
    for each in places[1:]:
        whole = whole + each * 0
    sizes = tuple(int(size) for size in whole.shape)
    spread = [ops.broadcast_to(each, *sizes) if sizes else each for each in places]
    return axes, ops.stack(spread, len(sizes)), sizes


@row("index.Tensor", "_unsafe_index.Tensor")
def index(call: Call, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    if not any(each is not None for each in indices):
        return x
    axes, points, sizes = _spread(call, x, indices)
    if len(axes) == 1:
        return ops.take(x, ops.reshape(points, *sizes), axes[0])
    others = [axis for axis in range(x.rank) if axis not in axes]
    found = ops.gather_nd(ops.transpose(x, (*axes, *others)), points)
    if axes == list(range(axes[0], axes[0] + len(axes))) and axes[0]:
        count, before = len(sizes), axes[0]
        order = (*range(count, count + before), *range(count), *range(count + before, found.rank))
        return ops.transpose(found, order)
    return found


@row("index_put.default", "_unsafe_index_put.default", "index_put.hacked_twin")
def index_put(
    call: Call, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False, *_: Any
) -> Tensor:
    given = [each for each in indices if each is not None]
    if len(given) == 1 and given[0].dtype.is_bool:
        return _masked_put(call, x, indices, values, accumulate)
    axes, points, sizes = _spread(call, x, indices)
    others = [axis for axis in range(x.rank) if axis not in axes]
    rest = tuple(int(x.shape[axis]) for axis in others)
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    before = axes[0] if adjacent else 0
    shape = (*rest[:before], *sizes, *rest[before:])
    values = ops.cast(values, x.dtype)
    updates = ops.broadcast_to(values, *shape) if shape else values
    count = len(sizes)
    updates = (
        ops.transpose(updates, (*range(before, before + count), *range(before), *range(before + count, len(shape))))
        if shape
        else updates
    )
    order = (*axes, *others)
    dtype = wide(x.dtype)
    moved = ops.cast(ops.transpose(x, order), dtype)
    updates = ops.reshape(ops.cast(updates, dtype), prod(sizes), *rest)
    points = ops.reshape(points, prod(sizes), len(axes))
    found = ops.scatter_nd(moved, points, updates, mode="add" if accumulate else "set")
    back = sorted(range(x.rank), key=order.__getitem__)
    return ops.transpose(found, back)


def _masked_put(call: Call, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> Tensor:
    """Return elements with those under a mask replaced by one number."""
    before = next(axis for axis, each in enumerate(indices) if each is not None)
    mask = indices[before]
    assert mask is not None
    if any(int(size) != 1 for size in values.shape):
        raise call.refuse("masks choose how many elements there are")
    mask = ops.reshape(mask, *[1] * before, *mask.shape, *[1] * (x.rank - before - mask.rank))
    value = ops.cast(ops.reshape(values), x.dtype)
    return ops.where(mask, x + value if accumulate else value, x)


def _like_indices(source: Any, index: Tensor) -> Any:
    """Return the part of a source that matches indices."""
    if not isinstance(source, Tensor) or tuple(source.shape) == tuple(index.shape):
        return source
    return ops.slice(source, *[slice(0, int(size)) for size in index.shape])


@row("gather.default")
def gather(call: Call, x: Tensor, dim: int, index: Tensor, **_: Any) -> Tensor:
    if not x.rank or not index.rank:
        return ops.reshape(ops.take(with_axis(x), with_axis(index), 0), *call.sizes)
    if not int(index.size):
        return call.full(0, call.sizes, x.dtype)
    dim %= x.rank
    keys = [slice(None) if axis == dim else slice(0, int(size)) for axis, size in enumerate(index.shape)]
    return ops.take_along_axis(ops.slice(x, *keys), ops.cast(index, DType.I64), dim)


REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


def scattered(call: Call, x: Tensor, dim: int, index: Tensor, source: Any, mode: str) -> Tensor:
    """Return elements updated along an axis; indices may have fewer elements along the other axes, or none."""
    if not int(index.size):
        return x
    shape, x, index = x.shape, with_axis(x), ops.cast(with_axis(index), DType.I64)
    source = with_axis(source) if isinstance(source, Tensor) else source
    dim %= x.rank
    dtype = wide(x.dtype) if mode != "set" else x.dtype
    source = ops.cast(_like_indices(source, index), dtype) if isinstance(source, Tensor) else source
    if not isinstance(source, Tensor):
        source = call.full(source, [int(size) for size in index.shape], dtype)
    y = ops.cast(x, dtype)
    count, width = prod(int(size) for size in x.shape), [int(size) for size in x.shape]
    number: Any = None
    for axis in range(x.rank):
        along = index if axis == dim else ops.index(index, axis)
        number = ops.cast(along, DType.I64) if number is None else number * width[axis] + ops.cast(along, DType.I64)
    flat = prod(int(size) for size in index.shape)
    found = ops.scatter(ops.reshape(y, count), ops.reshape(number, flat), ops.reshape(source, flat), mode=mode)
    return ops.reshape(found, *shape)


@row("scatter.src", "scatter.value")
def scatter(call: Call, x: Tensor, dim: int, index: Tensor, source: Any) -> Tensor:
    return scattered(call, x, dim, index, source, "set")


@row("scatter.reduce", "scatter.value_reduce")
def scatter_reducing(call: Call, x: Tensor, dim: int, index: Tensor, source: Any, *, reduce: str) -> Tensor:
    return scattered(call, x, dim, index, source, REDUCTIONS[reduce])


@row("scatter_add.default")
def scatter_add(call: Call, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return scattered(call, x, dim, index, source, "add")


@row("scatter_reduce.two")
def scatter_reduce(
    call: Call, x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    first = x
    if not include_self:
        start = _NEUTRAL[reduce]
        neutral = _limit(x.dtype, largest=reduce == "amin") if start is None else start
        first = scattered(call, x, dim, index, call.full(neutral, [int(n) for n in index.shape], x.dtype), "set")
    if reduce != "mean":
        return scattered(call, first, dim, index, source, REDUCTIONS[reduce])
    ones = call.full(1, [int(size) for size in index.shape], DType.I32)
    counts = scattered(call, call.full(int(include_self), call.sizes, DType.I32), dim, index, ones, "add")
    counts = ops.maximum(counts, 1)
    dtype = wide(x.dtype)
    total = ops.cast(scattered(call, ops.cast(first, dtype), dim, index, ops.cast(source, dtype), "add"), dtype)
    if dtype.is_float:
        return total / ops.cast(counts, dtype)
    return ops.floor_divide(total, ops.cast(counts, dtype))


_NEUTRAL: dict[str, Any] = {"sum": 0, "mean": 0, "prod": 1, "amax": None, "amin": None}
"""Initial values of reductions; None for the extreme of the dtype."""


def _limit(dtype: DType, *, largest: bool) -> Any:
    if dtype.is_float:
        return float("inf") if largest else float("-inf")
    if dtype.is_bool:
        return largest
    limits = np.iinfo(dtype.numpy)
    return int(limits.max if largest else limits.min)


@row("index_add.default")
def index_add(call: Call, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    if not int(x.size):
        return x  # eager ignores indices then
    dtype, y, s = wide(x.dtype), with_axis(x), with_axis(source)
    updates = ops.cast(s, dtype)
    updates = updates if alpha == 1 else updates * call.number(alpha, dtype)
    found = ops.scatter(ops.cast(y, dtype), with_axis(index), updates, axis=dim % y.rank)
    return ops.reshape(found, *x.shape)


@row("index_copy.default")
def index_copy(call: Call, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    y = with_axis(x)
    found = ops.scatter(y, with_axis(index), with_axis(source), axis=dim % y.rank, mode="set")
    return ops.reshape(found, *x.shape)


@row("embedding_renorm.default")
def embedding_renorm(call: Call, table: Tensor, indices: Tensor, max_norm: float, order: float) -> Tensor:
    """Return a table with the indexed rows shortened to ``max_norm``."""
    rows, dtype = int(table.shape[0]), wide(table.dtype)
    count = int(indices.size)
    ones = call.full(1, (count,), DType.I32)
    used = ops.scatter(call.full(0, (rows,), DType.I32), ops.reshape(indices, count), ones, mode="max")
    norms = vector_norm(call, ops.cast(table, dtype), order, [1], True)
    is_long = ops.logical_and(ops.expand_dims(used, 1) > 0, norms > float(max_norm))
    return ops.where(is_long, ops.cast(table, dtype) * (float(max_norm) / (norms + 1e-7)), ops.cast(table, dtype))
