"""Random legal kernels with arrays to run them on, for emitters alone.

The results of :func:`kernel` do not depend on the order of a reduction, on how accurate a mathematical
function is, on the bits of a NaN, or on which zero a maximum takes: every back end must give the
interpreter's result, up to the bits of NaN and the sign of zero. :func:`function` makes kernels of one
mathematical function each, to be compared within a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fuzz.semtree.kernel_expressions import ROOM, Expressions
from fuzz.semtree.kernel_values import APPROXIMATE, aligned_copy, content
from tileir.core import DType, Op, attrs
from tileir.semtree.interpret import interpreter
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import (
    Apply,
    Assign,
    AssignLanes,
    Barrier,
    Const,
    Declare,
    DeclareArray,
    Expr,
    For,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    LoopKind,
    Param,
    ParamAccess,
    Ramp,
    Region,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.text.printer import to_text
from tileir_testing.generated.choices import Choices, Seeded
from tileir_testing.values import check_close

LANES: Final = (1, 1, 2, 4, 8, 16)


@attrs.frozen(eq=False)
class KernelCase:
    """A kernel, and the initial contents of its parameters."""

    kernel: KernelFunction
    initial: tuple[np.ndarray[Any, Any], ...]

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """Return fresh copies of the arrays, aligned to 64 bytes."""
        return [aligned_copy(array) for array in self.initial]

    def expected(self) -> list[np.ndarray[Any, Any]]:
        """Return the arrays after the interpreter has run the kernel.

        Raises:
            TileError: TIL553 to TIL558, the kernel breaks a rule, so that devices may differ.
        """
        arrays = self.arrays()
        interpreter.run(self.kernel, arrays, ALL_CHECKS)
        return arrays

    def check(self, actual: Sequence[np.ndarray[Any, Any]], ulps: float = 0.0) -> None:
        """Compare arrays after another run; raise AssertionError, with the kernel, for a difference."""
        for param, ours, theirs in zip(self.kernel.params, actual, self.expected(), strict=True):
            try:
                check_close(param.name, ours, theirs, ulps)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{self!r}") from None

    def __repr__(self) -> str:
        return to_text(self.kernel)


@attrs.define(repr=False)
class _Statements(Expressions):
    """Makes the statements of one kernel.

    Attributes:
        threads: How many threads a group has, which share scratch arrays.

    """

    threads: int = 1

    def body(self, depth: int, count: int) -> tuple[Stmt, ...]:
        before = len(self.variables), len(self.assignable), len(self.private)
        result = [stmt for _ in range(self.choices.integer(1, count)) for stmt in self.statement(depth)]
        del self.variables[before[0] :], self.assignable[before[1] :], self.private[before[2] :]
        return tuple(result)

    def kind(self) -> Type:
        return Type(self.dtype(), self.choices.pick(LANES))

    def statement(self, depth: int) -> tuple[Stmt, ...]:
        forms = ["declare", "declare", "store", "store", "assign"]
        if depth > 0:
            forms += ["loop", "loop", "if", "array", "independent"]
        match self.choices.pick(forms):
            case "declare":
                return (self.declare(),)
            case "assign" if self.assignable:
                target = self.choices.pick(self.assignable)
                return (Assign(target, self.expr(target.type, 2)),)
            case "loop":
                return (self.loop(depth),)
            case "if":
                test = self.expr(Type(DType.BOOL), 2)
                otherwise = self.body(depth - 1, 2) if self.choices.pick((False, True)) else ()
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
        array = self.choices.pick([*outputs, *self.private])
        kind = Type(array.dtype, self.choices.pick(LANES))
        if kind.lanes > 1 and self.choices.integer(0, 3) == 0:
            return self.masked(array, kind) if self.yes() else Assign(self.strided(array, kind), self.expr(kind, 3))
        place: Expr = Apply(Op.BIT_AND, (self.expr(self.scalar_index, 1), self.integer(ROOM - kind.lanes)))
        room = self.room(array)
        offset = place if room is None else Apply(Op.ADD, (room, place))
        return Assign(Subscript(array.name, offset, kind), self.expr(kind, 3))

    def masked(self, array: Param | DeclareArray, kind: Type) -> Stmt:
        """Set some lanes of elements, or of a variable to elements: the others may lie outside of the array."""
        begin, end = self.choices.integer(-1, kind.lanes), self.choices.integer(0, kind.lanes + 1)
        first, last = max(begin, 0), min(end, kind.lanes)
        room, start = self.room(array), self.choices.pick([-first, ROOM - last])
        place = self.integer(start) if room is None else Apply(Op.ADD, (room, self.integer(start)))
        offset = Ramp(place, 1, kind.lanes) if self.yes() else place
        elements, bounds = Subscript(array.name, offset, kind), (self.integer(begin), self.integer(end))
        usable = [variable for variable in self.assignable if variable.type == kind]
        is_read = not isinstance(array, Param) or array.access is not ParamAccess.WRITE
        if usable and is_read and self.yes():
            return AssignLanes(*bounds, self.choices.pick(usable), elements)
        return AssignLanes(*bounds, elements, self.expr(kind, 3))

    def strided(self, array: Param | DeclareArray, kind: Type) -> Subscript:
        """Return the target of a scatter; some of them write one element twice."""
        stride = self.choices.pick([0, 1, 2])
        base = self.room(array) or self.integer(0)
        return Subscript(array.name, Ramp(base, stride, kind.lanes), kind)

    def loop(self, depth: int) -> Stmt:
        counter = Var(self.fresh("i"), self.scalar_index)
        begin, trips, step = self.choices.integer(-2, 3), self.choices.integer(0, 3), self.choices.integer(1, 7)
        start: Expr = self.integer(begin)
        # The last step may lead beyond the end, and the end may lie before the beginning.
        end: Expr = self.integer(begin + trips * step - self.choices.integer(0, step - 1))
        kind = self.choices.pick([LoopKind.SERIAL, LoopKind.UNROLL])
        if kind is LoopKind.SERIAL and self.choices.pick((False, True)):
            end = Apply(Op.BIT_AND, (self.expr(self.scalar_index, 1), self.integer(3)))
        self.variables.append(counter)
        body = self.body(depth - 1, 3)
        self.variables.remove(counter)
        return For(counter, start, end, step, body, kind)

    def array(self) -> tuple[Stmt, ...]:
        """Declare an array, and fill the part of it that this thread owns, so that every later read is defined."""
        region = self.choices.pick([Region.PRIVATE, Region.PRIVATE, Region.SCRATCH])
        size = ROOM if region is Region.PRIVATE else ROOM * self.threads
        array = DeclareArray(self.fresh("p"), self.dtype(), size, region)
        counter = Var(self.fresh("i"), self.scalar_index)
        value = self.expr(Type(array.dtype), 2)
        room = self.room(array)
        place = counter if room is None else Apply(Op.ADD, (room, counter))
        fill = Assign(Subscript(array.name, place, value.type), value)
        self.private.append(array)
        return array, For(counter, self.integer(0), self.integer(ROOM), 1, (fill,))

    def independent(self) -> Stmt:
        """Return a loop whose iterations are independent: each stores to an element of its own."""
        counter = Var(self.fresh("i"), self.scalar_index)
        outputs = [param for param in self.params if param.access is ParamAccess.WRITE]
        if not outputs:
            return self.store()
        array = self.choices.pick(outputs)
        self.variables.append(counter)
        value = self.expr(Type(array.dtype), 3)
        self.variables.remove(counter)
        place = Apply(Op.ADD, (Var("room", self.scalar_index), counter))
        store = Assign(Subscript(array.name, place, value.type), value)
        return For(counter, self.integer(0), self.integer(ROOM), 1, (store,), LoopKind.VECTOR)


def _params(choices: Choices, dtypes: tuple[DType, ...], size: int) -> tuple[Param, ...]:
    chosen = [choices.pick(dtypes) for _ in range(choices.integer(2, 5))]
    accesses = [ParamAccess.WRITE, *(choices.pick(tuple(ParamAccess)) for _ in chosen[1:])]
    alignments = [choices.pick((1, dtype.itemsize, 64)) for dtype in chosen]
    return tuple(
        Param(f"{access.value}{number}", dtype, size, access, alignment)
        for number, (dtype, access, alignment) in enumerate(zip(chosen, accesses, alignments, strict=True))
    )


def kernel(
    choices: Choices, dtypes: tuple[DType, ...] = tuple(DType), depth: int = 2, *, threads: bool = False
) -> KernelCase:
    """Make a legal kernel without races and undefined reads, and arrays to run it on.

    Args:
        choices: The source of every choice.
        dtypes: Allowed element types.
        depth: Largest nesting of loops and conditions.
        threads: Whether groups have several threads, local arrays and barriers.
    """
    used = tuple(dict.fromkeys(choices.pick(dtypes) for _ in range(choices.integer(1, 4))))
    index = choices.pick((DType.I64, DType.I64, DType.I32))
    grid = tuple(choices.integer(1, 3) for _ in range(choices.integer(1, 3)))
    group = (choices.pick((2, 4)),) if threads else (1,)
    size = ROOM * int(np.prod(grid)) * group[0]
    generator = _Statements(choices, used, index, _params(choices, used, size), threads=group[0])
    body = (_room(grid, group, index), *(_exchange(generator, group[0]) if threads else ()))
    made = KernelFunction("k", generator.params, (*body, *generator.body(depth, 6)), grid, group, index)
    seed = choices.integer(0, 1000)
    arrays = tuple(content(param.dtype, size, seed + number) for number, param in enumerate(made.params))
    return KernelCase(made, arrays)


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


def _exchange(generator: _Statements, threads: int) -> tuple[Stmt, ...]:
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


def function(choices: Choices, dtypes: tuple[DType, ...] = (DType.F32, DType.F64)) -> KernelCase:
    """Make a kernel that applies one mathematical function to an array, as scalars or vectors."""
    op = choices.pick(sorted(APPROXIMATE, key=lambda op: op.value))
    kind = Type(choices.pick(dtypes), choices.pick(LANES))
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
    seed = choices.integer(0, 1000)
    arrays = tuple(content(kind.dtype, size, seed + number) for number in range(len(params)))
    return KernelCase(KernelFunction(f"apply_{op.value}", params, (loop,)), arrays)


def numbered(seed: int, number: int) -> KernelCase:
    """Return a kernel that a seed and a number determine; every third one has groups of several threads."""
    return kernel(Seeded(f"kernel {seed} {number}"), threads=number % 3 == 2)
