"""Serialisation of groups: one thread does the work of all threads of a group.

Between barriers the threads of a group may run in any order, so they run in turn: every stretch of statements
without a barrier becomes a loop over the threads (Stratton et al., "MCUDA: an efficient implementation of CUDA
kernels for multi-core CPUs", 2008). Loops and conditions that contain barriers are uniform, and stay outside. A private
variable or array that is live across a barrier gets an element for each thread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tileir.core import DType, NameScope, Op, attrs
from tileir.semtree.analysis.effects import meets
from tileir.semtree.ir import (
    Apply,
    Assign,
    Barrier,
    Broadcast,
    Cast,
    Const,
    Declare,
    DeclareArray,
    Expr,
    For,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    Region,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.matrices import without_instructions
from tileir.semtree.rewrite import kernel_names, map_expr, map_stmts, rewrite_stmts, statements, with_body


def one_thread(kernel: KernelFunction, *, masks: bool = True, updates: int = 0) -> KernelFunction:
    """Return an equal kernel whose groups have one thread; itself if they already do, without barriers.

    Args:
        kernel: The kernel.
        masks: Whether to replace assignments to some lanes.
        updates: Bytes of the widest elements that the back end updates atomically; 0 for none.
    """
    kernel = without_instructions(kernel, masks=masks, updates=updates)
    if math.prod(kernel.group) == 1:
        meets_others = any(isinstance(stmt, Barrier) for stmt in statements(kernel.body))
        return with_body(kernel, rewrite_stmts(_alone, kernel.body)) if meets_others else kernel
    return attrs.evolve(kernel, body=_Threads.of(kernel).in_step(kernel.body, {}), group=(1,))


def _alone(stmt: Stmt) -> tuple[Stmt, ...]:
    return () if isinstance(stmt, Barrier) else (stmt,)


@attrs.frozen(repr=False)
class _Copies:
    """Array of the copies of a private variable or array for all threads: ``stride`` elements for each."""

    array: str
    stride: int


@attrs.frozen(repr=False)
class _Threads:
    """Threads of one kernel: ``counters`` run over ``extents``, and ``number`` numbers the threads."""

    names: NameScope
    extents: tuple[int, ...]
    counters: tuple[Var, ...]
    number: Expr

    @classmethod
    def of(cls, kernel: KernelFunction) -> _Threads:
        index = Type(kernel.index)
        names = NameScope.of(kernel_names(kernel))
        counters = tuple(Var(names.fresh(f"thread{axis}"), index) for axis in range(len(kernel.group)))
        number: Expr = Const(0, index)
        for counter, extent in zip(reversed(counters), reversed(kernel.group), strict=True):
            number = Apply(Op.ADD, (counter, Apply(Op.MUL, (number, Const(extent, index)))))
        return cls(names, kernel.group, counters, number)

    def in_step(self, stmts: tuple[Stmt, ...], copies: Mapping[str, _Copies]) -> tuple[Stmt, ...]:
        """Run a list of statements from barrier to barrier; ``copies`` are those visible from outside."""
        if not any(map(_has_barrier, stmts)):
            return self._in_turn(stmts, copies)
        visible = dict(copies)
        result: list[Stmt] = []
        stretch: list[Stmt] = []
        for stmt in stmts:
            if not _has_barrier(stmt):
                stretch.append(stmt)
                continue
            result.extend(self._stretch(stretch, visible))
            stretch = []
            result.extend(self._uniform(stmt, visible))
        result.extend(self._stretch(stretch, visible))
        return tuple(result)

    def _uniform(self, stmt: Stmt, copies: Mapping[str, _Copies]) -> tuple[Stmt, ...]:
        """Return a statement that contains a barrier; its expressions are uniform, so the first thread's serve."""
        match stmt:
            case For(begin=begin, end=end):
                body = self.in_step(stmt.body, copies)
                start, stop = self._of_first(begin, copies), self._of_first(end, copies)
                return (attrs.evolve(stmt, begin=start, end=stop, body=body),)
            case If(condition=condition, then=then, otherwise=otherwise):
                branches = self.in_step(then, copies), self.in_step(otherwise, copies)
                return (If(self._of_first(condition, copies), *branches),)
            case _:
                return ()  # a barrier itself; other waits have been replaced before

    def _stretch(self, stmts: list[Stmt], copies: dict[str, _Copies]) -> tuple[Stmt, ...]:
        """Return statements between barriers; their declarations are added to ``copies``."""
        arrays: list[Stmt] = []
        rest: list[Stmt] = []
        for stmt in stmts:
            match stmt:
                case DeclareArray(region=Region.PRIVATE):
                    arrays.append(self._copied(stmt.name, stmt.dtype, stmt.size, copies))
                case DeclareArray():
                    arrays.append(stmt)
                case Declare(variable=variable, value=value):
                    arrays.append(self._copied(variable.name, variable.type.dtype, variable.type.lanes, copies))
                    rest.append(Assign(variable, value))
                case _:
                    rest.append(stmt)
        return (*arrays, *self._in_turn(tuple(rest), copies))

    def _copied(self, name: str, dtype: DType, elements: int, copies: dict[str, _Copies]) -> DeclareArray:
        """Return an array with ``elements`` for each thread, recorded as the copies of ``name``."""
        array = self.names.fresh(f"{name}_of_threads")
        copies[name] = _Copies(array, elements)
        return DeclareArray(array, dtype, elements * math.prod(self.extents))

    def _in_turn(self, stmts: tuple[Stmt, ...], copies: Mapping[str, _Copies]) -> tuple[Stmt, ...]:
        """Run statements without barriers once for each thread."""
        if not stmts:
            return ()
        coordinates: dict[int, Expr] = dict(enumerate(self.counters))
        body = map_stmts(lambda expr: _seen_by(expr, coordinates, self.number, copies), stmts)
        for counter, extent in zip(self.counters, self.extents, strict=True):
            body = (For(counter, Const(0, counter.type), Const(extent, counter.type), 1, body),)
        return body

    def _of_first(self, expr: Expr, copies: Mapping[str, _Copies]) -> Expr:
        """Return an expression for the first thread."""
        zero = Const(0, self.number.type)
        return _seen_by(expr, dict.fromkeys(range(len(self.extents)), zero), zero, copies)


def _has_barrier(stmt: Stmt) -> bool:
    return any(map(meets, statements((stmt,))))


def _seen_by(expr: Expr, coordinates: Mapping[int, Expr], number: Expr, copies: Mapping[str, _Copies]) -> Expr:
    """Return an expression for the thread with these coordinates and this number."""

    def own(node: Expr) -> Expr:
        match node:
            case GridIndex(level=GridLevel.LOCAL, axis=axis, type=kind):
                return Cast(coordinates[axis], kind)
            case Var(name=name, type=kind) if name in copies:
                return Subscript(copies[name].array, _start(copies[name], number), kind)
            case Subscript(array=array, offset=offset, type=kind) if array in copies:
                wide = Type(number.type.dtype, offset.type.lanes)
                start = _start(copies[array], number)
                places = Apply(Op.ADD, (Broadcast(start, wide.lanes), Cast(offset, wide)))
                return Subscript(copies[array].array, places, kind)
            case _:
                return node

    return map_expr(own, expr)


def _start(copies: _Copies, number: Expr) -> Expr:
    return Apply(Op.MUL, (number, Const(copies.stride, number.type)))
