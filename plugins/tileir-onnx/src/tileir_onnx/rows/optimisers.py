"""Optimisers: a step of several parameters, whose tensors are grouped by kind."""

from __future__ import annotations

from collections.abc import Callable

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_onnx.importing import Call
from tileir_onnx.rows.table import row

_DOMAIN = "ai.onnx.preview.training"
_LATE = 1 << 30
"""Step number from which corrections have vanished."""


def _each(tensors: tuple[Tensor, ...], kinds: int, step: Callable[..., tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Return the results of a step for each parameter, with tensors grouped by kind in arguments and results."""
    count = len(tensors) // kinds
    found = [step(*tensors[number::count]) for number in range(count)]
    return tuple(each for kind in zip(*found, strict=True) for each in kind)


@row("Adagrad", domain=_DOMAIN)
def adagrad(
    call: Call,
    rate: Tensor,
    time: Tensor,
    *tensors: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    lr = rate / (1 + ops.cast(time, rate.dtype) * decay_factor)
    return _each(tensors, 3, lambda *x: ops.adagrad(*x, lr=lr, eps=epsilon, weight_decay=norm_coefficient))


@row("Momentum", domain=_DOMAIN)
def momentum(
    call: Call,
    rate: Tensor,
    time: Tensor,
    *tensors: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Tensor, ...]:
    dampening = ops.where(time > 0, 1 - beta, 0.0)

    def of(w: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        nesterov = mode == "nesterov"
        return ops.momentum(
            w, g, v, lr=rate, momentum=alpha, dampening=dampening, nesterov=nesterov, weight_decay=norm_coefficient
        )

    return _each(tensors, 3, of)


@row("Adam", domain=_DOMAIN)
def adam(
    call: Call,
    rate: Tensor,
    time: Tensor,
    *tensors: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    step = ops.where(time > 0, time, _LATE)  # the first one is not corrected
    eps = epsilon / ops.sqrt(1 - beta ** ops.cast(step, rate.dtype))  # ONNX adds it before the correction

    def of(x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        w, m, v = ops.adam(x, g, v, h, step, lr=rate, beta1=alpha, beta2=beta, eps=eps, weight_decay=norm_coefficient)
        return w * (1 - norm_coefficient_post), m, v

    return _each(tensors, 4, of)
