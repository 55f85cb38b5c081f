"""Elementwise activations of networks."""

from __future__ import annotations

from collections.abc import Sequence

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.arguments import like, wide
from tileir_onnx.rows.table import row


@row("Elu")
def elu(call: Call, x: Tensor, *, alpha: float = 1.0, consumed_inputs: Sequence[int] = ()) -> Tensor:
    return ops.elu(x, alpha=alpha)


@row("Selu", until=6)
def selu_before_6(
    call: Call, x: Tensor, *, alpha: float = 1.6732, gamma: float = 1.0507, consumed_inputs: Sequence[int] = ()
) -> Tensor:
    return like(gamma * ops.elu(wide(x), alpha=alpha), x)


@row("Selu", since=6)
def selu(
    call: Call, x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Tensor:
    return like(gamma * ops.elu(wide(x), alpha=alpha), x)


@row("Celu")
def celu(call: Call, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.celu(x, alpha=alpha)


@row("Gelu")
def gelu(call: Call, x: Tensor, *, approximate: str = "none") -> Tensor:
    return ops.gelu(x, approximate=approximate)


@row("Mish")
def mish(call: Call, x: Tensor) -> Tensor:
    return ops.mish(x)


@row("HardSigmoid")
def hard_sigmoid(
    call: Call, x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Sequence[int] = ()
) -> Tensor:
    return like(ops.clip(wide(x) * alpha + beta, 0, 1), x)


@row("HardSwish")
def hard_swish(call: Call, x: Tensor) -> Tensor:
    return ops.hard_swish(x)


@row("LeakyRelu")
def leaky_relu(call: Call, x: Tensor, *, alpha: float = 0.01, consumed_inputs: Sequence[int] = ()) -> Tensor:
    return ops.leaky_relu(x, negative_slope=alpha)


@row("PRelu", until=7)
def prelu_before_7(call: Call, x: Tensor, slope: Tensor, *, consumed_inputs: Sequence[int] = ()) -> Tensor:
    """Scale negative elements by one slope, or by one for each channel."""
    one = slope.rank == 0 or slope.shape[0] == 1
    return like(ops.prelu(x, slope, axis=0 if one else 1), x)


@row("PRelu", since=7)
def prelu(call: Call, x: Tensor, slope: Tensor) -> Tensor:
    return like(ops.where(x < 0, x * slope, x), x)


@row("Shrink")
def shrink(call: Call, x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    y = wide(x)
    return like(ops.where(y < -lambd, y + bias, ops.where(y > lambd, y - bias, 0)), x)


@row("Softplus")
def softplus(call: Call, x: Tensor) -> Tensor:
    return ops.softplus(x)


@row("Softsign")
def softsign(call: Call, x: Tensor) -> Tensor:
    return ops.softsign(x)


@row("ThresholdedRelu")
def thresholded_relu(call: Call, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.threshold(x, alpha, 0)


@row("Swish")
def swish(call: Call, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    y = wide(x)
    return like(y * ops.sigmoid(alpha * y if alpha != 1 else y), x)


@row("SwiGLU")
def swiglu(call: Call, x: Tensor, y: Tensor, *, alpha: float = 1.0) -> Tensor:
    gate = wide(x)
    return like(gate * ops.sigmoid(alpha * gate if alpha != 1 else gate) * wide(y), x)
