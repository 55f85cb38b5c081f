"""Unrolled loops that are written operation by operation, all iterations abreast, in place of one after the other.

An exponential is a chain of twenty operations that wait for each other. A processor overlaps one iteration with the
next only as far as its schedulers reach, which is two or three such chains; and where constants do not fit the
registers beside accumulators, each iteration loads them again. Abreast, neighbours in the text are independent, and
share a constant while it is in a register. LLVM nearly keeps to the order of the text.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from tileir.core.ops import Op
from tileir.semtree.analysis.effects import introduces, reads, writes
from tileir.semtree.ir import Apply, Assign, Const, Declare, Expr, For, Stmt, Subscript, Type, Var
from tileir.semtree.rewrite import expressions, variables_of, walk

LEAST_OPERATIONS: Final = 12
"""Iterations of fewer operations overlap by themselves, and abreast would only keep more values in registers."""


def runs_abreast(loop: For, assigned: AbstractSet[str], shared: AbstractSet[str]) -> bool:
    """Return whether the iterations of an unrolled loop are long, and may run operation by operation.

    Args:
        loop: Its body may be anything.
        assigned: Names of the variables that are set again somewhere in the kernel.
        shared: Names of the arrays that may overlap other ones.

    """
    body = loop.body
    if not all(_is_own(stmt, assigned) for stmt in body) or sum(map(_operations, body)) < LEAST_OPERATIONS:
        return False
    written = {place.array for stmt in body for place in writes(stmt)}
    if written & shared:
        return False
    places: dict[str, set[tuple[Expr, Type]]] = {name: set() for name in written}
    for stmt in body:
        for place in (*reads(stmt), *writes(stmt)):
            if place.array in written:
                places[place.array].add((place.offset, place.type))
    names = {name for stmt in body for name in introduces(stmt)}
    return all(len(found) == 1 and _are_apart(*next(iter(found)), loop, names) for found in places.values())


def _is_own(stmt: Stmt, assigned: AbstractSet[str]) -> bool:
    """Return whether a statement only sets variables that each iteration has for itself, or elements of arrays."""
    if isinstance(stmt, Declare):
        return stmt.variable.name not in assigned
    return isinstance(stmt, Assign) and isinstance(stmt.target, Subscript)


def _operations(stmt: Stmt) -> int:
    """Return how many operations on vectors a statement has; those of offsets are on single integers."""
    nodes = (node for root in expressions(stmt) for node in walk(root))
    return sum(isinstance(node, Apply) and node.type.lanes > 1 for node in nodes)


def _are_apart(offset: Expr, kind: Type, loop: For, names: AbstractSet[str]) -> bool:
    """Return whether neighbours from an offset on are other elements in each iteration."""
    factor = _factor(offset, loop.counter)
    return factor is not None and abs(factor * loop.step) >= kind.lanes and names.isdisjoint(variables_of(offset))


def _factor(expr: Expr, counter: Var) -> int | None:
    """Return by how much an offset grows with the counter of a loop; None where that is not the same everywhere."""
    if expr == counter:
        return 1
    match expr:
        case Apply(op=Op.ADD | Op.SUB as op, args=(left, right)):
            one, other = _factor(left, counter), _factor(right, counter)
            if one is None or other is None:
                return None
            return one + other if op is Op.ADD else one - other
        case Apply(op=Op.MUL, args=(factor, Const(value=value))):
            inner = _factor(factor, counter)
            return None if inner is None else inner * int(value)
    return None if expr.type.lanes > 1 or counter.name in variables_of(expr) else 0
