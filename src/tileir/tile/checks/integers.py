"""Inputs of a Tile function that must be integers, regardless of inferred dtypes.

Inputs from which sizes are computed must have values that are known when compiling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import Combination, DType
from tileir.tile.functions import SCATTER_NAMES, builtin
from tileir.tile.ir import (
    Assignment,
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    Contraction,
    Expr,
    Function,
    Name,
    Scan,
    Statement,
    Unary,
    While,
)
from tileir.tile.traversal import Role, expressions, result_sizes, walk, walk_known


def sizing_inputs(function: Function) -> frozenset[str]:
    """Return the inputs, integers of rank 0, that a size, a bound, an index polynomial or an axis depends on."""
    found = {name for root in result_sizes(function) for name in _names(root)}
    for statement in reversed(function.statements):
        for place, root in expressions(statement):
            everything = place is not Role.VALUE or (isinstance(statement, Assignment) and statement.name in found)
            found.update(_names(root) if everything else _in_constant_arguments(root))
        if isinstance(statement, Scan | While):
            found.update(_passed_on(statement))
    return frozenset(found & {parameter.name for parameter in function.inputs})


def _names(root: Expr) -> Iterator[str]:
    return (node.name for node in walk_known(root) if isinstance(node, Name))


def _in_constant_arguments(root: Expr) -> Iterator[str]:
    """Yield the names in arguments that have to be known when compiling, such as those of ``reshape``."""
    for node in walk(root):
        row = builtin(node.function) if isinstance(node, Call) else None
        if isinstance(node, Call) and row is not None and row.constants is not None:
            for argument in node.arguments[row.constants :]:
                yield from _names(argument)


def _passed_on(statement: Scan | While) -> Iterator[str]:
    """Yield the operands that a loop passes to its functions as an input of this kind."""
    for function in statement.functions:
        inside = sizing_inputs(function)
        pairs = zip(function.inputs, statement.operands, strict=False)  # before verification lengths may differ
        yield from (operand.name for parameter, operand in pairs if parameter.name in inside)


_COMPARISONS: Final = frozenset(
    {
        BinaryOperator.CMP_LT,
        BinaryOperator.CMP_LE,
        BinaryOperator.CMP_GT,
        BinaryOperator.CMP_GE,
        BinaryOperator.CMP_EQ,
        BinaryOperator.CMP_NE,
    }
)
_ALWAYS: Final[Mapping[str, int]] = MappingProxyType({"gather": 1, **dict.fromkeys(SCATTER_NAMES, 1), "prng_step": 0})
"""The argument that has to be an integer: indices, and states of random numbers."""
_ALIKE: Final[Mapping[str, slice]] = MappingProxyType(
    {
        **dict.fromkeys(("ident", "neg", "abs", "floor", "ceil", "round", "trunc"), slice(1)),
        **dict.fromkeys(("add", "sub", "mul", "div", "mod", "max", "min"), slice(2)),
        **dict.fromkeys(("cond", "where"), slice(1, 3)),
        **dict.fromkeys(
            ("gather", *SCATTER_NAMES, "reshape", "simple_reduce", "stop_gradient", "checkpoint"), slice(1)
        ),
        **dict.fromkeys(("expect_sizes", *(f"expect_{dtype.value}" for dtype in DType)), slice(1)),
    }
)
"""The arguments that are integers if the result is an integer, since floats would have made it a float."""


def integers(function: Function) -> frozenset[str]:
    """Return the inputs that are indices, states of random numbers or sizes, or from which these are computed.

    Inputs with declared dtypes that are not floats are among them. Others may turn out to be integers as well.
    """
    found = set(sizing_inputs(function))
    found.update(each.name for each in function.inputs if each.dtype is not None and not each.dtype.is_float)
    for statement in reversed(function.statements):
        found.update(_integers(statement, is_integer=statement.name in found))
    return frozenset(found & {tensor.name for tensor in function.inputs})


def _integers(statement: Statement, *, is_integer: bool) -> Iterator[str]:
    """Yield the operands of a statement that have to be integers; ``is_integer`` says so of its own value."""
    match statement:
        case Assignment(value=value):
            yield from _in_expression(value, is_integer=is_integer)
        case Scan() | While():
            for function in statement.functions:
                inside = integers(function)
                pairs = zip(function.inputs, statement.operands, strict=True)
                yield from (operand.name for tensor, operand in pairs if tensor.name in inside)
        case Contraction(combination=combination, inputs=inputs) if is_integer:
            compared = {Combination.EQ: 2, Combination.COND: 2}.get(combination, 0)
            yield from (access.tensor for access in inputs[compared:])


def _in_expression(value: Expr, *, is_integer: bool) -> Iterator[str]:
    pending = [(value, is_integer)]
    while pending:
        node, wanted = pending.pop()
        match node:
            case Name(name=name) if wanted:
                yield name
            case Unary(operand=operand):
                pending.append((operand, wanted))
            case Binary(operator=operator, lhs=lhs, rhs=rhs):
                wanted = wanted and operator not in _COMPARISONS
                pending += ((lhs, wanted), (rhs, wanted))
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                pending += ((condition, False), (then, wanted), (otherwise, wanted))
            case Call(function=function, arguments=arguments):
                alike = range(len(arguments))[_ALIKE.get(function, slice(0))]
                always = _ALWAYS.get(function)
                pending += ((a, (wanted and k in alike) or k == always) for k, a in enumerate(arguments))
