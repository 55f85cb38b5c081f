"""log, after FDLIBM (Sun Microsystems, 1993).

With ``x = 2**k m`` and ``m`` in [√½, √2], ``f = m - 1`` and ``s = f / (2 + f)``, ``log m = 2 s + s³ R(s²)``, summed as
``f - (f²/2 - s (f²/2 + s² R))`` to keep the leading part exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.ops import Op
from tileir.semtree.functions import coefficients
from tileir.semtree.functions.draft import Draft, Expansion, Term, fma, horner, where
from tileir.semtree.functions.formats import LN_2, format_of


def log(draft: Draft, x: Term) -> Term:
    """Return log; minus infinity at both zeros, NaN below them."""
    form = format_of(x)
    count, mantissa = scaled(draft, x)
    high, low = form.parts(LN_2, 2)
    fraction = draft.let("log_f", mantissa - 1.0)
    half = draft.let("log_half", fraction * (fraction * 0.5))
    ratio = draft.let("log_s", fraction / (fraction + 2.0))
    square = draft.let("log_z", ratio * ratio)
    correction = fma(square, horner(square, coefficients.LOG.of(form.dtype)), half)
    inner = fma(ratio, correction, count * low)
    return at_ends(x, fma(count, high, fraction - (half - inner)))


def scaled(draft: Draft, x: Term) -> tuple[Term, Term]:
    """Return ``k`` and ``m`` in [√½, √2] with ``x = 2**k m``, for positive finite ``x``."""
    form = format_of(x)
    tiny = draft.let("log_tiny", x < form.least_normal)
    root_bits = (form.bias << form.digits) - (1 << form.digits) + _fraction_of_root(form.digits)
    # Counting from √½ makes the exponent field change there; 2**(bits - 2) keeps the difference positive.
    offset = form.sign >> 1
    lifted = where(tiny, x * 2.0 ** (form.digits + 1), x)
    bits = draft.let("log_bits", lifted.bits - (root_bits - offset))
    mantissa = ((bits & ((1 << form.digits) - 1)) + root_bits).real
    exponent = ((bits >> form.digits) + form.magic_bits).real
    zero = form.magic + (offset >> form.digits)
    count = exponent - where(tiny, zero + form.digits + 1, x.of(zero))
    return draft.let("log_k", count), draft.let("log_m", mantissa)


def _fraction_of_root(digits: int) -> int:
    return math.isqrt(2 << (2 * digits)) - (1 << digits)


def at_ends(x: Term, value: Term) -> Term:
    """Return ``value`` for positive finite ``x``, and the limit or NaN of log elsewhere."""
    below = where(x.equals(0.0), -math.inf, x.of(math.nan))
    return where(x > 0.0, where(x < math.inf, value, x), below)


EXPANSIONS: Final[Mapping[Op, Expansion]] = MappingProxyType({Op.LOG: Expansion(log, 1.0, 1.0)})
