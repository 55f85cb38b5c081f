"""Makes kernels smaller without changing what they compute, to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.rewrite import fixpoint
from tileir.semtree.expression_rules import rules_for
from tileir.semtree.rewrite import map_expr, map_stmts, with_body
from tileir.semtree.statement_rules import drop_dead, flatten, propagate_copies

if TYPE_CHECKING:
    from tileir.semtree.ir import Expr, KernelFunction

_MAX_ROUNDS: Final = 256
"""More than statements can be nested: each round can open one level that hid a constant from the next."""


def simplify(kernel: KernelFunction) -> KernelFunction:
    """Apply all rules until none fits; ``kernel`` itself where none does.

    The kernel must be legal, and stays so. Reads that are not needed are dropped, and with them the faults
    that they would have been.
    """
    return fixpoint(_step, kernel, rounds=_MAX_ROUNDS)


def _step(kernel: KernelFunction) -> KernelFunction:
    kernel = propagate_copies(kernel)
    kernel = with_body(kernel, map_stmts(simplify_expr, kernel.body))
    return drop_dead(flatten(kernel))


def simplify_expr(expr: Expr) -> Expr:
    """Apply the rules of expressions until none fits; ``expr`` itself where none does."""
    return map_expr(_simplify_node, expr)


def _simplify_node(expr: Expr) -> Expr:
    """Apply the rules to a node over simplified operands, and then to what the first one that fits returns."""
    for law in rules_for(expr):
        new = law(expr)
        if new is not None:
            return simplify_expr(new)
    return expr
