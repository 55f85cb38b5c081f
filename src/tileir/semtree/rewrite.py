"""Walking and rebuilding kernels. What did not change is returned as it was.

Expressions and nested statements are walked recursively: :mod:`tileir.semtree.verifier` bounds their depth.
Lists of statements are walked by loops, so their length is not bounded.
"""

from __future__ import annotations

import operator
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, assert_never

import attrs

from tileir.core.rewrite import Rule, rewritten
from tileir.semtree.ir import (
    Apply,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Declare,
    DeclareArray,
    Dot,
    For,
    GridIndex,
    If,
    MatrixMultiply,
    Prefetch,
    Ramp,
    Reduce,
    Shuffle,
    Subscript,
    Var,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from tileir.core.names import NameScope
    from tileir.semtree.ir import Expr, KernelFunction, LValue, Stmt

_NO_ARRAYS: Final[Mapping[str, str]] = MappingProxyType({})


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of an expression; the offset for a subscript."""
    match expr:  # the most frequent ones first: this is the innermost step of every walk
        case Apply():
            return expr.args
        case Var() | Const():
            return ()
        case Subscript():
            return (expr.offset,)
        case Cast() | Bitcast() | Broadcast() | Reduce():
            return (expr.operand,)
        case Shuffle():
            return expr.operands
        case GridIndex():
            return ()
        case Ramp():
            return (expr.base,)
        case Dot(left=left, right=right, total=total):
            return (left, right, total)
        case _:
            assert_never(expr)


def with_children(expr: Expr, operands: tuple[Expr, ...]) -> Expr:
    """Return ``expr`` over other operands, as many as :func:`children` gives; itself when they are the same."""
    if all(map(operator.is_, children(expr), operands)):
        return expr
    match expr:
        case Const() | Var() | GridIndex():
            return expr
        case Apply(op=op):
            return Apply(op, operands)
        case Cast() | Bitcast() | Broadcast() | Reduce():
            return attrs.evolve(expr, operand=operands[0])
        case Shuffle(lanes=lanes):
            return Shuffle(operands, lanes)
        case Dot():
            return Dot(*operands)
        case Ramp(stride=stride, lanes=count):
            return Ramp(operands[0], stride, count)
        case Subscript(array=array, type=kind):
            return Subscript(array, operands[0], kind)
        case _:
            assert_never(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and everything below it, parents first, operands from left to right."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def map_expr(function: Callable[[Expr], Expr], expr: Expr) -> Expr:
    """Apply ``function`` to every node, operands before the node that uses them."""
    below = children(expr)
    if below:
        expr = with_children(expr, tuple(map_expr(function, child) for child in below))
    return function(expr)


def law(text: str) -> Callable[[Callable[[Expr], Expr | None]], Rule[Expr]]:
    """Turn a function of expressions into a rule, named by the law that it applies."""
    return lambda function: Rule(text, function)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Return the expressions that a statement itself evaluates; those of nested statements are not among them.

    The target of an assignment counts only by its offset.
    """
    match stmt:
        case Declare(value=value):
            return (value,)
        case Assign(target=Subscript(offset=offset), value=value):
            return (offset, value)
        case Assign(value=value):
            return (value,)
        case For(begin=begin, end=end):
            return (begin, end)
        case If(condition=condition):
            return (condition,)
        case AsyncCopy(target=target, source=source):
            return (target, source)
        case MatrixMultiply(accumulators=accumulators, left=left, right=right):
            return (accumulators, left.start, right.start)
        case Prefetch(target=target):
            return (target,)
        case DeclareArray() | Barrier() | AsyncCommit() | AsyncWait():
            return ()
        case _:
            assert_never(stmt)


def bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """Return the lists of statements inside a statement."""
    match stmt:
        case Declare() | DeclareArray() | Assign() | Barrier():
            return ()
        case For(body=body):
            return (body,)
        case If(then=then, otherwise=otherwise):
            return (then, otherwise)
        case AsyncCopy() | AsyncCommit() | AsyncWait() | MatrixMultiply() | Prefetch():
            return ()
        case _:
            assert_never(stmt)


def statements(stmts: Iterable[Stmt]) -> Iterator[Stmt]:
    """Yield all statements, nested ones after the one that holds them, in the order of the text."""
    stack = [iter(stmts)]
    while stack:
        for stmt in stack[-1]:
            yield stmt
            if isinstance(stmt, For | If):
                stack.extend(iter(body) for body in reversed(bodies(stmt)))
                break
        else:
            stack.pop()


def map_stmts(function: Callable[[Expr], Expr], stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Apply ``function`` to each whole expression that the statements, nested ones too, evaluate.

    ``function`` also gets the target of an assignment, and must return an lvalue for it.
    """
    return rewritten(stmts, lambda stmt: (_map_stmt(function, stmt),))


def _map_stmt(function: Callable[[Expr], Expr], stmt: Stmt) -> Stmt:
    match stmt:
        case Declare(variable=variable, value=value):
            new = function(value)
            return stmt if new is value else Declare(variable, new)
        case Assign(target=target, value=value):
            return _assigned(stmt, _lvalue(function(target)), function(value))
        case For():
            begin, end, body = function(stmt.begin), function(stmt.end), map_stmts(function, stmt.body)
            same = begin is stmt.begin and end is stmt.end and body is stmt.body
            return stmt if same else attrs.evolve(stmt, begin=begin, end=end, body=body)
        case If():
            condition = function(stmt.condition)
            return with_branches(stmt, condition, map_stmts(function, stmt.then), map_stmts(function, stmt.otherwise))
        case AsyncCopy(target=target, source=source):
            new_target, new_source = _subscript(function(target)), _subscript(function(source))
            return stmt if new_target is target and new_source is source else AsyncCopy(new_target, new_source)
        case MatrixMultiply():
            return _multiplied(function, stmt)
        case Prefetch(target=target):
            new_target = _subscript(function(target))
            return stmt if new_target is target else Prefetch(new_target)
        case DeclareArray() | Barrier() | AsyncCommit() | AsyncWait():
            return stmt
        case _:
            assert_never(stmt)


def with_branches(stmt: If, condition: Expr, then: tuple[Stmt, ...], otherwise: tuple[Stmt, ...]) -> If:
    """Return ``stmt`` with other parts; itself when they are the same."""
    same = condition is stmt.condition and then is stmt.then and otherwise is stmt.otherwise
    return stmt if same else If(condition, then, otherwise)


def _assigned(stmt: Assign, target: LValue, value: Expr) -> Assign:
    return stmt if target is stmt.target and value is stmt.value else Assign(target, value)


def _lvalue(expr: Expr) -> LValue:
    if not isinstance(expr, Var | Subscript):
        raise TypeError(f"an assigned variable must be replaced by a variable, not by {type(expr).__name__}")
    return expr


def _subscript(expr: Expr) -> Subscript:
    if not isinstance(expr, Subscript):
        raise TypeError(f"array elements must be replaced by array elements, not by {type(expr).__name__}")
    return expr


def _multiplied(function: Callable[[Expr], Expr], stmt: MatrixMultiply) -> MatrixMultiply:
    sums = _subscript(function(stmt.accumulators))
    starts = _subscript(function(stmt.left.start)), _subscript(function(stmt.right.start))
    if sums is stmt.accumulators and starts[0] is stmt.left.start and starts[1] is stmt.right.start:
        return stmt
    left, right = attrs.evolve(stmt.left, start=starts[0]), attrs.evolve(stmt.right, start=starts[1])
    return attrs.evolve(stmt, accumulators=sums, left=left, right=right)


def map_bodies(function: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]], stmt: Stmt) -> Stmt:
    """Apply ``function`` to each list of statements inside ``stmt``."""
    match stmt:
        case For(body=body):
            new = function(body)
            return stmt if new is body else attrs.evolve(stmt, body=new)
        case If():
            return with_branches(stmt, stmt.condition, function(stmt.then), function(stmt.otherwise))
        case Declare() | DeclareArray() | Assign() | Barrier():
            return stmt
        case AsyncCopy() | AsyncCommit() | AsyncWait() | MatrixMultiply() | Prefetch():
            return stmt
        case _:
            assert_never(stmt)


def rewrite_stmts(function: Callable[[Stmt], tuple[Stmt, ...]], stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Replace every statement by none or more, nested ones before the one that holds them."""

    def visit(stmt: Stmt) -> tuple[Stmt, ...]:
        return function(map_bodies(lambda body: rewrite_stmts(function, body), stmt))

    return rewritten(stmts, visit)


def with_body(kernel: KernelFunction, body: tuple[Stmt, ...]) -> KernelFunction:
    """Return ``kernel`` with another body; itself when it is the same."""
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
        TypeError: a variable that is assigned would become something else than a variable.

    """
    return map_stmts(lambda expr: substitute(expr, variables, arrays), stmts)


def declared_names(stmts: Iterable[Stmt]) -> Iterator[str]:
    """Yield the names of variables, counters and arrays that the statements introduce, in the order of the text."""
    for stmt in statements(stmts):
        match stmt:
            case Declare(variable=variable):
                yield variable.name
            case DeclareArray(name=name):
                yield name
            case For(counter=counter):
                yield counter.name
            case Assign() | If() | Barrier():
                pass
            case AsyncCopy() | AsyncCommit() | AsyncWait() | MatrixMultiply() | Prefetch():
                pass
            case _:
                assert_never(stmt)


def kernel_names(kernel: KernelFunction) -> Iterator[str]:
    """Yield every name that a kernel introduces: its parameters, then those of its body."""
    yield from (param.name for param in kernel.params)
    yield from declared_names(kernel.body)


def freshened(stmts: tuple[Stmt, ...], scope: NameScope, keep: Container[str] = ()) -> tuple[Stmt, ...]:
    """Rename what the statements introduce to names that ``scope`` has not seen yet, except those in ``keep``.

    This makes it legal to put the same statements several times into one list.
    """
    names = (name for name in dict.fromkeys(declared_names(stmts)) if name not in keep)
    fresh = {name: scope.fresh(name) for name in names}
    changed = {old: new for old, new in fresh.items() if old != new}
    return renamed(stmts, changed) if changed else stmts


def renamed(stmts: tuple[Stmt, ...], names: Mapping[str, str]) -> tuple[Stmt, ...]:
    """Rename variables and arrays where they are introduced and where they are used."""

    def in_expr(node: Expr) -> Expr:
        match node:
            case Var(name=name, type=kind) if name in names:
                return Var(names[name], kind)
            case Subscript(array=array, offset=offset, type=kind) if array in names:
                return Subscript(names[array], offset, kind)
            case _:
                return node

    def in_stmt(stmt: Stmt) -> tuple[Stmt, ...]:
        match stmt:
            case Declare(variable=variable, value=value) if variable.name in names:
                return (Declare(Var(names[variable.name], variable.type), value),)
            case DeclareArray(name=name) if name in names:
                return (attrs.evolve(stmt, name=names[name]),)
            case For(counter=counter) if counter.name in names:
                return (attrs.evolve(stmt, counter=Var(names[counter.name], counter.type)),)
            case _:
                return (stmt,)

    return map_stmts(lambda expr: map_expr(in_expr, expr), rewrite_stmts(in_stmt, stmts))


def free_variables(stmts: Iterable[Stmt]) -> tuple[str, ...]:
    """Return the variables that are used but not introduced here, in the order of their first use.

    Names must be unique along every chain of scopes, as the verifier asks.
    """
    stmts = tuple(stmts)
    bound = set(declared_names(stmts))
    found: dict[str, None] = {}
    for stmt in statements(stmts):
        targets: tuple[Expr, ...] = (stmt.target,) if isinstance(stmt, Assign) else ()
        for root in (*targets, *expressions(stmt)):
            found.update((name, None) for name in variables_of(root) if name not in bound)
    return tuple(found)


def variables_of(expr: Expr) -> tuple[str, ...]:
    """Return the names of the variables in an expression, in the order of their first use."""
    return tuple(dict.fromkeys(node.name for node in walk(expr) if isinstance(node, Var)))


def trip_values(loop: For) -> range | None:
    """Return the values of the counter where both bounds are constants, else None."""
    if isinstance(loop.begin, Const) and isinstance(loop.end, Const):
        return range(int(loop.begin.value), int(loop.end.value), loop.step)
    return None


def unrolled(loop: For, values: Iterable[int], scope: NameScope) -> tuple[Stmt, ...]:
    """Return one copy of the body for each counter value, with fresh names for what it introduces."""
    result: list[Stmt] = []
    for value in values:
        bound = substitute_stmts(loop.body, {loop.counter.name: Const(value, loop.counter.type)})
        result.extend(freshened(bound, scope))
    return tuple(result)
