"""Updates of flat tensors at places, and masked updates."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import widened, with_axis
from tileir_torch.rows.indexing import counted, scatter_reduce
from tileir_torch.rows.table import row


@row("take.default")
def take(call: Call, x: Tensor, index: Tensor) -> Tensor:
    if not prod(call.sizes):
        return call.full(0, call.sizes, x.dtype)
    flat = ops.reshape(x, int(x.size))
    return ops.take(flat, counted(index, int(x.size)), 0)


@row("put.default")
def put(call: Call, x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    count = int(index.size)
    if not count:
        return x
    places, values = counted(ops.reshape(index, count), int(x.size)), ops.reshape(source, count)
    found = ops.scatter(ops.reshape(x, int(x.size)), places, values, mode="add" if accumulate else "set")
    return ops.reshape(found, *call.sizes)


@row("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(call: Call, x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    y = with_axis(x)
    sizes = [int(size) for size in y.shape]
    places = counted(with_axis(index), sizes[dim])
    sizes[dim] = int(places.shape[0])
    if not prod(sizes):
        return x
    filled = ops.broadcast_to(ops.cast(value, x.dtype), *sizes) if isinstance(value, Tensor) else None
    updates = call.full(value, sizes, x.dtype) if filled is None else filled
    return ops.reshape(ops.scatter(y, places, updates, axis=dim % y.rank, mode="set"), *x.shape)


@row("index_reduce.default")
def index_reduce(
    call: Call, x: Tensor, dim: int, indices: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    dim %= max(x.rank, 1)
    places = with_axis(indices)
    sizes = [int(places.shape[0]) if at == dim else 1 for at in range(max(x.rank, 1))]
    spread = [int(places.shape[0]) if at == dim else int(each) for at, each in enumerate(with_axis(x).shape)]
    indices = ops.broadcast_to(ops.reshape(places, *sizes), *spread)
    return scatter_reduce(call, x, dim, indices, source, reduce, include_self=include_self)


@row("masked_scatter.default")
def masked_scatter(call: Call, x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Take elements of the source in order, one for each true element of the mask."""
    sizes = call.sizes
    count = prod(sizes)
    if not count or not source.size:
        return ops.broadcast_to(x, *sizes) if sizes else x
    mask, x = (ops.broadcast_to(each, *sizes) if sizes else each for each in (mask, x))
    number = ops.cumsum(ops.reshape(ops.cast(mask, DType.I64), count), 0) - 1
    taken = ops.take(ops.reshape(source, int(source.size)), ops.maximum(number, 0), 0)
    return ops.where(mask, ops.reshape(taken, *sizes), x)


@row("masked_scatter_backward.default")
def masked_scatter_backward(call: Call, g: Tensor, mask: Tensor, sizes: Any) -> Tensor:
    """Return the gradients of true elements of the mask, packed, followed by zeros."""
    count, room = prod(int(size) for size in g.shape), prod(sizes)
    if not count or not room:
        return call.full(0, call.sizes, call.dtype)
    mask = ops.reshape(ops.broadcast_to(mask, *g.shape), count)
    number = ops.maximum(ops.cumsum(ops.cast(mask, DType.I64), 0) - 1, 0)
    given = ops.where(mask, ops.reshape(g, count), call.full(0, (count,), g.dtype))
    return ops.reshape(ops.scatter(call.full(0, (room,), g.dtype), number, given), *call.sizes)


@row("unfold_backward.default")
def unfold_backward(call: Call, g: Tensor, sizes: Sequence[int], dim: int, size: int, step: int) -> Tensor:
    if not sizes:
        return ops.reshape(g)
    dim %= len(sizes)
    count = int(g.shape[dim])
    places = (np.arange(count)[:, None] * step + np.arange(size)[None, :]).ravel()
    if not places.size or not g.size:
        return call.full(0, sizes, g.dtype)
    moved = ops.moveaxis(widened(g), -1, dim + 1)
    joined = ops.reshape(moved, *moved.shape[:dim], count * size, *moved.shape[dim + 2 :])
    return ops.scatter(call.full(0, sizes, joined.dtype), call.tensor(places), joined, axis=dim)
