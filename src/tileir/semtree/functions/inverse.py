"""asin, acos and atan, by polynomials after a reduction of the argument (Cody and Waite 1980)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.ops import Op
from tileir.semtree.functions import coefficients
from tileir.semtree.functions.draft import Draft, Expansion, Term, fma, horner, where
from tileir.semtree.functions.formats import PI, format_of


def asin(draft: Draft, x: Term) -> Term:
    """Return asin; NaN outside [-1, 1]."""
    form = format_of(x)
    high, low = form.parts(PI / 2, 2)
    large, part = _half_angle(draft, x)
    return form.copysign(where(large, fma(part, -2.0, high) + low, part), x)


def acos(draft: Draft, x: Term) -> Term:
    """Return acos; NaN outside [-1, 1]."""
    form = format_of(x)
    high, low = form.parts(PI / 2, 2)
    large, part = _half_angle(draft, x)
    negative = draft.let("acos_negative", x < 0.0)
    near = high - (where(negative, -part, part) - low)
    far = where(negative, fma(part, -2.0, 2 * high) + 2 * low, part + part)
    return where(large, far, near)


def _half_angle(draft: Draft, x: Term) -> tuple[Term, Term]:
    """Return whether ``|x| > ½``, and asin |x| if not, else asin √((1 - |x|)/2)."""
    form = format_of(x)
    size = draft.let("asin_size", abs(x))
    large = draft.let("asin_large", size > 0.5)
    square = draft.let("asin_z", where(large, fma(size, -0.5, 0.5), size * size))
    root = draft.let("asin_s", where(large, square.apply(Op.SQRT), size))
    return large, draft.let("asin", fma(root * square, horner(square, coefficients.ASIN.of(form.dtype)), root))


def atan(draft: Draft, x: Term) -> Term:
    """Return atan: beyond tan(π/8), from that of the argument turned by π/4 or π/2."""
    form = format_of(x)
    size = draft.let("atan_size", abs(x))
    turned = draft.let("atan_turned", size > 0.41421356237309503)
    inverted = draft.let("atan_inverted", size > 2.414213562373095)
    up = where(inverted, -1.0, where(turned, size - 1.0, size))
    down = where(inverted, size, where(turned, size + 1.0, size.of(1.0)))
    ratio = draft.let("atan_t", up / down)
    square = draft.let("atan_z", ratio * ratio)
    high, low = (
        where(inverted, half, where(turned, quarter, size.of(0.0)))
        for half, quarter in zip(form.parts(PI / 2, 2), form.parts(PI / 4, 2), strict=True)
    )
    rest = fma(ratio * square, horner(square, coefficients.ATAN.of(form.dtype)), low)
    return form.copysign(high + (rest + ratio), x)


EXPANSIONS: Final[Mapping[Op, Expansion]] = MappingProxyType(
    {
        Op.ASIN: Expansion(asin),
        Op.ACOS: Expansion(acos),
        Op.ATAN: Expansion(atan),
    }
)
