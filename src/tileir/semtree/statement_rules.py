"""Steps that make lists of statements shorter. Each returns its kernel itself when nothing changed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

import attrs

from tileir.core.names import NameScope
from tileir.core.ops import Op
from tileir.core.rewrite import rewritten
from tileir.core.schema import map_operands
from tileir.semtree.ir import (
    Apply,
    Assign,
    Const,
    Declare,
    DeclareArray,
    For,
    If,
    Subscript,
    Var,
)
from tileir.semtree.rewrite import (
    expressions,
    freshened,
    kernel_names,
    map_bodies,
    rewrite_stmts,
    statements,
    substitute,
    substitute_stmts,
    trip_values,
    walk,
    with_body,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.semtree.ir import Expr, KernelFunction, Stmt

Names: TypeAlias = frozenset[str]


def propagate_copies(kernel: KernelFunction) -> KernelFunction:
    """Replace variables that are never assigned by the constant or variable that they were declared as."""
    targets = (stmt.target for stmt in statements(kernel.body) if isinstance(stmt, Assign))
    assigned = frozenset(target.name for target in targets if isinstance(target, Var))
    return with_body(kernel, _Copies(assigned).body(kernel.body))


@attrs.define
class _Copies:
    """What declared variables stand for, at one place of a body."""

    assigned: Names
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


def flatten(kernel: KernelFunction) -> KernelFunction:
    """Drop loops and conditions that never run, and put what runs exactly once into the list around it."""
    names = Counter(kernel_names(kernel))
    unique = frozenset(name for name, count in names.items() if count == 1)
    flattener = _Flattener(unique, NameScope.of(names))
    return with_body(kernel, rewrite_stmts(flattener.statement, kernel.body))


@attrs.define
class _Flattener:
    """Splices bodies; names that are introduced more than once get fresh ones."""

    unique: Names
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


def drop_dead(kernel: KernelFunction) -> KernelFunction:
    """Drop variables and declared arrays that nothing reads, and what is stored to them."""
    arrays = frozenset(stmt.name for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray))
    live = _live_names(kernel, arrays)

    def needed(stmt: Stmt) -> bool:
        match stmt:
            case Declare(variable=Var(name=name)) | DeclareArray(name=name):
                return name in live
            case Assign(target=target):
                name = target.name if isinstance(target, Var) else target.array
                return name in live or (isinstance(target, Subscript) and name not in arrays)
            case _:
                return True

    return with_body(kernel, rewrite_stmts(lambda stmt: (stmt,) if needed(stmt) else (), kernel.body))


def _live_names(kernel: KernelFunction, arrays: Names) -> set[str]:
    """Return the variables and arrays whose content reaches a parameter or decides what runs."""
    feeds: dict[str, list[str]] = {}
    live: set[str] = set()
    work: list[str] = []
    for stmt in statements(kernel.body):
        target = _written_name(stmt, arrays)
        uses = _names_in(expressions(stmt))
        if target is None:
            work.extend(uses)
        else:
            feeds.setdefault(target, []).extend(uses)
    while work:
        name = work.pop()
        if name not in live:
            live.add(name)
            work.extend(feeds.get(name, ()))
    return live


def _written_name(stmt: Stmt, arrays: Names) -> str | None:
    """Return the variable or declared array that a statement only sets; None where it does more."""
    match stmt:
        case Declare(variable=Var(name=name)) | Assign(target=Var(name=name)):
            return name
        case Assign(target=Subscript(array=array)) if array in arrays:
            return array
        case _:
            return None


def _names_in(roots: Iterable[Expr]) -> list[str]:
    nodes = (node for root in roots for node in walk(root))
    return [node.name if isinstance(node, Var) else node.array for node in nodes if isinstance(node, Var | Subscript)]
