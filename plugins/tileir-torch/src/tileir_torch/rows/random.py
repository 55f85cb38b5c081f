"""Random masks and slopes, with eager's distributions, by seeds of PyTorch's generator."""

from __future__ import annotations

from typing import Any

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_torch.importing import Call
from tileir_torch.rows.arguments import widened
from tileir_torch.rows.table import row


@row("native_dropout.default")
def native_dropout(call: Call, x: Tensor, rate: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False:
        return x, ops.full(x, call.sizes, True, dtype="bool")
    stays = call.drawn(lambda state: ops.bernoulli(state, 1.0 - rate, call.sizes))
    scale = 1.0 / (1.0 - rate) if rate < 1 else 0.0
    return widened(x) * ops.cast(stays, widened(x).dtype) * scale, stays  # infinities that fall are NaN, as in eager


@row("dropout.default", "feature_dropout.default", "alpha_dropout.default", "feature_alpha_dropout.default")
def dropout_of_inference(call: Call, x: Tensor, rate: float, train: bool) -> Tensor:
    if train:
        raise call.refuse("it draws a mask")
    return x


@row("bernoulli.p")
def bernoulli_of(call: Call, _: Tensor, p: float = 0.5, *, generator: Any = None) -> Tensor:
    return _bernoulli(call, p, generator)


@row("bernoulli.default")
def bernoulli(call: Call, x: Tensor, *, generator: Any = None) -> Tensor:
    return _bernoulli(call, widened(x), generator)


@row("bernoulli.Tensor")
def bernoulli_at(call: Call, x: Tensor, p: Tensor, *, generator: Any = None) -> Tensor:
    return _bernoulli(call, ops.broadcast_to(widened(p), *x.shape), generator)


def _bernoulli(call: Call, p: Tensor | float, generator: Any) -> Tensor:
    if generator is not None:
        raise call.refuse("it has a generator of its own")
    return call.drawn(lambda state: ops.bernoulli(state, p, call.sizes))


@row("rrelu_with_noise_functional.default")
def rrelu(
    call: Call,
    x: Tensor,
    noise: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> tuple[Tensor, Tensor]:
    if generator is not None:
        raise call.refuse("it has a generator of its own")
    wide = widened(x)
    if not training:
        return ops.where(wide > 0, wide, wide * ((lower + upper) / 2)), noise
    slopes = call.drawn(lambda state: ops.uniform(state, call.sizes, low=lower, high=upper, dtype=wide.dtype))
    drawn = ops.where(wide > 0, ops.full(wide, call.sizes, 1, dtype=wide.dtype), slopes)
    return wide * drawn, drawn


@row("rrelu_with_noise_backward.default")
def rrelu_backward(
    call: Call, g: Tensor, x: Tensor, noise: Tensor, lower: float, upper: float, training: bool, of_result: bool
) -> Tensor:
    if training and upper - lower > 1e-6:
        return widened(g) * widened(noise)
    return ops.where(x > 0, widened(g), widened(g) * ((lower + upper) / 2))
