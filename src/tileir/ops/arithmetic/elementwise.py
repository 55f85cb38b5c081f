"""Elementwise arithmetic, roundings, exponentials and trigonometry.

All broadcast. They are formulas over Tile's own functions, in :mod:`tileir.tile.builder_functions`; for f16 and bf16,
they are computed in f32, and rounded once.
"""
# ruff: noqa: A004  NumPy's names

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any, Final

from tileir.core.dtype import DType
from tileir.ops.shared.foundation import (
    Dim,
    Operand,
    Tensor,
    call,
    cast_to,
    dtype_of,
    floating,
    like,
    mistaken,
    rounded_once,
    tensor_of,
    wide,
)
from tileir.tile.builder_functions import (
    abs,
    atan,
    cos,
    exp,
    log,
    override_gradient,
    round,
    sin,
    sqrt,
    tanh,
    upstream,
)

__all__ = [
    "acosh",
    "asinh",
    "atan2",
    "atanh",
    "bit_cast",
    "cast",
    "clip",
    "copysign",
    "deg2rad",
    "exp2",
    "expm1",
    "full_like",
    "heaviside",
    "hypot",
    "lerp",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logit",
    "maximum",
    "minimum",
    "ones_like",
    "rad2deg",
    "reciprocal",
    "scale_gradient",
    "sinc",
    "square",
    "xlogy",
    "zeros_like",
]

_INFINITY: Final = math.inf
_SINC_RATIOS: Final = tuple(2 * k * (2 * k + 3) for k in builtins.range(1, 9))
"""Divisors of the terms of its derivative's series, each relative to the previous one; eight suffice for f64 up to 1.
"""


def cast(x: Operand, dtype: DType | str, *, saturate: bool = False) -> Tensor:
    """Convert every element to another type by Tile's rules: floats become integers towards zero, within limits.

    Numbers beyond the range of a float become infinite, or NaN if it has no infinities, as f8e4m3fn; with ``saturate``
    they and infinities become its largest finite number, and only NaN remains NaN.

    Raises:
        TileError: TIL206, there is no such type; TIL217, ``saturate`` for integers, which wrap.
    """
    target = dtype_of(dtype)
    if not saturate:
        return cast_to(x, target)
    if not target.is_float:
        raise mistaken(f"saturate is for casts to floats; clip elements to the range of {target.value} instead")
    largest = target.format.largest
    value = wide(tensor_of(x, x)) if target.bits < DType.F32.bits else cast_to(x, target)  # it holds the bounds
    return cast_to(clip(value, -largest, largest), target)


def bit_cast(x: Tensor, dtype: DType | str) -> Tensor:
    """Read the bits of every element as another type of the same width; shapes stay.

    Integers are in two's complement, floats in the formats of IEEE 754; bool has no bits. The bit pattern of a computed
    NaN is unspecified. Bits have no derivative.

    Raises:
        TileError: TIL206, there is no such type; TIL217, it is bool; TIL302 when compiling, elements have another
            number of bits; TIL335, a derivative through bits is asked for.

    Source: NumPy's ``view``, ONNX' ``BitCast``.
    """
    target = dtype_of(dtype)
    if target.is_bool:
        raise mistaken("bits cannot be read as bool; compare the elements with 0 instead")
    return call(f"bits_as_{target.value}", x)


def full_like(x: Tensor, value: Operand) -> Tensor:
    """Return ``value`` for each element of ``x``, in its dtype."""
    return like(x, call("as_like", value, x))


def zeros_like(x: Tensor) -> Tensor:
    """Return 0 for each element of ``x``, in its dtype."""
    return full_like(x, 0)


def ones_like(x: Tensor) -> Tensor:
    """Return 1 for each element of ``x``, in its dtype."""
    return full_like(x, 1)


def scale_gradient(x: Tensor, scale: Operand) -> Tensor:
    """Return ``x``, with its gradient multiplied by ``scale``.

    A negative one reverses it: Ganin and Lempitsky, "Unsupervised domain adaptation by backpropagation" (2015). Source:
    PlaidML's ``scale_gradient``.
    """
    return call("reverse_grad", x, -scale)


def square(x: Tensor) -> Tensor:
    """Return ``x * x``."""
    return x * x


def reciprocal(x: Operand) -> Tensor:
    """Return ``1 / x`` as a float."""
    return call("recip", call("mul", x, 1.0))


def maximum(x: Operand, y: Operand) -> Tensor:
    """Return the greater of two; NaN if one is NaN."""
    return call("max", x, y)


def minimum(x: Operand, y: Operand) -> Tensor:
    """Return the lesser of two; NaN if one is NaN."""
    return call("min", x, y)


def clip(x: Tensor, low: Operand | None = None, high: Operand | None = None) -> Tensor:
    """Return ``x``, at least ``low`` and at most ``high``, if they are given.

    Where ``low`` is above ``high``, ``high`` wins. NaN stays. Elements that are equal to a bound keep their gradient.

    Raises:
        TileError: TIL217, there is neither bound.
    """
    if low is None and high is None:
        raise mistaken("clip needs a bound: low, high or both")
    result = x if low is None else call("cond", x < low, low, x)
    return result if high is None else call("cond", result > high, high, result)


@rounded_once
def lerp(start: Operand, end: Operand, weight: Operand) -> Tensor:
    """Return ``start + weight * (end - start)``."""
    return call("add", start, call("mul", weight, call("sub", _float(end), _float(start))))


@rounded_once
def exp2(x: Operand) -> Tensor:
    """Return 2 to the power of ``x``."""
    return call("pow", 2.0, x)


@rounded_once
def expm1(x: Operand) -> Tensor:
    """Return ``exp(x) - 1`` without cancellation near 0: ``tanh(x / 2) * (exp(x) + 1)``.

    The gradient is ``exp(x)``; that of the formula cancels for large negative x.
    """
    power_of_e = exp(x)
    x = call("as_like", x, power_of_e)
    y = tanh(x * 0.5) * (power_of_e + 1)
    return override_gradient(y, (x, upstream(y) * power_of_e))


@rounded_once
def log1p(x: Operand) -> Tensor:
    """Return ``log(1 + x)`` without cancellation near 0.

    With ``u = 1 + x`` rounded it is ``log(u) * x / (u - 1)``, in which the two errors of rounding cancel, and
    ``x`` where ``u`` is 1. Source: Kahan; Goldberg 1991, "What every computer scientist should know about
    floating-point arithmetic", theorem 4. The gradient is just ``1 / u``.
    """
    u = call("add", x, 1.0)
    d = u - 1.0
    exact = call("logical_or", d == 0.0, u == _INFINITY)
    correction = call("cond", exact, 1.0, call("div", x, call("cond", exact, 1.0, d)))
    y = call("cond", d == 0.0, x, log(u) * correction)
    return override_gradient(y, (u, upstream(y) / u))


@rounded_once
def log2(x: Operand) -> Tensor:
    """Return the logarithm to the base 2."""
    return log(x) * (1 / math.log(2))


@rounded_once
def log10(x: Operand) -> Tensor:
    """Return the logarithm to the base 10."""
    return log(x) * (1 / math.log(10))


@rounded_once
def logaddexp(x: Operand, y: Operand) -> Tensor:
    """Return ``log(exp(x) + exp(y))`` without overflow: ``max(x, y) + log1p(exp(-|x - y|))``."""
    difference = call("sub", _float(x), _float(y))
    equal_infinities = difference != difference
    return call("max", x, y) + log1p(exp(-abs(call("cond", equal_infinities, 0, difference))))


@rounded_once
def logit(p: Operand) -> Tensor:
    """Return ``log(p / (1 - p))``, the inverse of ``sigmoid``; its gradient is infinite at 0 and 1."""
    rest = call("sub", 1.0, p)
    p = call("as_like", p, rest)
    y = log(p / rest)
    return override_gradient(y, (p, upstream(y) / (p * rest)))


@rounded_once
def xlogy(x: Operand, y: Operand) -> Tensor:
    """Return ``x * log(y)``, and 0 where ``x`` is 0, unless ``y`` is NaN.

    Where ``x`` is 0, its gradient is ``log(y)`` if that is finite, else 0.
    """
    infinite = compared(operator.le, y, 0) | compared(operator.eq, y, _INFINITY)
    return call("mul", x, log(call("cond", infinite & compared(operator.eq, x, 0), 1, y)))


@rounded_once
def asinh(x: Operand) -> Tensor:
    """Return the inverse hyperbolic sine: ``±log1p(a + a * a / (1 + sqrt(a * a + 1)))`` of ``a = |x|``.

    Above 1 it is ``±(log(a) + log(1 + sqrt(1 + 1 / a**2)))``, in which no square overflows.
    """
    a = call("mul", abs(x), 1.0)
    near, far = call("cond", a > 1, 1.0, a), call("cond", a > 1, a, 1.0)
    above = log(far) + log(sqrt(square(1 / far) + 1) + 1)
    return _signed(x, call("cond", a > 1, above, log1p(near + near * near / (sqrt(near * near + 1) + 1))))


@rounded_once
def acosh(x: Operand) -> Tensor:
    """Return the inverse hyperbolic cosine: ``log1p(t + sqrt(t * (t + 2)))`` of ``t = x - 1``; NaN below 1.

    Above 2 it is ``log(x) + log(1 + sqrt(1 - 1 / x**2))``, in which no square overflows. The gradient is
    ``1 / (sqrt(x - 1) * sqrt(x + 1))``, infinite at 1.
    """
    t = call("sub", x, 1.0)
    near, far = call("max", call("cond", t > 1, 1.0, t), -1.0), call("cond", t > 1, call("mul", x, 1.0), 2.0)
    above = log(far) + log(sqrt(1 - square(1 / far)) + 1)
    y = call("cond", t > 1, above, log1p(near + sqrt(near * (near + 2))))
    return override_gradient(y, (t, upstream(y) / (sqrt(t) * sqrt(t + 2))))


@rounded_once
def atanh(x: Operand) -> Tensor:
    """Return the inverse hyperbolic tangent: ``±log1p(2 * a / (1 - a)) / 2`` of ``a = |x|``.

    The gradient is ``1 / ((1 - x) * (1 + x))``, infinite at 1 and -1.
    """
    x = call("mul", x, 1.0)
    a = abs(x)
    y = _signed(x, log1p(a * 2 / (1 - a)) * 0.5)
    return override_gradient(y, (x, upstream(y) / ((1 - x) * (1 + x))))


@rounded_once
def atan2(y: Operand, x: Operand) -> Tensor:
    """Return the angle of the point ``(x, y)``, from -π to π; that of the origin is 0.

    The sign of a zero is ignored. The arctangent is taken of a quotient that is at most 1. Gradients at the origin are
    0.
    """
    across, up = _magnitude(_float(x)), _magnitude(_float(y))
    greatest, lesser_one = call("max", across, up), call("min", across, up)
    greater_one = call("cond", greatest == 0, _INFINITY, greatest)
    quotient = call("cond", lesser_one == _INFINITY, 1.0, call("mul", lesser_one, 1.0) / greater_one)
    angle = atan(quotient)
    angle = call("cond", call("cmp_lt", across, up), math.pi / 2 - angle, angle)
    angle = call("cond", compared(operator.lt, x, 0), math.pi - angle, angle)
    return call("cond", compared(operator.lt, y, 0), -angle, angle)


@rounded_once
def hypot(x: Operand, y: Operand) -> Tensor:
    """Return ``sqrt(x * x + y * y)`` without overflow of the squares; infinite if one is, even if the other is NaN.

    Gradients at the origin are 0; an infinite operand gets all of the gradient.
    """
    across, up = _magnitude(_float(x)), _magnitude(_float(y))
    greatest, lesser_one = call("max", across, up), call("min", across, up)
    infinite = call("bit_or", across == _INFINITY, up == _INFINITY)
    alone = call("bit_or", infinite, greatest == 0)
    greater_one, lesser_one = call("cond", alone, 1, greatest), call("cond", alone, 0, lesser_one)
    length = greater_one * sqrt(square(call("mul", lesser_one, 1.0) / greater_one) + 1)
    return call("cond", alone, call("max", _if_infinite(across), _if_infinite(up)), length)


@rounded_once
def sinc(x: Operand) -> Tensor:
    """Return ``sin(π x) / (π x)``, and 1 at 0.

    Sine and cosine are taken of ``π (x - n)`` with the nearest integer n, which is exact, and 0 for all integers. The
    gradient by the angle ``a`` is ``(cos(a) - sin(a) / a) / a``, but up to 1, where that cancels, its series ``-a/3 (1
    - a²/10 (1 - a²/28 (1 - …)))``.
    """
    angle, whole = call("mul", x, math.pi), round(x)
    rest = call("sub", x, whole) * math.pi
    sign = 1 - abs(whole - round(whole * 0.5) * 2) * 2
    y = call("cond", angle == 0, 1, sin(rest) * sign / _nonzero(angle))
    near = abs(angle) < 1
    far = call("cond", near, 1, angle)
    opposite = -square(call("cond", near, angle, 0))
    series = opposite * (1 / _SINC_RATIOS[-1]) + 1
    for ratio in reversed(_SINC_RATIOS[:-1]):
        series = opposite * (1 / ratio) * series + 1
    slope = call("cond", near, angle * (-1 / 3) * series, (cos(rest) - sin(rest) / far) * sign / far)
    return override_gradient(y, (angle, upstream(y) * slope))


@rounded_once
def deg2rad(x: Operand) -> Tensor:
    """Return degrees as radians."""
    return call("mul", x, math.pi / 180)


@rounded_once
def rad2deg(x: Operand) -> Tensor:
    """Return radians as degrees."""
    return call("mul", x, 180 / math.pi)


def copysign(x: Operand, y: Operand) -> Tensor:
    """Return ``|x|`` with the sign of ``y``; 0 counts as positive, whatever its sign. A number adapts to the other."""
    magnitude = _magnitude(x)
    if isinstance(y, Tensor) and not isinstance(magnitude, Tensor):
        magnitude = like(y, magnitude)
    return call("cond", compared(operator.lt, y, 0), -magnitude, magnitude)


def heaviside(x: Tensor, at_zero: Operand) -> Tensor:
    """Return 0 below 0, 1 above, ``at_zero`` at 0, and NaN for NaN, as NumPy's."""
    return call("cond", x == 0, at_zero, call("cond", x < 0, 0, call("cond", x > 0, 1, x)))


def compared(comparison: Callable[[Any, float], Any], x: Operand, number: float) -> Any:
    """Return the comparison of ``x`` with a number: a tensor, or a bool if ``x`` is a number, too."""
    return comparison(tensor_of(x, x) if isinstance(x, Dim) else x, number)


def _float(x: Operand) -> Operand:
    """Return a float, so that differences and magnitudes of narrow integers do not wrap."""
    return float(x) if isinstance(x, int | float) else floating(x)


def _magnitude(x: Operand) -> Operand:
    return builtins.abs(x) if isinstance(x, int | float) else abs(x)


def _if_infinite(x: Operand) -> Operand:
    return call("cond", x == _INFINITY, x, 0) if isinstance(x, Tensor) else x * (x == _INFINITY)


def _nonzero(x: Tensor) -> Tensor:
    """Return a divisor with 1 in place of zeros."""
    return call("cond", x == 0, 1, x)


def _signed(x: Operand, magnitude: Tensor) -> Tensor:
    return call(
        "cond", call("cmp_eq", x, 0), call("mul", x, 1.0), call("cond", call("cmp_lt", x, 0), -magnitude, magnitude)
    )
