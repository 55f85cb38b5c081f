"""Simplifier of kernels, with equal results to the last bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs

from tileir.core import DivergenceError, NameScope, Op, map_operands, operands, with_operands
from tileir.core.nodes.patterns import MOST_CHANGES
from tileir.core.nodes.rewrite import Rule, rewritten
from tileir.semtree.analysis.effects import assigned_variables, introduces, meets, targets
from tileir.semtree.ir import Apply, Const, Declare, DeclareArray, Expr, For, If, KernelFunction, Stmt, Subscript, Var
from tileir.semtree.rewrite import (
    bodies,
    expressions,
    freshened,
    kernel_names,
    map_bodies,
    map_stmts,
    mentions,
    rewrite_stmts,
    statements,
    substitute,
    substitute_stmts,
    trip_values,
    with_body,
)
from tileir.semtree.simplify.expression_rules import rules_for
from tileir.semtree.simplify.linear_rules import is_canonical

_LINEAR: Final = frozenset({Op.ADD, Op.SUB, Op.MUL})

_MAX_ROUNDS: Final = 256
"""Maximum rounds, more than the nesting limit of statements: each round can open a level that hid a constant."""


def simplify(kernel: KernelFunction, rules: tuple[Rule[Expr], ...] = ()) -> KernelFunction:
    """Apply all rules until none fits; ``kernel`` itself if none does.

    The kernel must be legal, and stays so. Unneeded reads are dropped, and with them their possible faults. ``rules``
    are tried if no table fits; :func:`tileir.semtree.simplify.expression_rules.rule_of` makes them from laws.

    Raises:
        DivergenceError: ``rules`` still fit after many changes.
    """
    expressions = _Expressions(rules)
    kernel = _propagate_copies(kernel)
    for _ in range(_MAX_ROUNDS):
        simple = with_body(kernel, map_stmts(expressions.simplified, kernel.body))
        after = _drop_dead(_flatten(simple))
        kernel = _propagate_copies(after)
        if kernel is simple:  # its expressions are in simplest form, so another round would change nothing
            return kernel
    raise DivergenceError(f"{kernel.name!r} still changes after {_MAX_ROUNDS} rounds of simplification")


def simplify_expr(expr: Expr) -> Expr:
    """Apply the rules of expressions until none fits; ``expr`` itself if none does."""
    return _Expressions().simplified(expr)


@attrs.define(eq=False, repr=False)
class _Expressions:
    """Simplifier of expressions, with a cache, by identity, of expressions in simplest form."""

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
        """Apply the first of the given rules that fits, and all rules to its result."""
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


_Names: TypeAlias = frozenset[str]


def _propagate_copies(kernel: KernelFunction) -> KernelFunction:
    """Replace variables that are never assigned by the constant or variable that they were declared as."""
    if not any(isinstance(stmt, Declare) and isinstance(stmt.value, Const | Var) for stmt in statements(kernel.body)):
        return kernel
    return with_body(kernel, _Copies(assigned_variables(kernel.body)).body(kernel.body))


@attrs.define(eq=False, repr=False)
class _Copies:
    """Values of declared variables at one place of a body."""

    assigned: _Names
    known: dict[str, Expr] = attrs.field(factory=dict)

    def body(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        local: list[str] = []
        result = rewritten(stmts, lambda stmt: self._statement(stmt, local))
        for name in local:
            del self.known[name]
        return result

    def _statement(self, stmt: Stmt, local: list[str]) -> tuple[Stmt, ...]:
        new = map_operands(self._expr, stmt)
        if isinstance(new, Declare) and new.variable.name not in self.assigned and self._is_copy(new.value):
            self.known[new.variable.name] = new.value
            local.append(new.variable.name)
            return ()
        return (map_bodies(self.body, new),)

    def _expr(self, expr: Expr) -> Expr:
        return substitute(expr, self.known) if self.known else expr

    def _is_copy(self, value: Expr) -> bool:
        return isinstance(value, Const) or (isinstance(value, Var) and value.name not in self.assigned)


def _flatten(kernel: KernelFunction) -> KernelFunction:
    """Drop loops and conditions that never run, and splice those that run exactly once."""
    if not any(isinstance(stmt, For | If) and _may_go(stmt) for stmt in statements(kernel.body)):
        return kernel
    names = Counter(kernel_names(kernel))
    unique = frozenset(name for name, count in names.items() if count == 1)
    flattener = _Flattener(unique, NameScope.of(names))
    return with_body(kernel, rewrite_stmts(flattener.statement, kernel.body))


def _may_go(stmt: For | If) -> bool:
    """Return whether a loop or condition may be dropped or opened, independently of enclosing statements."""
    if isinstance(stmt, If):
        return not stmt.then or isinstance(stmt.condition, Const)
    values = trip_values(stmt)
    return not stmt.body or (values is not None and (not values or values[0] == values[-1]))


@attrs.define(eq=False, repr=False)
class _Flattener:
    """Splicer of bodies; names that are introduced more than once are replaced by fresh names."""

    unique: _Names
    scope: NameScope

    def statement(self, stmt: Stmt) -> tuple[Stmt, ...]:
        match stmt:
            case For():
                return self._loop(stmt)
            case If():
                return self._branch(stmt)
            case _:
                return (stmt,)

    def _loop(self, loop: For) -> tuple[Stmt, ...]:
        values = trip_values(loop)
        if not loop.body or (values is not None and not values):
            return ()
        if values is None or values[0] != values[-1]:
            return (loop,)
        once = substitute_stmts(loop.body, {loop.counter.name: Const(values[0], loop.counter.type)})
        return freshened(once, self.scope, self.unique)

    def _branch(self, stmt: If) -> tuple[Stmt, ...]:
        condition, then, otherwise = stmt.condition, stmt.then, stmt.otherwise
        if not then and not otherwise:
            return ()
        if isinstance(condition, Const):
            return freshened(then if condition.value else otherwise, self.scope, self.unique)
        return (stmt,) if then else (If(Apply(Op.BIT_NOT, (condition,)), otherwise),)


def _drop_dead(kernel: KernelFunction) -> KernelFunction:
    """Drop variables and declared arrays that nothing reads, and stores to them."""
    arrays = frozenset(stmt.name for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray))
    written: dict[int, tuple[str, ...]] = {}
    live = _live_names(kernel, arrays, written)

    def needed(stmt: Stmt) -> bool:
        if isinstance(stmt, DeclareArray):
            return stmt.name in live
        # A changed statement contains others, and is needed.
        names = written.get(id(stmt), ())
        return not names or any(name in live for name in names)

    if all(map(needed, statements(kernel.body))):
        return kernel
    return with_body(kernel, rewrite_stmts(lambda stmt: (stmt,) if needed(stmt) else (), kernel.body))


def _live_names(kernel: KernelFunction, arrays: _Names, written: dict[int, tuple[str, ...]]) -> set[str]:
    """Return the variables and arrays whose content reaches a parameter or control flow.

    The names that each statement only sets are put into ``written``, by the identity of the statement.
    """
    feeds: dict[str, list[str]] = {}
    live: set[str] = set()
    work: list[str] = []
    for stmt in statements(kernel.body):
        names = written[id(stmt)] = _only_written(stmt, arrays)
        if not names:
            work.extend(_names_in(mentions(stmt)))
        for name in names:
            feeds.setdefault(name, []).extend(_names_in(expressions(stmt)))
    while work:
        name = work.pop()
        if name not in live:
            live.add(name)
            work.extend(feeds.get(name, ()))
    return live


def _only_written(stmt: Stmt, arrays: _Names) -> tuple[str, ...]:
    """Return the variables and declared arrays that a statement only sets; none if it does more."""
    if bodies(stmt) or meets(stmt):
        return ()
    names = list(introduces(stmt))
    for target in targets(stmt):
        if isinstance(target, Subscript) and target.array not in arrays:
            return ()
        names.append(target.name if isinstance(target, Var) else target.array)
    return tuple(names)


def _names_in(roots: Iterable[Expr]) -> list[str]:
    """Return the variables and arrays in expressions, once per use."""
    found: list[str] = []
    stack = list(roots)
    while stack:
        node = stack.pop()
        if isinstance(node, Var):
            found.append(node.name)
        elif not isinstance(node, Const):
            if isinstance(node, Subscript):
                found.append(node.array)
            stack.extend(operands(node))
    return found
