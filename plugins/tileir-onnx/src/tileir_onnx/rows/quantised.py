"""Operators on quantised numbers: narrow integers or floats, with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.narrow import NARROW
from tileir_onnx.rows.arguments import like, padding_of
from tileir_onnx.rows.table import row


@row("QuantizeLinear")
@row("QuantizeLinear", domain="com.microsoft")
def quantize_linear(
    call: Call,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    kind = output_dtype if zero_point is None else call.kind(2)
    if kind is not None and kind in NARROW:
        return _narrow(call, kind, x, scale, zero_point, axis, block_size)
    dtype = zero_point.dtype if zero_point is not None else call.dtype(output_dtype) if output_dtype else DType.U8
    return ops.quantize_linear(
        x,
        scale,
        zero_point,
        axis=axis,
        block_size=block_size,
        dtype=dtype,
        saturate=bool(saturate),
        precision=call.dtype(precision) if precision else None,
    )


def _narrow(
    call: Call, kind: int, x: Tensor, scale: Tensor, zero_point: Tensor | None, axis: int, block_size: int
) -> Tensor:
    """Return narrow quantised numbers: clamped integers, or the nearest floats."""
    narrow = NARROW[kind]
    if not narrow.is_float:
        y = ops.quantize_linear(x, scale, zero_point, axis=axis, block_size=block_size, dtype=narrow.held)
        return call.of_kind(like(ops.clip(y, *narrow.limits), y), kind)
    if block_size:
        raise call.fault("blocks of 4-bit floats are not served")
    if scale.rank == 1:
        scale = ops.reshape(scale, *(-1 if at == axis % x.rank else 1 for at in range(x.rank)))
    return call.of_kind(narrow.cast(x / scale), kind)


@row("DequantizeLinear")
@row("DequantizeLinear", domain="com.microsoft")
def dequantize_linear(
    call: Call,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    dtype = call.dtype(output_dtype) if output_dtype else None
    return ops.dequantize_linear(x, scale, zero_point, axis=axis, block_size=block_size, dtype=dtype)


@row("DynamicQuantizeLinear")
def dynamic_quantize_linear(call: Call, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return ops.dynamic_quantize_linear(x)


@row("MatMulInteger")
def matmul_integer(
    call: Call, x: Tensor, y: Tensor, x_zero_point: Tensor | None = None, y_zero_point: Tensor | None = None
) -> Tensor:
    return ops.matmul_integer(x, y, x_zero_point, y_zero_point)


@row("QLinearMatMul")
def qlinear_matmul(
    call: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    scale: Tensor,
    zero_point: Tensor,
) -> Tensor:
    total = ops.matmul_integer(x, y, x_zero_point, y_zero_point)
    factor = _rows(total, x_scale) * y_scale / _rows(total, scale)
    return ops.requantize_linear(total, factor, _rows(total, zero_point), axis=-1, dtype=zero_point.dtype)


def _rows(total: Tensor, scale: Tensor) -> Tensor:
    """Return a scale per row of matrices in a form that broadcasts; a single number unchanged."""
    if scale.rank != 1 or total.rank < 2:
        return scale
    return ops.reshape(scale) if scale.shape[0] == 1 else ops.reshape(scale, *[1] * (total.rank - 2), -1, 1)


@row("ConvInteger")
def conv_integer(
    call: Call,
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    options: dict[str, Any] = {"stride": strides or 1, "dilation": dilations or 1, "groups": group}
    options["padding"] = padding_of(auto_pad, pads, x.rank - 2)
    return ops.conv_integer(x, w, _scalar(x_zero_point), w_zero_point, **options)


@row("QLinearConv")
def qlinear_conv(
    call: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    options: dict[str, Any] = {"stride": strides or 1, "dilation": dilations or 1, "groups": group}
    options["padding"] = padding_of(auto_pad, pads, x.rank - 2)
    total = ops.conv_integer(x, w, _scalar(x_zero_point), w_zero_point, bias, **options)
    factor = ops.reshape(x_scale) * w_scale / ops.reshape(scale)
    return ops.requantize_linear(total, factor, _scalar(zero_point), axis=1, dtype=zero_point.dtype)


def _scalar(x: Tensor | None) -> Tensor | None:
    """Return a tensor of one element without axes."""
    return x if x is None or not x.rank else ops.reshape(x)
