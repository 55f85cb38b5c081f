"""Statements of kernels as OpenCL C."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import assert_never

import attrs

from tileir.core.dtype import DType
from tileir.semtree.ir import (
    Arrive,
    Assign,
    AssignLanes,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Await,
    Barrier,
    BulkCopy,
    BulkStore,
    BulkWait,
    Cast,
    Channel,
    Declare,
    DeclareArray,
    Exchange,
    Expr,
    For,
    If,
    LoopKind,
    MatrixMultiply,
    Prefetch,
    Stmt,
    Subscript,
    Turn,
    Update,
    Var,
    Vote,
    WarpRole,
)
from tileir.semtree.legalise.offsets import ramp_of
from tileir_opencl.emit.expressions import Environment, call_builtin, evaluate, lane_offsets
from tileir_opencl.emit.instructions import commit, copy, multiply, wait
from tileir_opencl.emit.memory import Place, prefetch, scatter, store
from tileir_opencl.emit.peephole import accumulation
from tileir_opencl.emit.spelling import MASKS, MEMORY, SUM, register, vector
from tileir_opencl.emit.text import Value, canonical
from tileir_opencl.emit.updates import update


@attrs.define(eq=False, repr=False)
class Statements:
    """Writes the statements of one kernel.

    Attributes:
        env: What names mean where the text is written.
        identifiers: How each name of the kernel is spelt.
        assigned: Names of the variables that are assigned to somewhere in the kernel.
        shared: Local and scratch arrays, which are declared at the top of the kernel.
        alignments: The bytes to which vectors of each array, by name, want it to be aligned.
        fences: The argument of barriers.
        group: The threads of a group along each axis.

    """

    env: Environment
    identifiers: Mapping[str, str]
    assigned: frozenset[str]
    shared: Mapping[DeclareArray, Place]
    alignments: Mapping[str, int]
    fences: str
    group: tuple[int, ...] = (1,)

    def write(self, stmts: tuple[Stmt, ...]) -> None:
        """Write statements, one after the other."""
        for stmt in stmts:
            self._write(stmt)

    def _line(self, text: str) -> None:
        self.env.out.writer.line(text)

    @contextmanager
    def _block(self) -> Iterator[None]:
        """Write between braces."""
        self._line("{")
        with self.env.out.writer.indented():
            yield
        self._line("}")

    def _write(self, stmt: Stmt) -> None:
        match stmt:
            case Declare():
                self._declare(stmt)
            case DeclareArray():
                self.env.arrays[stmt.name] = self.shared[stmt] if stmt in self.shared else self._private(stmt)
            case Assign():
                self._assign(stmt)
            case For():
                self._loop(stmt)
            case If():
                self._branch(stmt)
            case Barrier():
                self._line(f"barrier({self.fences});")
            case AsyncCopy():
                copy(self.env, stmt)
            case AsyncCommit():
                self._line(f"{commit(self.env.out)}();")
            case AsyncWait(pending=pending):
                self._line(f"{wait(self.env.out, pending)}();")
            case MatrixMultiply():
                with self._block():
                    multiply(self.env, stmt, self.group)
            case AssignLanes() | Exchange() | Vote() | Channel() | Turn() | WarpRole():
                pass  # spelt out before, left out, or refused
            case Arrive() | Await() | BulkCopy() | BulkStore() | BulkWait():
                pass  # spelt out before, left out, or refused
            case Update():
                self._line(update(self.env, stmt))
            case Prefetch(target=target):
                self._line(prefetch(self.env.arrays[target.array], evaluate(self.env, target.offset)))
            case _:
                assert_never(stmt)

    def _declare(self, stmt: Declare) -> None:
        """Declare a variable; a mask that stays is kept in the width that it has."""
        variable, value = stmt.variable, evaluate(self.env, stmt.value)
        name, kind = self.identifiers[variable.name], register(variable.type)
        if variable.type.dtype.is_bool and variable.type.lanes > 1:
            value = canonical(value) if variable.name in self.assigned else value
            kind = vector(MASKS[value.mask], variable.type.lanes)
        self._line(f"{kind} {name} = {value.text};")
        self.env.ranges.enter(stmt)
        self.env.variables[variable.name] = Value(name, variable.type, mask=value.mask)

    def _private(self, array: DeclareArray) -> Place:
        """Declare an array of this thread; halves are kept as floats, as variables are."""
        name = self.identifiers[array.name]
        registers = array.dtype is DType.F16
        element = MEMORY[DType.F32 if registers else array.dtype]
        alignment, text = aligned(array, self.alignments)
        self._line(f"{element} {name}[{array.size}]{text};")
        return Place(name, "__private ", array.dtype, alignment, registers=registers)

    def _assign(self, stmt: Assign) -> None:
        target, content = stmt.target, stmt.value
        if isinstance(target, Subscript) and isinstance(content, Cast):
            array = self.env.arrays[target.array]
            if array.stored is DType.F16 and content.operand.type.dtype is DType.F32:
                content = content.operand  # storing rounds, too
        found = accumulation(stmt)
        value = evaluate(self.env, content) if found is None else call_builtin(self.env, found)
        if isinstance(target, Var):
            self._line(f"{self.identifiers[target.name]} = {canonical(value).text};")
            return
        array, ramp = self.env.arrays[target.array], ramp_of(target.offset)
        if ramp is None or (ramp[1] != 1 and target.type.lanes > 1):
            offsets = lane_offsets(self.env, target.offset)
            scatter(self.env.out, array, offsets * (target.type.lanes // len(offsets)), value)
        else:
            divisor = self.env.ranges.at(ramp[0]).divisor
            store(self.env.out, array, evaluate(self.env, ramp[0]), divisor, value)

    def _loop(self, loop: For) -> None:
        begin, end = evaluate(self.env, loop.begin), evaluate(self.env, loop.end)
        if begin.known is not None and end.known is not None and begin.known >= end.known:
            return
        name = self.identifiers[loop.counter.name]
        kind = register(loop.counter.type)
        if end.known is None and self._may_change(loop.end):
            fixed = self.env.out.names.fresh(f"{name}_end")
            self._line(f"{kind} {fixed} = {end.text};")
            end = Value(fixed, end.type)
        step = f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"
        if loop.kind is LoopKind.UNROLL:
            self._line("#pragma unroll")
        self._line(f"for ({kind} {name} = {begin.text}; {name} < {end.at(SUM)}; {step})")
        self.env.ranges.enter(loop)
        self.env.variables[loop.counter.name] = Value(name, loop.counter.type)
        with self._block():
            self.write(loop.body)

    def _may_change(self, end: Expr) -> bool:
        """Return whether the body of a loop could change the bound, which counts only as it was at first."""
        return not isinstance(end, Var) or end.name in self.assigned

    def _branch(self, stmt: If) -> None:
        condition = evaluate(self.env, stmt.condition)
        self._line(f"if ({condition.text})")
        with self._block():
            self.write(stmt.then)
        if stmt.otherwise:
            self._line("else")
            with self._block():
                self.write(stmt.otherwise)


def aligned(array: DeclareArray, alignments: Mapping[str, int]) -> tuple[int, str]:
    """Return the alignment of an array, and the attribute that asks for it where the element's is not enough."""
    wanted = min(alignments.get(array.name, 1), array.alignment)
    if wanted <= array.dtype.itemsize:
        return array.dtype.itemsize, ""
    return wanted, f" __attribute__((aligned({wanted})))"
