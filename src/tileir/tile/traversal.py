"""Walks over the expressions of a function. None of them recurses."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final, assert_never

from tileir.core import ArrayValue, schema
from tileir.tile.functions import SIZE
from tileir.tile.ir import (
    Assignment,
    Call,
    Constant,
    Contraction,
    Expr,
    FloatLiteral,
    Function,
    IndexName,
    Input,
    IntLiteral,
    Name,
    Scan,
    Statement,
    While,
)


class Role(enum.Enum):
    """Role of an expression, which restricts its contents."""

    VALUE = "value"  # elementwise: tensors, dimensions, numbers, functions
    CONSTANT = "constant"  # a size or a bound: known when compiling
    POLYNOMIAL = "polynomial"  # index variables, dimensions, integers and + - * /

    __hash__ = object.__hash__


LEAVES: Final = (Name, IndexName, IntLiteral, FloatLiteral)
"""Expressions without operands: most of them."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands of ``expr``, left to right."""
    return schema.operands(expr)


def walk(root: Expr) -> Iterator[Expr]:
    """Yield ``root`` and everything below it, each before its operands, left to right."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, LEAVES):
            pending.extend(reversed(schema.operands(node)))


def walk_known(root: Expr) -> Iterator[Expr]:
    """Yield the nodes of :func:`walk`, except for tensors in requests for their sizes only."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, LEAVES):
            first = int(isinstance(node, Call) and node.function == SIZE)
            pending.extend(reversed(children(node)[first:]))


def walk_with_depth(root: Expr) -> Iterator[tuple[Expr, int]]:
    """Yield the nodes of :func:`walk`, with the depth of each; that of ``root`` is 1."""
    pending = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        if not isinstance(node, LEAVES):
            pending.extend([(child, depth + 1) for child in reversed(children(node))])


def expressions(statement: Statement) -> Iterator[tuple[Role, Expr]]:
    """Yield the outermost expressions of a statement in the order of the text; not those of a step inside it."""
    match statement:
        case Assignment(value=value):
            yield Role.VALUE, value
        case Contraction():
            for index in statement.indices:
                yield Role.POLYNOMIAL, index
            for size in statement.sizes:
                yield Role.CONSTANT, size
            for access in statement.inputs:
                for index in access.indices:
                    yield Role.POLYNOMIAL, index
            for constraint in statement.constraints:
                yield Role.POLYNOMIAL, constraint.polynomial
                yield Role.CONSTANT, constraint.bound
        case Scan() | While():
            for operand in statement.operands:
                yield Role.VALUE, operand
            if isinstance(statement, Scan) and statement.count is not None:
                yield Role.CONSTANT, statement.count
        case Constant():
            return
        case _:
            assert_never(statement)


def names_read(statement: Statement) -> Iterator[str]:
    """Yield the tensors and dimensions that a statement reads; one may come several times."""
    if isinstance(statement, Contraction):
        yield from (access.tensor for access in statement.inputs)
        if statement.default is not None:
            yield statement.default.name
    for _, expression in expressions(statement):
        yield from (node.name for node in walk(expression) if isinstance(node, Name))


def asserts(statement: Statement) -> bool:
    """Return whether a statement is an assertion."""
    calls = (node for _, root in expressions(statement) for node in walk(root) if isinstance(node, Call))
    return any(call.function == "match" or call.function.startswith(("assert_", "expect_")) for call in calls)


_SOURCES: Final = {"gradient": slice(1, None), "vjp": slice(2, None), "jvp": slice(1, 2)}
"""The arguments by which functions differentiate."""


_ALIASES: Final = frozenset(
    {"ident", "as_like", "widen", "quantize", "reshape", "expect_sizes", "simple_reduce", "element"}
)


def is_alias(function: str) -> bool:
    """Return whether a function may return its first argument, so that derivatives by one are by the other."""
    return function in _ALIASES or function.startswith(("as_", "expect_"))


def differentiated_by(function: Function) -> set[str]:
    """Return the names by which a function takes derivatives, and others that these may be aliases of."""
    values = {each.name: each.value for each in function.statements if isinstance(each, Assignment)}
    calls = (node for value in values.values() for node in walk(value) if isinstance(node, Call))
    pending = [source for call in calls for source in call.arguments[_SOURCES.get(call.function, slice(0))]]
    found: set[str] = set()
    while pending:
        for node in walk(pending.pop()):
            if isinstance(node, Name) and node.name not in found:
                found.add(node.name)
                match values.get(node.name):
                    case Name() as alias:
                        pending.append(alias)
                    case Call("tuple", members):
                        pending.extend(members)
                    case Call(word, (first, *_)) if is_alias(word):
                        pending.append(first)
    return found


def called(function: Function) -> Iterator[Call]:
    """Yield the calls in a function and in the steps of its loops, of builtins, too."""
    pending = [function]
    while pending:
        current = pending.pop()
        for statement in current.statements:
            roots = (root for _, root in expressions(statement))
            yield from (node for root in roots for node in walk(root) if isinstance(node, Call))
            if isinstance(statement, Scan | While):
                pending.extend(statement.functions)
        yield from (node for root in result_sizes(current) for node in walk(root) if isinstance(node, Call))


def dimensions(function: Function) -> Iterator[Name]:
    """Yield the dimensions that inputs and constants name, in the order of the text; one may come several times."""
    for declaration in (*function.inputs, *function.statements):
        if isinstance(declaration, Input | Constant):
            yield from named(declaration)


def named(declaration: Input | Constant) -> Iterator[Name]:
    """Yield the dimensions that an input or constant names; its other sizes are numbers."""
    return (dim for dim in declaration.dims or () if isinstance(dim, Name))


def result_sizes(function: Function) -> Iterator[Expr]:
    """Yield the declared sizes of results, in the order of the text."""
    for output in function.outputs:
        yield from output.dims or ()


def arrays(function: Function) -> Iterator[ArrayValue]:
    """Yield the arrays that are constants of a function and of the steps in it."""
    pending = [function]
    while pending:
        for statement in pending.pop().statements:
            if isinstance(statement, Constant) and isinstance(statement.value, ArrayValue):
                yield statement.value
            elif isinstance(statement, Scan | While):
                pending.extend(statement.functions)


def index_names(root: Expr) -> Iterator[IndexName]:
    """Yield the index variables of a polynomial, left to right; one may come twice."""
    return (node for node in walk(root) if isinstance(node, IndexName))
