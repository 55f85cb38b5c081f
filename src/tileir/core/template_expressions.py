"""The expressions of templates that are mere arithmetic on names, evaluated without a template engine.

They mean the same as in jinja2; what is not among them is left to it. Nothing here can run code or grow without bound.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Value: TypeAlias = bool | int | float | str | tuple["Value", ...] | None

LONGEST: Final = 200
"""Characters of the longest expression that is evaluated here."""


class UnsupportedError(Exception):
    """The expression is not one of these; a template engine may know it."""


class MissingError(Exception):
    """A name without a value; the first argument is the name."""


def power_of_two_below(number: float) -> int:
    """Return the greatest power of two that is not above ``number``; 1 for numbers below 1."""
    return 1 << (max(1, int(number)).bit_length() - 1)


FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "int": int,
    "max": max,
    "min": min,
    "power_of_two_below": power_of_two_below,
}
"""What templates may call, in either way."""

_BINARY: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Value, Value], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,  # type: ignore[dict-item]  # what cannot be compared raises TypeError
    ast.LtE: operator.le,  # type: ignore[dict-item]
    ast.Gt: operator.gt,  # type: ignore[dict-item]
    ast.GtE: operator.ge,  # type: ignore[dict-item]
}


def evaluate(text: str, names: Mapping[str, Value]) -> Value:
    """Return the value of an expression.

    Raises:
        MissingError: A name has no value.
        UnsupportedError: The expression is of another kind.
        ArithmeticError, TypeError, ValueError: It has no value.
    """
    if len(text) > LONGEST:
        raise UnsupportedError
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        raise UnsupportedError from None
    return _value(tree.body, names)


def _value(node: ast.expr, names: Mapping[str, Value]) -> Value:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as constant):
            return constant
        case ast.Name(id=name):
            if name not in names:
                raise MissingError(name)
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_number(left, names), _number(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, names)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return _COMPARISONS[type(op)](_value(left, names), _value(right, names))
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, names) else other, names)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_value(argument, names) for argument in arguments))
        case _:
            raise UnsupportedError


def _number(node: ast.expr, names: Mapping[str, Value]) -> float:
    value = _value(node, names)
    if not isinstance(value, int | float):
        raise UnsupportedError  # joined or repeated texts and lists
    return value
