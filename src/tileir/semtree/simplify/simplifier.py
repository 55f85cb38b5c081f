"""Makes kernels smaller without changing what they compute, to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import DivergenceError
from tileir.core.ops import Op
from tileir.core.patterns import MOST_CHANGES
from tileir.core.schema import operands, with_operands
from tileir.semtree.ir import Apply, Expr, KernelFunction
from tileir.semtree.rewrite import map_stmts, with_body
from tileir.semtree.simplify.expression_rules import rules_for
from tileir.semtree.simplify.linear_rules import is_canonical
from tileir.semtree.simplify.statement_rules import drop_dead, flatten, propagate_copies

if TYPE_CHECKING:
    from tileir.core.rewrite import Rule

_LINEAR: Final = frozenset({Op.ADD, Op.SUB, Op.MUL})

_MAX_ROUNDS: Final = 256
"""More than statements can be nested: each round can open one level that hid a constant from the next."""


def simplify(kernel: KernelFunction, rules: tuple[Rule[Expr], ...] = ()) -> KernelFunction:
    """Apply all rules until none fits; ``kernel`` itself where none does.

    The kernel must be legal, and stays so. Reads that are not needed are dropped, and with them the faults
    that they would have been. ``rules`` are tried where none of the tables fits;
    :func:`tileir.semtree.simplify.expression_rules.rule_of` makes them of laws.

    Raises:
        DivergenceError: ``rules`` still fit after many changes.
    """
    expressions = _Expressions(rules)
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

    rules: tuple[Rule[Expr], ...] = ()
    _simple: dict[int, Expr] = attrs.field(factory=dict, init=False)
    _depth: int = attrs.field(default=0, init=False)

    def simplified(self, expr: Expr) -> Expr:
        below = operands(expr)
        if not below or id(expr) in self._simple:
            return expr
        if not self.rules and isinstance(expr, Apply) and expr.op in _LINEAR and is_canonical(expr):
            return self._simple.setdefault(id(expr), expr)
        node = with_operands(expr, tuple(map(self.simplified, below)))
        for law in rules_for(node):
            new = law.apply(node)
            if new is not None:
                node = self.simplified(new)
                break
        else:
            node = self._changed(node)
        # Held as well, so that its identity cannot pass to another object.
        self._simple[id(node)] = node
        return node

    def _changed(self, node: Expr) -> Expr:
        """Apply the first of the given rules that fits, and all rules to what comes of it."""
        for given in self.rules:
            if (new := given(node)) is None:
                continue
            if self._depth >= MOST_CHANGES:
                raise DivergenceError(f"{given.law} still fits after many changes: laws must not undo one another")
            self._depth += 1
            try:
                return self.simplified(new)
            finally:
                self._depth -= 1
        return node
