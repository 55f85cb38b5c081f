"""sin, cos and tan: reduction to ``|r| <= π/4`` in a quadrant, polynomials there, and signs by bit operations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.ops import Op
from tileir.semtree.functions import coefficients
from tileir.semtree.functions.draft import Draft, Expansion, Term, fma, horner, where
from tileir.semtree.functions.formats import format_of
from tileir.semtree.functions.reduction import reduced


def sin(draft: Draft, x: Term) -> Term:
    """Return sin, also of huge arguments; NaN for the infinities."""
    form = format_of(x)
    quadrant, sine, cosine = _both(draft, x)
    odd = (quadrant & 1).differs(0)
    flips = (quadrant << (form.dtype.bits - 2)) ^ x.bits
    return (where(odd, cosine, sine).bits ^ (flips & form.sign)).real


def cos(draft: Draft, x: Term) -> Term:
    """Return cos, also of huge arguments; NaN for the infinities."""
    form = format_of(x)
    quadrant, sine, cosine = _both(draft, x)
    odd = (quadrant & 1).differs(0)
    flips = (quadrant + 1) << (form.dtype.bits - 2)
    return (where(odd, sine, cosine).bits ^ (flips & form.sign)).real


def tan(draft: Draft, x: Term) -> Term:
    """Return tan, as the ratio of sin and cos."""
    form = format_of(x)
    quadrant, sine, cosine = _both(draft, x)
    odd = draft.let("tan_odd", (quadrant & 1).differs(0))
    flips = (quadrant << (form.dtype.bits - 1)) ^ (x.bits & form.sign)
    ratio = where(odd, cosine, sine) / where(odd, sine, cosine)
    return (ratio.bits ^ flips).real


def _both(draft: Draft, x: Term) -> tuple[Term, Term, Term]:
    """Return the number of quarter turns in ``|x|``, and sin and cos of the angle that is left."""
    form = format_of(x)
    quadrant, angle = reduced(draft, abs(x))
    square = draft.let("trig_square", angle * angle)
    sine = fma(angle, square * horner(square, coefficients.SIN.of(form.dtype)), angle)
    cosine = fma(square, fma(square, horner(square, coefficients.COS.of(form.dtype)), -0.5), 1.0)
    return quadrant, draft.let("trig_sin", sine), draft.let("trig_cos", cosine)


EXPANSIONS: Final[Mapping[Op, Expansion]] = MappingProxyType(
    {
        Op.SIN: Expansion(sin),
        Op.COS: Expansion(cos),
        Op.TAN: Expansion(tan, 4.0, 4.0),
    }
)
