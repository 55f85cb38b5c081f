"""Expressions of random kernels."""

from __future__ import annotations

from typing import Final

import attrs

from fuzz.semtree.kernel_values import COMPARISONS, EXACT_OPS, constants, nonzero_constants
from tileir.core import DType, Op
from tileir.semtree.ir import (
    Apply,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    DeclareArray,
    Dot,
    Expr,
    GridIndex,
    GridLevel,
    Param,
    ParamAccess,
    Ramp,
    Reduce,
    Shuffle,
    Subscript,
    Type,
    Var,
)
from tileir_testing.generated.choices import Choices

ROOM: Final = 32
"""Elements of each array that one thread owns: a power of two, at least the most lanes."""


@attrs.define
class Expressions:
    """Generator of expressions of one kernel; ``variables`` and ``private`` hold the declarations."""

    choices: Choices
    dtypes: tuple[DType, ...]
    index: DType
    params: tuple[Param, ...] = ()
    variables: list[Var] = attrs.field(factory=list)
    assignable: list[Var] = attrs.field(factory=list)
    private: list[DeclareArray] = attrs.field(factory=list)
    names: int = 0

    def fresh(self, stem: str) -> str:
        """Return a name that nothing has yet."""
        self.names += 1
        return f"{stem}{self.names}"

    @property
    def scalar_index(self) -> Type:
        """The type of offsets and counters."""
        return Type(self.index)

    def integer(self, value: int) -> Const:
        """Return a constant of the type of offsets."""
        return Const(value, self.scalar_index)

    def yes(self) -> bool:
        """Toss a coin."""
        return self.choices.integer(0, 1) == 1

    def expr(self, kind: Type, depth: int) -> Expr:
        """Make an expression of a type; ``depth`` bounds how deep it is nested."""
        if depth <= 0:
            return self.leaf(kind)
        forms = ["leaf", "operation", "operation", "cast", "cond", "shuffle", "known"]
        forms += [] if kind.lanes == 1 else ["broadcast", "ramp"] if kind.dtype.is_integer else ["broadcast"]
        forms += ["reduce"] if kind.lanes == 1 and Op.MAX.works_on(kind.dtype) else []
        forms += ["dot"] if kind.dtype.is_integer else []
        forms += ["compare", "compare"] if kind.dtype.is_bool else ["bitcast"]
        match self.choices.pick(forms):
            case "leaf":
                return self.leaf(kind)
            case "cast":
                return Cast(self.expr(kind.with_dtype(self.dtype()), depth - 1), kind)
            case "cond":
                test = self.expr(kind.with_dtype(DType.BOOL), depth - 1)
                return Apply(Op.COND, (test, self.expr(kind, depth - 1), self.expr(kind, depth - 1)))
            case "broadcast":
                return Broadcast(self.expr(Type(kind.dtype), depth - 1), kind.lanes)
            case "ramp":
                stride = self.choices.integer(-3 if kind.dtype.is_signed else 0, 3)
                return Ramp(self.expr(Type(kind.dtype), depth - 1), stride, kind.lanes)
            case "compare":
                operand = kind.with_dtype(self.compared())
                args = (self.expr(operand, depth - 1), self.expr(operand, depth - 1))
                return Apply(self.choices.pick(COMPARISONS), args)
            case "operation":
                return self.operation(kind, depth)
            case "shuffle":
                return self.shuffle(kind, depth)
            case "reduce":
                return self.reduce(kind, depth)
            case "dot":
                return self.dot(kind, depth)
            case "bitcast":
                return self.bitcast(kind, depth)
            case _:
                return self.known(kind)

    def dtype(self) -> DType:
        """Choose one of the element types of this kernel."""
        return self.choices.pick(self.dtypes)

    def compared(self) -> DType:
        """Choose one of those that can be compared."""
        return self.choices.pick([dtype for dtype in self.dtypes if not dtype.is_storage] or [DType.BOOL])

    def leaf(self, kind: Type) -> Expr:
        """Make a constant, or read a variable, a coordinate or memory."""
        known = [variable for variable in self.variables if variable.type == kind]
        forms = ["const", "load"] + ["variable"] * (3 if known else 0)
        if kind == self.scalar_index:
            forms += ["grid"]
        match self.choices.pick(forms):
            case "variable":
                return self.choices.pick(known)
            case "grid":
                return GridIndex(GridLevel.GROUP, 0, kind)
            case "load":
                return self.load(kind)
            case _:
                return constants(self.choices, kind)

    def load(self, kind: Type) -> Expr:
        """Read memory that is defined for this thread: any input, its own part of other arrays, or a private array."""
        arrays: list[Param | DeclareArray] = [p for p in self.params if p.access is not ParamAccess.WRITE]
        arrays += self.private
        usable = [array for array in arrays if array.dtype is kind.dtype]
        if not usable:
            return constants(self.choices, kind)
        array = self.choices.pick(usable)
        return Subscript(array.name, self.offset(array, kind.lanes), kind)

    def offset(self, array: Param | DeclareArray, lanes: int) -> Expr:
        """Return an offset, or a vector of them, inside the room of this thread."""
        if lanes > 1 and self.yes():
            if self.yes():
                return self.ramps(array, lanes)
            vector = Type(self.index, lanes)
            places: Expr = Apply(Op.BIT_AND, (self.expr(vector, 1), Const(ROOM - 1, vector)))
            room = self.room(array)
            return places if room is None else Apply(Op.ADD, (places, Broadcast(room, lanes)))
        place: Expr = Apply(Op.BIT_AND, (self.expr(self.scalar_index, 1), self.integer(ROOM - lanes)))
        room = self.room(array)
        return place if room is None else Apply(Op.ADD, (room, place))

    def ramps(self, array: Param | DeclareArray, lanes: int) -> Expr:
        """Return lanes a constant distance apart, as a sum, difference or multiple of ramps."""
        stride = self.choices.integer(0, (ROOM - 1) // (lanes - 1))
        room, start = self.room(array), self.choices.integer(0, ROOM - 1 - stride * (lanes - 1))
        base = self.integer(start) if room is None else Apply(Op.ADD, (room, self.integer(start)))
        other, step = self.choices.integer(0, 3), self.choices.integer(0, 3)
        match self.choices.pick(("ramp", "sum", "difference", "multiple", "fall")):
            case "sum":
                return Apply(Op.ADD, (Ramp(base, stride - step, lanes), Ramp(self.integer(0), step, lanes)))
            case "difference":
                far = Apply(Op.ADD, (base, self.integer(other)))
                return Apply(Op.SUB, (Ramp(far, stride + step, lanes), Ramp(self.integer(other), step, lanes)))
            case "multiple":
                factor = Const(stride, Type(self.index, lanes))
                unit: Expr = Ramp(self.integer(0), 1, lanes)
                product = Apply(Op.MUL, (unit, factor) if self.yes() else (factor, unit))
                return Apply(Op.ADD, (Broadcast(base, lanes), product))
            case "fall":
                last = Apply(Op.ADD, (base, self.integer(stride * (lanes - 1))))
                return Ramp(last, -stride, lanes)
            case _:
                return Ramp(base, stride, lanes)

    def room(self, array: Param | DeclareArray) -> Expr | None:
        """Return the start of the part of an array that this thread owns; None where it owns all of it."""
        if not isinstance(array, DeclareArray):
            return Var("room", self.scalar_index)
        if array.size == ROOM:
            return None
        return Apply(Op.MUL, (GridIndex(GridLevel.LOCAL, 0, self.scalar_index), self.integer(ROOM)))

    def operation(self, kind: Type, depth: int) -> Expr:
        """Make an elementwise operation with an exact result."""
        op = self.choices.pick(EXACT_OPS[kind.dtype])
        args = [self.expr(kind, depth - 1) for _ in range(op.info.arity)]
        if op in (Op.MAX, Op.MIN) and kind.dtype.is_float:
            args[1] = nonzero_constants(self.choices, kind)
        return Apply(op, tuple(args))

    def known(self, kind: Type) -> Expr:
        """Compute with constants only, which emitters may do themselves."""
        if kind.dtype.is_bool:
            operand = kind.with_dtype(self.compared())
            return Apply(self.choices.pick(COMPARISONS), tuple(constants(self.choices, operand) for _ in range(2)))
        op = self.choices.pick(EXACT_OPS[kind.dtype])
        if kind.dtype.is_float:
            return Cast(constants(self.choices, kind.with_dtype(self.dtype())), kind)
        return Apply(op, tuple(constants(self.choices, kind) for _ in range(op.info.arity)))

    def reduce(self, kind: Type, depth: int) -> Expr:
        """Merge the lanes of a vector, where the order does not matter."""
        wide = Type(kind.dtype, self.choices.pick([2, 4, 8]))
        operand = self.expr(wide, depth - 1)
        if kind.dtype.is_float:
            operand = Apply(Op.ABS, (operand,))
        inexact = kind.dtype.is_float or kind.dtype.is_bool
        ops = [Op.MAX, Op.MIN] if inexact else [Op.ADD, Op.MUL, Op.MAX, Op.MIN]
        return Reduce(self.choices.pick(ops), operand)

    def shuffle(self, kind: Type, depth: int) -> Expr:
        """Pick lanes of one to three vectors."""
        operand = Type(kind.dtype, self.choices.pick([1, 2, 4, 8]))
        operands = tuple(self.expr(operand, depth - 1) for _ in range(self.choices.integer(1, 3)))
        last = operand.lanes * len(operands) - 1
        return Shuffle(operands, tuple(self.choices.integer(0, last) for _ in range(kind.lanes)))

    def dot(self, kind: Type, depth: int) -> Expr:
        """Make a dot product of neighbouring lanes."""
        terms = self.choices.pick([terms for terms in (1, 2, 4) if kind.lanes * terms <= ROOM] or [1])
        dtypes = [kind.dtype, *(dtype for dtype in self.dtypes if dtype.is_integer)]
        left, right = (Type(self.choices.pick(dtypes), kind.lanes * terms) for _ in range(2))
        return Dot(self.expr(left, depth - 1), self.expr(right, depth - 1), self.expr(kind, depth - 1))

    def bitcast(self, kind: Type, depth: int) -> Expr:
        """Reinterpret integers, or floats that were integers and so are never NaN."""
        same = [d for d in DType if d.bits == kind.dtype.bits and d is not kind.dtype and d in self.dtypes]
        if not same:
            return self.leaf(kind)
        source = kind.with_dtype(self.choices.pick(same))
        if source.dtype.is_float:
            whole = Type(DType(f"i{min(source.dtype.bits, 32)}"), kind.lanes)
            return Bitcast(Cast(constants(self.choices, whole), source), kind)
        return Bitcast(self.expr(source, depth - 1), kind)
