"""pow, by a logarithm of more precision than the result has.

In f32 the logarithm to base 2 and its power are polynomials in f64, without a division. In f64 the logarithm is the
unevaluated sum of two numbers, after Dekker ("A floating-point technique for extending the available precision", 1971)
with fused products: its relative error stays below 2**-65, so that multiplied by an exponent of the result, at most
2**10, it is far below the last bit.

Cube roots in f32, without a division.

The bits of a float, as a number, approximate its logarithm within a few percent, so that a multiple of them
approximates ``x**(-1/3)``. One step of fourth order (Householder 1970) and one of Newton's, whose residual is computed
with fused products, refine that to a root with an error of little more than its rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from tileir.core import DType, Op
from tileir.semtree.functions import coefficients
from tileir.semtree.functions.draft import Draft, Expansion, Term, at_least, at_most, fma, horner, two_chains, where
from tileir.semtree.functions.exponential import exp_wide, vanishing
from tileir.semtree.functions.formats import FORMATS, LN_2, format_of
from tileir.semtree.functions.logarithm import scaled
from tileir.semtree.ir import Const

Pair: TypeAlias = tuple[Term, Term]
"""An unevaluated sum, the greater part first."""


_FEW: Final = 4.0
"""Largest constant exponent for which the short polynomial is precise enough."""
_LEADING: Final = 3
"""Number of coefficients that are then summed in f64; the rest is small enough for f32."""
_THIRD: Final = float(np.float32(1 / 3))
"""The exponent of cube roots."""


def power(draft: Draft, x: Term, y: Term) -> Term:
    """Return ``x ** y`` with the special values of C's ``pow``."""
    size = draft.let("pow_size", abs(x))
    known = y.expr.value if isinstance(y.expr, Const) else math.nan
    if x.type.dtype is DType.F64:
        return _signed(draft, x, y, draft.let("pow_value", _double(draft, size, y)))
    if math.isfinite(known) and known != 0.0:
        return _by_constant(draft, x, size, known)
    value = draft.let("pow_value", _single(draft, size, y))
    far = where(y < 0.0, where(size.equals(math.inf), 0.0, size), y * size)
    value = where(size < math.inf, value, where(y > 0.0, size, far))
    value = where(size.equals(0.0), where(y > 0.0, 0.0, where(y < 0.0, math.inf, y)), value)
    return _signed(draft, x, y, draft.let("pow_value", value))


def _by_constant(draft: Draft, x: Term, size: Term, y: float) -> Term:
    """Return ``x ** y`` in f32 for a finite ``y`` that is not 0: NaN for negative ``x`` where ``y`` is not whole."""
    if y == _THIRD:
        value = draft.let("pow_value", cube_root(draft, size, y))  # 0 at 0
    else:
        power = draft.let("pow_value", _single(draft, size, x.of(y)))
        value = where(size.equals(0.0), 0.0 if y > 0.0 else math.inf, power)
    whole = y == math.floor(y)
    if not whole:
        value = where(x < 0.0, math.nan, value)
    value = where(size < math.inf, value, size if y > 0.0 else where(size.equals(math.inf), 0.0, size))
    return format_of(x).copysign(value, x) if whole and y % 2.0 else value


def _single(draft: Draft, size: Term, y: Term) -> Term:
    """Return ``size ** y`` in f32 for ``size`` that is finite and not 0.

    Of ``size = 2**k m`` the polynomial for ``log2 m`` has a relative error of 2**-33, and so one of 2**-25 in the power
    of two where the result is not yet infinite or zero. Known exponents of at most 4 need less.
    """
    form = FORMATS[DType.F64]
    count, mantissa = scaled(draft, size)
    narrow = draft.let("pow_f", mantissa - 1.0)  # exact
    fraction = draft.let("pow_f", narrow.cast(DType.F64))
    few = isinstance(y.expr, Const) and abs(y.expr.value) <= _FEW
    slope = _short_slope(narrow, fraction) if few else two_chains(draft, fraction, coefficients.LOG2)
    exponent = Term(Const.of(y.expr.value, fraction.type)) if isinstance(y.expr, Const) else y.cast(DType.F64)
    # By a half: a sum fused with a product stays rounded even if sums may be reordered.
    half = fma(fraction, slope, count.cast(DType.F64)) * (exponent * 0.5)
    if not few:
        half = at_least(at_most(draft.let("pow_log", half), 100.0), -100.0)
    half = draft.let("pow_half_product", half)
    # The sum has the exponent of the result in its lowest bits, biased where that is to be a factor.
    rounder = form.magic if few else form.magic + form.bias
    power = draft.let("pow_n", fma(half, 2.0, rounder))
    value = horner(draft.let("pow_r", fma(half, 2.0, rounder - power)), coefficients.EXP2)
    scale = power.bits << form.digits
    # Adding exponents uses other units than multiplying, but would not keep NaN.
    return ((value.bits + scale).real if few else value * scale.real).cast(DType.F32)


def _short_slope(narrow: Term, fraction: Term) -> Term:
    """Return ``log2(1 + f) / f`` in f64 for few digits, of ``f`` in f32 and in f64."""
    leading, others = coefficients.LOG2_SHORT[:_LEADING], coefficients.LOG2_SHORT[_LEADING:]
    slope = horner(narrow, others).cast(DType.F64)
    for coefficient in reversed(leading):
        slope = fma(fraction, slope, coefficient)
    return slope


def _signed(draft: Draft, x: Term, y: Term, value: Term) -> Term:
    """Give ``|x| ** y`` the sign of an odd ``y``, and settle cases in which the product of logarithm and y is NaN."""
    form = format_of(x)
    half = draft.let("pow_half", y * 0.5)
    whole = draft.let("pow_whole", y.apply(Op.FLOOR).equals(y))
    odd = whole & half.apply(Op.FLOOR).differs(half)
    unit = abs(x).equals(1.0) & abs(y).equals(math.inf)
    value = where(unit, 1.0, value)
    value = (value.bits ^ (where(odd, x.bits, x.bits.of(0)) & form.sign)).real
    undefined = (x < 0.0) & (x > -math.inf) & where(whole, x.differs(x), y.equals(y))
    value = where(undefined, math.nan, value)
    return where(x.equals(1.0) | y.equals(0.0), 1.0, value)


def _double(draft: Draft, size: Term, y: Term) -> Term:
    """Return ``size ** y`` in f64 for ``size >= 0``; NaN where infinity meets zero."""
    high, low = _logarithm(draft, size)
    high = where(size.equals(0.0), -math.inf, where(size < math.inf, high, size))
    high = draft.let("pow_high", high)
    product = draft.let("pow_product", high * y)
    error = fma(high, y, -product) + low * y
    error = where(abs(product) < 1000.0, error, 0.0)
    clamped = at_least(at_most(product, 710.0), vanishing(product))
    return exp_wide(draft, clamped, tail=draft.let("pow_tail", error))


def _logarithm(draft: Draft, x: Term) -> Pair:
    """Return the logarithm of a positive finite number as a pair.

    With ``s = (m - 1) / (m + 1)`` it is ``k ln 2 + 2 s + s³ (2/3 + s² Q(s²))``, where all but Q is kept in pairs.
    """
    count, mantissa = scaled(draft, x)
    ratio = _ratio(draft, mantissa)
    square = _times(draft, ratio, ratio)
    third = float(Fraction(2, 3)), float(Fraction(2, 3) - Fraction(2 / 3))
    tail = draft.let("pow_q", horner(square[0], coefficients.POW))
    inner = _plus(draft, (x.of(third[0]), x.of(third[1])), _scale(draft, square, tail))
    cube = _times(draft, ratio, _times(draft, square, inner))
    mantissa_log = _plus(draft, (ratio[0] * 2.0, ratio[1] * 2.0), cube)
    high, low = _ln2_parts()
    return _plus(draft, (draft.let("pow_k", count * high), count * low), mantissa_log)


def _ln2_parts() -> tuple[float, float]:
    """Split ln 2 so that the product of the first part with any exponent is exact."""
    high = float(Fraction(math.floor(LN_2 * 2**42), 2**42))
    return high, float(LN_2 - Fraction(high))


def _ratio(draft: Draft, mantissa: Term) -> Pair:
    """Return ``(m - 1) / (m + 1)``; the numerator is exact."""
    above = draft.let("pow_f", mantissa - 1.0)
    below = draft.let("pow_g", mantissa + 1.0)
    lost = mantissa - (below - 1.0)
    inverse = draft.let("pow_inverse", 1.0 / below)
    high = draft.let("pow_s", above * inverse)
    rest = fma(high, -below, above) - high * lost
    return high, draft.let("pow_s_low", rest * inverse)


def _times(draft: Draft, left: Pair, right: Pair) -> Pair:
    high = draft.let("pow_p", left[0] * right[0])
    low = fma(left[0], right[0], -high) + fma(left[0], right[1], left[1] * right[0])
    return high, draft.let("pow_p_low", low)


def _scale(draft: Draft, pair: Pair, factor: Term) -> Pair:
    high = draft.let("pow_u", pair[0] * factor)
    return high, draft.let("pow_u_low", fma(pair[0], factor, -high) + pair[1] * factor)


def _plus(draft: Draft, left: Pair, right: Pair) -> Pair:
    """Add two pairs, the left one the greater or zero (Dekker 1971), and normalise."""
    high = draft.let("pow_a", left[0] + right[0])
    low = draft.let("pow_a_low", ((left[0] - high) + right[0]) + (left[1] + right[1]))
    total = draft.let("pow_t", high + low)
    return total, draft.let("pow_t_low", (high - total) + low)


EXPANSIONS: Final[Mapping[Op, Expansion]] = MappingProxyType({Op.POW: Expansion(power, 1.0, 1.0)})


_GUESS: Final = 0x54A2FA8C
"""Constant from which a third of the bits of a float is subtracted to approximate its inverse cube root."""
_DROPPED: Final = 8
"""Number of low zero bits of this constant, so that a sum of floats can compute it."""
_LIFT: Final = 72
"""Power of two, a multiple of three, by which small numbers are scaled: no residual loses bits then."""


def cube_root(draft: Draft, x: Term, exponent: float) -> Term:
    """Return ``x ** exponent`` in f32 for finite ``x >= 0`` and the f32 nearest to 1/3.

    ``x ** (1/3 + d)`` is ``x ** (1/3) · (1 + d ln x)``, where a logarithm from the bits of ``x`` is close enough.
    """
    form = FORMATS[DType.F32]
    tiny = draft.let("root_tiny", x < 2.0**-60)
    lifted = draft.let("root_x", where(tiny, x * 2.0**_LIFT, x))
    count = draft.let("root_bits", lifted.bits.cast(DType.F32))
    scale = 2.0**-_DROPPED
    sum_ = draft.let("root_sum", fma(count, -scale / 3, _GUESS * scale + 2.0**form.digits))
    guess = draft.let("root_guess", (sum_.bits << _DROPPED).real)
    left = draft.let("root_left", fma(-(lifted * guess * guess), guess, 1.0))
    step = fma(left, fma(left, 14 / 81, 2 / 9), 1 / 3)
    inverse = draft.let("root_inverse", fma(guess * left, step, guess))
    root = draft.let("root_root", lifted * inverse * inverse)
    square = draft.let("root_square", root * root)
    residual = fma(fma(root, root, -square), -root, fma(square, -root, lifted))
    unit = (exponent - 1 / 3) * math.log(2)
    bias = where(tiny, -(form.bias + _LIFT) * unit, lifted.of(-form.bias * unit))
    drift = fma(count, unit / 2.0**form.digits, bias)
    value = root + fma(residual, inverse * inverse * (1 / 3), root * drift)
    return value * where(tiny, 2.0 ** (-_LIFT // 3), x.of(1.0))
