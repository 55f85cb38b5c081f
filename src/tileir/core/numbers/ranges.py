"""Ranges of integers, their divisors, and the effect of operations on both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tileir.core.dtype import DType
from tileir.core.nodes import attrs
from tileir.core.numbers.integers import quotient
from tileir.core.ops import Op


@attrs.frozen
class Range:
    """``low <= value <= high`` in every lane, and ``divisor`` divides the value; only 0 is divided by 0."""

    low: int
    high: int
    divisor: int = 1

    @classmethod
    def constant(cls, value: int) -> Range:
        """Return the range of a constant."""
        return cls(value, value, abs(value))

    @classmethod
    def of(cls, dtype: DType, divisor: int = 1) -> Range:
        """Return the range of any value of an integer type or bool."""
        return cls(int(dtype.minimum), int(dtype.maximum), divisor)

    @property
    def known(self) -> int | None:
        """The value itself, if only one is possible."""
        return self.low if self.low == self.high else None

    def fits(self, dtype: DType) -> bool:
        """Return whether every value in the range is one of ``dtype``."""
        return dtype.minimum <= self.low and self.high <= dtype.maximum

    def wrapped(self, dtype: DType) -> Range:
        """Return the range after reduction to that of ``dtype``: powers of two still divide the value."""
        if self.fits(dtype):
            return self
        return Range.of(dtype, math.gcd(self.divisor, 1 << dtype.bits))


def exact(op: Op, ranges: Sequence[Range]) -> Range | None:
    """Return the range of the mathematical result, which may not fit the type; None if it is unknown.

    Of a choice the last two operands are enough.
    """
    match op, ranges:
        case Op.NEG, (x,):
            return Range(-x.high, -x.low, x.divisor)
        case Op.ABS, (x,):
            return Range(max(x.low, -x.high, 0), max(-x.low, x.high), x.divisor)
        case Op.ADD, (x, y):
            return Range(x.low + y.low, x.high + y.high, math.gcd(x.divisor, y.divisor))
        case Op.SUB, (x, y):
            return Range(x.low - y.high, x.high - y.low, math.gcd(x.divisor, y.divisor))
        case Op.MUL, (x, y):
            return _hull((a * b for a in (x.low, x.high) for b in (y.low, y.high)), x.divisor * y.divisor)
        case Op.DIV, (x, Range(low=divisor, high=high)) if divisor == high and divisor > 0:
            whole = x.divisor // divisor if x.divisor % divisor == 0 else 1
            return Range(quotient(x.low, divisor), quotient(x.high, divisor), whole)
        case Op.MOD, (x, y) if y.low > 0:
            below = 0 if x.low >= 0 else -min(y.high - 1, -x.low)
            return Range(below, max(0, min(y.high - 1, x.high)), math.gcd(x.divisor, y.divisor))
        case Op.MIN, (x, y):
            return Range(min(x.low, y.low), min(x.high, y.high), math.gcd(x.divisor, y.divisor))
        case Op.MAX, (x, y):
            return Range(max(x.low, y.low), max(x.high, y.high), math.gcd(x.divisor, y.divisor))
        case Op.COND, (*_, x, y):
            return either(x, y)
        case Op.IDENT, (x,):
            return x
        case _:
            return _exact_bits(op, ranges)


def _exact_bits(op: Op, ranges: Sequence[Range]) -> Range | None:
    match op, ranges:
        case Op.BIT_AND, (x, y) if x.low >= 0 or y.low >= 0:
            bound = min(each.high for each in (x, y) if each.low >= 0)
            return Range(0, bound, max(_power_of_two(x), _power_of_two(y)))
        case ((Op.BIT_OR | Op.BIT_XOR), (x, y)) if x.low >= 0 and y.low >= 0:
            bits = max(x.high, y.high).bit_length()
            return Range(0, (1 << bits) - 1, math.gcd(_power_of_two(x), _power_of_two(y)))
        case Op.BIT_LEFT, (x, Range(low=count, high=high)) if count == high and 0 <= count < 64:
            return Range(x.low << count, x.high << count, x.divisor << count)
        case Op.BIT_RIGHT, (x, Range(low=count, high=high)) if count == high and 0 <= count < 64:
            return Range(x.low >> count, x.high >> count)
        case _:
            return None


def either(left: Range, right: Range) -> Range:
    """Return the range of a value that is one of two."""
    return Range(min(left.low, right.low), max(left.high, right.high), math.gcd(left.divisor, right.divisor))


def _hull(values: Iterable[int], divisor: int) -> Range:
    found = tuple(values)
    return Range(min(found), max(found), divisor)


def _power_of_two(found: Range) -> int:
    return found.divisor & -found.divisor if found.divisor else 1 << 64
