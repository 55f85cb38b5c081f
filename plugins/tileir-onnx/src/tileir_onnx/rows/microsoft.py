"""Operators of ``com.microsoft``, which onnxruntime writes into models that it has optimised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.arguments import like, padding_of, wide
from tileir_onnx.rows.reductions import softmax, softmax_before_13
from tileir_onnx.rows.table import row
from tileir_onnx.rows.windows import average_pool

Results = tuple[Tensor | None, ...]

_own: Final = partial(row, domain="com.microsoft")


@_own("FusedMatMul")
def fused_matmul(
    call: Call,
    x: Tensor,
    y: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    if transBatchA or transBatchB:
        raise call.fault("batches that are transposed are not served; transpose them before the product")
    left = ops.swapaxes(x, -1, -2) if transA and x.rank > 1 else x
    right = ops.swapaxes(y, -1, -2) if transB and y.rank > 1 else y
    return like(ops.matmul(left, right) * alpha if alpha != 1 else ops.matmul(left, right), x)


@_own("Gelu")
def gelu(call: Call, x: Tensor) -> Tensor:
    return ops.gelu(x)


@_own("BiasGelu")
def bias_gelu(call: Call, x: Tensor, bias: Tensor) -> Tensor:
    return ops.gelu(x + bias)


@_own("FastGelu")
def fast_gelu(call: Call, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return ops.gelu(x if bias is None else x + bias, approximate="tanh")


@_own("QuickGelu")
def quick_gelu(call: Call, x: Tensor, *, alpha: float = 1.702) -> Tensor:
    y = wide(x)
    return like(y * ops.sigmoid(alpha * y), x)


@row("SimplifiedLayerNormalization")
@_own("SimplifiedLayerNormalization")
def simplified_layer_norm(
    call: Call, x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Results:
    axes = list(range(axis + x.rank * (axis < 0), x.rank))
    result = like(ops.rms_norm(x, scale, axes=axes, epsilon=epsilon), x)
    if len(call.outputs) < 2:
        return (result,)
    squares = wide(x) * wide(x)
    return result, ops.rsqrt(ops.mean(squares, axes, keepdims=True) + epsilon)


@_own("SkipLayerNormalization")
def skip_layer_norm(
    call: Call,
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> Results:
    total = _skipped(x, skip, bias)
    result = like(ops.layer_norm(total, gamma, beta, epsilon=epsilon), x)
    return result, *_moments(call, total, epsilon), like(total, x)


@_own("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_norm(
    call: Call, x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-12
) -> Results:
    total = _skipped(x, skip, bias)
    return like(ops.rms_norm(total, gamma, epsilon=epsilon), x), *_moments(call, total, epsilon), like(total, x)


def _skipped(x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    total = wide(x) + wide(skip)
    return total if bias is None else total + wide(bias)


def _moments(call: Call, total: Tensor, epsilon: float) -> tuple[Tensor | None, Tensor | None]:
    """Return the mean and the reciprocal of the deviation, if they are used."""
    if not any(call.outputs[1:3]):
        return None, None
    mean = ops.mean(total, -1, keepdims=True)
    return mean, ops.rsqrt(ops.variance(total, -1, keepdims=True) + epsilon)


@_own("GroupNorm")
def group_norm(
    call: Call,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    *,
    activation: int,
    groups: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    if activation not in (0, 1):
        raise call.fault(f"the activation is 0 for none or 1 for SiLU, not {activation}")
    axis = x.rank - 1 if channels_last else 1
    y = ops.group_norm(wide(x), groups, gamma, beta, axis=axis, epsilon=epsilon)
    return like(ops.silu(y) if activation else y, x)


@_own("SkipGroupNorm")
def skip_group_norm(
    call: Call,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    skip: Tensor,
    bias: Tensor | None = None,
    *,
    activation: int,
    groups: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
) -> Results:
    space = [1] * (x.rank - 2)
    if skip.rank == 2:
        skip = (
            ops.reshape(skip, *skip.shape[:1], *space, -1) if channels_last else ops.reshape(skip, *skip.shape, *space)
        )
    if bias is not None and not channels_last:
        bias = ops.reshape(bias, -1, *space)
    total = like(_skipped(x, skip, bias), x)
    options: dict[str, Any] = {"activation": activation, "groups": groups, "epsilon": epsilon}
    return group_norm(call, total, gamma, beta, channels_last=channels_last, **options), total


@_own("EmbedLayerNormalization")
def embed_layer_norm(
    call: Call,
    tokens: Tensor,
    segments: Tensor | None,
    words: Tensor,
    positions: Tensor,
    kinds: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    places: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Results:
    """Add embeddings of words, positions and segments, and normalise them; the mask becomes the number of words."""
    total = ops.embedding(words, tokens)
    if places is None:
        total = total + ops.narrow(positions, 0, 0, tokens.shape[1])
    else:
        total = total + ops.embedding(positions, places)
    if kinds is not None and segments is not None:
        total = total + ops.embedding(kinds, segments)
    counts = ops.sum(ops.cast(tokens, DType.I32) * 0 if mask is None else ops.cast(mask, DType.I32), 1)
    return like(ops.layer_norm(total, gamma, beta, epsilon=epsilon), words), counts, total


_ACTIVATIONS: Final[dict[str, Callable[..., Tensor]]] = {
    "Clip": ops.clip,
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: ops.clip(x * alpha + beta, 0, 1),
    "LeakyRelu": lambda x, alpha=0.01: ops.leaky_relu(x, negative_slope=alpha),
    "Relu": ops.relu,
    "Sigmoid": ops.sigmoid,
    "Tanh": ops.tanh,
}


@_own("FusedConv")
def fused_conv(
    call: Call,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    other: Tensor | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    options: dict[str, Any] = {"stride": strides or 1, "dilation": dilations or 1, "groups": group}
    result = ops.conv(x, w, bias, padding=padding_of(auto_pad, pads, x.rank - 2), **options)
    result = result if other is None else result + other
    if not activation:
        return result
    if activation not in _ACTIVATIONS:
        raise call.fault(f"the activation is one of {', '.join(_ACTIVATIONS)}, not {activation!r}")
    return like(_ACTIVATIONS[activation](result, *activation_params), x)


def _real(x: Tensor, scale: Tensor, zero_point: Tensor | None) -> Tensor:
    return ops.dequantize_linear(x, scale, zero_point)


def _quantised(y: Tensor, scale: Tensor, zero_point: Tensor | None, x: Tensor) -> Tensor:
    """Return a result in the dtype of the quantised input."""
    return ops.quantize_linear(y, scale, zero_point, dtype=x.dtype)


def _binary(operation: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def apply(
        call: Call,
        x: Tensor,
        x_scale: Tensor,
        x_zero: Tensor | None,
        y: Tensor,
        y_scale: Tensor,
        y_zero: Tensor | None,
        scale: Tensor,
        zero_point: Tensor | None = None,
    ) -> Tensor:
        return _quantised(operation(_real(x, x_scale, x_zero), _real(y, y_scale, y_zero)), scale, zero_point, x)

    return apply


_own("QLinearAdd")(_binary(lambda x, y: x + y))
_own("QLinearMul")(_binary(lambda x, y: x * y))


@_own("QLinearSigmoid")
def qlinear_sigmoid(
    call: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero_point: Tensor | None = None,
) -> Tensor:
    return _quantised(ops.sigmoid(_real(x, x_scale, x_zero)), scale, zero_point, x)


@_own("QLinearLeakyRelu")
def qlinear_leaky_relu(
    call: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    return _quantised(ops.leaky_relu(_real(x, x_scale, x_zero), negative_slope=alpha), scale, zero_point, x)


@_own("QLinearGlobalAveragePool")
def qlinear_global_average_pool(
    call: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    *,
    channels_last: int = 0,
) -> Tensor:
    axes = list(range(1, x.rank - 1)) if channels_last else list(range(2, x.rank))
    return _quantised(ops.mean(_real(x, x_scale, x_zero), axes, keepdims=True), scale, zero_point, x)


@_own("QLinearAveragePool")
def qlinear_average_pool(
    call: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    y = _real(ops.moveaxis(x, -1, 1) if channels_last else x, x_scale, x_zero)
    options: dict[str, Any] = {"auto_pad": auto_pad, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    y = average_pool(call, y, kernel_shape=kernel_shape, pads=pads, strides=strides, **options)
    return _quantised(ops.moveaxis(y, 1, -1) if channels_last else y, scale, zero_point, x)


@_own("QLinearConcat")
def qlinear_concat(call: Call, scale: Tensor, zero_point: Tensor, *inputs: Tensor, axis: int) -> Tensor:
    """Concatenate tensors, each followed by its scale and its zero point."""
    parts = [_real(*inputs[at : at + 3]) for at in range(0, len(inputs), 3)]
    return _quantised(ops.concatenate(parts, axis), scale, zero_point, zero_point)


@_own("QLinearWhere")
def qlinear_where(
    call: Call,
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    scale: Tensor,
    zero_point: Tensor,
) -> Tensor:
    chosen = ops.where(condition, _real(x, x_scale, x_zero), _real(y, y_scale, y_zero))
    return _quantised(chosen, scale, zero_point, x)


@_own("QLinearSoftmax")
def qlinear_softmax(
    call: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    scale: Tensor,
    zero_point: Tensor,
    *,
    opset: int,
    axis: int = -1,
) -> Tensor:
    y = (softmax if opset >= 13 else softmax_before_13)(call, _real(x, x_scale, x_zero), axis=axis)
    return _quantised(y, scale, zero_point, x)


@_own("QGemm")
def qgemm(
    call: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    c: Tensor | None = None,
    scale: Tensor | None = None,
    zero_point: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Multiply matrices of integers, and quantise the product if it has a scale; columns may have separate scales."""
    left, right = ops.transpose(x) if transA else x, ops.transpose(y) if transB else y
    total = ops.matmul_integer(left, right, x_zero, y_zero)
    factor = x_scale * y_scale * alpha
    total = total if c is None else total + c
    if scale is None:
        return ops.cast(total, x_scale.dtype) * factor
    return ops.requantize_linear(total, factor / scale, zero_point, axis=-1, dtype=x.dtype)


@_own("MatMulIntegerToFloat")
def matmul_integer_to_float(
    call: Call,
    x: Tensor,
    y: Tensor,
    x_scale: Tensor,
    y_scale: Tensor,
    x_zero: Tensor | None = None,
    y_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    result = ops.cast(ops.matmul_integer(x, y, x_zero, y_zero), x_scale.dtype) * (x_scale * y_scale)
    return result if bias is None else result + bias


@_own("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    call: Call,
    x: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    integers, scale, zero_point = ops.dynamic_quantize_linear(x)
    return matmul_integer_to_float(call, integers, y, scale, y_scale, zero_point, y_zero, bias)


@_own("MatMulNBits")
def matmul_n_bits(
    call: Call,
    x: Tensor,
    packed: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    groups: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    K: int,
    N: int,
    bits: int = 4,
    block_size: int,
    accuracy_level: int = 0,
) -> Tensor:
    """Multiply by a matrix whose columns are blocks of narrow integers, each with a scale and a zero point."""
    if bits not in (2, 4, 8) or groups is not None:
        raise call.fault("elements of 2, 4 or 8 bits are served, whose blocks are in order")
    blocks = -(-K // block_size)
    whole = ops.cast(_unpacked(ops.reshape(packed, N, blocks, -1), bits, block_size), x.dtype)
    if zero_points is None:
        offset: Tensor | int = 1 << (bits - 1)
    elif zero_points.dtype.is_float:
        offset = ops.reshape(zero_points, N, blocks, 1)
    else:
        offset = ops.cast(ops.reshape(_unpacked(ops.reshape(zero_points, N, -1), bits, blocks), N, blocks, 1), x.dtype)
    weights = ops.reshape((whole - offset) * ops.reshape(scales, N, blocks, 1), N, blocks * block_size)
    result = like(ops.matmul(x, ops.transpose(ops.narrow(weights, 1, 0, K))), x)
    return result if bias is None else result + bias


def _unpacked(x: Tensor, bits: int, count: int) -> Tensor:
    """Return the last axis of bytes as this many narrow integers, the low bits of a byte first."""
    if bits == DType.U8.bits:
        return x
    mask = (1 << bits) - 1
    parts = ops.stack([(x >> shift) & mask for shift in range(0, DType.U8.bits, bits)], -1)
    return ops.narrow(ops.reshape(parts, *x.shape[:-1], -1), -1, 0, count)
