"""Error functions and quantiles of the normal distribution.

Sources: Shepherd and Laframboise 1981, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 <= x < ∞"; Wichura
1988, "Algorithm AS 241: the percentage points of the normal distribution", for the ranges of quantiles.
"""
# ruff: noqa: A004  NumPy's names

from __future__ import annotations

import math
from typing import Final

from tileir.ops.shared.foundation import Operand, Tensor, call, floating, rounded_once
from tileir.ops.special.chebyshev import ERFCX, QUANTILE, QUANTILE_FAR_TAIL, QUANTILE_TAIL, series
from tileir.tile.builder_functions import abs, erf, exp, log, override_gradient, round, sqrt, upstream

__all__ = ["erfc", "erfcx", "erfinv", "log_ndtr", "ndtri"]

_SLOPE: Final = 2 / math.sqrt(math.pi)
"""The derivative of erf at 0."""
_BORDER: Final = 0.5
"""Bound above which 1 - erf(x) would lose digits."""
_CENTRE: Final = 0.425
_TAIL: Final = (1.6, 5.0, 27.5)
"""Bounds of ``√-log p`` in tails of the normal distribution."""


@rounded_once
def erfc(x: Operand) -> Tensor:
    """Return ``1 - erf(x)``, with full precision also where that is small."""
    x = floating(x)
    far = x > _BORDER
    y = call("cond", far, _erfcx_of_positive(call("cond", far, x, 1)) * _bell(x), 1 - erf(x))
    return override_gradient(y, (x, upstream(y) * _bell(x) * -_SLOPE))


@rounded_once
def erfcx(x: Operand) -> Tensor:
    """Return ``exp(x**2) * erfc(x)``, which does not vanish on the right."""
    x = floating(x)
    y = _erfcx(x)
    return override_gradient(y, (x, upstream(y) * (2 * x * y - _SLOPE)))


@rounded_once
def log_ndtr(x: Operand) -> Tensor:
    """Return the logarithm of the distribution function of the normal distribution."""
    x = floating(x)
    below = x < -1
    scaled = x * -math.sqrt(0.5)
    left = log(_erfcx_of_positive(call("cond", below, scaled, 1)) * 0.5) - scaled * scaled
    half = erfc(-scaled) * -0.5
    one = half + 1
    # log1p: restores the rounding error of the sum
    right = log(one) + (half - (one - 1)) / one
    y = call("cond", below, left, right)
    slope = math.sqrt(2 / math.pi) / _erfcx(scaled)
    return override_gradient(y, (x, upstream(y) * slope))


@rounded_once
def erfinv(y: Operand) -> Tensor:
    """Return the number whose ``erf`` is ``y``: infinite for 1 and -1, NaN beyond."""
    y = floating(y)
    x = _quantile(y * 0.5, (1 - abs(y)) * 0.5) * math.sqrt(0.5)
    return override_gradient(x, (y, upstream(x) * exp(x * x) * (1 / _SLOPE)))


@rounded_once
def ndtri(p: Operand) -> Tensor:
    """Return the quantile of the normal distribution for a probability, infinite for 0 and 1, NaN outside."""
    p = floating(p)
    x = _quantile(p - 0.5, call("min", p, 1 - p))
    return override_gradient(x, (p, upstream(x) * exp(x * x * 0.5) * math.sqrt(2 * math.pi)))


def _bell(x: Tensor) -> Tensor:
    """Return ``exp(-x²)``, by the exact square of the first bits of x, so that no digit is lost for large x."""
    short = round(x * 16) * (1 / 16)
    far = abs(x) < 32
    return call("cond", far, exp(-short * short) * exp((short - x) * (short + x)), exp(-abs(x)) * 0)


def _erfcx(x: Tensor) -> Tensor:
    positive = _erfcx_of_positive(abs(x))
    return call("cond", x < 0, 2 / _bell(x) - positive, positive)


def _erfcx_of_positive(x: Tensor) -> Tensor:
    scaled = call("cond", x == math.inf, 1, (x - 3.75) / (x + 3.75))
    return series(scaled, ERFCX) / (x + x + 1)


def _quantile(q: Tensor, tail: Tensor) -> Tensor:
    """Return the quantile of ``1/2 + q``; ``tail`` is ``1/2 - |q|`` without an error."""
    near = abs(q) <= _CENTRE
    square = call("cond", near, q, 0) * (1 / _CENTRE)
    centre = q * series(2 * square * square - 1, QUANTILE)
    root = sqrt(-log(call("cond", near, 0.05, tail)))
    first, second, last = _TAIL
    outer = root > second
    inner_series = series(
        (call("cond", outer, second, root) - (first + second) / 2) * (2 / (second - first)), QUANTILE_TAIL
    )
    bounded = call("cond", outer, call("cond", root > last, last, root), second)
    outer_series = series((bounded - (second + last) / 2) * (2 / (last - second)), QUANTILE_FAR_TAIL)
    far = call("cond", tail == 0, math.inf, call("cond", outer, outer_series, inner_series))
    return call("cond", near, centre, call("cond", tail >= 0, call("cond", q < 0, -far, far), math.nan))
