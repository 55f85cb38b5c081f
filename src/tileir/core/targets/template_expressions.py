"""The expressions of templates: arithmetic, comparisons and choices over names, bounded in time and memory.

Each node of an expression costs a step of a budget, and no value is larger than the limits below.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tileir.core.nodes import attrs

Value: TypeAlias = bool | int | float | str | tuple["Value", ...] | None

LONGEST: Final = 400
"""Greatest length of an expression."""

MOST_STEPS: Final = 100_000
"""Greatest number of nodes, parts and loop iterations of a template."""

_MOST_BITS: Final = 256
_MOST_CHARACTERS: Final = 10_000
_GREATEST_POWER: Final = 64


class ExpressionError(Exception):
    """The text is no expression of templates; the argument is the reason."""


class MissingError(Exception):
    """A name without a value; the first argument is the name."""


class ExhaustedError(Exception):
    """A template takes more steps, or makes more text, than permitted."""


@attrs.define(eq=False, repr=False)
class Budget:
    """The remaining steps of a template: the only state of its evaluation."""

    steps: int = MOST_STEPS

    def take(self, steps: int = 1) -> None:
        """Take steps.

        Raises:
            ExhaustedError: There are fewer.
        """
        self.steps -= steps
        if self.steps < 0:
            raise ExhaustedError(f"it takes more than {MOST_STEPS} steps; make its loops shorter")


def power_of_two_below(number: float) -> int:
    """Return the greatest power of two that is not above ``number``; 1 for numbers below 1."""
    return 1 << (max(1, int(number)).bit_length() - 1)


def _rounded(number: float, digits: int = 0) -> float:
    return round(float(number), digits)  # for integers, digits before the point would cost time


FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "int": int,
    "max": max,
    "min": min,
    "power_of_two_below": power_of_two_below,
}
"""Functions of templates, beside ``range``, which takes as many steps as it has numbers."""

FILTERS: Final[Mapping[str, Callable[..., Value]]] = {
    "abs": abs,
    "float": float,
    "int": int,
    "length": len,
    "lower": str.lower,
    "round": _rounded,
    "upper": str.upper,
}
"""Filters, which follow a value and ``|``."""

_CONSTANTS: Final[Mapping[str, Value]] = {"true": True, "false": False, "none": None}
_BINARY: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Value, Value], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,  # type: ignore[dict-item]  # what cannot be compared raises TypeError
    ast.LtE: operator.le,  # type: ignore[dict-item]
    ast.Gt: operator.gt,  # type: ignore[dict-item]
    ast.GtE: operator.ge,  # type: ignore[dict-item]
    ast.In: lambda item, items: item in items,  # type: ignore[operator]
    ast.NotIn: lambda item, items: item not in items,  # type: ignore[operator]
}


def parse(text: str) -> ast.expr:
    """Return the tree of an expression, in the spelling of Python, which that of jinja2 is too.

    Raises:
        ExpressionError: It is none, or longer than :data:`LONGEST`.
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression has at most {LONGEST} characters")
    try:
        return ast.parse(text.replace("\n", " ").strip(), mode="eval").body
    except (SyntaxError, ValueError):  # the latter for NUL
        raise ExpressionError("write an expression such as SIZE // 2 here") from None
    except (MemoryError, RecursionError):  # raised by Python's parser if its stack is full
        raise ExpressionError("this is nested too deeply") from None


def evaluate(node: ast.expr, names: Mapping[str, Value], budget: Budget) -> Value:
    """Return the value of an expression.

    Raises:
        MissingError: A name has no value.
        ExpressionError: It has a part that templates do not support.
        ExhaustedError: The budget does not suffice.
        ArithmeticError, LookupError, TypeError, ValueError: It has no value, or one that is too large.
    """
    try:
        return _Evaluation(names, budget).value(node)
    except RecursionError:
        raise ExpressionError("this is nested too deeply") from None


@attrs.frozen(repr=False)
class _Evaluation:
    names: Mapping[str, Value]
    budget: Budget

    def value(self, node: ast.expr) -> Value:
        self.budget.take()
        match node:
            case ast.Constant(value=None | bool() | int() | float() | str() as constant):
                return _bounded(constant)
            case ast.Name(id=name):
                return self._named(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if f"{name}.{attribute}" in self.names:
                return self.names[f"{name}.{attribute}"]
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return tuple(_plain(self.value(item)) for item in items)
            case ast.Subscript(value=items, slice=position) if not isinstance(position, ast.Slice):
                return _item(self.value(items), self.value(position))
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.value(body if self.value(test) else other)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.value(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -_number(self.value(operand))
            case ast.BoolOp(op=op, values=operands):
                return self._first(operands, decisive=isinstance(op, ast.Or))
            case ast.Compare(left=left, ops=operators, comparators=others):
                return self._compared(left, operators, others)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._filtered(node, left, right)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _computed(op, self.value(left), self.value(right))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._called(name, [self.value(argument) for argument in arguments])
            case _:
                raise ExpressionError(f"templates do not know '{ast.unparse(node):.40}'")

    def _named(self, name: str) -> Value:
        if name in self.names:
            return _bounded(self.names[name])
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        raise MissingError(name)

    def _first(self, operands: list[ast.expr], *, decisive: bool) -> Value:
        """Return the first value whose truth is ``decisive``, or else the last one."""
        value: Value = None
        for operand in operands:
            value = self.value(operand)
            if bool(value) is decisive:
                break
        return value

    def _compared(self, left: ast.expr, operators: list[ast.cmpop], others: list[ast.expr]) -> bool:
        before = self.value(left)
        for op, other in zip(operators, others, strict=True):
            if type(op) not in _COMPARISONS:
                raise ExpressionError("values are compared by ==, !=, <, <=, >, >= and in")
            after = self.value(other)
            if not _COMPARISONS[type(op)](before, after):
                return False
            before = after
        return True

    def _filtered(self, node: ast.expr, left: ast.expr, right: ast.expr) -> Value:
        bracketed = node.col_offset < left.col_offset
        if isinstance(left, ast.BinOp) and not isinstance(left.op, ast.BitOr) and not bracketed:
            raise ExpressionError("write brackets around the sum or product that a filter takes")
        match right:
            case ast.Name(id=name):
                arguments = list[ast.expr]()
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                pass
            case _:
                raise ExpressionError("write a filter such as lower behind '|', and brackets around both")
        if name not in FILTERS:
            raise ExpressionError(f"there is no filter {name:.40}; known are {', '.join(FILTERS)}")
        return _bounded(FILTERS[name](self.value(left), *map(self.value, arguments)))

    def _called(self, name: str, arguments: list[Value]) -> Value:
        if name == "range":
            numbers = range(*arguments)  # type: ignore[arg-type]  # what is no integer raises TypeError
            self.budget.take(len(numbers))
            return tuple(numbers)
        if name not in FUNCTIONS:
            raise ExpressionError(f"there is no function {name:.40}; known are {', '.join(FUNCTIONS)}, range")
        return _bounded(FUNCTIONS[name](*arguments))


def _computed(op: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(op, ast.Add) and isinstance(left, str) and isinstance(right, str):
        return _bounded(left + right)
    if isinstance(op, ast.Pow) and not -_GREATEST_POWER <= _number(right) <= _GREATEST_POWER:
        raise ValueError(f"a power above {_GREATEST_POWER}")
    result: object = _BINARY[type(op)](_number(left), _number(right))
    if isinstance(result, complex):
        raise ValueError("a root of a negative number")
    return _bounded(_number(result))


def _number(value: object) -> float:
    if isinstance(value, int | float):
        return value
    raise TypeError("arithmetic takes numbers")


def _plain(value: Value) -> Value:
    if isinstance(value, tuple):
        raise TypeError("a list holds numbers and texts, no lists")
    return value


def _item(items: Value, position: Value) -> Value:
    if not isinstance(items, tuple | str) or not isinstance(position, int):
        raise TypeError("lists and texts have items, with numbers")
    return items[position]


def _bounded(value: Value) -> Value:
    """Return a value within the limits, so that no operation on two of them takes long."""
    match value:
        case int() if value.bit_length() > _MOST_BITS:
            raise ValueError(f"a number of more than {_MOST_BITS} bits")
        case float() if not math.isfinite(value):
            raise ValueError("a number that is not finite")
        case str() if len(value) > _MOST_CHARACTERS:
            raise ValueError(f"a text of more than {_MOST_CHARACTERS} characters")
        case _:
            return value
