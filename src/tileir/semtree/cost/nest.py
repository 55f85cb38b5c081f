"""Kernels as nests of loops, with the loops on which each value depends.

The grid is one loop, the threads of a group are a nested one. Conditions count as true, and data-dependent trip counts
by their bounds, so these counts are upper bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final

from tileir.core import attrs, reached
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.ir import (
    Declare,
    Expr,
    For,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    LoopKind,
    Stmt,
    Subscript,
    Var,
    WarpRole,
)
from tileir.semtree.rewrite import children, mentions, statements, trip_values, walk

GRID: Final = 0
THREADS: Final = 1
"""Numbers of the loops over groups and over the threads of a group."""


@attrs.define(eq=False, repr=False)
class Loop:
    """A loop, with the statements directly in it or under a condition.

    Attributes:
        number: Number of the loop.
        indices: (name, range, tag) of its counters with more than one value.
        trips: Number of iterations, or a bound of it.
        exact: Whether that is exact, without enclosing conditions.
        unrolled: Whether its iterations are issued together with the surrounding code.
        vector: Whether its iterations may share instructions.
        statements: Statements in the order of the text.
        inner: Nested loops.
    """

    number: int
    indices: tuple[tuple[str, int, str], ...]
    trips: int
    exact: bool
    unrolled: bool = False
    vector: bool = False
    statements: list[Stmt] = attrs.field(factory=list)
    inner: list[Loop] = attrs.field(factory=list)

    def walk(self) -> Iterator[Loop]:
        """Yield the loop and all nested loops, outer loops first."""
        yield self
        for loop in self.inner:
            yield from loop.walk()


@attrs.frozen(eq=False, repr=False)
class Nest:
    """The loops of one kernel.

    Attributes:
        grid: The loop over groups.
        trips: Iterations of each loop, by its number.
        depends: The numbers of the loops on which each variable depends, by name.
    """

    grid: Loop
    trips: Mapping[int, int]
    depends: Mapping[str, frozenset[int]]

    @classmethod
    def of(cls, kernel: KernelFunction) -> Nest:
        """Return the loops of a valid kernel."""
        builder = _LoopCollector(kernel, Ranges.of(kernel))
        grid = builder.kernel()
        return cls(grid, {loop.number: loop.trips for loop in grid.walk()}, builder.depends)

    def moves_with(self, expr: Expr) -> frozenset[int]:
        """Return the numbers of the loops on which a value, or the place of an element in it, depends."""
        return _moves_with(expr, self.depends)


def _moves_with(expr: Expr, depends: Mapping[str, frozenset[int]]) -> frozenset[int]:
    found: set[int] = set()
    for node in walk(expr):
        match node:
            case Var(name=name):
                found |= depends[name]
            case GridIndex(level=level):
                found.add(GRID if level is GridLevel.GROUP else THREADS)
    return frozenset(found)


@attrs.define(eq=False, repr=False)
class _LoopCollector:
    """Collector of loops in the order of the text."""

    kernel_: KernelFunction
    ranges: Ranges
    depends: dict[str, frozenset[int]] = attrs.field(factory=dict)
    _count: int = 2

    def kernel(self) -> Loop:
        """Return the loop over groups, with all nested loops."""
        kernel = self.kernel_
        names = _coordinates(kernel)
        grid = Loop(GRID, _axes(kernel.grid, GridLevel.GROUP, "grid", names), prod(kernel.grid), exact=True)
        place, around = grid, frozenset({GRID})
        if prod(kernel.group) > 1:
            axes = _axes(kernel.group, GridLevel.LOCAL, "thread", names)
            place = Loop(THREADS, axes, prod(kernel.group), exact=True)
            grid.inner.append(place)
            around |= {THREADS}
        self._body(kernel.body, place, around, exact=True)
        return grid

    def _body(self, stmts: tuple[Stmt, ...], loop: Loop, around: frozenset[int], *, exact: bool) -> None:
        """Put statements into a loop; the depth of nesting is bounded."""
        for stmt in stmts:
            self.ranges.enter(stmt)
            match stmt:
                case For(counter=counter, kind=kind, body=body):
                    trips, known = self._trips(stmt)
                    tag = "" if kind is LoopKind.SERIAL else kind.value
                    inner = Loop(self._count, ((counter.name, trips, tag),), trips, exact=known and exact)
                    inner.unrolled, inner.vector = kind is LoopKind.UNROLL, kind is LoopKind.VECTOR
                    self._count += 1
                    loop.inner.append(inner)
                    self.depends[counter.name] = around & _moves_with(stmt.begin, self.depends) | {inner.number}
                    self._body(body, inner, around | {inner.number}, exact=known and exact)
                case If(then=then, otherwise=otherwise):
                    self._body(then, loop, around, exact=False)
                    self._body(otherwise, loop, around, exact=False)
                case WarpRole(body=body):
                    self._body(body, loop, around, exact=False)
                case _:
                    if isinstance(stmt, Declare):
                        name = stmt.variable.name
                        fixed = name not in self.ranges.assigned
                        self.depends[name] = _moves_with(stmt.value, self.depends) if fixed else around
                    loop.statements.append(stmt)

    def _trips(self, loop: For) -> tuple[int, bool]:
        values = trip_values(loop)
        if values is not None:
            return len(values), True
        begin, end = self.ranges.at(loop.begin), self.ranges.at(loop.end)
        return max(0, -(-(end.high - begin.low) // loop.step)), False


def _coordinates(kernel: KernelFunction) -> dict[tuple[GridLevel, int], str]:
    names: dict[tuple[GridLevel, int], str] = {}
    for stmt in kernel.body:
        if isinstance(stmt, Declare) and isinstance(stmt.value, GridIndex):
            names.setdefault((stmt.value.level, stmt.value.axis), stmt.variable.name)
    return names


def _axes(
    extents: tuple[int, ...], level: GridLevel, tag: str, names: Mapping[tuple[GridLevel, int], str]
) -> tuple[tuple[str, int, str], ...]:
    axes = ((names.get((level, axis), f"{level.value}_{axis}"), size) for axis, size in enumerate(extents))
    return tuple((name, size, tag) for name, size in axes if size > 1)


def outside_offsets(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all nested expressions, without offsets of elements."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, Subscript):
            stack.extend(reversed(children(node)))


def addressing(kernel: KernelFunction) -> frozenset[str]:
    """Return the variables that are used only in offsets, bounds and conditions."""
    declared: set[str] = set()
    computing: set[str] = set()
    read_by: dict[str, list[str]] = {}
    for stmt in statements(kernel.body):
        if isinstance(stmt, For | If | WarpRole):
            continue
        if isinstance(stmt, Declare):
            declared.add(stmt.variable.name)
            if not stmt.variable.type.dtype.is_float:
                nodes = outside_offsets(stmt.value)
                read_by.setdefault(stmt.variable.name, []).extend(n.name for n in nodes if isinstance(n, Var))
                continue
        computing.update(n.name for root in mentions(stmt) for n in outside_offsets(root) if isinstance(n, Var))
    return frozenset(declared - reached(computing, lambda name: read_by.get(name, ())))
