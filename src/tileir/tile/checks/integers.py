"""Inputs of a Tile function that can only be integers, whatever their dtypes turn out to be."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.ops import Combination
from tileir.tile.checks.sizing import sizing_inputs
from tileir.tile.ir import Assignment, Binary, BinaryOperator, Call, Conditional, Contraction, Name, Scan, Unary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.tile.ir import Expr, Function, Statement

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
_ALWAYS: Final[Mapping[str, int]] = MappingProxyType({"gather": 1, "scatter": 1, "prng_step": 0})
"""The argument that has to be an integer: indices, and states of random numbers."""
_ALIKE: Final[Mapping[str, slice]] = MappingProxyType(
    {
        **dict.fromkeys(("ident", "neg", "abs", "floor", "ceil", "round", "trunc"), slice(1)),
        **dict.fromkeys(("add", "sub", "mul", "div", "mod", "max", "min"), slice(2)),
        **dict.fromkeys(("cond", "where"), slice(1, 3)),
        **dict.fromkeys(("gather", "scatter", "reshape", "simple_reduce", "stop_gradient", "checkpoint"), slice(1)),
    }
)
"""The arguments that are integers where the result is one, since floats would have made it a float."""


def integers(function: Function) -> frozenset[str]:
    """Return the inputs that are indices, states of random numbers or sizes, or that arithmetic makes such of.

    Others may turn out to be integers as well.
    """
    found = set(sizing_inputs(function))
    for statement in reversed(function.statements):
        found.update(_integers(statement, is_integer=statement.name in found))
    return frozenset(found & {tensor.name for tensor in function.inputs})


def _integers(statement: Statement, *, is_integer: bool) -> Iterator[str]:
    """Yield what a statement reads that has to be integers; ``is_integer`` where its own value has to be one."""
    match statement:
        case Assignment(value=value):
            yield from _in_expression(value, is_integer=is_integer)
        case Scan(step=step):
            inside = integers(step)
            pairs = zip(step.inputs, statement.operands, strict=True)
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
