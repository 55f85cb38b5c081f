"""Activations and their derivatives, and elementwise losses."""

from __future__ import annotations

from math import pi, prod, sqrt
from typing import Any

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import wide, widened
from tileir_torch.rows.table import row


@row("relu.default")
def relu(call: Call, x: Tensor) -> Tensor:
    return ops.maximum(x, 0)


@row("relu6.default")
def relu6(call: Call, x: Tensor) -> Tensor:
    return ops.minimum(ops.maximum(x, 0), 6)


@row("hardtanh.default")
def hardtanh(call: Call, x: Tensor, low: Any = -1, high: Any = 1) -> Tensor:
    return ops.minimum(ops.maximum(x, call.number(low, x.dtype)), call.number(high, x.dtype))


@row("hardtanh_backward.default")
def hardtanh_backward(call: Call, g: Tensor, x: Tensor, low: Any, high: Any) -> Tensor:
    return ops.where((x > call.number(low, x.dtype)) & (x < call.number(high, x.dtype)), g, 0)


@row("threshold.default")
def threshold(call: Call, x: Tensor, limit: Any, value: Any) -> Tensor:
    return ops.where(x <= call.number(limit, x.dtype), call.number(value, x.dtype), x)


@row("threshold_backward.default")
def threshold_backward(call: Call, g: Tensor, x: Tensor, limit: Any) -> Tensor:
    return ops.where(x <= call.number(limit, x.dtype), 0, g)


@row("gelu.default")
def gelu(call: Call, x: Tensor, *, approximate: str = "none") -> Tensor:
    return ops.gelu(widened(x), approximate=approximate)


@row("gelu_backward.default")
def gelu_backward(call: Call, g: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    is_narrow = x.dtype.is_narrow
    g, x = widened(g), widened(x)
    if approximate == "tanh":
        scale, cubic = sqrt(2 / pi), 0.044715
        t = ops.tanh(scale * (x + cubic * x * x * x))
        return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * cubic * x * x))
    # Digits lost by the sum with 1 are beyond those of narrow results, and erfc takes six times as long.
    share = ops.erf(x * sqrt(0.5)) + 1 if is_narrow else ops.erfc(-x * sqrt(0.5))
    return g * (0.5 * share + x * ops.exp(-0.5 * x * x) * (1 / sqrt(2 * pi)))


@row("silu.default")
def silu(call: Call, x: Tensor) -> Tensor:
    return ops.silu(widened(x))


@row("silu_backward.default")
def silu_backward(call: Call, g: Tensor, x: Tensor) -> Tensor:
    g, x = widened(g), widened(x)
    s = ops.sigmoid(x)
    return g * s * (1 + x * (1 - s))


@row("sigmoid_backward.default")
def sigmoid_backward(call: Call, g: Tensor, y: Tensor) -> Tensor:
    g, y = widened(g), widened(y)
    return g * y * (1 - y)


@row("tanh_backward.default")
def tanh_backward(call: Call, g: Tensor, y: Tensor) -> Tensor:
    g, y = widened(g), widened(y)
    return g * (1 - y * y)


@row("leaky_relu.default")
def leaky_relu(call: Call, x: Tensor, slope: Any = 0.01) -> Tensor:
    y = widened(x)
    return ops.where(y > 0, y, y * call.number(slope, y.dtype))


@row("leaky_relu_backward.default")
def leaky_relu_backward(call: Call, g: Tensor, x: Tensor, slope: Any, is_result: bool) -> Tensor:
    g = widened(g)
    return ops.where(x > 0, g, g * call.number(slope, g.dtype))


@row("elu.default")
def elu(call: Call, x: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    y = widened(x)
    return ops.where(y <= 0, ops.expm1(y * float(input_scale)) * (float(alpha) * float(scale)), y * float(scale))


@row("hardsigmoid.default")
def hardsigmoid(call: Call, x: Tensor) -> Tensor:
    y = widened(x)
    return ops.minimum(ops.maximum(y + 3, 0), 6) / 6


@row("hardswish.default")
def hardswish(call: Call, x: Tensor) -> Tensor:
    y = widened(x)
    return y * ops.minimum(ops.maximum(y + 3, 0), 6) / 6


@row("hardswish_backward.default")
def hardswish_backward(call: Call, g: Tensor, x: Tensor) -> Tensor:
    g, x = widened(g), widened(x)
    return ops.where(x <= -3, 0, ops.where(x < 3, g * (x / 3 + 0.5), g))


@row("hardsigmoid_backward.default")
def hardsigmoid_backward(call: Call, g: Tensor, x: Tensor) -> Tensor:
    g, x = widened(g), widened(x)
    return ops.where((x > -3) & (x < 3), g * (1 / 6), 0)


@row("softplus.default")
def softplus(call: Call, x: Tensor, beta: Any = 1, threshold: Any = 20) -> Tensor:
    y = widened(x)
    scaled = y * float(beta)
    return ops.where(scaled > float(threshold), y, ops.log1p(ops.exp(scaled)) / float(beta))


@row("softplus_backward.default")
def softplus_backward(call: Call, g: Tensor, x: Tensor, beta: Any, threshold: Any) -> Tensor:
    g, x = widened(g), widened(x)
    z = ops.exp(x * float(beta))
    return ops.where(x * float(beta) > float(threshold), g, g * z / (z + 1))


@row("soft_margin_loss_backward.default")
def soft_margin_loss_backward(call: Call, g: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Return ``-g target sigmoid(-target x)``, free of cancellation; for a mean divided by the number of elements."""
    g, x, target = widened(g), widened(x), widened(target)
    found = -g * target * ops.sigmoid(-target * x)
    return found / float(prod(call.sizes)) if reduction == 1 else found


@row("mish.default")
def mish(call: Call, x: Tensor) -> Tensor:
    return ops.mish(widened(x))


@row("log_sigmoid_forward.default")
def log_sigmoid(call: Call, x: Tensor) -> tuple[Tensor, ...]:
    y = widened(x)
    kept = ops.exp(-ops.abs(y))
    found = ops.minimum(y, 0) - ops.log1p(kept)
    if call.importer.sizes(call.value[1]) != call.importer.sizes(call.value[0]):
        raise call.refuse("its second result has elements on processors only")
    return found, kept


@row("hardshrink.default")
def hardshrink(call: Call, x: Tensor, limit: Any = 0.5) -> Tensor:
    return ops.where((x >= -float(limit)) & (x <= float(limit)), 0, x)


@row("softshrink.default")
def softshrink(call: Call, x: Tensor, limit: Any = 0.5) -> Tensor:
    y = widened(x)
    return ops.where(y > float(limit), y - float(limit), ops.where(y < -float(limit), y + float(limit), y * 0))


@row("_prelu_kernel.default")
def prelu(call: Call, x: Tensor, weight: Tensor) -> Tensor:
    x, weight = widened(x), widened(weight)
    return ops.where(x > 0, x, weight * x)


@row("logit.default")
def logit(call: Call, x: Tensor, eps: Any = None) -> Tensor:
    x = call.operand(x, wide(call.dtype))
    if eps is not None:
        x = ops.minimum(ops.maximum(x, float(eps)), 1 - float(eps))
    return ops.log(x / (1 - x))


@row("glu.default")
def glu(call: Call, x: Tensor, dim: int = -1) -> Tensor:
    return ops.glu(widened(x), axis=dim)
