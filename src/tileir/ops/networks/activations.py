"""Activations: elementwise functions between the layers of networks.

All broadcast their arguments and keep the dtype of floats; integers are cast to floats if a formula needs them. For f16
and bf16 they are computed in f32, and rounded once.
"""

from __future__ import annotations

import math
from typing import Final

from tileir.ops.arithmetic.elementwise import expm1, log1p
from tileir.ops.arrays.joining import split
from tileir.ops.shared.foundation import (
    Operand,
    Tensor,
    axis_of,
    call,
    chosen,
    dims_of,
    for_sums,
    mistaken,
    promoted,
    rank_of,
    rounded_once,
)
from tileir.tile.builder_functions import override_gradient, upstream

_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946
_QUICK: Final = 1.702
_FAR: Final = 100.0  # tanh is 1 long before


def relu(x: Tensor, *, alpha: Operand = 0, threshold: Operand = 0, max_value: Operand | None = None) -> Tensor:
    """Return ``x < threshold ? alpha * (x - threshold) : x``, then at most ``max_value``.

    The gradient at the threshold is that of ``x`` for an ``alpha`` or ``threshold``, else 0, and at ``max_value`` it is
    0, as in PyTorch. Source: PlaidML's ``relu``, of which PyTorch's ``relu``, ``leaky_relu`` and ``relu6`` are special
    cases.
    """
    if _is(alpha, 0) and _is(threshold, 0):
        result = call("relu", x)
    else:
        wider = for_sums(x)
        shifted = wider if _is(threshold, 0) else wider - threshold
        below = 0 if _is(alpha, 0) else shifted * alpha
        result = promoted(call("cond", wider < threshold, below, wider), x, alpha, threshold)
    return result if max_value is None else call("cond", result >= max_value, max_value, result)


def relu6(x: Tensor) -> Tensor:
    """Return ``min(max(x, 0), 6)``. Source: Krizhevsky 2010, "Convolutional deep belief networks on CIFAR-10"."""
    return relu(x, max_value=6)


@rounded_once
def leaky_relu(x: Tensor, *, negative_slope: Operand = 0.01) -> Tensor:
    """Return ``x > 0 ? x : negative_slope * x``. Source: Maas et al. 2013."""
    return call("cond", x > 0, x, x * negative_slope)


def prelu(x: Tensor, weight: Tensor, *, axis: int = 1) -> Tensor:
    """Return ``x > 0 ? x : weight * x`` with one weight for all, or one for each position on ``axis``.

    Shapes: ``weight`` is of rank 0, or a vector of size 1 or of the axis' size. Source: He et al. 2015.

    Raises:
        TileError: TIL217, the weight has more axes; TIL314, there is no such axis.
    """
    if rank_of(weight) > 1:
        raise mistaken(f"the weight is a scalar or a vector; this one has rank {rank_of(weight)}")
    if rank_of(weight) == 1 and rank_of(x) > 1:
        behind = rank_of(x) - 1 - axis_of(x, axis)
        weight = call("reshape", weight, *dims_of(weight), *([1] * behind))
    return call("cond", x > 0, x, x * weight)


@rounded_once
def elu(x: Tensor, *, alpha: Operand = 1.0) -> Tensor:
    """Return ``x > 0 ? x : alpha * (exp(x) - 1)``. Source: Clevert et al. 2015."""
    return call("cond", x > 0, x, expm1(_negative(x)) * alpha)


@rounded_once
def celu(x: Tensor, *, alpha: Operand = 1.0) -> Tensor:
    """Return ``x > 0 ? x : alpha * (exp(x / alpha) - 1)``, whose derivative is continuous. Source: Barron 2017."""
    return call("cond", x > 0, x, expm1(_negative(x) / alpha) * alpha)


@rounded_once
def selu(x: Tensor) -> Tensor:
    """Return ``1.0507 * (x > 0 ? x : 1.6733 * (exp(x) - 1))``. Source: Klambauer et al. 2017."""
    return elu(x, alpha=_SELU_ALPHA) * _SELU_SCALE


@rounded_once
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Return ``x`` times the normal distribution function of ``x``.

    Args:
        x: A tensor.
        approximate: ``"none"``: ``0.5 * x * (1 + erf(x / sqrt 2))``; ``"tanh"``: ``0.5 * x * (1 + tanh(sqrt(2 / pi) *
            (x + 0.044715 * x**3)))``; ``"sigmoid"``: ``x * sigmoid(1.702 * x)``.

    Raises:
        TileError: TIL217, another approximation.

    Source: Hendrycks and Gimpel 2016, "Gaussian error linear units".
    """
    chosen(approximate, ("none", "tanh", "sigmoid"), "approximate")
    if approximate == "sigmoid":
        return x * call("sigmoid", x * _QUICK)
    if approximate == "tanh":
        return _gelu_by_tanh(x)
    return x * (call("erf", x * math.sqrt(0.5)) * 0.5 + 0.5)


def sigmoid(x: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-x))``."""
    return call("sigmoid", x)


@rounded_once
def log_sigmoid(x: Tensor) -> Tensor:
    """Return ``log(sigmoid(x))``, computed as ``-softplus(-x)``, which neither overflows nor loses small values."""
    return -softplus(-x)


@rounded_once
def softplus(x: Tensor, *, beta: Operand = 1) -> Tensor:
    """Return ``log(1 + exp(beta * x)) / beta``, computed as ``max(x, 0) + log1p(exp(-|beta * x|)) / beta``.

    PyTorch's ``threshold`` is not needed, because nothing overflows. Source: Dugas et al. 2001.
    """
    scaled = x if _is(beta, 1) else x * beta
    rest = log1p(call("exp", -abs(scaled)))
    return call("max", x, 0) + (rest if _is(beta, 1) else rest / beta)


@rounded_once
def softsign(x: Tensor) -> Tensor:
    """Return ``x / (1 + |x|)``."""
    return x * 1.0 / (abs(x) + 1)


@rounded_once
def silu(x: Tensor) -> Tensor:
    """Return ``x * sigmoid(x)``, also called swish. Source: Elfwing et al. 2017; Ramachandran et al. 2017."""
    return x * call("sigmoid", x)


@rounded_once
def mish(x: Tensor) -> Tensor:
    """Return ``x * tanh(softplus(x))``. Source: Misra 2019."""
    return x * call("tanh", softplus(x))


@rounded_once
def hard_sigmoid(x: Tensor, *, slope: Operand = 1 / 6) -> Tensor:
    """Return ``clip(slope * x + 0.5, 0, 1)``; PyTorch has 1/6, Keras and PlaidML's default was 0.2.

    The gradient at the bounds is 0.
    """
    return hard_tanh(x * slope + 0.5, 0, 1)


@rounded_once
def hard_swish(x: Tensor) -> Tensor:
    """Return ``x * hard_sigmoid(x)``. Source: Howard et al. 2019, "Searching for MobileNetV3"."""
    return x * hard_sigmoid(x)


def hard_tanh(x: Tensor, low: Operand = -1, high: Operand = 1) -> Tensor:
    """Return ``clip(x, low, high)``, with the gradient 0 at the bounds, as in PyTorch."""
    return call("cond", x <= low, low, call("cond", x >= high, high, x))


@rounded_once
def tanh_shrink(x: Tensor) -> Tensor:
    """Return ``x - tanh(x)``."""
    return x - call("tanh", x)


@rounded_once
def soft_shrink(x: Tensor, *, threshold: Operand = 0.5) -> Tensor:
    """Return ``x - threshold`` above the threshold, ``x + threshold`` below its negative, else 0; NaN stays."""
    inside = call("cond", abs(x) <= threshold, 0, x + threshold)
    return call("cond", x > threshold, x - threshold, inside)


def hard_shrink(x: Tensor, *, threshold: Operand = 0.5) -> Tensor:
    """Return ``|x| > threshold ? x : 0``; NaN stays."""
    return call("cond", abs(for_sums(x)) <= threshold, 0, x)


def threshold(x: Tensor, limit: Operand, value: Operand) -> Tensor:
    """Return ``x > limit ? x : value``; NaN stays."""
    return call("cond", for_sums(x) <= limit, value, x)


@rounded_once
def glu(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return ``a * sigmoid(b)`` of the two halves ``a``, ``b`` of ``x`` on ``axis``.

    Raises:
        TileError: TIL312 when compiling, the size of the axis is odd; TIL314, there is no such axis.

    Source: Dauphin et al. 2016, "Language modeling with gated convolutional networks".

    """
    value, gate = split(x, 2, axis)
    return value * call("sigmoid", gate)


def _gelu_by_tanh(x: Tensor) -> Tensor:
    """Return ``x * (1 + tanh(a * x**3 + b * x)) / 2``; its slope never multiplies an infinite square by 0."""
    cubic, plain = math.sqrt(2 / math.pi) * 0.044715, math.sqrt(2 / math.pi)
    height = call("tanh", x * (x * x * cubic + plain))
    share = height * 0.5 + 0.5
    y = x * share
    near = call("cond", abs(x) < _FAR, x, 0)
    slope = share + near * (1 - height * height) * (near * near * (1.5 * cubic) + 0.5 * plain)
    return override_gradient(y, (x, upstream(y) * slope))


def _negative(x: Tensor) -> Tensor:
    """Return ``min(x, 0)`` with the gradient 1 at 0, where the formulas for negative numbers begin."""
    return call("cond", x > 0, 0, x)


def _is(option: Operand, number: int) -> bool:
    return isinstance(option, int | float) and option == number
