"""exp and functions based on it: sigmoid, tanh, sinh, cosh and erf.

The exponential is that of Cody and Waite ("Software Manual for the Elementary Functions", 1980): with
``n = round(x / ln 2)`` and ``r = x - n ln 2`` in two steps, ``exp(x) = 2**n exp(r)``, a polynomial. Adding and
subtracting 1.5 · 2**digits rounds without a conversion and leaves n in the low bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op
from tileir.semtree.functions import coefficients
from tileir.semtree.functions.draft import Draft, Expansion, Term, at_least, at_most, fma, horner, where
from tileir.semtree.functions.formats import LN_2, format_of


def exp(draft: Draft, x: Term) -> Term:
    """Return exp, to the last bit of denormals."""
    return exp_wide(draft, at_least(at_most(x, 89.0 if _single(x) else 710.0), vanishing(x)))


def exp_wide(draft: Draft, x: Term, shift: int = 0, tail: Term | None = None) -> Term:
    """Return ``exp(x + tail) · 2**shift`` for ``x`` a little beyond the range of the result at most.

    The scale is applied in two halves, so that neither overflows and denormals are rounded once.
    """
    form = format_of(x)
    power, fraction = _reduced(draft, x, tail)
    exponent = draft.let("exp_n", power.bits - (form.magic_bits - 2 * form.bias - shift))
    half = draft.let("exp_half", exponent >> 1)
    return fraction * (half << form.digits).real * ((exponent - half) << form.digits).real


def exp_narrow(draft: Draft, x: Term) -> Term:
    """Return exp where the result is a normal number; NaN stays NaN."""
    form = format_of(x)
    power, fraction = _reduced(draft, x, None)
    return fraction * ((power.bits - (form.magic_bits - form.bias)) << form.digits).real


def _reduced(draft: Draft, x: Term, tail: Term | None) -> tuple[Term, Term]:
    """Return ``n + magic`` and ``exp(x + tail - n ln 2)``."""
    form = format_of(x)
    high, low = form.parts(LN_2, 2)
    x = draft.let("exp_x", x)
    power = draft.let("exp_power", fma(x, 1 / math.log(2), form.magic))
    count = draft.let("exp_count", power - form.magic)
    rest = fma(count, -high, x)  # exact
    rest = fma(count, -low, rest) if tail is None else rest + fma(count, -low, tail)
    rest = draft.let("exp_r", rest)
    return power, horner(rest, (1.0, 1.0, *coefficients.EXP.of(form.dtype)))


def sigmoid(draft: Draft, x: Term) -> Term:
    """Return 1 / (1 + exp(-x)), by way of ``exp(-|x|)`` so that both tails keep their precision."""
    small = draft.let("sigmoid_exp", exp_wide(draft, at_least(-abs(x), vanishing(x))))
    return where(x < 0.0, small, 1.0) / (small + 1.0)


def tanh(draft: Draft, x: Term) -> Term:
    """Return tanh: a rational function of x², but in f64 beyond 5/8 ``1 - 2 / (exp(2x) + 1)``."""
    form = format_of(x)
    numerator, denominator = coefficients.TANH_NUMERATOR.of(form.dtype), coefficients.TANH_DENOMINATOR.of(form.dtype)
    size = draft.let("tanh_size", at_most(abs(x), 9.02 if _single(x) else 20.0))
    square = draft.let("tanh_square", size * size)
    if _single(x):
        ratio = size * horner(square, numerator) / horner(square, denominator)
        return form.copysign(at_most(ratio, 1.0), x)
    large = draft.let("tanh_large", size > 0.625)
    up = where(large, -2.0, size * (square * horner(square, numerator)))
    down = where(large, exp_narrow(draft, size + size) + 1.0, horner(square, denominator))
    return form.copysign(where(large, 1.0, size) + up / down, x)


def sinh(draft: Draft, x: Term) -> Term:
    """Return sinh: a polynomial up to 1, ``exp(x)/2 - exp(-x)/2`` beyond."""
    form = format_of(x)
    size = draft.let("sinh_size", at_most(abs(x), _most(x)))
    square = draft.let("sinh_square", size * size)
    near = fma(size * square, horner(square, coefficients.SINH.of(form.dtype)), size)
    half = draft.let("sinh_half", exp_wide(draft, size, shift=-1))
    return form.copysign(where(size > 1.0, half - 0.25 / half, near), x)


def cosh(draft: Draft, x: Term) -> Term:
    """Return cosh, ``exp(x)/2 + exp(-x)/2``."""
    half = draft.let("cosh_half", exp_wide(draft, at_most(abs(x), _most(x)), shift=-1))
    return half + 0.25 / half


def erf(draft: Draft, x: Term) -> Term:
    """Return erf: a polynomial times x near 0, ``1 - exp(log erfc)`` with a polynomial for the logarithm elsewhere."""
    form = format_of(x)
    border, most = (0.925, 4.0) if _single(x) else (1.0, 6.0)
    size = draft.let("erf_size", at_most(abs(x), most))
    square = draft.let("erf_square", size * size)
    near = fma(size, horner(square, coefficients.ERF.of(form.dtype)), size)
    far = 1.0 - exp_narrow(draft, horner(size, coefficients.ERFC.of(form.dtype)))
    return form.copysign(where(size > border, far, near), x)


def erf_narrow(draft: Draft, x: Term) -> Term:
    """Return erf with the digits of f16: a polynomial times x, up to where the result rounds to 1."""
    size = draft.let("erf_size", at_most(abs(x), 2.75))
    square = draft.let("erf_square", size * size)
    return format_of(x).copysign(size * horner(square, coefficients.ERF_NARROW), x)


def _single(x: Term) -> bool:
    return x.type.dtype is DType.F32


def vanishing(x: Term) -> float:
    """Return an argument at and below which both halves of the scale are 0.

    The product is exact then. Otherwise one half is rounded to 0, as for exp(-104) in f32, which some processors
    compute a hundred times as slowly; and masked scores, which are minus infinity, are common.
    """
    return 0.25 - 2 * format_of(x).bias * math.log(2)


def _most(x: Term) -> float:
    return 90.0 if _single(x) else 711.0


EXPANSIONS: Final[Mapping[Op, Expansion]] = MappingProxyType(
    {
        Op.EXP: Expansion(exp, 1.0, 1.0),
        Op.SINH: Expansion(sinh),
        Op.COSH: Expansion(cosh),
        Op.TANH: Expansion(tanh, 6.0),
        Op.SIGMOID: Expansion(sigmoid, 3.0, 3.0),
        Op.ERF: Expansion(erf, 1.375, 1.0, erf_narrow),
    }
)
