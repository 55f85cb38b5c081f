"""What is known about integers without running the kernel: their ranges, and what divides them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import reduce

from tileir.core import attrs
from tileir.core.dtype import DType
from tileir.core.integers import quotient
from tileir.core.ops import Op
from tileir.semtree.analysis.effects import assigned_variables
from tileir.semtree.ir import (
    Apply,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Declare,
    Expr,
    For,
    GridIndex,
    GridLevel,
    KernelFunction,
    Ramp,
    Reduce,
    Shuffle,
    Stmt,
    Var,
)


@attrs.frozen
class Range:
    """``low <= value <= high`` in every lane, and ``divisor`` divides the value; only 0 is divided by 0."""

    low: int
    high: int
    divisor: int = 1

    @classmethod
    def constant(cls, value: int) -> Range:
        """Return what is known about a constant."""
        return cls(value, value, abs(value))

    @classmethod
    def of(cls, dtype: DType, divisor: int = 1) -> Range:
        """Return what is known about any value of an integer type or bool."""
        return cls(int(dtype.minimum), int(dtype.maximum), divisor)

    @property
    def known(self) -> int | None:
        """The value itself, where only one is possible."""
        return self.low if self.low == self.high else None

    def fits(self, dtype: DType) -> bool:
        """Return whether every value in the range is one of ``dtype``."""
        return dtype.minimum <= self.low and self.high <= dtype.maximum

    def wrapped(self, dtype: DType) -> Range:
        """Return what is known after reduction to the range of ``dtype``: powers of two still divide the value."""
        if self.fits(dtype):
            return self
        return Range.of(dtype, math.gcd(self.divisor, 1 << dtype.bits))


def exact(op: Op, ranges: tuple[Range, ...]) -> Range | None:
    """Return what is known about the mathematical result, which may not fit the type; None where nothing is."""
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
        case Op.MOD, (x, Range(low=divisor, high=high)) if divisor == high and divisor > 0:
            below = 0 if x.low >= 0 else -min(divisor - 1, -x.low)
            return Range(below, max(0, min(divisor - 1, x.high)), math.gcd(x.divisor, divisor))
        case Op.MIN, (x, y):
            return Range(min(x.low, y.low), min(x.high, y.high), math.gcd(x.divisor, y.divisor))
        case Op.MAX, (x, y):
            return Range(max(x.low, y.low), max(x.high, y.high), math.gcd(x.divisor, y.divisor))
        case _:
            return _exact_bits(op, ranges)


def _exact_bits(op: Op, ranges: tuple[Range, ...]) -> Range | None:
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


def is_defined(op: Op, dtype: DType, ranges: tuple[Range, ...]) -> bool:
    """Return whether C defines an operation on integers of ``dtype``, whatever values they have in these ranges.

    Sums, differences, products and negations have to fit; a divisor must not be 0, nor -1 below the least number; the
    counts of shifts are less than the width, and what a signed number loses to the left is none of its bits.
    """
    match op, ranges:
        case ((Op.DIV | Op.MOD), (dividend, divisor)):
            overflows = dtype.is_signed and dividend.low == dtype.minimum and divisor.low <= -1 <= divisor.high
            return not overflows and not divisor.low <= 0 <= divisor.high
        case Op.BIT_LEFT, (value, count):
            found = exact(op, ranges) if dtype.is_signed and value.low >= 0 else None
            fits = not dtype.is_signed or (found is not None and found.fits(dtype))
            return fits and count.low >= 0 and count.high < dtype.bits
        case Op.BIT_RIGHT, (_, count):
            return count.low >= 0 and count.high < dtype.bits
        case _:
            found = exact(op, ranges)
            return found is not None and found.fits(dtype)


def is_number(expr: Expr) -> bool:
    """Return whether no lane of a float expression can be NaN, for reasons that its text shows."""
    match expr:
        case Const(value=value):
            return value == value
        case Cast(operand=operand):
            return not operand.type.dtype.is_float or is_number(operand)
        case Broadcast(operand=operand):
            return is_number(operand)
        case Apply(op=Op.MAX | Op.MIN | Op.NEG | Op.ABS | Op.FLOOR | Op.CEIL | Op.ROUND | Op.TRUNC, args=args):
            return all(map(is_number, args))
        case Apply(op=Op.COND, args=(_, then, otherwise)):
            return is_number(then) and is_number(otherwise)
        case _:
            return False


def either(left: Range, right: Range) -> Range:
    """Return what is known about a value that is one of two."""
    return Range(min(left.low, right.low), max(left.high, right.high), math.gcd(left.divisor, right.divisor))


def counted(begin: Range, end: Range, step: int) -> Range:
    """Return what is known about the counter of a loop, inside its body."""
    return Range(begin.low, max(begin.low, end.high - 1), math.gcd(begin.divisor, step))


@attrs.define(eq=False, repr=False)
class Ranges:
    """What is known about the integers and bools of one kernel, whose statements are passed in the order of the text.

    Attributes:
        extents: How many groups and threads there are along each axis.
        assigned: The variables that are assigned to, of which nothing is known.

    """

    extents: Mapping[GridLevel, tuple[int, ...]]
    assigned: frozenset[str]
    _variables: dict[str, Range] = attrs.field(factory=dict, init=False)
    _found: dict[Expr, Range] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, kernel: KernelFunction) -> Ranges:
        """Return what is known before the first statement."""
        extents = {GridLevel.GROUP: kernel.grid, GridLevel.LOCAL: kernel.group}
        return cls(extents, assigned_variables(kernel.body))

    def enter(self, stmt: Stmt) -> None:
        """Take note of what a statement introduces: for those behind a declaration, for those inside a loop."""
        match stmt:
            case Declare(variable=variable, value=value) if not variable.type.dtype.is_float:
                known = self.at(value)
                self._variables[variable.name] = Range.of(variable.type.dtype)
                if variable.name not in self.assigned:
                    self._variables[variable.name] = known
            case For(counter=counter, begin=begin, end=end, step=step):
                self._variables[counter.name] = counted(self.at(begin), self.at(end), step)
            case _:
                return
        self._found.clear()  # another variable of the name may have been known here

    def fix(self, counter: Var, value: int) -> None:
        """Take note of the value of a counter in one iteration of an unrolled loop, until its loop is entered again."""
        self._variables[counter.name] = Range.constant(value)
        self._found.clear()

    def at(self, expr: Expr) -> Range:
        """Return what is known about an integer or bool expression, in all lanes."""
        if expr not in self._found:
            self._found[expr] = self._derived(expr)
        return self._found[expr]

    def note(self, expr: Expr, known: Range) -> None:
        """Take note of what is known about an expression beyond what its parts show."""
        self._found[expr] = known

    def _derived(self, expr: Expr) -> Range:
        dtype = expr.type.dtype
        match expr:
            case Const(value=value):
                return Range.constant(int(value))
            case Var(name=name):
                return self._variables.get(name, Range.of(dtype))
            case GridIndex(level=level, axis=axis):
                return Range(0, self.extents[level][axis] - 1)
            case Apply(op=Op.COND, args=(_, then, otherwise)):
                return either(self.at(then), self.at(otherwise))
            case Apply(op=op, args=args) if not op.info.compares and dtype.is_integer:
                found = exact(op, tuple(map(self.at, args)))
                return Range.of(dtype) if found is None else found.wrapped(dtype)
            case (Cast() | Bitcast()) as cast if dtype.is_integer and not cast.operand.type.dtype.is_float:
                return self.at(cast.operand).wrapped(dtype)
            case Broadcast(operand=operand) | Reduce(op=Op.MAX | Op.MIN, operand=operand):
                return self.at(operand)
            case Ramp(base=base, stride=stride, lanes=lanes):
                ends = sorted((0, stride * (lanes - 1)))
                steps = Range(ends[0], ends[1], abs(stride))
                total = exact(Op.ADD, (self.at(base), steps))
                return Range.of(dtype) if total is None else total.wrapped(dtype)
            case Shuffle(operands=operands):
                return reduce(either, map(self.at, operands))
            case _:
                return Range.of(dtype)


def _hull(values: Iterable[int], divisor: int) -> Range:
    found = tuple(values)
    return Range(min(found), max(found), divisor)


def _power_of_two(found: Range) -> int:
    """Return the largest power of two that divides the value, within 64 bits."""
    return found.divisor & -found.divisor if found.divisor else 1 << 64
