"""Makes kernels smaller without changing what they compute, to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import DivergenceError
from tileir.core.ops import Op
from tileir.core.schema import operands, with_operands
from tileir.semtree.ir import Apply
from tileir.semtree.rewrite import map_stmts, with_body
from tileir.semtree.simplify.expression_rules import rules_for
from tileir.semtree.simplify.linear_rules import is_canonical
from tileir.semtree.simplify.statement_rules import drop_dead, flatten, propagate_copies

if TYPE_CHECKING:
    from tileir.semtree.ir import Expr, KernelFunction

_LINEAR: Final = frozenset({Op.ADD, Op.SUB, Op.MUL})

_MAX_ROUNDS: Final = 256
"""More than statements can be nested: each round can open one level that hid a constant from the next."""


def simplify(kernel: KernelFunction) -> KernelFunction:
    """Apply all rules until none fits; ``kernel`` itself where none does.

    The kernel must be legal, and stays so. Reads that are not needed are dropped, and with them the faults
    that they would have been.
    """
    expressions = _Expressions()
    kernel = propagate_copies(kernel)
    for _ in range(_MAX_ROUNDS):
        simple = with_body(kernel, map_stmts(expressions.simplified, kernel.body))
        after = drop_dead(flatten(simple))
        kernel = propagate_copies(after)
        if kernel is simple:  # its expressions are as simple as they get, so another round would change nothing
            return kernel
    raise DivergenceError(f"{kernel.name!r} still changes after {_MAX_ROUNDS} rounds of simplification")


def simplify_expr(expr: Expr) -> Expr:
    """Apply the rules of expressions until none fits; ``expr`` itself where none does."""
    return _Expressions().simplified(expr)


@attrs.define(repr=False)
class _Expressions:
    """Simplifies expressions, and remembers by identity which ones are as simple as they get."""

    _simple: dict[int, Expr] = attrs.field(factory=dict, init=False)

    def simplified(self, expr: Expr) -> Expr:
        below = operands(expr)
        if not below or id(expr) in self._simple:
            return expr
        if isinstance(expr, Apply) and expr.op in _LINEAR and is_canonical(expr):
            return self._simple.setdefault(id(expr), expr)
        node = with_operands(expr, tuple(map(self.simplified, below)))
        for law in rules_for(node):
            new = law.apply(node)
            if new is not None:
                node = self.simplified(new)
                break
        # Held as well, so that its identity cannot pass to another object.
        self._simple[id(node)] = node
        return node
