"""Common subexpressions of a statement as variables, for emitters that write expressions as trees of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir.core import NameScope, rewritten, schema
from tileir.semtree.ir import Const, Declare, Expr, KernelFunction, Reduce, Shuffle, Stmt, Subscript, Var
from tileir.semtree.rewrite import children, expressions, kernel_names, map_bodies, with_body, with_children


def with_parts_named(kernel: KernelFunction) -> KernelFunction:
    """Declare each common subexpression of a statement that is neither short nor an offset."""
    scope = NameScope.of(kernel_names(kernel))

    def visit(stmt: Stmt) -> tuple[Stmt, ...]:
        stmt = map_bodies(lambda body: rewritten(body, visit), stmt)
        names: dict[Expr, Expr] = {}
        declared: list[Stmt] = []
        for node in repeated(expressions(stmt)):
            variable = Var(scope.fresh("part"), node.type)
            declared.append(Declare(variable, _replaced(node, names)))
            names[node] = variable
        return (*declared, schema.map_operands(lambda expr: _replaced(expr, names), stmt)) if names else (stmt,)

    return with_body(kernel, rewritten(kernel.body, visit))


def repeated(roots: Sequence[Expr]) -> list[Expr]:
    """Return common subexpressions of expressions, operands first, except offsets and short expressions."""
    uses: dict[Expr, int] = {}
    order: list[Expr] = []
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, finished = stack.pop()
        if finished:
            order.append(node)
        elif node not in uses:
            uses[node] = 0
            stack.append((node, True))
            stack.extend((child, False) for child in _computed_operands(node))
    for node in order:
        for child in _computed_operands(node):
            uses[child] += 1
    return [node for node in order if uses[node] > 1 and any(map(_computed_operands, _computed_operands(node)))]


def _computed_operands(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands computed in place: neither an offset nor lanes that are merged."""
    return () if isinstance(expr, Subscript | Reduce | Shuffle) else children(expr)


def _replaced(expr: Expr, names: Mapping[Expr, Expr], done: dict[Expr, Expr] | None = None) -> Expr:
    """Return an expression with variables for its parts."""
    done = {**names} if done is None else done
    if isinstance(expr, Var | Const) or not names:
        return expr
    if expr not in done:
        done[expr] = with_children(expr, tuple(_replaced(child, names, done) for child in children(expr)))
    return done[expr]
