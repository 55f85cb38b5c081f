"""Rows for bools and integers: wrap-around, safe division, shifts by any count, promotion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.ops import Op
from tileir.semtree.functions.draft import Term, where
from tileir.semtree.legalise.row import Drafting, Row, as_bits_of, as_unsigned


def wrapping(op: Op) -> Row:
    """Return the row that computes with unsigned numbers, which wrap."""

    def spell(_: Drafting, first: Term, *others: Term) -> Term:
        return as_bits_of(as_unsigned(first).apply(op, *map(as_unsigned, others)), first.type.dtype)

    return Row(f"{op.value}(x, …) = signed({op.value}(unsigned(x), …))", spell)


def _signs(draft: Drafting, left: Term, right: Term) -> tuple[bool, bool]:
    """Return whether a divisor may be 0, and whether it may be -1 with the least number as the dividend."""
    dividend, divisor = draft.range(left), draft.range(right)
    least = left.type.dtype.is_signed and dividend.low == left.type.dtype.minimum
    return divisor.low <= 0 <= divisor.high, least and divisor.low <= -1 <= divisor.high


def _safe(draft: Drafting, left: Term, right: Term) -> tuple[Term, Term, Term | None, Term | None]:
    """Return both operands, with 1 for a divisor that could trap, and its tests for 0 and -1."""
    of_zero, of_minus = _signs(draft, left, right)
    if of_zero or of_minus:
        right = draft.let("divisor", right)
    if of_minus:
        left = draft.let("dividend", left)
    zero = draft.let("zero", right.equals(0)) if of_zero else None
    minus = draft.let("minus", right.equals(-1)) if of_minus else None
    unsafe = zero | minus if zero is not None and minus is not None else zero if minus is None else minus
    return left, right if unsafe is None else where(unsafe, 1, right), zero, minus


def _quotient(draft: Drafting, left: Term, right: Term) -> Term:
    left, right, zero, minus = _safe(draft, left, right)
    result = draft.defined(left.apply(Op.DIV, right))
    if minus is not None:
        result = where(minus, -left, result)
    return result if zero is None else where(zero, 0, result)


def _remainder(draft: Drafting, left: Term, right: Term) -> Term:
    """Replace divisors of 0 and -1 by 1, which also gives 0."""
    left, right, _, _ = _safe(draft, left, right)
    return draft.defined(left.apply(Op.MOD, right))


def _remainder_of_quotient(draft: Drafting, left: Term, right: Term) -> Term:
    left, right = draft.let("dividend", left), draft.let("divisor", right)
    rest = left - left.apply(Op.DIV, right) * right
    known = draft.range(right)
    return where(right.equals(0), 0, rest) if known.low <= 0 <= known.high else rest


def _shifted_left(draft: Drafting, value: Term, count: Term) -> Term:
    """Shift unsigned numbers, which may lose bits."""
    dtype, known = value.type.dtype, draft.range(count)
    number, by = as_unsigned(value), as_unsigned(count)
    if known.low >= 0 and known.high < dtype.bits:
        return as_bits_of(draft.defined(number << by), dtype)
    by = draft.let("count", by)
    shifted = where(by < dtype.bits, draft.defined(number << (by & (dtype.bits - 1))), 0)
    return as_bits_of(shifted, dtype)


def _shifted_right(draft: Drafting, value: Term, count: Term) -> Term:
    """Return the sign if the count is not less than the width."""
    dtype = value.type.dtype
    count = draft.let("count", count)
    inside = as_unsigned(count) < dtype.bits
    if dtype.is_signed:
        return draft.defined(value >> where(inside, count, dtype.bits - 1))
    return where(inside, draft.defined(value >> (count & (dtype.bits - 1))), 0)


def _magnitude(draft: Drafting, value: Term) -> Term:
    if not value.type.dtype.is_signed or draft.range(value).low >= 0:
        return value
    value = draft.let("value", value)
    return where(value < 0, -value, value)


def _extremum(sign: Op) -> Callable[[Drafting, Term, Term], Term]:
    def spell(draft: Drafting, left: Term, right: Term) -> Term:
        left, right = draft.let("left", left), draft.let("right", right)
        return where(left.apply(sign, right), left, right)

    return spell


def _not(_: Drafting, value: Term) -> Term:
    dtype = value.type.dtype
    return value ^ (-1 if dtype.is_signed else int(dtype.maximum))


def _xor(draft: Drafting, left: Term, right: Term) -> Term:
    left, right = draft.let("left", left), draft.let("right", right)
    return (left | right) - (left & right)


OVERFLOWING: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG})
"""Operations that wrap; if nothing can overflow, as in offsets, a back end may assume that they do not."""

GUARDED: Final[Mapping[Op, Row]] = MappingProxyType(
    {
        Op.DIV: Row("x / y = y == 0 ? 0 : y == -1 ? -x : x / y", _quotient),
        Op.MOD: Row("x % y = x % (y == 0 | y == -1 ? 1 : y)", _remainder),
        Op.BIT_LEFT: Row("x << n = n < bits ? unsigned(x) << n : 0", _shifted_left),
        Op.BIT_RIGHT: Row("x >> n = n < bits ? x >> n : sign(x)", _shifted_right),
    }
)
"""Operations on integers that a back end has where C defines them, besides those of :data:`OVERFLOWING`."""

SPELT: Final[Mapping[Op, Row]] = MappingProxyType(
    {
        Op.NEG: Row("-x = 0 - x", lambda _, x: x.of(0) - x),
        Op.ABS: Row("abs(x) = x < 0 ? -x : x", _magnitude),
        Op.MAX: Row("max(x, y) = x > y ? x : y", _extremum(Op.CMP_GT)),
        Op.MIN: Row("min(x, y) = x < y ? x : y", _extremum(Op.CMP_LT)),
        Op.MOD: Row("x % y = y == 0 ? 0 : x - x / y * y", _remainder_of_quotient),
        Op.BIT_NOT: Row("~x = x ^ -1", _not),
        Op.BIT_XOR: Row("x ^ y = (x | y) - (x & y)", _xor),
        Op.CMP_NE: Row("x != y = ~(x == y)", lambda _, x, y: x.equals(y).apply(Op.BIT_NOT)),
        Op.CMP_GT: Row("x > y = y < x", lambda _, x, y: y < x),
        Op.CMP_LE: Row("x <= y = ~(y < x)", lambda _, x, y: (y < x).apply(Op.BIT_NOT)),
        Op.CMP_GE: Row("x >= y = ~(x < y)", lambda _, x, y: (x < y).apply(Op.BIT_NOT)),
        Op.CMP_EQ: Row("x == y = ~(x < y | y < x)", lambda draft, x, y: _equal(draft, x, y)),
    }
)
"""Operations on integers by others that back ends are more likely to have."""


def _equal(draft: Drafting, x: Term, y: Term) -> Term:
    x, y = draft.let("left", x), draft.let("right", y)
    return ((x < y) | (y < x)).apply(Op.BIT_NOT)


OF_BOOLS: Final[Mapping[Op, Row]] = MappingProxyType(
    {
        Op.MAX: Row("max(x, y) = x | y", lambda _, x, y: x | y),
        Op.MIN: Row("min(x, y) = x & y", lambda _, x, y: x & y),
        Op.BIT_NOT: Row("~x = x ? false : true", lambda _, x: where(x, x.of(False), True)),
        Op.BIT_AND: Row("x & y = x ? y : false", lambda _, x, y: where(x, y, False)),
        Op.BIT_OR: Row("x | y = x ? true : y", lambda _, x, y: where(x, True, y)),
        Op.BIT_XOR: Row("x ^ y = x ? ~y : y", lambda draft, x, y: _differ(draft, x, y)),
        Op.CMP_NE: Row("x != y = x ^ y", lambda _, x, y: x ^ y),
        Op.CMP_EQ: Row("x == y = ~(x ^ y)", lambda _, x, y: (x ^ y).apply(Op.BIT_NOT)),
        Op.CMP_LT: Row("x < y = ~x & y", lambda _, x, y: x.apply(Op.BIT_NOT) & y),
        Op.CMP_GT: Row("x > y = x & ~y", lambda _, x, y: x & y.apply(Op.BIT_NOT)),
        Op.CMP_LE: Row("x <= y = ~x | y", lambda _, x, y: x.apply(Op.BIT_NOT) | y),
        Op.CMP_GE: Row("x >= y = x | ~y", lambda _, x, y: x | y.apply(Op.BIT_NOT)),
    }
)
"""Operations on bools."""


def _differ(draft: Drafting, x: Term, y: Term) -> Term:
    y = draft.let("other", y)
    return where(x, y.apply(Op.BIT_NOT), y)
