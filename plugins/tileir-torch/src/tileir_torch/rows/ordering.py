"""Order along an axis: sorting, and the greatest elements."""

from __future__ import annotations

from typing import Any

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
