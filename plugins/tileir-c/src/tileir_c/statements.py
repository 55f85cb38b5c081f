"""Statements of kernels as statements of C."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, assert_never

import attrs

from tileir.core.dtype import DType
from tileir.core.text.names import NameScope
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
    Channel,
    Const,
    Declare,
    DeclareArray,
    Exchange,
    For,
    If,
    LoopKind,
    MatrixMultiply,
    Prefetch,
    Turn,
    Update,
    Var,
    Vote,
    WarpRole,
)
from tileir.semtree.rewrite import statements, trip_values
from tileir.semtree.transform.layout import ALIGNMENT
from tileir_c.expressions import bare, element, value
from tileir_c.spelling import MEMORY, VALUE, constant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.core.text.writer import Writer
    from tileir.semtree.ir import Expr, Stmt
    from tileir.semtree.transform.layout import Layout
    from tileir_c.expressions import Names


@attrs.frozen
class Statements:
    """Writes the statements of one kernel.

    Attributes:
        out: Where to.
        names: How names are spelt.
        scope: Identifiers that are taken.
        layout: Where arrays live.
        assigned: Names of the variables that are assigned to somewhere in the kernel.

    """

    out: Writer
    names: Names
    scope: NameScope
    layout: Layout
    assigned: frozenset[str]

    def write(self, stmts: tuple[Stmt, ...]) -> None:
        """Write a list of statements."""
        for stmt in stmts:
            self._write(stmt)

    @contextmanager
    def _block(self, header: str) -> Iterator[None]:
        self.out.line(f"{header} {{")
        with self.out.indented():
            yield
        self.out.line("}")

    def _text(self, expr: Expr) -> str:
        return bare(value(self.names, expr))

    def _write(self, stmt: Stmt) -> None:
        match stmt:
            case Declare(variable=variable, value=expr):
                const = "" if variable.name in self.assigned else "const "
                name = self.names.names[variable.name]
                self.out.line(f"{const}{VALUE[variable.type.dtype]} {name} = {self._text(expr)};")
            case DeclareArray():
                self._declare_array(stmt)
            case Assign(target=target, value=expr):
                place = value(self.names, target) if isinstance(target, Var) else element(self.names, target)
                self.out.line(f"{place} = {self._text(expr)};")
            case For():
                self._loop(stmt)
            case If():
                self._branch(stmt)
            case Prefetch(target=target):
                self.out.line(f"__builtin_prefetch(&{element(self.names, target)});")
            case (
                Barrier()
                | Turn()
                | AssignLanes()
                | AsyncCopy()
                | AsyncCommit()
                | AsyncWait()
                | MatrixMultiply()
                | Exchange()
                | Vote()
                | Arrive()
                | Await()
                | Update()
                | Channel()
                | BulkCopy()
                | BulkStore()
                | BulkWait()
                | WarpRole()
            ):
                pass  # groups have one thread, and what it does is spelt out, or refused
            case _:
                assert_never(stmt)

    def _declare_array(self, array: DeclareArray) -> None:
        name, kind = self.names.names[array.name], MEMORY[array.dtype]
        if array not in self.layout.offsets:
            alignment = max(array.dtype.itemsize, min(array.alignment, ALIGNMENT))
            self.out.line(f"_Alignas({alignment}) {kind} {name}[{array.size}];")
            return
        place = f"scratch + {self.layout.offsets[array]}"
        self.out.line(f"{kind} *restrict {name} = ({kind} *)TILE_ALIGNED({place}, {ALIGNMENT});")

    def _loop(self, loop: For) -> None:
        kind, name = VALUE[loop.counter.type.dtype], self.names.names[loop.counter.name]
        begin, end = (self._bound(bound) for bound in (loop.begin, loop.end))
        if loop.kind is LoopKind.VECTOR and not any(isinstance(s, DeclareArray) for s in statements(loop.body)):
            self.out.line("TILE_INDEPENDENT")  # an array in scratch memory would be shared by the iterations
        with self._block(f"for ({kind} {name} = {begin}; {name} < {end}; {_advance(loop, name, end)})"):
            self.write(loop.body)

    def _bound(self, bound: Expr) -> str:
        """Return a text for the value of a bound that the loop cannot change."""
        if isinstance(bound, Const) and abs(bound.value) <= DType.I32.maximum:
            return str(bound.value)
        text = self._text(bound)
        if isinstance(bound, Const) or (isinstance(bound, Var) and bound.name not in self.assigned):
            return text
        name = self.scope.fresh("bound")
        self.out.line(f"const {VALUE[bound.type.dtype]} {name} = {text};")
        return name

    def _branch(self, stmt: If) -> None:
        with self._block(f"if ({self._text(stmt.condition)})"):
            self.write(stmt.then)
        if stmt.otherwise:
            with self._block("else"):
                self.write(stmt.otherwise)


def _advance(loop: For, name: str, end: str) -> str:
    """Return the step of a loop; it must not overflow behind the last iteration."""
    values, dtype = trip_values(loop), loop.counter.type.dtype
    if loop.step == 1:
        return f"++{name}"
    if values is not None and (not values or values[-1] + loop.step <= dtype.maximum):
        return f"{name} += {loop.step}"
    step, wide = constant(loop.step, dtype), "uint64_t" if dtype.bits == 64 else "uint32_t"
    left = f"({wide})({end}) - ({wide}){name}"
    return f"{name} = {left} > {step} ? ({VALUE[dtype]})({name} + {step}) : {end}"
