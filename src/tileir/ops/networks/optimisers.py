"""Steps of optimisers: from a parameter, its gradient and the state to the new parameter and the new state.

Each is a formula over elements, so that a training step and its update are one program; :func:`tileir.stepper` keeps
parameters and state between calls. State begins with zeros. ``step`` is the number of the step, counted from 1: an
integer or float without axes. Options are numbers or tensors, such as a learning rate that is an input.

All results have the shapes and dtypes of the values that they replace. Everything is computed in 32 bits at least,
options such as ``eps`` included, and each result is rounded once, also if parameters or state have 16 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tileir.ops.arithmetic.reductions import root
from tileir.ops.shared.foundation import Aggregation, Operand, Tensor, aggregate, indices_of, mistaken, wide
from tileir.tile import builder_functions as tf


def sgd(w: Tensor, g: Tensor, *, lr: Operand, weight_decay: Operand = 0) -> Tensor:
    """Return the parameter after a step of gradient descent: ``w - lr * (g + weight_decay * w)``.

    Source: PyTorch's ``SGD`` without momentum.
    """
    given = w, g
    w, g = map(wide, given)
    return _replaced(given[0], w - _like(lr, w) * _decayed(w, g, weight_decay))


def momentum(
    w: Tensor,
    g: Tensor,
    m: Tensor,
    *,
    lr: Operand,
    momentum: Operand = 0.9,
    dampening: Operand = 0,
    nesterov: bool = False,
    weight_decay: Operand = 0,
) -> tuple[Tensor, Tensor]:
    """Return parameter and velocity after a step of gradient descent with momentum.

    ``m' = momentum * m + (1 - dampening) * d`` with ``d = g + weight_decay * w``, then ``w' = w - lr * m'``, or for
    ``nesterov`` ``w' = w - lr * (d + momentum * m')``.

    Source: Sutskever, Martens, Dahl and Hinton, "On the importance of initialization and momentum in deep learning"
    (2013), as in PyTorch's ``SGD``, which does not dampen the first step.
    """
    given = w, g, m
    w, g, m = map(wide, given)
    d = _decayed(w, g, weight_decay)
    rate = _like(momentum, m)
    velocity = rate * m + (d if _is_zero(dampening) else (1 - _like(dampening, m)) * d)
    direction = d + rate * velocity if nesterov else velocity
    return _replaced(given[0], w - _like(lr, m) * direction), _replaced(given[2], velocity)


def adagrad(
    w: Tensor, g: Tensor, s: Tensor, *, lr: Operand = 0.01, eps: Operand = 1e-10, weight_decay: Operand = 0
) -> tuple[Tensor, Tensor]:
    """Return parameter and sum of squares: ``s' = s + d²``, ``w' = w - lr * d / (sqrt(s') + eps)``.

    ``d`` is ``g + weight_decay * w``.

    Source: Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization"
    (2011), as in PyTorch's ``Adagrad``.
    """
    given = w, g, s
    w, g, s = map(wide, given)
    d = _decayed(w, g, weight_decay)
    squares = s + d * d
    return _replaced(given[0], w - _like(lr, s) * d / (tf.sqrt(squares) + eps)), _replaced(given[2], squares)


def rmsprop(
    w: Tensor,
    g: Tensor,
    s: Tensor,
    *,
    mean: Tensor | None = None,
    m: Tensor | None = None,
    lr: Operand = 0.01,
    alpha: Operand = 0.99,
    eps: Operand = 1e-8,
    weight_decay: Operand = 0,
    momentum: Operand = 0.9,
) -> tuple[Tensor, ...]:
    """Return the parameter and the state after a step of RMSprop: ``(w, s)``, then ``mean`` and ``m`` if given.

    ``s' = alpha * s + (1 - alpha) * d²`` with ``d = g + weight_decay * w``. With ``mean``, the running mean of the
    gradient, the step is centred: ``mean' = alpha * mean + (1 - alpha) * d``, and ``s' - mean'²`` stands for ``s'``
    below. ``r = d / (sqrt(s') + eps)``; ``w' = w - lr * r``, or with the velocity ``m``, ``m' = momentum * m + r`` and
    ``w' = w - lr * m'``.

    Source: Tieleman and Hinton, "Lecture 6.5" (2012), and Graves, "Generating sequences with recurrent neural networks"
    (2013), as in PyTorch's ``RMSprop``.
    """
    given = w, g, s
    w, g, s = map(wide, given)
    d, a = _decayed(w, g, weight_decay), _like(alpha, s)
    squares = a * s + (1 - a) * d * d
    state = [_replaced(given[2], squares)]
    if mean is not None:
        average = a * wide(mean) + (1 - a) * d
        state.append(_replaced(mean, average))
        squares = squares - average * average
    direction = d / (tf.sqrt(squares) + eps)
    if m is not None:
        direction = _like(momentum, s) * wide(m) + direction
        state.append(_replaced(m, direction))
    return (_replaced(given[0], w - _like(lr, s) * direction), *state)


def adam(
    w: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    step: Operand,
    *,
    lr: Operand = 1e-3,
    beta1: Operand = 0.9,
    beta2: Operand = 0.999,
    eps: Operand = 1e-8,
    weight_decay: Operand = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return parameter, first and second moment after step number ``step`` of Adam.

    ``m' = beta1 * m + (1 - beta1) * d`` and ``v' = beta2 * v + (1 - beta2) * d²`` with ``d = g + weight_decay * w``,
    then ``w' = w - lr * (m' / (1 - beta1^step)) / (sqrt(v' / (1 - beta2^step)) + eps)``.

    Raises:
        TileError: TIL217, a beta is not in [0, 1).

    Source: Kingma and Ba, "Adam: a method for stochastic optimization" (2014), as in PyTorch's ``Adam``.
    """
    given = w, g, m, v
    w, g, m, v = map(wide, given)
    direction, first, second = _moments(_decayed(w, g, weight_decay), m, v, step, beta1, beta2, eps)
    return _all_replaced(given, w - _like(lr, v) * direction, first, second)


def adamw(
    w: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    step: Operand,
    *,
    lr: Operand = 1e-3,
    beta1: Operand = 0.9,
    beta2: Operand = 0.999,
    eps: Operand = 1e-8,
    weight_decay: Operand = 0.01,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the results of :func:`adam` for the bare gradient, less ``lr * weight_decay * w`` for the parameter.

    Source: Loshchilov and Hutter, "Decoupled weight decay regularization" (2017), as in PyTorch's ``AdamW``.
    """
    given = w, g, m, v
    w, g, m, v = map(wide, given)
    direction, first, second = _moments(g, m, v, step, beta1, beta2, eps)
    return _all_replaced(given, w - _like(lr, v) * _decayed(w, direction, weight_decay), first, second)


def lars(
    w: Tensor,
    g: Tensor,
    m: Tensor,
    *,
    lr: Operand,
    momentum: Operand = 0.9,
    weight_decay: Operand = 0,
    trust: Operand = 1e-3,
    eps: Operand = 1e-8,
) -> tuple[Tensor, Tensor]:
    """Return parameter and velocity after a step whose length is proportional to the norm of the parameter.

    ``rate = trust * |w| / (|g| + weight_decay * |w| + eps)``, or 1 if one of both norms is 0; ``m' = momentum * m + lr
    * rate * (g + weight_decay * w)``, ``w' = w - m'``. The norms are those of whole tensors.

    Source: You, Gitman and Ginsburg, "Large batch training of convolutional networks" (2017).
    """
    given = w, g, m
    w, g, m = map(wide, given)
    weight, slope = _norm(w), _norm(g)
    below = slope + eps if _is_zero(weight_decay) else slope + _like(weight_decay, w) * weight + eps
    rate = tf.where(tf.logical_and(weight > 0, slope > 0), _like(trust, w) * weight / below, 1)
    velocity = _like(momentum, m) * m + _like(lr, m) * rate * _decayed(w, g, weight_decay)
    return _replaced(given[0], w - velocity), _replaced(given[2], velocity)


def lamb(
    w: Tensor,
    g: Tensor,
    m: Tensor,
    v: Tensor,
    step: Operand,
    *,
    lr: Operand = 1e-3,
    beta1: Operand = 0.9,
    beta2: Operand = 0.999,
    eps: Operand = 1e-6,
    weight_decay: Operand = 0.01,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return parameter, first and second moment: a step of Adam with a length proportional to the parameter's norm.

    ``r`` is the direction of :func:`adamw`, its decay included; ``w' = w - lr * |w| / |r| * r``, with 1 for the ratio
    if one of both norms is 0.

    Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes" (2019).
    """
    given = w, g, m, v
    w, g, m, v = map(wide, given)
    direction, first, second = _moments(g, m, v, step, beta1, beta2, eps)
    direction = _decayed(w, direction, weight_decay)
    weight, length = _norm(w), _norm(direction)
    ratio = tf.where(tf.logical_and(weight > 0, length > 0), weight / length, 1)
    return _all_replaced(given, w - _like(lr, v) * ratio * direction, first, second)


def clip_by_value(g: Tensor, low: Operand, high: Operand) -> Tensor:
    """Return ``min(max(g, low), high)``; NaN stays. Source: PyTorch's ``clip_grad_value_``."""
    return tf.min(tf.max(g, low), high)


def clip_by_norm(g: Tensor, limit: Operand, *, eps: Operand = 1e-6) -> Tensor:
    """Return ``g * min(1, limit / (|g| + eps))``, the tensor with a norm of at most ``limit``."""
    (clipped,), _ = clip_by_global_norm([g], limit, eps=eps)
    return clipped


def clip_by_global_norm(
    gradients: Sequence[Tensor], limit: Operand, *, eps: Operand = 1e-6
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return gradients scaled together so that their norm is at most ``limit``, and their original norm.

    The norm is the root of the sum of the squares of all elements of all tensors; each is multiplied by ``min(1, limit
    / (norm + eps))``.

    Raises:
        TileError: TIL217, there are no gradients.

    Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (2013), as in
    PyTorch's ``clip_grad_norm_``.
    """
    if not gradients:
        raise mistaken("there are no gradients to clip")
    wider = [wide(gradient) for gradient in gradients]
    total = _squares(wider[0])
    for gradient in wider[1:]:
        total = total + _squares(gradient)
    norm = root(total)
    scale = tf.min(_like(limit, norm) / (norm + eps), 1)
    clipped = (_replaced(old, new * scale) for old, new in zip(gradients, wider, strict=True))
    return tuple(clipped), norm


def _moments(
    d: Tensor, m: Tensor, v: Tensor, step: Operand, beta1: Operand, beta2: Operand, eps: Operand
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the direction of a step of Adam, and both moments."""
    first = _like(beta1, m) * m + (1 - _like(beta1, m)) * d
    second = _like(beta2, v) * v + (1 - _like(beta2, v)) * d * d
    average = first / _correction(beta1, tf.as_like(step, v), "beta1")
    spread = tf.sqrt(second / _correction(beta2, tf.as_like(step, v), "beta2"))
    return average / (spread + eps), first, second


def _correction(beta: Operand, step: Tensor, name: str) -> Operand:
    """Return ``1 - beta^step`` by ``2h / (1 + h)`` with ``h = tanh(-step * log(beta) / 2)``.

    The difference itself would lose half of the digits of f32 in the first steps.
    """
    if not isinstance(beta, int | float):
        half = tf.tanh(step * (tf.log(beta) * -0.5))
    elif beta == 0:
        return 1
    elif 0 < beta < 1:
        half = tf.tanh(step * (-0.5 * math.log(beta)))
    else:
        raise mistaken(f"{name} is in [0, 1), not {beta}")
    return 2 * half / (1 + half)


def _decayed(w: Tensor, g: Tensor, weight_decay: Operand) -> Tensor:
    return g if _is_zero(weight_decay) else g + _like(weight_decay, w) * w


def _is_zero(value: Operand) -> bool:
    return isinstance(value, int | float) and value == 0


def _like(value: Operand, x: Tensor) -> Operand:
    return tf.as_like(value, x) if isinstance(value, Tensor) else value


def _replaced(old: Tensor, new: Tensor) -> Tensor:
    return tf.as_like(new, old)


def _all_replaced(given: tuple[Tensor, ...], w: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _replaced(given[0], w), _replaced(given[2], m), _replaced(given[3], v)


def _squares(x: Tensor) -> Tensor:
    """Return the sum of the squares of all elements."""
    indices, x = indices_of(x), wide(x)
    return aggregate(Aggregation.SUM, x[indices] * x[indices], (), ()) if indices else x * x


def _norm(x: Tensor) -> Tensor:
    return root(_squares(x))
