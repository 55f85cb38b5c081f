"""Orthogonal polynomials, by the recurrences of Abramowitz and Stegun 1964, 22.7: a loop to the highest degree.

Degrees are numbers or tensors, whose elements may differ, and are truncated to integers; for a negative degree the
polynomial is 0. There are no derivatives.
"""
# ruff: noqa: A004  NumPy's names

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from tileir.ops.arithmetic.reductions import max
from tileir.ops.shared.foundation import Operand, Tensor, broadcast_dims, call, expand, floating, rounded_once
from tileir.tile.building.loops import while_loop

__all__ = [
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]

Step: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Step of a recurrence: from a degree, x, and the polynomials of the two previous degrees to the next polynomial."""


@rounded_once
def chebyshev_polynomial_t(x: Operand, n: Operand) -> Tensor:
    """Return Chebyshev's polynomial of the first kind, ``cos(n acos(x))``."""
    return _polynomial(x, n, lambda x: x, _chebyshev)


@rounded_once
def chebyshev_polynomial_u(x: Operand, n: Operand) -> Tensor:
    """Return Chebyshev's polynomial of the second kind."""
    return _polynomial(x, n, lambda x: x + x, _chebyshev)


@rounded_once
def chebyshev_polynomial_v(x: Operand, n: Operand) -> Tensor:
    """Return Chebyshev's polynomial of the third kind."""
    return _polynomial(x, n, lambda x: x + x - 1, _chebyshev)


@rounded_once
def chebyshev_polynomial_w(x: Operand, n: Operand) -> Tensor:
    """Return Chebyshev's polynomial of the fourth kind."""
    return _polynomial(x, n, lambda x: x + x + 1, _chebyshev)


@rounded_once
def hermite_polynomial_h(x: Operand, n: Operand) -> Tensor:
    """Return Hermite's polynomial of physicists, that for the weight ``exp(-x**2)``."""
    return _polynomial(x, n, lambda x: x + x, lambda k, x, p, q: 2 * (x * p - (k - 1) * q))


@rounded_once
def hermite_polynomial_he(x: Operand, n: Operand) -> Tensor:
    """Return Hermite's polynomial of statisticians, that for the weight ``exp(-x**2 / 2)``."""
    return _polynomial(x, n, lambda x: x, lambda k, x, p, q: x * p - (k - 1) * q)


@rounded_once
def laguerre_polynomial_l(x: Operand, n: Operand) -> Tensor:
    """Return Laguerre's polynomial."""
    return _polynomial(x, n, lambda x: 1 - x, lambda k, x, p, q: ((2 * k - 1 - x) * p - (k - 1) * q) / k)


@rounded_once
def legendre_polynomial_p(x: Operand, n: Operand) -> Tensor:
    """Return Legendre's polynomial."""
    return _polynomial(x, n, lambda x: x, lambda k, x, p, q: ((2 * k - 1) * x * p - (k - 1) * q) / k)


def _chebyshev(_: Tensor, x: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return 2 * x * p - q


def _polynomial(x: Operand, n: Operand, first: Callable[[Tensor], Tensor], step: Step) -> Tensor:
    x = floating(x)
    degree = call("trunc", call("as_like", n, x))
    sizes = broadcast_dims(x, degree)
    x, degree = (expand(each, sizes) if sizes else each for each in (x, degree))
    highest = max(degree) if sizes else degree
    one = call("as_like", 1, highest)
    start = (
        one,
        call("cond", degree == degree, 1, x),
        call("cond", degree >= 1, first(x), call("cond", degree == 0, 1, 0 * x)),
    )
    _, _, found = while_loop(_goes_on, partial(_next, step), start, (highest, x, degree))
    return found


def _goes_on(k: Tensor, _: Tensor, __: Tensor, highest: Tensor, *___: Tensor) -> Tensor:
    return k < highest


def _next(
    step: Step, k: Tensor, before: Tensor, value: Tensor, _: Tensor, x: Tensor, degree: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    k = k + 1
    goes_on = k <= degree
    return k, call("cond", goes_on, value, before), call("cond", goes_on, step(k, x, value, before), value)
