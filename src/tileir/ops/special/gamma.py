"""The gamma function: its logarithm, the derivatives of that, and Hurwitz' zeta function.

Arguments are shifted by recurrences into the range of asymptotic series, and reflected if they are negative. Sources:
Abramowitz and Stegun 1964, "Handbook of mathematical functions", chapter 6; NIST Digital Library of Mathematical
Functions, 5.11, 5.15 and 25.11.
"""
# ruff: noqa: A004  NumPy's names

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tileir.ops.arithmetic.reductions import sum
from tileir.ops.arrays.shaping import expand_dims
from tileir.ops.shared.foundation import (
    Operand,
    Tensor,
    broadcast_dims,
    call,
    expand,
    floating,
    mistaken,
    position,
    rank_of,
    rounded_once,
)
from tileir.ops.special.chebyshev import LGAMMA, series
from tileir.tile.builder_functions import abs, ceil, floor, log, override_gradient, round, sin, tan, upstream

__all__ = ["digamma", "lgamma", "polygamma", "zeta"]

_FAR: Final = 10
"""Bound above which asymptotic series of few terms have all digits of f64."""

_BERNOULLI: Final = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)
"""Bernoulli's numbers of even indices from 2 on."""


@rounded_once
def lgamma(x: Operand) -> Tensor:
    """Return ``log(abs(Γ(x)))``, infinite at 0 and negative integers; its gradient is ``digamma``."""
    x = floating(x)
    reflected = x <= 0
    magnitude = call("cond", reflected, 1 - x, x)
    value = call("cond", magnitude > _FAR, _log_gamma_far(magnitude), _log_gamma_near(magnitude))
    mirrored = math.log(math.pi) - log(abs(sin(_beyond_whole(x) * math.pi))) - value
    y = call("cond", abs(x) == math.inf, math.inf, call("cond", reflected, mirrored, value))
    return override_gradient(y, (x, upstream(y) * _digamma(x)))


@rounded_once
def digamma(x: Operand) -> Tensor:
    """Return the derivative of ``lgamma``: NaN at negative integers, infinite at 0 with the zero's opposite sign."""
    x = floating(x)
    y = _digamma(x)
    return override_gradient(y, (x, upstream(y) * _zeta(2, x)))


@rounded_once
def polygamma(n: int, x: Operand) -> Tensor:
    """Return the derivative of ``digamma`` of order ``n``, which is at least 0: ``(-1)**(n + 1) n! zeta(n + 1, x)``.

    Raises:
        TileError: TIL217, ``n`` is no integer, or negative.
    """
    if n < 0:
        raise mistaken(f"the order of polygamma is at least 0, not {n}")
    if n == 0:
        return digamma(x)
    x = floating(x)
    factor = float((-1) ** (n + 1) * math.factorial(n))
    y = _zeta(n + 1, x) * factor
    return override_gradient(y, (x, upstream(y) * _zeta(n + 2, x) * (-factor * (n + 1))))


@rounded_once
def zeta(s: Operand, q: Operand) -> Tensor:
    """Return Hurwitz' zeta function, the sum of ``(q + k)**-s`` for ``k`` from 0 on.

    It is infinite if ``s`` is 1, and if ``q`` is 0 or a negative integer, and NaN for lesser ``s`` and for powers of
    negative numbers that are not real. There is no gradient with respect to ``s``.
    """
    q = floating(q if isinstance(q, Tensor) else call("as_like", q, floating(s)))
    s = call("as_like", s, q)
    sizes = broadcast_dims(s, q)
    q = expand(q, sizes) if sizes else q
    y = _zeta(s, q)
    return override_gradient(y, (q, upstream(y) * _zeta(s + 1, q) * -s))


def _beyond_whole(x: Tensor) -> Tensor:
    """Return the distance from the nearest integer, exactly, with its sign."""
    return x - round(x)


def _log_gamma_near(x: Tensor) -> Tensor:
    """Return log Γ for 0 < x <= 10: by a series between 1 and 2, where it has zeros, and the logarithm of a product."""
    below = x < 1
    w, product = call("cond", below, x + 1, x), call("cond", below, x, 1)
    for _ in range(_FAR - 2):
        above = w > 2
        w = call("cond", above, w - 1, w)
        product = call("cond", above, product * w, product)
    logarithm = log(product)
    return (w - 1) * (w - 2) * series(w + w - 3, LGAMMA) + call("cond", below, -logarithm, logarithm)


def _log_gamma_far(x: Tensor) -> Tensor:
    """Return log Γ by Stirling's series."""
    terms = [number / ((2 * k + 2) * (2 * k + 1)) for k, number in enumerate(_BERNOULLI[:8])]
    inverse = 1 / x
    return (x - 0.5) * (log(x) - 1) + inverse * _polynomial(inverse * inverse, terms) + (math.log(2 * math.pi) - 1) / 2


def _digamma(x: Tensor) -> Tensor:
    reflected = x <= 0
    w = call("cond", reflected, 1 - x, x)
    before = call("as_like", 0, w)
    for _ in range(_FAR):
        near = w < _FAR
        before = call("cond", near, before + 1 / w, before)
        w = call("cond", near, w + 1, w)
    square = 1 / (w * w)
    terms = [number / (2 * k + 2) for k, number in enumerate(_BERNOULLI[:8])]
    value = log(w) - 0.5 / w - square * _polynomial(square, terms) - before
    rest = _beyond_whole(x)
    mirrored = call("cond", rest == 0, math.nan, value - math.pi / tan(rest * math.pi))
    return call("cond", x == 0, -1 / x, call("cond", reflected, mirrored, value))


def _zeta(s: Operand, q: Tensor) -> Tensor:
    """Return the zeta function, for negative ``q`` and integers ``s`` by the sums of both sides of 0."""
    s = call("as_like", s, q)
    positive = q > 0
    above = q - floor(q)
    value = _zeta_of_positive(s, call("cond", positive, q, above))
    odd = s - floor(s * 0.5) * 2 != 0
    left = _zeta_of_positive(s, ceil(q) - q) - _zeta_of_positive(s, 1 - q)
    mirrored = value + call("cond", odd, -left, left)
    mirrored = call("cond", floor(s) == s, mirrored, math.nan)
    y = call("cond", positive, value, call("cond", above == 0, math.inf, mirrored))
    return call("cond", s > 1, y, call("cond", s == 1, math.inf, math.nan))


def _zeta_of_positive(s: Tensor, q: Tensor) -> Tensor:
    """Return the sum of the first ten terms and, for the others, the formula of Euler and Maclaurin."""
    sizes = broadcast_dims(s, q)
    s, q = (expand(each, sizes) if sizes else each for each in (s, q))
    rank = rank_of(q)
    terms = expand(expand_dims(q, rank), (*sizes, _FAR))
    terms = terms + call("as_like", position(terms, rank, _FAR), terms)
    powers = call("pow", terms, -expand_dims(s, rank))
    w = q + _FAR
    square, last = 1 / (w * w), call("pow", w, -s)
    tail, factor = w / (s - 1) + 0.5, s / w
    for k, number in enumerate(_BERNOULLI):
        tail = tail + factor * (number / math.factorial(2 * k + 2))
        factor = factor * square * ((s + (2 * k + 1)) * (s + (2 * k + 2)))
    return sum(powers, -1) + call("cond", last == 0, 0, last * tail)


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    value = x * coefficients[-1] + coefficients[-2]
    for coefficient in reversed(coefficients[:-2]):
        value = value * x + coefficient
    return value
