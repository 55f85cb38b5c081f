"""Values of offsets at one place of a kernel: intervals, and integers of z3.

Counters, coordinates and declared variables are integers without a limit here: a node whose interval does not fit its
type, or of which nothing is known, such as a loaded value, becomes any value of its type.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import z3

from tileir.core.ops import Op
from tileir.semtree.ir import (
    Apply,
    Broadcast,
    Cast,
    Const,
    Expr,
    GridIndex,
    GridLevel,
    KernelFunction,
    Ramp,
    Shuffle,
    Var,
)
from tileir.semtree.text.printer import expr_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tileir.core.dtype import DType

Range: TypeAlias = tuple[int, int]
Term: TypeAlias = Any

TIMEOUT_MS: Final = 20_000


@attrs.frozen
class Place:
    """Facts at a statement: definitions of variables, ranges of counters, and conditions."""

    values: Mapping[str, Expr]
    ranges: Mapping[str, Range]
    conditions: tuple[Expr, ...] = ()


@attrs.define
class Terms:
    """Intervals of expressions at one place, and integers of z3 for them."""

    kernel: KernelFunction
    place: Place
    intervals: dict[Expr, Range] = attrs.field(factory=dict)
    known: dict[tuple[Var, int], Term] = attrs.field(factory=dict)
    facts: list[Term] = attrs.field(factory=list)
    fresh: Iterator[int] = attrs.field(factory=count)

    def interval(self, expr: Expr) -> Range:
        """Return the least and the greatest value of any lane, as far as they are easily told."""
        if expr not in self.intervals:
            low, high = self._interval(expr)
            least, most = limits(expr.type.dtype)
            self.intervals[expr] = (low, high) if least <= low and high <= most else (least, most)
        return self.intervals[expr]

    def _interval(self, expr: Expr) -> Range:
        match expr:
            case Const(value=value, type=kind) if not kind.dtype.is_float:
                return int(value), int(value)
            case GridIndex(level=level, axis=axis):
                extents = self.kernel.grid if level is GridLevel.GROUP else self.kernel.group
                return 0, (extents[axis] if axis < len(extents) else 1) - 1
            case Var(name=name) if name in self.place.values:
                return self.interval(self.place.values[name])
            case Var(name=name) if name in self.place.ranges:
                return self.place.ranges[name]
            case Cast(operand=operand) if not operand.type.dtype.is_float:
                return self.interval(operand)
            case Broadcast(operand=operand):
                return self.interval(operand)
            case Ramp(base=base, stride=stride, lanes=lanes):
                low, high = self.interval(base)
                rise = stride * (lanes - 1)
                return low + min(0, rise), high + max(0, rise)
            case Shuffle(operands=operands) if not expr.type.dtype.is_float:
                lows, highs = zip(*map(self.interval, operands), strict=True)
                return min(lows), max(highs)
            case Apply(op=op, args=args) if op in _INTERVALS and not expr.type.dtype.is_float:
                return _INTERVALS[op](*(self.interval(arg) for arg in args)) or limits(expr.type.dtype)
            case _:
                return limits(expr.type.dtype)

    def outside(self, offset: Expr, end: int) -> str | None:
        """Return coordinates and counters for which an offset is negative or from ``end`` on; None if there are none.

        Raises:
            TimeoutError: z3 does not know.
        """
        lanes = [self.term(offset, lane) for lane in range(offset.type.lanes)]
        conditions = [self.term(condition) for condition in self.place.conditions]
        solver = z3.Solver()
        solver.set("timeout", TIMEOUT_MS)
        solver.add(*conditions, *self.facts, z3.Or(*(z3.Or(lane < 0, lane >= end) for lane in lanes)))
        result = solver.check()
        if result == z3.unknown:
            raise TimeoutError(f"z3 does not know about {expr_text(offset, self.kernel.index)} in {self.kernel.name}")
        if result == z3.unsat:
            return None
        model = solver.model()
        names = sorted(str(each) for each in model.decls() if not str(each).startswith("any"))
        values = {str(each): model[each] for each in model.decls()}
        return "for " + ", ".join(f"{name} = {values[name]}" for name in names)

    def term(self, expr: Expr, lane: int = 0) -> Term:
        """Return a lane of an integer as an integer of z3, and a lane of a bool as a Boolean."""
        if not isinstance(expr, Var):
            return self._term(expr, lane)  # what is loaded twice may differ
        if (expr, lane) not in self.known:
            self.known[expr, lane] = self._term(expr, lane)
        return self.known[expr, lane]

    def _term(self, expr: Expr, lane: int) -> Term:
        dtype = expr.type.dtype
        match expr:
            case Const(value=value) if dtype.is_bool:
                return z3.BoolVal(bool(value))
            case Const(value=value) if dtype.is_integer:
                return z3.IntVal(int(value))
            case GridIndex(level=level, axis=axis):
                return self.bounded(f"{level.value}{axis}", self.interval(expr))
            case Var(name=name) if name in self.place.values:
                return self.term(self.place.values[name], lane)
            case Var(name=name) if name in self.place.ranges:
                return self.bounded(name, self.interval(expr))
            case Cast(operand=operand) if dtype.is_integer and operand.type.dtype.is_integer and self.fits(expr):
                return self.term(operand, lane)
            case Broadcast(operand=operand):
                return self.term(operand)
            case Ramp(base=base, stride=stride) if self.fits(expr):
                return self.term(base) + stride * lane
            case Shuffle(operands=operands, lanes=lanes) if not dtype.is_float:
                which, number = divmod(lanes[lane], operands[0].type.lanes)
                return self.term(operands[which], number)
            case Apply(op=op, args=args) if self.integral(args) and op in _TERMS and self.fits(expr):
                made = _TERMS[op](self, args, [self.term(arg, lane) for arg in args])
                return self.anything(expr) if made is None else made
            case _:
                return self.anything(expr)

    def integral(self, args: tuple[Expr, ...]) -> bool:
        return not any(arg.type.dtype.is_float for arg in args)

    def fits(self, expr: Expr) -> bool:
        """Return whether the mathematical result fits the type, so that nothing wraps."""
        low, high = self._interval(expr)
        least, most = limits(expr.type.dtype)
        return least <= low and high <= most

    def bounded(self, name: str, interval: Range) -> Term:
        symbol = z3.Int(name)
        self.facts += [symbol >= interval[0], symbol <= interval[1]]
        return symbol

    def anything(self, expr: Expr) -> Term:
        name = f"any{next(self.fresh)}"
        return z3.Bool(name) if expr.type.dtype.is_bool else self.bounded(name, self.interval(expr))


def limits(dtype: DType) -> Range:
    """Return the least and the greatest value of a type; a float is no part of an offset."""
    return (0, 0) if dtype.is_float else (int(dtype.minimum), int(dtype.maximum))


def _hull(function: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    def corners(a: Range, b: Range) -> Range:
        found = [function(x, y) for x in a for y in b]
        return min(found), max(found)

    return corners


def _quotients(a: Range, b: Range) -> Range | None:
    return (a[0] // b[1], a[1] // b[0]) if a[0] >= 0 and b[0] > 0 else None


def _rests(a: Range, b: Range) -> Range | None:
    return (0, min(a[1], b[1] - 1)) if a[0] >= 0 and b[0] > 0 else None


def _common_bits(a: Range, b: Range) -> Range | None:
    least = [high for low, high in (a, b) if low >= 0]
    return (0, min(least)) if least else None


def _any_bits(a: Range, b: Range) -> Range | None:
    return (0, (1 << max(a[1], b[1]).bit_length()) - 1) if min(a[0], b[0]) >= 0 else None


_INTERVALS: Final[Mapping[Op, Callable[..., Range | None]]] = {
    Op.ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    Op.SUB: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    Op.NEG: lambda a: (-a[1], -a[0]),
    Op.MUL: _hull(lambda x, y: x * y),
    Op.MIN: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    Op.MAX: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    Op.DIV: _quotients,
    Op.MOD: _rests,
    Op.COND: lambda _, a, b: (min(a[0], b[0]), max(a[1], b[1])),
    Op.BIT_AND: _common_bits,
    Op.BIT_OR: _any_bits,
    Op.BIT_XOR: _any_bits,
    Op.BIT_RIGHT: lambda a, b: (a[0] >> b[0], a[1] >> b[0]) if b[0] == b[1] and 0 <= b[0] < 64 and a[0] >= 0 else None,
    Op.BIT_LEFT: lambda a, b: (a[0] << b[0], a[1] << b[0]) if b[0] == b[1] and 0 <= b[0] < 64 else None,
}

_Made: TypeAlias = "Callable[[Terms, tuple[Expr, ...], list[Term]], Term | None]"


def _plain(function: Callable[..., Term]) -> _Made:
    return lambda _terms, _args, made: function(*made)


def _divided(function: Callable[..., Term]) -> _Made:
    """Return a division of what is not negative by what is positive, where both ways to round are one."""

    def make(terms: Terms, args: tuple[Expr, ...], made: list[Term]) -> Term | None:
        harmless = terms.interval(args[0])[0] >= 0 and terms.interval(args[1])[0] > 0
        return function(*made) if harmless else None

    return make


def _bits_and(terms: Terms, args: tuple[Expr, ...], made: list[Term]) -> Term | None:
    if args[0].type.dtype.is_bool:
        return z3.And(*made)
    low, high = terms.interval(args[1])
    return made[0] % (high + 1) if low == high >= 0 and high & (high + 1) == 0 else None


def _swizzled(terms: Terms, args: tuple[Expr, ...], made: list[Term]) -> Term | None:
    """Return a number some of whose bits may be others: those that the other operand can have."""
    if args[0].type.dtype.is_bool:
        return z3.Xor(*made)
    (low, _), (least, most) = (terms.interval(arg) for arg in args)
    if low < 0 or least < 0:
        return None
    match args[1]:
        case Apply(op=Op.BIT_AND, args=(_, Const(value=mask))):
            kept = 1 << ((int(mask) & -int(mask)).bit_length() - 1)
        case _:
            kept = 1
    run, symbol = 1 << most.bit_length(), z3.Int(f"any{next(terms.fresh)}")
    terms.facts += [symbol / run == made[0] / run, symbol % kept == made[0] % kept]
    return symbol


def _shifted(function: Callable[[Term, int], Term]) -> _Made:
    def make(terms: Terms, args: tuple[Expr, ...], made: list[Term]) -> Term | None:
        low, high = terms.interval(args[1])
        return function(made[0], 1 << low) if low == high and 0 <= low < 64 else None

    return make


def _of_bools(function: Callable[..., Term]) -> _Made:
    return lambda _, args, made: function(*made) if args[0].type.dtype.is_bool else None


def _of_integers(function: Callable[..., Term]) -> _Made:
    return lambda _, args, made: None if args[0].type.dtype.is_bool else function(*made)


_TERMS: Final[Mapping[Op, _Made]] = {
    Op.IDENT: _plain(lambda a: a),
    Op.ADD: _plain(lambda a, b: a + b),
    Op.SUB: _plain(lambda a, b: a - b),
    Op.NEG: _plain(lambda a: -a),
    Op.MUL: _plain(lambda a, b: a * b),
    Op.DIV: _divided(lambda a, b: a / b),
    Op.MOD: _divided(lambda a, b: a % b),
    Op.MIN: _of_integers(lambda a, b: z3.If(a <= b, a, b)),
    Op.MAX: _of_integers(lambda a, b: z3.If(a >= b, a, b)),
    Op.COND: _plain(z3.If),
    Op.BIT_AND: _bits_and,
    Op.BIT_OR: _of_bools(z3.Or),
    Op.BIT_XOR: _swizzled,
    Op.BIT_NOT: _of_bools(z3.Not),
    Op.BIT_RIGHT: _shifted(lambda a, b: a / b),
    Op.BIT_LEFT: _shifted(lambda a, b: a * b),
    Op.CMP_EQ: _plain(lambda a, b: a == b),
    Op.CMP_NE: _plain(lambda a, b: a != b),
    Op.CMP_LT: _of_integers(lambda a, b: a < b),
    Op.CMP_LE: _of_integers(lambda a, b: a <= b),
    Op.CMP_GT: _of_integers(lambda a, b: a > b),
    Op.CMP_GE: _of_integers(lambda a, b: a >= b),
}
