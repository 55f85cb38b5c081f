"""Cube roots in f32, without a division.

The bits of a float, as a number, are its logarithm but for a few percent, so that a multiple of them are those of
``x**(-1/3)``. One step of fourth order (Householder 1970) and one of Newton's, whose residual is computed with fused
products, make that a root that errs by little more than its rounding.
"""

from __future__ import annotations

import math
from typing import Final

from tileir.core.dtype import DType
from tileir.semtree.functions.draft import Draft, Term, fma, where
from tileir.semtree.functions.formats import FORMATS

_GUESS: Final = 0x54A2FA8C
"""What a third of the bits of a float is taken from to have those of its inverse cube root."""
_DROPPED: Final = 8
"""How many low bits of that are 0, so that a sum of floats can compute it."""
_LIFT: Final = 72
"""The power of two, a multiple of three, by which small numbers are multiplied: no residual loses bits then."""


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
