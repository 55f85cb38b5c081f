"""Loops of a block, and the places at which its constraints are tested."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from math import prod
from typing import TypeAlias

from tileir.core import attrs, fail
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.views import LANE, TERM, zero
from tileir.stripe.ir import PADDED, Binding, Block, Index

Guard: TypeAlias = Affine
"""An affine over kernel variables that must be >= 0."""


@attrs.frozen
class Loop:
    """One loop; ``lower`` and ``upper`` (exclusive) are bounds in addition to 0 and ``range``."""

    counter: sem.Var
    range: int
    kind: sem.LoopKind
    lower: tuple[Affine, ...]
    upper: tuple[Affine, ...]
    guards: tuple[Guard, ...]  # tested once, before the loop


@attrs.frozen
class LoopPlan:
    """Loops from outermost to innermost, guards that only the innermost body can test, and guards of each lane."""

    loops: tuple[Loop, ...]
    inner_guards: tuple[Guard, ...]
    lanes: int
    of_lanes: tuple[Guard, ...] = ()

    def parted(self) -> tuple[LoopPlan, LoopPlan, tuple[Guard, ...]]:
        """Return the plan without trailing unrolled loops, the plan of these, and guards that all lanes run."""
        count = sum(1 for _ in takewhile(lambda loop: loop.kind is sem.LoopKind.UNROLL, reversed(self.loops)))
        outer, inner = self.loops[: len(self.loops) - count], self.loops[len(self.loops) - count :]
        last = {LANE: self.lanes - 1} | {loop.counter.name: loop.range - 1 for loop in inner}
        worst = (
            guard.substitute({name: end if guard.coefficient(name) < 0 else 0 for name, end in last.items()})
            for guard in self.of_lanes
        )
        return attrs.evolve(self, loops=outer, inner_guards=()), attrs.evolve(self, loops=inner), tuple(worst)


def plan_loops(
    block: Block,
    parent: dict[str, Affine],
    values: dict[str, Affine],
    counter: Callable[[str], sem.Var],
    terms: Index | None = None,
) -> LoopPlan:
    """Choose the loops of a block and bind each index in ``values`` to an affine of kernel variables.

    ``terms`` is an index that becomes no loop, since it counts the terms of dot products.

    Every constraint is tested as far outside as its variables allow; one that bounds the counter of a serial
    loop with coefficient ±1 becomes a bound of that loop instead of a test in its body.
    """
    lanes = 1
    counters: list[tuple[sem.Var, Index]] = []
    for index in block.indices:
        if index.name in values:
            continue
        base = Affine() if index.affine is None else index.affine.substitute(parent)
        if index.binding is Binding.GRID:
            message = (
                f"index {index.name} of block {block.name or '(unnamed)'} is bound to grid, but the block is no kernel"
            )
            raise fail("TIL502", f"{message}: bind indices of the kernel around it")
        if index.binding is Binding.LANE:
            lanes = _vector_lanes(block, index, dots=terms is not None)
            values[index.name] = base + Affine.index(LANE)
        elif index is terms:
            values[index.name] = base + Affine.index(TERM)
        elif index.range == 1:
            values[index.name] = base
        else:
            variable = counter(index.name)
            values[index.name] = base + Affine.index(variable.name)
            counters.append((variable, index))
    tests = [constraint.substitute(values) for constraint in block.constraints]
    pending = [test for test in tests if not test.coefficient(LANE)]
    loops = []
    for position, (variable, index) in enumerate(counters):
        inside = {v.name for v, _ in counters[position:]}
        deeper = inside - {variable.name}
        guards = tuple(c for c in pending if not inside.intersection(c.indices))
        mine = [c for c in pending if variable.name in c.indices and not deeper.intersection(c.indices)]
        kind = sem.LoopKind.UNROLL if index.binding is Binding.UNROLL else sem.LoopKind.SERIAL
        bounds = [c for c in mine if kind is sem.LoopKind.SERIAL and abs(c.coefficient(variable.name)) == 1]
        lower = tuple(-c.substitute({variable.name: 0}) for c in bounds if c.coefficient(variable.name) == 1)
        upper = tuple(c.substitute({variable.name: 0}) + 1 for c in bounds if c.coefficient(variable.name) == -1)
        loops.append(Loop(variable, index.range, kind, lower, upper, guards))
        pending = [c for c in pending if c not in guards and c not in bounds]
    return LoopPlan(tuple(loops), tuple(pending), lanes, tuple(test for test in tests if test.coefficient(LANE)))


def _vector_lanes(block: Block, index: Index, *, dots: bool) -> int:
    if any(other.binding is Binding.LANE for other in block.indices if other is not index):
        raise fail("TIL502", f"block {block.name} has several vector indices: join them to one")
    if block.blocks:
        raise fail("TIL502", f"index {index.name} is a vector index, but block {block.name} holds other blocks")
    whole = dots or index.serial or PADDED in block.tags
    if whole and any(index.name in constraint.indices for constraint in block.constraints):
        raise fail("TIL502", f"vector index {index.name} takes part in a constraint of block {block.name}")
    return index.range


def with_zeros(stmts: list[sem.Stmt]) -> list[sem.Stmt]:
    """Return statements that store zero where a test would leave elements undefined.

    Blocks tagged :data:`PADDED` require this: others may read the elements without a test, if nothing depends on them.
    """
    return [_otherwise_zero(stmt) if isinstance(stmt, sem.If) else stmt for stmt in stmts]


def _otherwise_zero(stmt: sem.If) -> sem.If:
    stores = [s.target for s in stmt.then if isinstance(s, sem.Assign) and isinstance(s.target, sem.Subscript)]
    zeros = (sem.Assign(target, sem.Const(zero(target.type.dtype), target.type)) for target in stores)
    return sem.If(stmt.condition, stmt.then, tuple(zeros))


def thread_count(block: Block) -> int:
    """Return the number of threads of a group for a kernel: the maximum over its blocks.

    Raises:
        TileError: TIL502, blocks with thread indices are nested, or a thread index depends on others, or is serial.
    """
    most, pending = 1, [(block, False)]
    while pending:
        current, inside = pending.pop()
        team = thread_indices(current)
        if team and inside:
            raise fail("TIL502", f"block {current.name} has thread indices inside those of another block")
        if any(index.affine is not None for index in team):
            raise fail("TIL502", f"a thread index of block {current.name} depends on the indices around it")
        _check_free(current, team)
        most = max(most, point_count(team))
        pending.extend((inner, inside or bool(team)) for inner in current.blocks)
    return most


def grid_indices(block: Block) -> tuple[Index, ...]:
    """Return the indices of a kernel that are axes of its launch grid.

    Raises:
        TileError: TIL502, the points along one run in their order.
    """
    indices = tuple(index for index in block.indices if index.binding is Binding.GRID)
    _check_free(block, indices)
    return indices


def _check_free(block: Block, indices: tuple[Index, ...]) -> None:
    for index in indices:
        if index.serial and index.binding is not None:
            message = f"index {index.name} of block {block.name or '(unnamed)'} is serial: what runs in order"
            raise fail("TIL502", f"{message} cannot be bound to {index.binding.value}")


def thread_indices(block: Block) -> tuple[Index, ...]:
    """Return the indices of a block that run over the threads of a group."""
    return tuple(index for index in block.indices if index.binding is Binding.THREAD)


def point_count(indices: tuple[Index, ...]) -> int:
    """Return the number of points of a box of indices."""
    return prod([index.range for index in indices])
