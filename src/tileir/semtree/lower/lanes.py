"""Statements of blocks with lanes: those that only some lanes run, and products that are added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from tileir.core import Aggregation, DType, NameScope, Op
from tileir.semtree import ir as sem
from tileir.semtree.lower.loops import Guard
from tileir.semtree.lower.views import LANE, OffsetBuilder
from tileir.stripe import ir as stripe

SomeLanes: TypeAlias = tuple[sem.Var, sem.Var]
"""The first lane that runs, and the one behind the last."""


def some_lanes(
    guards: tuple[Guard, ...], lanes: int, offsets: OffsetBuilder, names: NameScope
) -> tuple[SomeLanes, tuple[sem.Stmt, ...]]:
    """Return which lanes pass guards, and the declarations of these numbers."""
    first, last = (sem.Var(names.fresh(name), sem.Type(offsets.dtype)) for name in ("first_lane", "last_lane"))
    begin: sem.Expr = offsets.constant(0)
    end: sem.Expr = offsets.constant(lanes)
    for guard in guards:
        step, rest = int(guard.coefficient(LANE)), guard.substitute({LANE: 0})
        # Division rounds towards zero. What is below zero is before the first lane, whichever way it is rounded.
        place = offsets.scalar(rest * -1 + (step - 1) if step > 0 else rest - step)
        place = place if abs(step) == 1 else sem.Apply(Op.DIV, (place, offsets.constant(abs(step))))
        if step > 0:
            begin = sem.Apply(Op.MAX, (begin, place))
        else:
            end = sem.Apply(Op.MIN, (end, place))
    return (first, last), (sem.Declare(first, begin), sem.Declare(last, end))


def of_some_lanes(some: SomeLanes, value: sem.Expr, other: float, names: NameScope, result: list[sem.Stmt]) -> sem.Var:
    """Return a variable with a value in some lanes, and another one in those that do not run."""
    variable = sem.Var(names.fresh("some"), value.type)
    result += [sem.Declare(variable, sem.Const.of(other, value.type)), sem.AssignLanes(*some, variable, value)]
    return variable


def merged_in_turn(
    target: sem.Subscript, op: Op, values: Sequence[sem.Expr], some: SomeLanes | None, names: NameScope
) -> list[sem.Stmt]:
    """Return what merges the lanes of a value, or of the product of two, one after the other: they may meet."""
    place = sem.Var(names.fresh("places"), target.offset.type)
    result: list[sem.Stmt] = [sem.Declare(place, target.offset)]
    for lane in range(place.type.lanes):
        one, *factors = (v if v.type.lanes == 1 else sem.Shuffle((v,), (lane,)) for v in (place, *values))
        element = sem.Subscript(target.array, one, sem.Type(target.type.dtype))
        fused = len(factors) == 2
        merged = sem.Apply(Op.FMA, (*factors, element)) if fused else sem.Apply(op, (element, *factors))
        result.append(_where_run(some, lane, sem.Assign(element, merged)))
    return result


def updated(
    target: sem.Subscript, op: Op, value: sem.Expr, lanes: int, some: SomeLanes | None, names: NameScope
) -> list[sem.Stmt]:
    """Return an update for each lane of a block, as lanes may meet in one element."""
    place, own = target.offset, value
    result: list[sem.Stmt] = []
    if lanes > 1:
        place, own = (sem.Var(names.fresh(stem), each.type) for stem, each in (("place", place), ("update", own)))
        result += [sem.Declare(place, target.offset), sem.Declare(own, value)]
    for lane in range(lanes):
        there: sem.Expr = place
        if place.type.lanes > 1:
            there = sem.Shuffle((place,), (lane,))
        elif target.type.lanes > 1:
            there = sem.Apply(Op.ADD, (place, sem.Const(lane, place.type)))
        part = own if own.type.lanes == 1 else sem.Shuffle((own,), (lane,))
        element = sem.Subscript(target.array, there, sem.Type(target.type.dtype))
        result.append(_where_run(some, lane, sem.Update(op, element, part)))
    return result


def _where_run(some: SomeLanes | None, lane: int, stmt: sem.Stmt) -> sem.Stmt:
    """Return a statement for a lane that may not run."""
    if some is None:
        return stmt
    number = sem.Const(lane, some[0].type)
    runs = sem.Apply(Op.CMP_LE, (some[0], number)), sem.Apply(Op.CMP_LT, (number, some[1]))
    return sem.If(sem.Apply(Op.BIT_AND, runs), (stmt,))


def fused_products(block: stripe.Block) -> dict[str, tuple[str, str]]:
    """Return float products whose only use is to be added up, with their factors: these become fused multiply-adds."""
    uses = Counter(scalar for statement in block.statements for scalar in stripe.scalar_inputs(statement))
    sums = {r.name for r in block.refinements if r.aggregation is Aggregation.SUM}
    summed = {s.source for s in block.statements if isinstance(s, stripe.Store) and s.into in sums}
    wide = (DType.F32, DType.F64)
    return {
        s.into: (s.inputs[0], s.inputs[1])
        for s in block.statements
        if isinstance(s, stripe.Intrinsic)
        and s.op is Op.MUL
        and s.dtype in wide
        and s.into in summed
        and uses[s.into] == 1
    }
