"""Static ranges and divisors of the integers of a kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce

from tileir.core import DType, Op, attrs
from tileir.core.numbers.ranges import Range, either, exact
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


def is_defined(op: Op, dtype: DType, ranges: tuple[Range, ...]) -> bool:
    """Return whether C defines an operation on integers of ``dtype`` for all values in these ranges.

    Sums, differences, products and negations have to fit; a divisor must not be 0, nor -1 for the least number; counts
    of shifts are less than the width, and a signed left shift loses no bits of the value.
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
    """Return whether no lane of a float expression can be NaN, as far as its text shows."""
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


def counted(begin: Range, end: Range, step: int) -> Range:
    """Return the range of a loop counter inside the loop."""
    return Range(begin.low, max(begin.low, end.high - 1), math.gcd(begin.divisor, step))


@attrs.define(eq=False, repr=False)
class Ranges:
    """Ranges of the integers and bools of one kernel, updated statement by statement in the order of the text.

    Attributes:
        extents: Number of groups and threads along each axis.
        assigned: The variables that are assigned to, whose ranges are unknown.
    """

    extents: Mapping[GridLevel, tuple[int, ...]]
    assigned: frozenset[str]
    _variables: dict[str, Range] = attrs.field(factory=dict, init=False)
    _found: dict[Expr, Range] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, kernel: KernelFunction) -> Ranges:
        """Return the state before the first statement."""
        extents = {GridLevel.GROUP: kernel.grid, GridLevel.LOCAL: kernel.group}
        return cls(extents, assigned_variables(kernel.body))

    def enter(self, stmt: Stmt) -> None:
        """Record the variable of a declaration, for statements behind it, or the counter of a loop, for its body."""
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
        """Record the value of a counter in one iteration of an unrolled loop, until its loop is entered again."""
        self._variables[counter.name] = Range.constant(value)
        self._found.clear()

    def at(self, expr: Expr) -> Range:
        """Return the range of an integer or bool expression over all lanes."""
        if expr not in self._found:
            self._found[expr] = self._derived(expr)
        return self._found[expr]

    def note(self, expr: Expr, known: Range) -> None:
        """Record a range of an expression beyond that of its operands."""
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
