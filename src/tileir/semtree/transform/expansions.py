"""Expansion of mathematical functions into arithmetic, so that all back ends compute equal results.

Expansions have no branches, except that sin, cos and tan skip the reduction of huge angles if no lane has one.
They work for any number of lanes, on all values: NaN, infinities, zeros of either sign and denormals. :data:`ULP`
bounds their errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from tileir.core import DType, NameScope, Op, attrs, rewritten
from tileir.semtree.analysis.effects import census
from tileir.semtree.dots import fragment_of, plain_dot
from tileir.semtree.functions import exponential, inverse, logarithm, power, trigonometric
from tileir.semtree.functions.draft import Draft, Expansion, Term
from tileir.semtree.ir import Apply, Broadcast, Cast, Const, Dot, Expr, KernelFunction, Stmt, Var
from tileir.semtree.rewrite import (
    children,
    expressions,
    kernel_names,
    map_bodies,
    map_stmts,
    walk,
    with_body,
    with_children,
)


def _rsqrt(_: Draft, x: Term) -> Term:
    return 1.0 / x.apply(Op.SQRT)


_EXPANSIONS: Final[Mapping[Op, Expansion]] = MappingProxyType(
    {
        Op.RSQRT: Expansion(_rsqrt),
        **exponential.EXPANSIONS,
        **logarithm.EXPANSIONS,
        **power.EXPANSIONS,
        **inverse.EXPANSIONS,
        **trigonometric.EXPANSIONS,
    }
)

_NONE: Final[Mapping[Op, Callable[..., Term]]] = MappingProxyType({})

EXPANDED: Final = frozenset(_EXPANSIONS)
"""The operations that have an expansion."""

ULP: Final[Mapping[tuple[Op, DType], float]] = MappingProxyType(
    {
        **{(op, DType.F32): expansion.ulp_f32 for op, expansion in _EXPANSIONS.items()},
        **{(op, DType.F64): expansion.ulp_f64 for op, expansion in _EXPANSIONS.items()},
    }
)
"""Bounds of the errors, in units in the last place; halves add half a unit of theirs.

For functions of one f32 they hold at every argument of 2^-24 <= |x| < 2^8 and of many others: ``benchmarks/ulps.py``
tries them all.
"""


LEAST_EXPONENT: Final = float(np.float32(-126.0 * math.log(2.0)))
"""Exponent below which exponentials are not normal numbers of f32."""


def expand(
    op: Op, args: tuple[Expr, ...], names: NameScope, own: Mapping[Op, Callable[..., Term]] = _NONE
) -> tuple[tuple[Stmt, ...], Expr]:
    """Expand one operation of :data:`EXPANDED`.

    Args:
        op: The operation.
        args: Its operands: variables or constants, since they may be used several times.
        names: Names in use; new names are added.
        own: Expansions of a back end's own in f32.

    Returns:
        Statements that declare intermediate results, and the result as an expression of them. In f16 and bf16 it
        is computed in f32 and rounded.
    """
    draft = Draft(names)
    terms = [Term(arg) for arg in args]
    dtype = terms[0].type.dtype
    if dtype.is_narrow:
        terms = [_widened(draft, term) for term in terms]
    expansion = _EXPANSIONS[op]
    short = expansion.write_narrow if dtype.is_narrow else None
    plain = own.get(op, expansion.write) if terms[0].type.dtype is DType.F32 else expansion.write
    result = (plain if short is None else short)(draft, *terms)
    return tuple(draft.statements), (result.cast(dtype) if dtype.is_narrow else result).expr


def _widened(draft: Draft, term: Term) -> Term:
    """Return a term in f32; constants stay constants."""
    if isinstance(term.expr, Const):
        return Term(Const.of(term.expr.value, term.type.with_dtype(DType.F32)))
    return draft.let("wide", term.cast(DType.F32))


def expand_kernel(
    kernel: KernelFunction,
    native: frozenset[Op],
    dots: frozenset[str] = frozenset(),
    *,
    rounded: frozenset[Op] = frozenset(),
    own: Mapping[Op, Callable[..., Term]] = _NONE,
) -> KernelFunction:
    """Expand every operation that has an expansion and is not in ``native``; the kernel itself if there is none.

    Dot products are expanded, too, except those by the fragments ``dots`` (:func:`tileir.semtree.dots.fragment_of`).
    Operations of ``rounded`` stay, in f32, if the result is in f16: a back end has them with more than its precision.
    So does ``x < LEAST_EXPONENT ? 0.0 : exp(x)`` in bf16, as ``exp(x)``, since back ends flush subnormal numbers.
    Operations of ``own`` have a back end's expansion in f32, and in types computed in it. Declarations are immediately
    before the statement that needs them.
    """
    wanted = _OperationsToExpand(EXPANDED - native, dots, rounded, own)
    found = census(kernel)
    if found.dots <= dots and wanted.operations.isdisjoint({op for op, _, _ in found.operations}):
        return kernel
    scope = NameScope.of(kernel_names(kernel))
    return with_body(kernel, _expanded(kernel.body, wanted, scope))


def _expanded(stmts: tuple[Stmt, ...], wanted: _OperationsToExpand, scope: NameScope) -> tuple[Stmt, ...]:
    def visit(stmt: Stmt) -> tuple[Stmt, ...]:
        stmt = map_bodies(lambda body: _expanded(body, wanted, scope), stmt)
        if not any(wanted.includes(node) for root in expressions(stmt) for node in walk(root)):
            return (stmt,)
        hoisted: list[Stmt] = []
        done: dict[Expr, Expr] = {}
        # Nested statements are done already, so only this one's own expressions change.
        new = map_stmts(lambda expr: _hoist(expr, wanted, scope, hoisted, done), (stmt,))
        return (*hoisted, *new)

    return rewritten(stmts, visit)


@attrs.frozen(repr=False)
class _OperationsToExpand:
    """The operations to expand."""

    operations: frozenset[Op]
    native_dots: frozenset[str]
    rounded: frozenset[Op] = frozenset()
    own: Mapping[Op, Callable[..., Term]] = _NONE

    def left(self, expr: Expr) -> Apply | None:
        """Return the operation that a node rounds to f16 and that the back end has with this precision.

        In bf16, which has numbers as small as f32 has, results below the normal numbers have to be 0.
        """
        inner = expr.operand if isinstance(expr, Cast) else None
        if expr.type.dtype is DType.BF16:
            inner = _not_subnormal(inner)
        if not isinstance(inner, Apply) or inner.op not in self.rounded or inner.type.dtype is not DType.F32:
            return None
        return inner if expr.type.dtype in (DType.F16, DType.BF16) else None

    def includes(self, expr: Expr) -> bool:
        """Return whether a node itself is expanded."""
        if isinstance(expr, Dot):
            return fragment_of(expr) not in self.native_dots
        return isinstance(expr, Apply) and expr.op in self.operations


def _not_subnormal(expr: Expr | None) -> Apply | None:
    """Return the exponential in ``x < limit ? 0.0 : exp(x)`` that is subnormal only there, or nowhere."""
    match expr:
        case Apply(
            op=Op.COND,
            args=(Apply(op=Op.CMP_LT, args=(exponent, limit)), zero, Apply(op=Op.EXP, args=(power,)) as found),
        ) if exponent == power and _value(zero) == 0.0 and _value(limit) == LEAST_EXPONENT:
            return found
        case _:
            return None


def _value(expr: Expr) -> object:
    """Return the value of a constant, in any number of lanes; None for anything else."""
    inner = expr.operand if isinstance(expr, Broadcast) else expr
    return inner.value if isinstance(inner, Const) else None


def _hoist(
    expr: Expr, wanted: _OperationsToExpand, scope: NameScope, hoisted: list[Stmt], done: dict[Expr, Expr]
) -> Expr:
    """Replace operations to expand inside ``expr``, operands first; equal operations are computed once."""
    if (left := wanted.left(expr)) is not None:
        args = tuple(_hoist(child, wanted, scope, hoisted, done) for child in children(left))
        return Cast(with_children(left, args), expr.type)
    new = with_children(expr, tuple(_hoist(child, wanted, scope, hoisted, done) for child in children(expr)))
    if not wanted.includes(new):
        return new
    if isinstance(new, Apply) and new.op in wanted.rounded and new.type.dtype is DType.F16:
        wide = new.type.with_dtype(DType.F32)
        return Cast(Apply(new.op, tuple(Cast(arg, wide) for arg in new.args)), new.type)
    if new not in done:
        draft = Draft(scope)
        args = tuple(arg if isinstance(arg, Var | Const) else draft.let("x", Term(arg)).expr for arg in children(new))
        done[new] = draft.let(*_spelt_out(new, args, wanted, draft)).expr
        hoisted.extend(draft.statements)
    return done[new]


def _spelt_out(expr: Expr, args: tuple[Expr, ...], wanted: _OperationsToExpand, draft: Draft) -> tuple[str, Term]:
    """Return a name for the value of an operation on ``args``, and the value; statements for it go to the draft."""
    if isinstance(expr, Dot):
        return "dot", Term(plain_dot(Dot(*args)))
    assert isinstance(expr, Apply)
    statements, result = expand(expr.op, args, draft.names, wanted.own)
    draft.statements.extend(statements)
    return expr.op.value, Term(result)
