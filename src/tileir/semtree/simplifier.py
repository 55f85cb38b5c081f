"""Makes kernels smaller without changing what they compute, to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.rewrite import fixpoint
from tileir.semtree.expression_rules import rules_for
from tileir.semtree.rewrite import children, map_stmts, with_body, with_children
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
    expressions = _Expressions()

    def step(kernel: KernelFunction) -> KernelFunction:
        kernel = propagate_copies(kernel)
        kernel = with_body(kernel, map_stmts(expressions.simplified, kernel.body))
        return drop_dead(flatten(kernel))

    return fixpoint(step, kernel, rounds=_MAX_ROUNDS)


def simplify_expr(expr: Expr) -> Expr:
    """Apply the rules of expressions until none fits; ``expr`` itself where none does."""
    return _Expressions().simplified(expr)


@attrs.define
class _Expressions:
    """Simplifies expressions, and remembers by identity which ones are as simple as they get."""

    _simple: dict[int, Expr] = attrs.field(factory=dict, init=False)

    def simplified(self, expr: Expr) -> Expr:
        below = children(expr)
        if not below or id(expr) in self._simple:
            return expr
        node = with_children(expr, tuple(map(self.simplified, below)))
        for law in rules_for(node):
            new = law(node)
            if new is not None:
                node = self.simplified(new)
                break
        # Held as well, so that its identity cannot pass to another object.
        self._simple[id(node)] = node
        return node
