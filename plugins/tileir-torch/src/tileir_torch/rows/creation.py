"""Tensors made without others, or with the sizes of others."""

from __future__ import annotations

from typing import Any

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.table import row


@row("full.default", "full_like.default", "fill.Scalar", "new_full.default")
def full(call: Call, *arguments: Any, **_: Any) -> Tensor:
    value = arguments[1] if len(arguments) < 3 else arguments[2]
    return call.full(value, call.sizes, call.dtype)


@row("fill.Tensor")
def filled(call: Call, x: Tensor, value: Tensor) -> Tensor:
    return ops.broadcast_to(ops.cast(value, x.dtype), *call.sizes) if x.rank else ops.cast(value, x.dtype)


@row("zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format", "empty_like.default")
@row(
    "empty_strided.default", "new_empty.default", "new_empty_strided.default", "empty_permuted.default", "zero.default"
)
def zeros(call: Call, *_: Any, **__: Any) -> Tensor:
    return call.full(0, call.sizes, call.dtype)


@row("ones.default", "ones_like.default", "new_ones.default")
def ones(call: Call, *_: Any, **__: Any) -> Tensor:
    return call.full(1, call.sizes, call.dtype)


@row("scalar_tensor.default")
def scalar_tensor(call: Call, value: Any, **_: Any) -> Tensor:
    return call.full(value, (), call.dtype)


@row("arange.start_step", "arange.start", "arange.default", "prims.iota.default")
def arange(call: Call, *numbers: Any, **_: Any) -> Any:
    start, stop, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if not all(isinstance(each, int) for each in (start, stop, step)):
        start, step = float(start), float(step)
        counted = ops.arange(call.full(0, (), DType.I32), 0, call.sizes[0], dtype="i64")
        return start + step * ops.cast(counted, DType.F64)
    return ops.arange(call.full(0, (), DType.I32), 0, call.sizes[0], dtype="i64") * step + start
