"""Bessel functions of the orders 0 and 1.

Near 0 they are Chebyshev series in the square of their argument, far from 0 series in its inverse. Source: NIST Digital
Library of Mathematical Functions, 10.6 and 10.29 for gradients, 10.17 and 10.40 far from 0.
"""
# ruff: noqa: A004  NumPy's names

from __future__ import annotations

import math

from tileir.ops.shared.foundation import Operand, Tensor, call, floating, rounded_once
from tileir.ops.special import chebyshev as table
from tileir.ops.special.chebyshev import series
from tileir.tile.builder_functions import abs, cos, exp, log, override_gradient, sin, sqrt, upstream

__all__ = [
    "bessel_i0",
    "bessel_i0e",
    "bessel_i1",
    "bessel_i1e",
    "bessel_j0",
    "bessel_j1",
    "bessel_k0",
    "bessel_k0e",
    "bessel_k1",
    "bessel_k1e",
    "bessel_y0",
    "bessel_y1",
    "spherical_bessel_j0",
]


@rounded_once
def bessel_j0(x: Operand) -> Tensor:
    """Return the Bessel function of the first kind of order 0."""
    x = floating(x)
    y = _j0(x)
    return override_gradient(y, (x, upstream(y) * -_j1(x)))


@rounded_once
def bessel_j1(x: Operand) -> Tensor:
    """Return the Bessel function of the first kind of order 1."""
    x = floating(x)
    y = _j1(x)
    return override_gradient(y, (x, upstream(y) * (_j0(x) - _ratio(y, x, 0.5))))


@rounded_once
def bessel_y0(x: Operand) -> Tensor:
    """Return the Bessel function of the second kind of order 0: infinite at 0, NaN below."""
    x = floating(x)
    y = _y0(x)
    return override_gradient(y, (x, upstream(y) * -_y1(x)))


@rounded_once
def bessel_y1(x: Operand) -> Tensor:
    """Return the Bessel function of the second kind of order 1: infinite at 0, NaN below."""
    x = floating(x)
    y = _y1(x)
    return override_gradient(y, (x, upstream(y) * (_y0(x) - y / x)))


@rounded_once
def bessel_i0(x: Operand) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0."""
    x = floating(x)
    y = _grown(_i0e(x), x, abs(x))
    return override_gradient(y, (x, upstream(y) * exp(abs(x)) * _i1e(x)))


@rounded_once
def bessel_i0e(x: Operand) -> Tensor:
    """Return ``exp(-abs(x)) * bessel_i0(x)``."""
    x = floating(x)
    y = _i0e(x)
    return override_gradient(y, (x, upstream(y) * (_i1e(x) - _signed(y, x))))


@rounded_once
def bessel_i1(x: Operand) -> Tensor:
    """Return the modified Bessel function of the first kind of order 1."""
    x = floating(x)
    y = _grown(_i1e(x), x, x)
    return override_gradient(y, (x, upstream(y) * (exp(abs(x)) * _i0e(x) - _ratio(y, x, 0.5))))


@rounded_once
def bessel_i1e(x: Operand) -> Tensor:
    """Return ``exp(-abs(x)) * bessel_i1(x)``."""
    x = floating(x)
    y = _i1e(x)
    return override_gradient(y, (x, upstream(y) * (_i0e(x) - _signed(y, x) - _ratio(y, x, 0.5))))


@rounded_once
def bessel_k0(x: Operand) -> Tensor:
    """Return the modified Bessel function of the second kind of order 0: infinite at 0, NaN below."""
    x = floating(x)
    y = _scaled(_k0(x), x, far=-1)
    return override_gradient(y, (x, upstream(y) * -_scaled(_k1(x), x, far=-1)))


@rounded_once
def bessel_k0e(x: Operand) -> Tensor:
    """Return ``exp(x) * bessel_k0(x)``."""
    x = floating(x)
    y = _scaled(_k0(x), x, near=1)
    return override_gradient(y, (x, upstream(y) * (y - _scaled(_k1(x), x, near=1))))


@rounded_once
def bessel_k1(x: Operand) -> Tensor:
    """Return the modified Bessel function of the second kind of order 1: infinite at 0, NaN below."""
    x = floating(x)
    y = _scaled(_k1(x), x, far=-1)
    return override_gradient(y, (x, upstream(y) * -(_scaled(_k0(x), x, far=-1) + y / x)))


@rounded_once
def bessel_k1e(x: Operand) -> Tensor:
    """Return ``exp(x) * bessel_k1(x)``."""
    x = floating(x)
    y = _scaled(_k1(x), x, near=1)
    return override_gradient(y, (x, upstream(y) * (y - _scaled(_k0(x), x, near=1) - y / x)))


@rounded_once
def spherical_bessel_j0(x: Operand) -> Tensor:
    """Return ``sin(x) / x``, and 1 at 0: the spherical Bessel function of the first kind of order 0."""
    x = floating(x)
    zero = x == 0
    y = call("cond", abs(x) == math.inf, 0, call("cond", zero, 1, sin(x) / call("cond", zero, 1, x)))
    near = abs(x) < 0.5
    square = call("cond", near, x, 0) * x
    slope = (
        x * (-1 / 3) * (1 - square * (1 / 10) * (1 - square * (1 / 28) * (1 - square * (1 / 54) * (1 - square / 88))))
    )
    return override_gradient(y, (x, upstream(y) * call("cond", near, slope, (cos(x) - y) / call("cond", near, 1, x))))


def _grown(y: Tensor, x: Tensor, far: Tensor) -> Tensor:
    return call("cond", abs(x) == math.inf, far, exp(abs(x)) * y)


def _ratio(y: Tensor, x: Tensor, at_zero: float) -> Tensor:
    """Return ``y / x``, and ``at_zero`` where x is 0."""
    zero = x == 0
    return call("cond", zero, at_zero, y / call("cond", zero, 1, x))


def _signed(y: Tensor, x: Tensor) -> Tensor:
    return call("cond", x < 0, -y, call("cond", x == 0, 0, y))


def _near(x: Tensor, limit: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return a mask of arguments up to a limit, and the arguments clamped to at most and to at least the limit."""
    near = x <= limit
    return near, call("cond", near, x, limit), call("cond", near, limit, x)


def _wave(x: Tensor, cosine: tuple[float, ...], sine: tuple[float, ...], order: int, *, second: bool) -> Tensor:
    """Return a Bessel function for x from 8 on: ``√(2 / πx) (P cos χ - Q sin χ)`` of the first kind.

    That of the second kind has ``P sin χ + Q cos χ``. Sine and cosine of ``χ = x - (2 order + 1) π / 4`` are computed
    from those of x without loss.
    """
    inverse = 8 / x
    t = 2 * inverse * inverse - 1
    p, q = series(t, cosine), series(t, sine) / x
    up, down = sin(x) + cos(x), sin(x) - cos(x)
    cosine_of, sine_of = (up, down) if order == 0 else (down, -up)
    value = p * sine_of + q * cosine_of if second else p * cosine_of - q * sine_of
    return call("cond", x == math.inf, 0, value / sqrt(x * math.pi))


def _j0(x: Tensor) -> Tensor:
    near, small, large = _near(abs(x), 8)
    return call(
        "cond",
        near,
        series(small * small * (1 / 32) - 1, table.J0_NEAR),
        _wave(large, table.J0_COSINE, table.J0_SINE, 0, second=False),
    )


def _j1(x: Tensor) -> Tensor:
    near, small, large = _near(abs(x), 8)
    far = _wave(large, table.J1_COSINE, table.J1_SINE, 1, second=False)
    return call("cond", near, x * series(small * small * (1 / 32) - 1, table.J1_NEAR), call("cond", x < 0, -far, far))


def _y0(x: Tensor) -> Tensor:
    near, small, large = _near(x, 8)
    regular = series(small * small * (1 / 32) - 1, table.Y0_NEAR)
    y = call("cond", near, regular + (2 / math.pi) * log(small) * _j0(small), _far_y(large, 0))
    return call("cond", x == 0, -math.inf, y)


def _y1(x: Tensor) -> Tensor:
    near, small, large = _near(x, 8)
    regular = small * series(small * small * (1 / 32) - 1, table.Y1_NEAR)
    y = call("cond", near, regular + (2 / math.pi) * (log(small) * _j1(small) - 1 / small), _far_y(large, 1))
    return call("cond", x == 0, -math.inf, y)


def _far_y(x: Tensor, order: int) -> Tensor:
    cosine, sine = ((table.J0_COSINE, table.J0_SINE), (table.J1_COSINE, table.J1_SINE))[order]
    return _wave(x, cosine, sine, order, second=True)


def _i0e(x: Tensor) -> Tensor:
    near, small, large = _near(abs(x), 8)
    far = series(16 / large - 1, table.I0_FAR) / sqrt(large)
    return call("cond", near, series(small * (1 / 4) - 1, table.I0_NEAR), far)


def _i1e(x: Tensor) -> Tensor:
    near, small, large = _near(abs(x), 8)
    far = series(16 / large - 1, table.I1_FAR) / sqrt(large)
    close = x * series(small * (1 / 4) - 1, table.I1_NEAR) / (small + 1)
    return call("cond", near, close, call("cond", x < 0, -far, far))


def _k0(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return K₀ up to 2, and ``exp(x)`` times it beyond."""
    _, small, large = _near(x, 2)
    t = small * small * 0.5 - 1
    near = series(t, table.K0_NEAR) - log(small * 0.5) * series(t, table.I0_SHORT)
    return call("cond", x == 0, math.inf, near), series(4 / large - 1, table.K0_FAR) / sqrt(large)


def _k1(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return K₁ up to 2, and ``exp(x)`` times it beyond."""
    _, small, large = _near(x, 2)
    t = small * small * 0.5 - 1
    near = series(t, table.K1_NEAR) / small + log(small * 0.5) * small * series(t, table.I1_SHORT)
    return call("cond", x == 0, math.inf, near), series(4 / large - 1, table.K1_FAR) / sqrt(large)


def _scaled(parts: tuple[Tensor, Tensor], x: Tensor, near: int = 0, far: int = 0) -> Tensor:
    """Return the first value, if ``near`` times exp(x), for x up to 2; else the second, if ``far`` times exp(-x)."""
    first, second = parts
    if near:
        first = first * exp(x)
    if far:
        second = second * exp(-x)
    return call("cond", x <= 2, first, second)
