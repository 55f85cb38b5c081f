"""Matrix products."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tileir import ops
from tileir.tile.builder import Tensor
from tileir.tile.builder_functions import vjp
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import wide, widened
from tileir_torch.rows.table import row


def _scaled(call: Call, x: Tensor, factor: Any) -> Tensor:
    return x if factor == 1 else x * call.number(factor, x.dtype)


@row("mm.default", "bmm.default", "mv.default", "dot.default", "vdot.default")
def product(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return ops.matmul(x, y)


@row("matmul.default")
def matmul(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Multiply as one matrix product if one side is a single matrix, else as a batch, like eager."""
    if max(x.rank, y.rank) <= 2:
        return ops.matmul(x, y)
    if y.rank <= 2:
        depth = int(x.shape[-1])
        rows = prod(int(size) for size in x.shape[:-1])
        return ops.reshape(ops.matmul(ops.reshape(x, rows, depth), y), *call.sizes)
    x = ops.expand_dims(x, 0) if x.rank == 1 else x
    batch = np.broadcast_shapes(*(tuple(int(size) for size in each.shape[:-2]) for each in (x, y)))
    x, y = (
        ops.reshape(ops.broadcast_to(each, *batch, *each.shape[-2:]), prod(batch), *each.shape[-2:]) for each in (x, y)
    )
    return ops.reshape(ops.matmul(x, y), *call.sizes)


def _sum(call: Call, addend: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """Return a product and an addend, scaled; an addend scaled by 0 is ignored, even if it is not finite."""
    dtype = wide(call.dtype)
    product = _scaled(call, ops.cast(product, dtype), alpha)
    return product if beta == 0 else _scaled(call, ops.cast(addend, dtype), beta) + product


@row("addmm.default")
def add_product(call: Call, c: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    beta, alpha = (each if each == 1 else call.number(each, wide(call.dtype)) for each in (beta, alpha))
    return ops.gemm(x, y, None if beta == 0 else c, alpha=alpha, beta=beta)


@row("baddbmm.default", "addmv.default")
def add_products(call: Call, c: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _sum(call, c, ops.matmul(widened(x), y), beta, alpha)


@row("addbmm.default")
def add_sum_of_products(call: Call, c: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _sum(call, c, ops.sum(ops.matmul(widened(x), y), [0]), beta, alpha)


@row("addr.default")
def add_outer(call: Call, c: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _sum(call, c, ops.outer(widened(x), widened(y)), beta, alpha)


@row("linear.default")
def linear(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if weight.rank == 1:
        return ops.matmul(x, weight)
    return ops.linear(x, weight, bias)


@row("_cdist_forward.default")
def cdist(call: Call, x: Tensor, y: Tensor, p: float, mode: int | None = None) -> Tensor:
    return ops.cdist(x, y, order=float(p))


@row("_pdist_forward.default")
def pdist(call: Call, x: Tensor, p: float = 2) -> Tensor:
    return _distances(call, widened(x), p) if call.sizes[0] else call.full(0, call.sizes, call.dtype)


@row("_pdist_backward.default")
def pdist_backward(call: Call, g: Tensor, x: Tensor, p: float, distances: Tensor) -> Tensor:
    if not int(distances.size):
        return call.full(0, call.sizes, call.dtype)
    y = widened(x)
    found = vjp(_distances(call, y, p), widened(g), y)
    assert isinstance(found, Tensor)
    return found


def _distances(call: Call, x: Tensor, p: float) -> Tensor:
    """Return the distance of each pair of rows, those of the first row first."""
    rows, columns = np.triu_indices(int(x.shape[0]), 1)
    return ops.norm(ops.take(x, call.tensor(rows), 0) - ops.take(x, call.tensor(columns), 0), 1, order=float(p))


@row("_trilinear.default")
def trilinear(
    call: Call, x: Tensor, y: Tensor, z: Tensor, x_axes: Any, y_axes: Any, z_axes: Any, summed: Any, unroll: int = 1
) -> Tensor:
    """Multiply three tensors, each with inserted axes of 1 element, and sum over axes."""
    spread = []
    for tensor, axes in ((x, x_axes), (y, y_axes), (z, z_axes)):
        spread.append(widened(tensor))
        for axis in sorted(axes):
            spread[-1] = ops.expand_dims(spread[-1], axis)
    product = spread[0] * spread[1] * spread[2]
    return ops.sum(product, list(summed)) if summed else product


@row("trace.default")
def trace(call: Call, x: Tensor) -> Tensor:
    return ops.sum(ops.diagonal(ops.cast(x, call.dtype)), [0])
