"""What is known about an integer without running the kernel: its range, and what divides it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from tileir.core.ops import Op

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.core.dtype import DType


@attrs.frozen
class Fact:
    """``low <= value <= high`` in every lane, and ``divisor`` divides the value; only 0 is divided by 0."""

    low: int
    high: int
    divisor: int = 1

    @classmethod
    def constant(cls, value: int) -> Fact:
        """Return what is known about a constant."""
        return cls(value, value, abs(value))

    @classmethod
    def of(cls, dtype: DType, divisor: int = 1) -> Fact:
        """Return what is known about any value of an integer type or bool."""
        return cls(int(dtype.minimum), int(dtype.maximum), divisor)

    @property
    def known(self) -> int | None:
        """The value itself, where only one is possible."""
        return self.low if self.low == self.high else None

    def fits(self, dtype: DType) -> bool:
        """Return whether every value in the range is one of ``dtype``."""
        return dtype.minimum <= self.low and self.high <= dtype.maximum

    def wrapped(self, dtype: DType) -> Fact:
        """Return what is known after reduction to the range of ``dtype``: powers of two still divide the value."""
        if self.fits(dtype):
            return self
        return Fact.of(dtype, math.gcd(self.divisor, 1 << dtype.bits))


def exact(op: Op, facts: tuple[Fact, ...]) -> Fact | None:
    """Return what is known about the mathematical result, which may not fit the type; None where nothing is."""
    match op, facts:
        case Op.NEG, (x,):
            return Fact(-x.high, -x.low, x.divisor)
        case Op.ADD, (x, y):
            return Fact(x.low + y.low, x.high + y.high, math.gcd(x.divisor, y.divisor))
        case Op.SUB, (x, y):
            return Fact(x.low - y.high, x.high - y.low, math.gcd(x.divisor, y.divisor))
        case Op.MUL, (x, y):
            return _hull((a * b for a in (x.low, x.high) for b in (y.low, y.high)), x.divisor * y.divisor)
        case Op.DIV, (x, Fact(low=divisor, high=high)) if divisor == high and divisor > 0:
            whole = x.divisor // divisor if x.divisor % divisor == 0 else 1
            return Fact(_quotient(x.low, divisor), _quotient(x.high, divisor), whole)
        case Op.MOD, (x, Fact(low=divisor, high=high)) if divisor == high and divisor > 0:
            below = 0 if x.low >= 0 else -min(divisor - 1, -x.low)
            return Fact(below, max(0, min(divisor - 1, x.high)), math.gcd(x.divisor, divisor))
        case Op.MIN, (x, y):
            return Fact(min(x.low, y.low), min(x.high, y.high), math.gcd(x.divisor, y.divisor))
        case Op.MAX, (x, y):
            return Fact(max(x.low, y.low), max(x.high, y.high), math.gcd(x.divisor, y.divisor))
        case _:
            return _exact_bits(op, facts)


def _exact_bits(op: Op, facts: tuple[Fact, ...]) -> Fact | None:
    match op, facts:
        case Op.BIT_AND, (x, y) if x.low >= 0 or y.low >= 0:
            bound = min(fact.high for fact in (x, y) if fact.low >= 0)
            return Fact(0, bound, max(_power_of_two(x), _power_of_two(y)))
        case ((Op.BIT_OR | Op.BIT_XOR), (x, y)) if x.low >= 0 and y.low >= 0:
            bits = max(x.high, y.high).bit_length()
            return Fact(0, (1 << bits) - 1, math.gcd(_power_of_two(x), _power_of_two(y)))
        case Op.BIT_LEFT, (x, Fact(low=count, high=high)) if count == high and 0 <= count < 64:
            return Fact(x.low << count, x.high << count, x.divisor << count)
        case Op.BIT_RIGHT, (x, Fact(low=count, high=high)) if count == high and 0 <= count < 64:
            return Fact(x.low >> count, x.high >> count)
        case _:
            return None


def either(left: Fact, right: Fact) -> Fact:
    """Return what is known about a value that is one of two."""
    return Fact(min(left.low, right.low), max(left.high, right.high), math.gcd(left.divisor, right.divisor))


def _hull(values: Iterable[int], divisor: int) -> Fact:
    found = tuple(values)
    return Fact(min(found), max(found), divisor)


def _quotient(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)


def _power_of_two(fact: Fact) -> int:
    """Return the largest power of two that divides the value, within 64 bits."""
    return fact.divisor & -fact.divisor if fact.divisor else 1 << 64
