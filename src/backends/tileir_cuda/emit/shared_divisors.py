"""Quotients of f32 vectors by a loop-invariant scalar: four products and sums for each, without branches.

They are bit for bit equal to divisions. A division is a dozen dependent instructions, and a branch for rare values, so
that neighbouring divisions do not overlap. Here the reciprocal is computed once. Two parts of it give a quotient that
is one of the two numbers next to the exact one, and its remainder, which is a number of f32, determines the correction.
This holds if the first part is the correctly rounded reciprocal, and nothing overflows or is below the normal numbers
(P. W. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990).

A loop records possible exceptions, and is then repeated with divisions: it may only store values computed from other
memory. For example::

    for (i32 i = 0; i < 8; i += 1) unroll { f32x4 q = row[i * 4 : 4] / broadcast<4>(sum);  out[i * 4 : 4] = q; }

becomes::

    f32 near = 1.0 / sum;
    f32 rest = fma(-sum, near, 1.0) * near;
    boolx4 far = broadcast<4>(!(sum >= LEAST && sum <= MOST));
    if (!far[0]) for (…) unroll {
      f32x4 wide = fma(row[i * 4 : 4], near, row[i * 4 : 4] * rest);
      f32x4 q = fma(fma(-sum, wide, row[i * 4 : 4]), near, wide);
      far = far | !(abs(q) >= FEW) & row[i * 4 : 4] is not +0;
      out[i * 4 : 4] = q;
    }
    if (far[0] | …) for (…) unroll { … }     // original
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from tileir.core import DType, NameScope, Op, attrs, rewritten
from tileir.semtree.analysis.effects import assigned_variables, census, reads, writes
from tileir.semtree.functions.draft import Draft, Term, fma, with_drafts
from tileir.semtree.ir import (
    Apply,
    Assign,
    Broadcast,
    Declare,
    Expr,
    For,
    If,
    KernelFunction,
    Shuffle,
    Stmt,
    Var,
)
from tileir.semtree.rewrite import (
    declared_names,
    expressions,
    freshened,
    kernel_names,
    map_bodies,
    statements,
    walk,
    with_body,
)

_FEW_LANES: Final = 4
"""Minimum number of lanes; narrower vectors are divided.

Columns of 64 x 1024 x 256, element by element, took a tenth longer with reciprocals (NVIDIA H200, x * x / sum(x * x)),
and rows of 1024 x 50257 a twentieth (softmax): their threads then store all their elements at once.
"""

_LEAST: Final = 2.0**-20
_MOST: Final = 2.0**64
"""Limit of divisors for which all parts of quotients are normal numbers."""

_LEAST_QUOTIENT: Final = 2.0**-80
"""Limit of quotients below which the remainder may underflow: it has digits down to 2^-47 of the dividend."""


def by_shared_reciprocals(kernel: KernelFunction) -> KernelFunction:
    """Replace divisions of vectors of f32 by loop-invariant scalars."""
    if all((op, dtype) != (Op.DIV, DType.F32) or n < _FEW_LANES for op, dtype, n in census(kernel).operations):
        return kernel
    shared = frozenset(param.name for param in kernel.params if not param.no_alias)
    return with_body(kernel, _replaced(kernel.body, shared, NameScope.of(kernel_names(kernel))))


def _replaced(stmts: tuple[Stmt, ...], shared: frozenset[str], names: NameScope) -> tuple[Stmt, ...]:
    def visit(stmt: Stmt) -> tuple[Stmt, ...]:
        divisors = _divisors(stmt) if isinstance(stmt, For | If) and _may_be_repeated(stmt, shared) else {}
        if len({division.type.lanes for division in divisors}) == 1:
            return _twice(stmt, divisors, names)
        return (map_bodies(lambda body: _replaced(body, shared, names), stmt),)

    return rewritten(stmts, visit)


def _may_be_repeated(stmt: Stmt, shared: frozenset[str]) -> bool:
    """Return whether a statement is idempotent: it only sets its own variables, and memory that it does not read.

    Arrays in ``shared`` may alias.
    """
    inside = tuple(statements((stmt,)))
    if not all(isinstance(each, Declare | Assign | For | If) for each in inside):
        return False
    written = {place.array for each in inside for place in writes(each)}
    forbidden = written | shared if written & shared else written
    read = {place.array for each in inside for place in reads(each)}
    return assigned_variables((stmt,)) <= frozenset(declared_names((stmt,))) and read.isdisjoint(forbidden)


def _divisors(stmt: Stmt) -> Mapping[Expr, Var]:
    """Return the divisions of vectors in a statement by a variable from outside, and the variables."""
    own, changed = frozenset(declared_names((stmt,))), assigned_variables((stmt,))
    aliases: dict[str, Var] = {}
    for each in statements((stmt,)):
        if isinstance(each, Declare) and isinstance(each.value, Var) and each.variable.name not in changed:
            aliases[each.variable.name] = aliases.get(each.value.name, each.value)
    found: dict[Expr, Var] = {}
    for node in (node for each in statements((stmt,)) for root in expressions(each) for node in walk(root)):
        match node:
            case Apply(op=Op.DIV, args=(_, Broadcast(operand=Var() as divisor, lanes=lanes))) if lanes >= _FEW_LANES:
                divisor = aliases.get(divisor.name, divisor)
                if divisor.name not in own | changed and divisor.type.dtype is DType.F32:
                    found[node] = divisor
    return found


@attrs.frozen(eq=False)
class _Shared:
    """Divisor of a loop, negated, the two parts of its reciprocal, and the lanes that had a rare quotient."""

    divisor: Term
    near: Term
    rest: Term
    far: Term


def _twice(stmt: Stmt, divisors: Mapping[Expr, Var], names: NameScope) -> tuple[Stmt, ...]:
    """Return a statement with products instead of divisions, followed by the original as a fallback for rare values."""
    draft = Draft(names)
    lanes = next(iter(divisors)).type.lanes
    known: dict[Var, _Shared] = {}
    for divisor in dict.fromkeys(divisors.values()):
        number = Term(divisor)
        near = draft.let("near", 1.0 / number)
        rest = draft.let("rest", fma(-number, near, 1.0) * near)
        usual = draft.let("usual", (number >= _LEAST) & (number <= _MOST))
        known[divisor] = _Shared(*(Term(Broadcast(each.expr, lanes)) for each in (-number, near, rest, usual)))
    usual = reduce(lambda left, right: left & right, (shared.far for shared in known.values()))
    far = draft.let("far", usual.apply(Op.BIT_NOT))
    shared = {node: attrs.evolve(known[divisor], far=far) for node, divisor in divisors.items()}
    again = freshened((stmt,), names)
    first = with_drafts((stmt,), names, lambda expr, draft: _quotient(expr, shared, draft))
    each_lane = (Term(Shuffle((far.expr,), (lane,))) for lane in range(lanes))
    found = reduce(lambda left, right: left | right, each_lane)
    return (*draft.statements, If(Shuffle((usual.expr,), (0,)), first), If(found.expr, again))


def _quotient(expr: Expr, shared: Mapping[Expr, _Shared], draft: Draft) -> Expr:
    if not isinstance(expr, Apply) or expr not in shared:
        return expr
    by, x = shared[expr], draft.let("dividend", Term(expr.args[0]))
    wide = draft.let("wide", fma(x, by.near, x * by.rest))
    quotient = draft.let("quotient", fma(fma(by.divisor, wide, x), by.near, wide))
    right = (abs(quotient) >= _LEAST_QUOTIENT) | x.bits.equals(0)
    draft.assign(by.far, by.far | right.apply(Op.BIT_NOT))
    return quotient.expr
