"""Traversal and rewriting of kernels. Unchanged parts are returned as they are.

Expressions and nested statements are walked recursively: :mod:`tileir.semtree.check.verifier` bounds their depth.
Lists of statements are walked by loops, so their length is not bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import NameScope, Op, attrs, schema
from tileir.core.nodes.rewrite import Rule, rewritten
from tileir.semtree.ir import Apply, Const, Expr, For, KernelFunction, Stmt, Subscript, Var

_NO_ARRAYS: Final[Mapping[str, str]] = MappingProxyType({})


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of an expression; the offset for a subscript."""
    return schema.operands(expr)


def with_children(expr: Expr, operands: tuple[Expr, ...]) -> Expr:
    """Return ``expr`` with other operands, as many as :func:`children` returns; itself if they are identical."""
    return schema.with_operands(expr, operands)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all nested expressions, parents first, operands from left to right."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        if below := schema.operands(node):
            stack.extend(reversed(below))


def summands(expr: Expr) -> Iterator[Expr]:
    """Yield the summands of an expression."""
    match expr:
        case Apply(op=Op.ADD, args=args):
            for arg in args:
                yield from summands(arg)
        case _:
            yield expr


def map_expr(function: Callable[[Expr], Expr], expr: Expr) -> Expr:
    """Apply ``function`` to every node, operands before the node that uses them."""
    below = schema.operands(expr)
    if below:
        expr = schema.with_operands(expr, tuple([map_expr(function, child) for child in below]))
    return function(expr)


def law(text: str) -> Callable[[Callable[[Expr], Expr | None]], Rule[Expr]]:
    """Turn a function of expressions into a rule, named by its law."""
    return lambda function: Rule(text, function)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Return the expressions that a statement itself evaluates, without those of nested statements.

    Of elements that are only written or named, only the offset counts.
    """
    return schema.operands(stmt)


def mentions(stmt: Stmt) -> tuple[Expr, ...]:
    """Return the expressions of a statement itself, including those that it only writes or names, as a whole."""
    return schema.mentions(stmt)


def bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """Return the lists of statements inside a statement."""
    return schema.bodies(stmt)


def statements(stmts: Iterable[Stmt]) -> Iterator[Stmt]:
    """Yield all statements, nested statements after their parents, in the order of the text."""
    stack = [iter(stmts)]
    while stack:
        for stmt in stack[-1]:
            yield stmt
            inside = schema.bodies(stmt)
            if inside:
                stack.extend(map(iter, reversed(inside)))
                break
        else:
            stack.pop()


def distinct_nodes(kernel: KernelFunction) -> Iterator[Expr]:
    """Yield every expression of the kernel; shared objects come once."""
    seen: set[int] = set()
    for stmt in statements(kernel.body):
        stack = list(schema.mentions(stmt))
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                if below := schema.operands(node):
                    stack.extend(below)


def map_stmts(function: Callable[[Expr], Expr], stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Apply ``function`` to each whole expression that the statements, at any depth, evaluate.

    ``function`` also gets expressions that are only written or named, and must return elements, or an lvalue, for them.
    """
    return rewritten(stmts, lambda stmt: (_map_stmt(function, stmt),))


def _map_stmt(function: Callable[[Expr], Expr], stmt: Stmt) -> Stmt:
    return schema.map_bodies(lambda body: map_stmts(function, body), schema.map_operands(function, stmt))


def map_bodies(function: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]], stmt: Stmt) -> Stmt:
    """Apply ``function`` to each list of statements inside ``stmt``."""
    return schema.map_bodies(function, stmt)


def rewrite_stmts(function: Callable[[Stmt], tuple[Stmt, ...]], stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Replace every statement by none or more, nested statements before their parents."""

    def visit(stmt: Stmt) -> tuple[Stmt, ...]:
        return function(map_bodies(lambda body: rewrite_stmts(function, body), stmt))

    return rewritten(stmts, visit)


def with_body(kernel: KernelFunction, body: tuple[Stmt, ...]) -> KernelFunction:
    """Return ``kernel`` with another body; itself if it is identical."""
    return kernel if body is kernel.body else attrs.evolve(kernel, body=body)


def substitute(expr: Expr, variables: Mapping[str, Expr], arrays: Mapping[str, str] = _NO_ARRAYS) -> Expr:
    """Replace variables, by name, by expressions of their type, and rename arrays."""

    def replace(node: Expr) -> Expr:
        match node:
            case Var(name=name):
                return variables.get(name, node)
            case Subscript(array=array, offset=offset, type=kind) if array in arrays:
                return Subscript(arrays[array], offset, kind)
            case _:
                return node

    return map_expr(replace, expr)


def substitute_stmts(
    stmts: tuple[Stmt, ...], variables: Mapping[str, Expr], arrays: Mapping[str, str] = _NO_ARRAYS
) -> tuple[Stmt, ...]:
    """Apply :func:`substitute` to all statements; declarations and counters keep their names.

    Raises:
        TypeError: an assigned variable would become something other than a variable.
    """
    return map_stmts(lambda expr: substitute(expr, variables, arrays), stmts)


def declared_names(stmts: Iterable[Stmt]) -> Iterator[str]:
    """Yield the names of variables, counters and arrays that the statements introduce, in the order of the text."""
    for stmt in statements(stmts):
        yield from schema.introduced(stmt)


def kernel_names(kernel: KernelFunction) -> Iterator[str]:
    """Yield every name that a kernel introduces: its parameters, then those in its body."""
    yield from (param.name for param in kernel.params)
    yield from declared_names(kernel.body)


def freshened(stmts: tuple[Stmt, ...], scope: NameScope, keep: Container[str] = ()) -> tuple[Stmt, ...]:
    """Rename introduced names to names that ``scope`` has not seen yet, except those in ``keep``.

    This makes it legal to put statements several times into one list.
    """
    names = (name for name in dict.fromkeys(declared_names(stmts)) if name not in keep)
    fresh = {name: scope.fresh(name) for name in names}
    changed = {old: new for old, new in fresh.items() if old != new}
    return renamed(stmts, changed) if changed else stmts


def renamed(stmts: tuple[Stmt, ...], names: Mapping[str, str]) -> tuple[Stmt, ...]:
    """Rename variables and arrays in their introductions and uses."""

    def in_expr(node: Expr) -> Expr:
        return schema.with_names(node, names)

    def in_stmt(stmt: Stmt) -> tuple[Stmt, ...]:
        return (schema.with_names(stmt, names),)

    return map_stmts(lambda expr: map_expr(in_expr, expr), rewrite_stmts(in_stmt, stmts))


def variables_of(expr: Expr) -> tuple[str, ...]:
    """Return the names of the variables in an expression, in the order of their first use."""
    return tuple(dict.fromkeys(node.name for node in walk(expr) if isinstance(node, Var)))


def trip_values(loop: For) -> range | None:
    """Return the values of the counter if both bounds are constants, else None."""
    if isinstance(loop.begin, Const) and isinstance(loop.end, Const):
        return range(int(loop.begin.value), int(loop.end.value), loop.step)
    return None


def unrolled(loop: For, values: Iterable[int], scope: NameScope) -> tuple[Stmt, ...]:
    """Return one copy of the body for each counter value, with fresh names for its declarations."""
    result: list[Stmt] = []
    for value in values:
        bound = substitute_stmts(loop.body, {loop.counter.name: Const(value, loop.counter.type)})
        result.extend(freshened(bound, scope))
    return tuple(result)
