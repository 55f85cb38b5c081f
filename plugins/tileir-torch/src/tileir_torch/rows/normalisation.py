"""Normalisation, softmax, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import wide, widened
from tileir_torch.rows.table import row


def _statistics(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the mean and the biased variance along axes, which are kept."""
    count = float(prod(int(x.shape[axis]) for axis in axes))
    mean = ops.sum(x, list(axes), keepdims=True) / count
    centred = x - mean
    return mean, ops.sum(centred * centred, list(axes), keepdims=True) / count


def _scaled(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    y = y if weight is None else y * ops.cast(weight, y.dtype)
    return y if bias is None else y + ops.cast(bias, y.dtype)


@row("native_layer_norm.default")
def native_layer_norm(
    call: Call, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...]:
    y = widened(x)
    mean, variance = _statistics(y, range(x.rank - len(shape), x.rank))
    deviation = ops.rsqrt(variance + eps)
    return _scaled((y - mean) * deviation, weight, bias), mean, deviation


@row("layer_norm.default")
def layer_norm(
    call: Call,
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    return native_layer_norm(call, x, shape, weight, bias, eps)[0]


@row("rms_norm.default")
def rms_norm(
    call: Call, x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    return fused_rms_norm(call, x, shape, weight, eps)[0]


@row("_fused_rms_norm.default")
def fused_rms_norm(
    call: Call, x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> tuple[Tensor, Tensor]:
    y, axes = widened(x), list(range(x.rank - len(shape), x.rank))
    least = _EPSILON[wide(x.dtype)] if eps is None else eps
    count = float(prod(int(x.shape[axis]) for axis in axes))
    deviation = ops.rsqrt(ops.sum(y * y, axes, keepdims=True) / count + least)
    return _scaled(y * deviation, weight, None), deviation


_EPSILON = {DType.F32: 1.1920928955078125e-07, DType.F64: 2.220446049250313e-16}


@row("native_layer_norm_backward.default")
def native_layer_norm_backward(
    call: Call,
    g: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    deviation: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    g, y = widened(g), widened(x)
    inner, outer = list(range(x.rank - len(shape), x.rank)), list(range(x.rank - len(shape)))
    normal = (y - ops.cast(mean, y.dtype)) * ops.cast(deviation, y.dtype)
    by_x = by_weight = by_bias = None
    if output_mask[0]:
        count = float(prod(int(x.shape[axis]) for axis in inner))
        scaled = g if weight is None else g * ops.cast(weight, g.dtype)
        first = ops.sum(scaled, inner, keepdims=True) / count
        second = ops.sum(scaled * normal, inner, keepdims=True) / count
        by_x = (scaled - first - normal * second) * ops.cast(deviation, y.dtype)
    if output_mask[1] and weight is not None:
        by_weight = ops.sum(g * normal, outer) if outer else g * normal
    if output_mask[2]:
        by_bias = ops.sum(g, outer) if outer else g
    return by_x, by_weight, by_bias


@row("native_group_norm.default")
def native_group_norm(
    call: Call, x: Tensor, weight: Any, bias: Any, n: int, c: int, space: int, group: int, eps: float
) -> tuple[Tensor, ...]:
    y = ops.reshape(widened(x), n, group, c // group, space)
    mean, variance = _statistics(y, (2, 3))
    deviation = ops.rsqrt(variance + eps)
    normal = ops.reshape((y - mean) * deviation, *x.shape)
    weight, bias = (None if each is None else _channels(each, x.rank) for each in (weight, bias))
    return _scaled(normal, weight, bias), ops.reshape(mean, n, group), ops.reshape(deviation, n, group)


@row("group_norm.default")
def group_norm(
    call: Call, x: Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn: bool = True
) -> Tensor:
    n, c = int(x.shape[0]), int(x.shape[1])
    space = prod(int(size) for size in x.shape[2:])
    return native_group_norm(call, x, weight, bias, n, c, space, groups, eps)[0]


@row("native_group_norm_backward.default")
def native_group_norm_backward(
    call: Call,
    g: Tensor,
    x: Tensor,
    mean: Tensor,
    deviation: Tensor,
    weight: Tensor | None,
    n: int,
    c: int,
    space: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    sizes = (n, group, c // group, space)
    g4, y = ops.reshape(widened(g), *sizes), ops.reshape(widened(x), *sizes)
    mean, deviation = (ops.reshape(ops.cast(each, y.dtype), n, group, 1, 1) for each in (mean, deviation))
    normal = (y - mean) * deviation
    by_x = by_weight = by_bias = None
    if output_mask[0]:
        count = float(c // group * space)
        scaled = g4 if weight is None else g4 * ops.reshape(ops.cast(weight, y.dtype), 1, group, c // group, 1)
        first = ops.sum(scaled, [2, 3], keepdims=True) / count
        second = ops.sum(scaled * normal, [2, 3], keepdims=True) / count
        by_x = ops.reshape((scaled - first - normal * second) * deviation, *x.shape)
    if output_mask[1]:
        by_weight = ops.reshape(ops.sum(g4 * normal, [0, 3]), c)
    if output_mask[2]:
        by_bias = ops.reshape(ops.sum(g4, [0, 3]), c)
    return by_x, by_weight, by_bias


def _channels(x: Tensor, rank: int) -> Tensor:
    """Return values of channels, shaped as a factor of data with channels at axis 1."""
    return ops.reshape(x, 1, x.shape[0], *[1] * (rank - 2))


def _normalised(x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return data normalised by the statistics of channels, and the reciprocal of each channel's deviation."""
    y = widened(x)
    deviation = ops.rsqrt(ops.cast(variance, y.dtype) + eps)
    factor = deviation if weight is None else deviation * ops.cast(weight, y.dtype)
    shift = -ops.cast(mean, y.dtype) * factor
    shift = shift if bias is None else shift + ops.cast(bias, y.dtype)
    return y * _channels(factor, x.rank) + _channels(shift, x.rank), deviation


@row("batch_norm.default")
def batch_norm_by_mode(
    call: Call, x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, *options: Any
) -> Tensor:
    momentum, eps, _ = options
    if not training:
        return _normalised(x, weight, bias, mean, variance, eps)[0]
    if mean is not None or variance is not None:
        raise call.refuse("it writes to running statistics")
    return batch_norm_without_statistics(call, x, weight, bias, training, momentum, eps)[0]


@row("_native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    call: Call, x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    found, deviation = _normalised(x, weight, bias, mean, variance, eps)
    if call.importer.sizes(call.value[1]) == (0,):  # on processors nothing is kept
        return found, call.full(0, (0,), DType.F32), call.full(0, (0,), DType.F32)
    return found, mean, deviation


@row("_batch_norm_no_update.default")
def batch_norm_without_update(
    call: Call, x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    found = batch_norm_inference(call, x, weight, bias, mean, variance, momentum, eps)
    return *found, call.full(0, (0,), DType.U8)


@row("_native_batch_norm_legit_functional.default", "_batch_norm_with_update_functional.default")
def batch_norm(
    call: Call, x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, *options: Any
) -> tuple[Tensor, ...]:
    training, momentum, eps = options if len(options) == 3 else (True, *options)
    if not training:
        return (*batch_norm_inference(call, x, weight, bias, mean, variance, momentum, eps), mean, variance)
    y, axes = widened(x), [0, *range(2, x.rank)]
    own_mean, own_variance = _statistics(y, axes)
    deviation = ops.rsqrt(own_variance + eps)
    weight, bias = (None if each is None else _channels(each, x.rank) for each in (weight, bias))
    found = _scaled((y - own_mean) * deviation, weight, bias)
    flat_mean, flat_variance = (ops.reshape(each, x.shape[1]) for each in (own_mean, own_variance))
    count = prod(int(x.shape[axis]) for axis in axes)
    unbiased = flat_variance * (count / max(count - 1, 1))
    running = [
        ops.cast(old, y.dtype) * (1 - momentum) + new * momentum
        for old, new in ((mean, flat_mean), (variance, unbiased))
    ]
    reserve = [call.full(0, (0,), DType.U8)] if len(options) == 2 else []
    first = (found, flat_mean, ops.reshape(deviation, x.shape[1]), *reserve)
    return (*first, *running)


@row("native_batch_norm.default")
def native_batch_norm(
    call: Call, x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    if training:
        if mean is not None or variance is not None:
            raise call.refuse("it writes to running statistics")
        return batch_norm_without_statistics(call, x, weight, bias, training, momentum, eps)
    return batch_norm_inference(call, x, weight, bias, mean, variance, momentum, eps)


@row("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    call: Call, x: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    y = widened(x)
    mean, variance = _statistics(y, [0, *range(2, x.rank)])
    deviation = ops.rsqrt(variance + eps)
    weight, bias = (None if each is None else _channels(each, x.rank) for each in (weight, bias))
    found = _scaled((y - mean) * deviation, weight, bias)
    return found, ops.reshape(mean, x.shape[1]), ops.reshape(deviation, x.shape[1])


@row("native_batch_norm_backward.default")
def batch_norm_backward(
    call: Call,
    g: Tensor,
    x: Tensor,
    weight: Any,
    running_mean: Any,
    running_variance: Any,
    saved_mean: Any,
    saved_deviation: Any,
    training: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    g, y, axes = widened(g), widened(x), [0, *range(2, x.rank)]
    if training:
        mean, deviation = (ops.cast(each, y.dtype) for each in (saved_mean, saved_deviation))
    else:
        mean = ops.cast(running_mean, y.dtype)
        deviation = ops.rsqrt(ops.cast(running_variance, y.dtype) + eps)
    normal = (y - _channels(mean, x.rank)) * _channels(deviation, x.rank)
    by_bias, by_weight = ops.sum(g, axes), ops.sum(g * normal, axes)
    factor = deviation if weight is None else deviation * ops.cast(weight, y.dtype)
    if training:
        count = float(prod(int(x.shape[axis]) for axis in axes))
        first, second = _channels(by_bias / count, x.rank), _channels(by_weight / count, x.rank)
        by_x = (g - first - normal * second) * _channels(factor, x.rank)
    else:
        by_x = g * _channels(factor, x.rank)
    found = (by_x, by_weight, by_bias)
    return tuple(each if wanted else None for each, wanted in zip(found, output_mask, strict=True))


@row("_softmax.default", "softmax.int")
def softmax(call: Call, x: Tensor, dim: int, *_: Any) -> Tensor:
    x = call.operand(x, wide(call.dtype))
    return ops.softmax(x, dim % x.rank) if x.rank else x * 0 + 1


@row("_log_softmax.default", "log_softmax.int")
def log_softmax(call: Call, x: Tensor, dim: int, *_: Any) -> Tensor:
    x = call.operand(x, wide(call.dtype))
    return ops.log_softmax(x, dim % x.rank) if x.rank else x * 0


@row("_safe_softmax.default")
def safe_softmax(call: Call, x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    if not x.rank:
        return softmax(call, x, dim)
    hidden = ops.max(x, [dim % x.rank], keepdims=True) == call.number(float("-inf"), x.dtype)
    return ops.where(hidden, 0, softmax(call, x, dim))


@row("_softmax_backward_data.default")
def softmax_backward(call: Call, g: Tensor, y: Tensor, dim: int, _: Any) -> Tensor:
    g, y = widened(g), widened(y)
    product = g * y
    return product - y * ops.sum(product, [dim % y.rank], keepdims=True) if y.rank else g * 0


@row("_log_softmax_backward_data.default")
def log_softmax_backward(call: Call, g: Tensor, y: Tensor, dim: int, _: Any) -> Tensor:
    g, y = widened(g), widened(y)
    return g - ops.exp(y) * ops.sum(g, [dim % y.rank], keepdims=True) if y.rank else g * 0
