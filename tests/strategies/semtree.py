"""Random legal kernels with arrays to run them on.

The results of ``kernel_cases`` do not depend on the order of a reduction, on how accurate a mathematical
function is, on the bits of a NaN, or on which zero a maximum takes: every back end must give the
interpreter's result, up to the bits of NaN and the sign of zero. ``function_cases`` are one
mathematical function each, to be compared within a tolerance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
from hypothesis import strategies as st

from strategies.semtree_values import (
    ALL_DTYPES,
    APPROXIMATE,
    COMPARISONS,
    EXACT_OPS,
    aligned_copy,
    constants,
    content,
    nonzero_constants,
)
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import (
    Apply,
    Assign,
    Barrier,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Declare,
    DeclareArray,
    Dot,
    For,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    LoopKind,
    Param,
    ParamAccess,
    Ramp,
    Reduce,
    Region,
    Shuffle,
    Subscript,
    Type,
    Var,
)

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from tileir.semtree.ir import Expr, Stmt

ROOM: Final = 32
"""Elements of each array that one thread owns: a power of two, at least the most lanes."""

LANES: Final = (1, 1, 2, 4, 8, 16)


@attrs.frozen(eq=False)
class KernelCase:
    """A kernel, and what its parameters hold before it runs."""

    kernel: KernelFunction
    initial: tuple[np.ndarray[Any, Any], ...]

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """Return fresh copies of the arrays, aligned to 64 bytes."""
        return [aligned_copy(array) for array in self.initial]


@attrs.define
class _Generator:
    """Draws one kernel; everything that has been declared is in ``variables`` and ``arrays``."""

    draw: DrawFn
    dtypes: tuple[DType, ...]
    index: DType
    params: tuple[Param, ...] = ()
    variables: list[Var] = attrs.field(factory=list)
    assignable: list[Var] = attrs.field(factory=list)
    private: list[DeclareArray] = attrs.field(factory=list)
    names: int = 0

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    @property
    def scalar_index(self) -> Type:
        return Type(self.index)

    def integer(self, value: int) -> Const:
        return Const(value, self.scalar_index)

    def choose(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    # expressions

    def expr(self, kind: Type, depth: int) -> Expr:
        if depth <= 0:
            return self.leaf(kind)
        forms = ["leaf", "operation", "operation", "cast", "cond", "shuffle"]
        forms += ["reduce"] if kind.lanes == 1 else ["broadcast", "ramp"] if kind.dtype.is_integer else ["broadcast"]
        forms += ["dot"] if kind.dtype.is_integer else []
        forms += ["compare", "compare"] if kind.dtype.is_bool else ["bitcast"]
        match self.draw(st.sampled_from(forms)):
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
                stride = self.draw(st.integers(-3 if kind.dtype.is_signed else 0, 3))
                return Ramp(self.expr(Type(kind.dtype), depth - 1), stride, kind.lanes)
            case "compare":
                operand = kind.with_dtype(self.dtype())
                args = (self.expr(operand, depth - 1), self.expr(operand, depth - 1))
                return Apply(self.draw(st.sampled_from(COMPARISONS)), args)
            case form:
                made: Expr = getattr(self, form)(kind, depth)
                return made

    def dtype(self) -> DType:
        return self.draw(st.sampled_from(self.dtypes))

    def leaf(self, kind: Type) -> Expr:
        known = [variable for variable in self.variables if variable.type == kind]
        forms = ["const", "load"] + ["variable"] * (3 if known else 0)
        if kind == self.scalar_index:
            forms += ["grid"]
        match self.draw(st.sampled_from(forms)):
            case "variable":
                return self.draw(st.sampled_from(known))
            case "grid":
                return GridIndex(GridLevel.GROUP, 0, kind)
            case "load":
                return self.load(kind)
            case _:
                return self.draw(constants(kind))

    def load(self, kind: Type) -> Expr:
        """Read what this thread may read: any input, its own room of other arrays, or a private array."""
        arrays: list[Param | DeclareArray] = [p for p in self.params if p.access is not ParamAccess.WRITE]
        arrays += self.private
        usable = [array for array in arrays if array.dtype is kind.dtype]
        if not usable:
            return self.draw(constants(kind))
        array = self.draw(st.sampled_from(usable))
        return Subscript(array.name, self.offset(array, kind.lanes), kind)

    def offset(self, array: Param | DeclareArray, lanes: int) -> Expr:
        """Return an offset, or a vector of them, inside the room of this thread."""
        if lanes > 1 and self.draw(st.booleans()):
            vector = Type(self.index, lanes)
            places: Expr = Apply(Op.BIT_AND, (self.expr(vector, 1), Const(ROOM - 1, vector)))
            room = self.room(array)
            return places if room is None else Apply(Op.ADD, (places, Broadcast(room, lanes)))
        place: Expr = Apply(Op.BIT_AND, (self.expr(self.scalar_index, 1), self.integer(ROOM - lanes)))
        room = self.room(array)
        return place if room is None else Apply(Op.ADD, (room, place))

    def room(self, array: Param | DeclareArray) -> Expr | None:
        """Return where the part of an array starts that this thread owns; None for its private arrays."""
        return None if isinstance(array, DeclareArray) else Var("room", self.scalar_index)

    def operation(self, kind: Type, depth: int) -> Expr:
        op = self.draw(st.sampled_from(EXACT_OPS[kind.dtype]))
        args = [self.expr(kind, depth - 1) for _ in range(op.info.arity)]
        if op in (Op.MAX, Op.MIN) and kind.dtype.is_float:
            args[1] = self.draw(nonzero_constants(kind))
        return Apply(op, tuple(args))

    def reduce(self, kind: Type, depth: int) -> Expr:
        wide = Type(kind.dtype, self.draw(st.sampled_from([2, 4, 8])))
        operand = self.expr(wide, depth - 1)
        if kind.dtype.is_float:
            operand = Apply(Op.ABS, (operand,))
        inexact = kind.dtype.is_float or kind.dtype.is_bool
        ops = [Op.MAX, Op.MIN] if inexact else [Op.ADD, Op.MUL, Op.MAX, Op.MIN]
        return Reduce(self.draw(st.sampled_from(ops)), operand)

    def shuffle(self, kind: Type, depth: int) -> Expr:
        operand = Type(kind.dtype, self.draw(st.sampled_from([1, 2, 4, 8])))
        operands = tuple(self.expr(operand, depth - 1) for _ in range(self.draw(st.integers(1, 3))))
        lane = st.integers(0, operand.lanes * len(operands) - 1)
        return Shuffle(operands, tuple(self.draw(st.lists(lane, min_size=kind.lanes, max_size=kind.lanes))))

    def dot(self, kind: Type, depth: int) -> Expr:
        terms = self.draw(st.sampled_from([terms for terms in (1, 2, 4) if kind.lanes * terms <= ROOM] or [1]))
        dtypes = st.sampled_from([kind.dtype, *(dtype for dtype in self.dtypes if dtype.is_integer)])
        left, right = (Type(self.draw(dtypes), kind.lanes * terms) for _ in range(2))
        return Dot(self.expr(left, depth - 1), self.expr(right, depth - 1), self.expr(kind, depth - 1))

    def bitcast(self, kind: Type, depth: int) -> Expr:
        """Reinterpret integers, or floats that were integers and so are never NaN."""
        same = [d for d in ALL_DTYPES if d.bits == kind.dtype.bits and d is not kind.dtype and d in self.dtypes]
        if not same:
            return self.leaf(kind)
        source = kind.with_dtype(self.draw(st.sampled_from(same)))
        if source.dtype.is_float:
            whole = Type(DType.I16 if source.dtype.bits == 16 else DType.I32, kind.lanes)
            return Bitcast(Cast(self.draw(constants(whole)), source), kind)
        return Bitcast(self.expr(source, depth - 1), kind)

    # statements

    def body(self, depth: int, count: int) -> tuple[Stmt, ...]:
        before = len(self.variables), len(self.assignable), len(self.private)
        result: list[Stmt] = []
        for _ in range(self.draw(st.integers(1, count))):
            result.extend(self.statement(depth))
        del self.variables[before[0] :], self.assignable[before[1] :], self.private[before[2] :]
        return tuple(result)

    def kind(self) -> Type:
        return Type(self.dtype(), self.draw(st.sampled_from(LANES)))

    def statement(self, depth: int) -> tuple[Stmt, ...]:
        forms = ["declare", "declare", "store", "store", "assign"]
        if depth > 0:
            forms += ["loop", "loop", "if", "array", "independent"]
        match self.draw(st.sampled_from(forms)):
            case "declare":
                return (self.declare(),)
            case "assign" if self.assignable:
                target = self.draw(st.sampled_from(self.assignable))
                return (Assign(target, self.expr(target.type, 2)),)
            case "loop":
                return (self.loop(depth),)
            case "if":
                test = self.expr(Type(DType.BOOL), 2)
                otherwise = self.body(depth - 1, 2) if self.draw(st.booleans()) else ()
                return (If(test, self.body(depth - 1, 2), otherwise),)
            case "array":
                return self.array()
            case "independent":
                return (self.independent(),)
            case _:
                return (self.store(),)

    def declare(self) -> Stmt:
        kind = self.kind()
        declared = Declare(Var(self.fresh("x"), kind), self.expr(kind, 3))
        self.variables.append(declared.variable)
        self.assignable.append(declared.variable)
        return declared

    def store(self) -> Stmt:
        outputs: list[Param | DeclareArray] = [p for p in self.params if p.access is not ParamAccess.READ]
        array = self.draw(st.sampled_from(outputs + self.private))
        kind = Type(array.dtype, self.draw(st.sampled_from(LANES)))
        if kind.lanes > 1 and self.draw(st.integers(0, 3)) == 0:
            return Assign(self.strided(array, kind), self.expr(kind, 3))
        place: Expr = Apply(Op.BIT_AND, (self.expr(self.scalar_index, 1), self.integer(ROOM - kind.lanes)))
        room = self.room(array)
        offset = place if room is None else Apply(Op.ADD, (room, place))
        return Assign(Subscript(array.name, offset, kind), self.expr(kind, 3))

    def strided(self, array: Param | DeclareArray, kind: Type) -> Subscript:
        """Return the target of a scatter; some of them write one element twice."""
        stride = self.draw(st.sampled_from([0, 1, 2]))
        base = self.room(array) or self.integer(0)
        return Subscript(array.name, Ramp(base, stride, kind.lanes), kind)

    def loop(self, depth: int) -> Stmt:
        counter = Var(self.fresh("i"), self.scalar_index)
        begin, trips, step = self.draw(st.integers(-1, 2)), self.draw(st.integers(0, 3)), self.draw(st.integers(1, 3))
        start: Expr = self.integer(begin)
        end: Expr = self.integer(begin + trips * step)
        kind = self.draw(st.sampled_from([LoopKind.SERIAL, LoopKind.UNROLL]))
        if kind is LoopKind.SERIAL and self.draw(st.booleans()):
            end = Apply(Op.BIT_AND, (self.expr(self.scalar_index, 1), self.integer(3)))
        self.variables.append(counter)
        body = self.body(depth - 1, 3)
        self.variables.remove(counter)
        return For(counter, start, end, step, body, kind)

    def array(self) -> tuple[Stmt, ...]:
        """Declare a private array and fill it, so that every later read is defined."""
        region = self.draw(st.sampled_from([Region.PRIVATE, Region.PRIVATE, Region.SCRATCH]))
        array = DeclareArray(self.fresh("p"), self.dtype(), ROOM, region)
        counter = Var(self.fresh("i"), self.scalar_index)
        value = self.expr(Type(array.dtype), 2)
        fill = Assign(Subscript(array.name, counter, value.type), value)
        self.private.append(array)
        return array, For(counter, self.integer(0), self.integer(ROOM), 1, (fill,))

    def independent(self) -> Stmt:
        """Return a loop whose iterations are independent: each stores to an element of its own."""
        counter = Var(self.fresh("i"), self.scalar_index)
        outputs = [param for param in self.params if param.access is ParamAccess.WRITE]
        if not outputs:
            return self.store()
        array = self.draw(st.sampled_from(outputs))
        self.variables.append(counter)
        value = self.expr(Type(array.dtype), 3)
        self.variables.remove(counter)
        place = Apply(Op.ADD, (Var("room", self.scalar_index), counter))
        store = Assign(Subscript(array.name, place, value.type), value)
        return For(counter, self.integer(0), self.integer(ROOM), 1, (store,), LoopKind.VECTOR)


def _params(draw: DrawFn, dtypes: tuple[DType, ...], size: int) -> tuple[Param, ...]:
    chosen = draw(st.lists(st.sampled_from(dtypes), min_size=2, max_size=5))
    accesses = [ParamAccess.WRITE, *(draw(st.sampled_from(ParamAccess)) for _ in chosen[1:])]
    alignments = [draw(st.sampled_from([1, dtype.itemsize, 64])) for dtype in chosen]
    return tuple(
        Param(f"{access.value}{number}", dtype, size, access, alignment)
        for number, (dtype, access, alignment) in enumerate(zip(chosen, accesses, alignments, strict=True))
    )


@st.composite
def kernel_cases(
    draw: DrawFn, dtypes: tuple[DType, ...] = ALL_DTYPES, depth: int = 2, threads: bool = False
) -> KernelCase:
    """Draw a legal kernel without races and undefined reads, and arrays to run it on.

    Args:
        draw: Given by Hypothesis.
        dtypes: What element types may occur.
        depth: How deep loops and conditions may be nested.
        threads: Whether groups have several threads, local arrays and barriers.

    """
    used = tuple(draw(st.lists(st.sampled_from(dtypes), min_size=1, max_size=4, unique=True)))
    index = draw(st.sampled_from([DType.I64, DType.I64, DType.I32]))
    grid = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    group = (draw(st.sampled_from([2, 4])),) if threads else (1,)
    size = ROOM * int(np.prod(grid)) * group[0]
    generator = _Generator(draw, used, index, _params(draw, used, size))
    body = (_room(grid, group, index), *(_exchange(generator, group[0]) if threads else ()))
    kernel = KernelFunction("k", generator.params, (*body, *generator.body(depth, 6)), grid, group, index)
    seed = draw(st.integers(0, 1000))
    arrays = tuple(content(param.dtype, size, seed + number) for number, param in enumerate(kernel.params))
    return KernelCase(kernel, arrays)


def _room(grid: tuple[int, ...], group: tuple[int, ...], index: DType) -> Stmt:
    """Declare where the part of every array starts that this thread owns."""
    kind = Type(index)
    number: Expr = GridIndex(GridLevel.LOCAL, 0, kind)
    extent = group[0]
    for axis, size in enumerate(grid):
        scaled = Apply(Op.MUL, (GridIndex(GridLevel.GROUP, axis, kind), Const(extent, kind)))
        number = Apply(Op.ADD, (number, scaled))
        extent *= size
    return Declare(Var("room", kind), Apply(Op.MUL, (number, Const(ROOM, kind))))


def _exchange(generator: _Generator, threads: int) -> tuple[Stmt, ...]:
    """Pass a value from each thread of a group to another one through local memory, twice."""
    kind = Type(generator.dtype())
    array = DeclareArray("exchange", kind.dtype, threads, Region.LOCAL)
    place = GridIndex(GridLevel.LOCAL, 0, generator.scalar_index)
    result: list[Stmt] = [array]
    for name in ("first", "second"):
        other = Apply(Op.BIT_AND, (generator.expr(generator.scalar_index, 1), generator.integer(threads - 1)))
        result.append(Assign(Subscript(array.name, place, kind), generator.expr(kind, 2)))
        result.append(Barrier())
        result.append(Declare(Var(name, kind), Subscript(array.name, other, kind)))
        result.append(Barrier())
        generator.variables.append(Var(name, kind))
    return tuple(result)


@st.composite
def function_cases(draw: DrawFn, dtypes: tuple[DType, ...] = (DType.F32, DType.F64)) -> KernelCase:
    """Draw a kernel that applies one mathematical function to an array, as scalars or vectors."""
    op = draw(st.sampled_from(sorted(APPROXIMATE, key=lambda op: op.value)))
    kind = Type(draw(st.sampled_from(dtypes)), draw(st.sampled_from(LANES)))
    size = ROOM * 2
    index = Type(DType.I64)
    counter = Var("i", index)
    names = tuple(f"in{number}" for number in range(op.info.arity))
    value = Apply(op, tuple(Subscript(name, counter, kind) for name in names))
    store = Assign(Subscript("result", counter, kind), value)
    loop = For(counter, Const(0, index), Const(size, index), kind.lanes, (store,))
    params = (
        *(Param(name, kind.dtype, size, ParamAccess.READ) for name in names),
        Param("result", kind.dtype, size, ParamAccess.WRITE),
    )
    seed = draw(st.integers(0, 1000))
    arrays = tuple(content(kind.dtype, size, seed + number) for number in range(len(params)))
    return KernelCase(KernelFunction(f"apply_{op.value}", params, (loop,)), arrays)
