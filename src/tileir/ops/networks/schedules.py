"""Learning rates as functions of the number of the step, which is a tensor without axes, counted from 0.

Results are floats: f32 for integer steps of up to 32 bits, and f64 for those of 64 bits.
"""

from __future__ import annotations

import math

from tileir.ops.shared.foundation import Tensor, mistaken, rounded_once
from tileir.tile import builder_functions as tf


@rounded_once
def step_decay(step: Tensor, *, lr: Tensor | float, every: int, factor: float = 0.1) -> Tensor:
    """Return ``lr * factor^floor(step / every)``. Source: PyTorch's ``StepLR``.

    Raises:
        TileError: TIL217, ``every`` is not positive.

    """
    return lr * tf.pow(factor, tf.floor(_part(step, every)))


@rounded_once
def exponential_decay(step: Tensor, *, lr: Tensor | float, every: int = 1, factor: float) -> Tensor:
    """Return ``lr * factor^(step / every)``. Source: PyTorch's ``ExponentialLR``."""
    return lr * tf.pow(factor, _part(step, every))


@rounded_once
def inverse_time_decay(step: Tensor, *, lr: Tensor | float, every: int = 1, factor: float = 1.0) -> Tensor:
    """Return ``lr / (1 + factor * step / every)``. Source: Robbins and Monro, "A stochastic approximation method"."""
    return lr / (1 + factor * _part(step, every))


@rounded_once
def polynomial_decay(
    step: Tensor, *, lr: Tensor | float, steps: int, power: float = 1.0, end: Tensor | float = 0
) -> Tensor:
    """Return ``(lr - end) * (1 - min(step / steps, 1))^power + end``; linear by default.

    Source: PyTorch's ``PolynomialLR``.
    """
    left = 1 - tf.min(_part(step, steps), 1)
    return (lr - end) * (left if power == 1 else tf.pow(left, power)) + end


@rounded_once
def cosine_decay(step: Tensor, *, lr: Tensor | float, steps: int, end: Tensor | float = 0) -> Tensor:
    """Return ``end + (lr - end) * (1 + cos(π * min(step / steps, 1))) / 2``.

    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts" (2016), as in PyTorch's
    ``CosineAnnealingLR``.
    """
    return end + (lr - end) * (0.5 + 0.5 * tf.cos(math.pi * tf.min(_part(step, steps), 1)))


@rounded_once
def inverse_sqrt_decay(step: Tensor, *, lr: Tensor | float, warmup: int) -> Tensor:
    """Return ``lr * min(sqrt(warmup / s), s / warmup)`` with ``s = step + 1``: it grows, then falls with the root.

    Source: Vaswani et al., "Attention is all you need" (2017).
    """
    part = _part(step + 1, warmup)
    return lr * tf.min(tf.rsqrt(part), part)


@rounded_once
def linear_warmup(step: Tensor, lr: Tensor | float, *, steps: int, start: float = 0.0) -> Tensor:
    """Return ``lr``, which may be a schedule, times a factor that grows from ``start`` to 1 over the first steps."""
    return lr * (start + (1 - start) * tf.min(_part(step, steps), 1))


def _part(step: Tensor, steps: int) -> Tensor:
    if steps <= 0:
        raise mistaken(f"a number of steps is positive, not {steps}")
    return step / float(steps)
