"""sin, cos and tan: reduction to ``|r| <= π/4`` in a quadrant, polynomials there, and signs by bit operations.

Reduction of angles to a quadrant.

Up to a border, by Cody and Waite: the number of quarter turns is exact in a float, and π/2 is subtracted in
three parts, each with one fused operation. Beyond it, by Payne and Hanek ("Radian reduction for trigonometric
functions", 1983): only those bits of 2/π matter that affect the product with x below four and above the required
precision, and a product of integers gives them exactly. That part is skipped if no lane needs it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op
from tileir.semtree.functions import coefficients
from tileir.semtree.functions.draft import Draft, Expansion, Term, fma, horner, where
from tileir.semtree.functions.formats import PI, format_of, scaled_pi
from tileir.semtree.ir import Assign, Const, DeclareArray, Expr, If, Reduce, Stmt, Subscript, Type


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
    """Return the number of quarter turns in ``|x|``, and sin and cos of the remaining angle."""
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


_BORDER: Final = {DType.F32: 2.0**17, DType.F64: 2.0**30}
"""Arguments up to which the three parts of π/2 leave an error far below the last bit."""

_LIMB: Final = 32
_MASK: Final = (1 << _LIMB) - 1
_LIMBS: Final = {DType.F32: 4, DType.F64: 6}
"""Limbs of 2/π in the product: four for the result and as many as x has for carries into them."""


def reduced(draft: Draft, x: Term) -> tuple[Term, Term]:
    """Return the quarter turns n in ``x >= 0``, right in the two lowest bits, and ``x - n π/2``."""
    form = format_of(x)
    high, middle, low = form.parts(PI / 2, 3)
    x = draft.let("angle", x)
    rounder = draft.let("turns", fma(x, 2 / math.pi, form.magic))
    count = draft.let("count", rounder - form.magic)
    rest = fma(count, -low, fma(count, -middle, fma(count, -high, x)))
    quadrant, rest = draft.let("quadrant", rounder.bits), draft.let("rest", rest)
    far = draft.let("far", (x > _BORDER[form.dtype]) & (x < math.inf))
    block = draft.branch()
    angle = block.let("huge", where(far, x, _BORDER[form.dtype]))
    turns, angle = _payne_hanek(block, angle)
    block.assign(quadrant, where(far, turns, quadrant))
    block.assign(rest, where(far, angle, rest))
    draft.statements.append(If(_any(far), tuple(block.statements)))
    return quadrant, rest


def _any(flags: Term) -> Expr:
    return flags.expr if flags.type.lanes == 1 else Reduce(Op.MAX, flags.expr)


def _payne_hanek(draft: Draft, x: Term) -> tuple[Term, Term]:
    """Reduce an ``x`` that is not small, as :func:`reduced` does."""
    form = format_of(x)
    bits = draft.let("huge_bits", x.bits.cast(DType.U64))
    mantissa = draft.let("huge_m", bits & ((1 << form.digits) - 1) | (1 << form.digits))
    # x = m 2**e; of 2/π, with 32 zeros in front, the bits from e - 2 on count. Whole turns are before them.
    first = draft.let("huge_first", (bits >> form.digits) - (form.bias + form.digits + 2 - _LIMB))
    window = _window(draft, first, _LIMBS[form.dtype], 1 + (form.bias + 1 - form.digits + _LIMB) // _LIMB)
    factors = [mantissa & _MASK, mantissa >> _LIMB] if form.digits >= _LIMB else [mantissa]
    product = _product(draft, [draft.let("huge_x", factor) for factor in factors], window)
    turns = draft.let("huge_turns", (product[-1] + (1 << _LIMB - 3)) >> (_LIMB - 2))
    top = draft.let("huge_top", (product[-1] - (turns << (_LIMB - 2))) & _MASK)
    negative = draft.let("huge_negative", (top >> (_LIMB - 1)).differs(0))
    flip = draft.let("huge_flip", where(negative, _MASK, top.of(0)))
    limbs = [(limb ^ flip).cast(DType.F64) for limb in (top, *product[-2:-5:-1])]
    size = reduce(lambda below, limb: fma(below, 2.0**-_LIMB, limb), reversed(limbs))
    high, low = 2.0 ** (2 - _LIMB) * float(PI / 2), 2.0 ** (2 - _LIMB) * float(PI / 2 - Fraction(float(PI / 2)))
    size = draft.let("huge_size", size)
    angle = draft.let("huge_angle", fma(size, high, size * low))
    signed = where(negative, -angle, angle)
    return turns.cast(DType.U32 if form.dtype is DType.F32 else DType.U64), signed.cast(form.dtype)


def _window(draft: Draft, first: Term, limbs: int, reach: int) -> list[Term]:
    """Return limbs of 2/π from bit ``first`` on, the lowest limb first; ``first`` is at most 32 · ``reach``."""
    kind = Type(DType.U64)
    words = _two_over_pi(reach + limbs + 1)
    name = draft.names.fresh("two_over_pi")
    draft.statements.append(DeclareArray(name, DType.U64, len(words)))
    stores: list[Stmt] = [
        Assign(Subscript(name, Const(number, kind), kind), Const(word, kind)) for number, word in enumerate(words)
    ]
    draft.statements.extend(stores)
    start = draft.let("word", first >> 5)
    shift = draft.let("shift", first & 31)
    found = [draft.let("bits", Term(Subscript(name, (start + number).expr, first.type))) for number in range(limbs + 1)]
    pairs = pairwise(found)
    return [draft.let("limb", ((upper << _LIMB | lower) << shift) >> _LIMB) for upper, lower in pairs][::-1]


def _two_over_pi(words: int) -> tuple[int, ...]:
    """Return 32 zero bits and then 2/π, cut into words of 32 bits."""
    bits = _LIMB * (words - 1)
    value = (2 << 2 * (bits + _LIMB)) // scaled_pi(bits + _LIMB) >> _LIMB
    return (0, *((value >> (bits - _LIMB * number)) & _MASK for number in range(1, words)))


def _product(draft: Draft, factors: Sequence[Term], window: Sequence[Term]) -> list[Term]:
    """Multiply two numbers in limbs, lowest first, and keep as many limbs as ``window`` has."""
    columns: list[list[Term]] = [[] for _ in range(len(window) + 1)]
    result: list[Term] = []
    for place in range(len(window)):
        for number, factor in enumerate(factors[: place + 1]):
            partial = draft.let("partial", factor * window[place - number])
            columns[place].append(partial & _MASK)
            columns[place + 1].append(partial >> _LIMB)
        total = draft.let("column", reduce(lambda left, right: left + right, columns[place]))
        columns[place + 1].append(total >> _LIMB)
        result.append(draft.let("digit", total & _MASK))
    return result
