"""Rows for f32 and f64: maxima with NaN, absolute values, rounding to whole numbers, and conversions.

Conversions of floats to integers saturate; truth values and narrow integers are converted by way of i32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op
from tileir.semtree.functions.draft import Term, where
from tileir.semtree.functions.formats import format_of
from tileir.semtree.legalise.row import Drafting, Row


def _extremum(sign: Op) -> Callable[[Drafting, Term, Term], Term]:
    # A comparison with NaN is false, which selects the right operand: only the left one needs a test.
    def spell(draft: Drafting, left: Term, right: Term) -> Term:
        left, right = draft.let("left", left), draft.let("right", right)
        return where(left.apply(sign, right) | left.differs(left), left, right)

    return spell


def _magnitude(_: Drafting, value: Term) -> Term:
    return (value.bits & (format_of(value).sign - 1)).real


def _nearest(draft: Drafting, value: Term) -> Term:
    """Add and subtract a number that leaves no fraction digits; large numbers have none."""
    form = format_of(value)
    value = draft.let("value", value)
    size = draft.let("size", abs(value))
    least = 2.0**form.digits
    whole = draft.let("whole", (size + least) - least)
    return where(size < least, form.copysign(whole, value), value)


def _truncated(draft: Drafting, value: Term) -> Term:
    value = draft.let("value", value)
    size = draft.let("size", abs(value))
    whole = draft.let("whole", size.apply(Op.ROUND))
    return format_of(value).copysign(where(whole > size, whole - 1.0, whole), value)


def _floor(draft: Drafting, value: Term) -> Term:
    value = draft.let("value", value)
    whole = draft.let("whole", value.apply(Op.ROUND))
    return where(whole > value, whole - 1.0, whole)


SPELT: Final[Mapping[Op, Row]] = MappingProxyType(
    {
        Op.NEG: Row("-x = real(bits(x) ^ sign)", lambda _, x: (x.bits ^ format_of(x).sign).real),
        Op.ABS: Row("abs(x) = real(bits(x) & ~sign)", _magnitude),
        Op.MAX: Row("max(x, y) = x > y | x != x ? x : y", _extremum(Op.CMP_GT)),
        Op.MIN: Row("min(x, y) = x < y | x != x ? x : y", _extremum(Op.CMP_LT)),
        Op.SUB: Row("x - y = x + -y", lambda _, x, y: x + -y),
        Op.ROUND: Row("round(x) = abs(x) < c ? copysign(abs(x) + c - c, x) : x", _nearest),
        Op.TRUNC: Row("trunc(x) = copysign(floor(abs(x)), x)", _truncated),
        Op.FLOOR: Row("floor(x) = round(x) > x ? round(x) - 1 : round(x)", _floor),
        Op.CEIL: Row("ceil(x) = -floor(-x)", lambda _, x: -((-x).apply(Op.FLOOR))),
        Op.CMP_NE: Row("x != y = ~(x == y)", lambda _, x, y: x.equals(y).apply(Op.BIT_NOT)),
        Op.CMP_GT: Row("x > y = y < x", lambda _, x, y: y < x),
        Op.CMP_GE: Row("x >= y = y <= x", lambda _, x, y: y <= x),
        Op.CMP_LE: Row("x <= y = x < y | x == y", lambda draft, x, y: _at_most(draft, x, y)),
    }
)
"""Operations on f32 and f64 by others. Sums, products, quotients, square roots, remainders and fused
multiplications have no row: a back end must have them.
"""


def _at_most(draft: Drafting, x: Term, y: Term) -> Term:
    x, y = draft.let("left", x), draft.let("right", y)
    return (x < y) | x.equals(y)


def _saturated(draft: Drafting, value: Term, target: DType) -> Term:
    """Truncate towards zero, clamp to the limits, and convert NaN to 0."""
    value = draft.let("value", value)
    low, high = int(target.minimum), int(target.maximum)
    inside = draft.let("inside", (value >= float(low)) & (value < float(high + 1)))
    whole = draft.defined(where(inside, value, 0.0).cast(target))
    above = where(value > 0.0, whole.of(high), low)
    return where(inside, whole, where(value.differs(value), 0, above))


def _clamped(_: Drafting, value: Term, target: DType) -> Term:
    """Convert to i32, which has all values of narrower types, and clamp."""
    wide = value.cast(DType.I32)
    return wide.apply(Op.MAX, int(target.minimum)).apply(Op.MIN, int(target.maximum)).cast(target)


SATURATING: Final = Row("cast<T>(x) = low <= x < end ? cast<T>(x) : x != x ? 0 : x > 0 ? high : low", _saturated)
"""Floats to integers, for back ends that support this if the result fits."""

CLAMPED: Final = Row("cast<T>(x) = cast<T>(min(max(cast<i32>(x), low), high))", _clamped)
"""Floats to integers of 8 and 16 bits."""

TRUTH: Final = Row("cast<bool>(x) = x != 0", lambda _, x, __: x.differs(0))
OF_TRUTH: Final = Row("cast<T>(x) = x ? 1 : 0", lambda _, x, target: where(x, x.cast(target).of(1), 0))
WIDENED: Final = Row("cast<T>(x) = cast<T>(cast<i32>(x))", lambda _, x, target: x.cast(DType.I32).cast(target))
"""Integers of 8 and 16 bits to floats."""
