"""Printer of Tile functions: canonical text, which parses back to an equal function.

Constants are printed exactly: short arrays by their elements, and long ones by their digests.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

import numpy as np

from tileir.core import ArrayValue, Combination, DType, rounded
from tileir.core.text.writer import Writer
from tileir.tile.ir import (
    Access,
    Assignment,
    Attribute,
    Binary,
    Call,
    Conditional,
    Constant,
    Constraint,
    Contraction,
    Expr,
    FloatLiteral,
    Function,
    IndexName,
    Input,
    IntLiteral,
    Name,
    Output,
    Scan,
    Statement,
    Unary,
    While,
    parts,
)
from tileir.tile.node import Node
from tileir.tile.text.grammar import (
    AGGREGATIONS,
    COMBINATIONS,
    CONDITIONAL_RANK,
    DIGEST,
    LONGEST_CONSTANT,
    OPERATORS,
    UNARY_RANK,
    is_index_name,
    spell_index,
    spell_tensor,
    spell_word,
)

_COLUMNS: Final = 96
_DIGITS: Final = 17
"""Number of decimal digits that distinguish all floats."""


def value_text(value: ArrayValue | bool | int | float, longest: int = LONGEST_CONSTANT) -> str:
    """Return the text of a constant's value; arrays of more than ``longest`` elements as their digest."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float_text(value, DType.F64)
    if value.elements > longest:
        return f"{value} {DIGEST}{value.digest}"
    elements = ", ".join(_elements(value))
    if len(elements) < _COLUMNS:
        return f"{value}({elements})"
    lines = textwrap.wrap(elements, _COLUMNS, break_long_words=False, break_on_hyphens=False)
    return "\n  ".join([f"{value}(", *lines]) + "\n)"


def _elements(value: ArrayValue) -> Iterator[str]:
    array = value.numpy().reshape(-1)
    if not value.dtype.is_float:
        return (str(int(element)) for element in array)
    bits = array.view(f"u{value.dtype.itemsize}")
    quiet = int(np.array(math.nan, value.dtype.numpy).view(bits.dtype))
    return (
        _float_text(float(element), value.dtype)
        if element == element or pattern == quiet  # only a NaN differs from itself
        else f"bits({pattern})"
        for element, pattern in zip(array, map(int, bits), strict=True)
    )


def _float_text(value: float, dtype: DType) -> str:
    """Return the shortest decimal that rounds to ``value``, which is one of ``dtype``."""
    if not math.isfinite(value):
        return str(value)
    for digits in range(1, _DIGITS + 1):
        text = f"{value:.{digits}g}"
        if rounded(float(text), dtype) == value:
            break
    return text if "." in text or "e" in text else f"{text}.0"


_WIDTH: Final = 100
_AGGREGATION_SIGNS: Final = {aggregation: sign for sign, aggregation in AGGREGATIONS.items()}
_COMBINATION_SIGNS: Final = {combination: sign for sign, combination in COMBINATIONS.items()}


def to_text(function: Function) -> str:
    """Return the canonical text of a verified function, with as few parentheses as possible.

    Constant arrays of more than 256 elements are printed as digests: to read the text, pass these arrays to
    :func:`tileir.parse`.
    """
    return _function(function) + "\n"


def _function(function: Function, before: str = "") -> str:
    """Return the text of a function, preceded by ``before``, and without the end of its last line."""
    writer = Writer()
    inputs = [_input(parameter) for parameter in function.inputs]
    outputs = [_input(output) for output in function.outputs]
    header = f"{before}function ({', '.join(inputs)}) -> ({', '.join(outputs)}) {{"
    if len(header) <= _WIDTH:
        writer.line(header)
    else:
        _list(writer, f"{before}function (", inputs)
        _list(writer, ") -> (", outputs)
        writer.line(") {")
    with writer.indented():
        position = 0
        while position < len(function.statements):
            statement, taken = function.statements[position], parts(function.statements, position)
            for line in _statement(statement, taken).splitlines():
                writer.line(line)
            position += 1 + len(taken)
    writer.line("}")
    return writer.text().rstrip("\n")


def node_text(node: Node) -> str:
    """Return the text of any node, as it appears in the text of a function."""
    match node:
        case Function():
            return to_text(node)
        case Assignment() | Contraction() | Scan() | While() | Constant():
            return statement_text(node)
        case Input() | Output():
            return _input(node)
        case Attribute():
            return _attribute(node)
        case Access():
            return _access(node)
        case Constraint():
            return _constraint(node)
        case IntLiteral() | FloatLiteral() | Name() | IndexName() | Call() | Unary() | Binary() | Conditional():
            return expression_text(node)
        case _:
            raise TypeError(f"nodes of type {type(node).__name__} have no text")


def statement_text(statement: Statement) -> str:
    """Return one statement with its attributes and its ``;``."""
    return _statement(statement)


def _statement(statement: Statement, taken: Sequence[Statement] = ()) -> str:
    """Return a statement, or the tuple that it makes with the statements that unpack it."""
    attributes = "".join(f"{_attribute(attribute)} " for attribute in statement.attributes)
    names = ", ".join(spell_tensor(part.name) for part in taken)
    target = f"({names})" if taken else spell_tensor(statement.name)
    match statement:
        case Assignment(value=value):
            return f"{attributes}{target} = {expression_text(value)};"
        case Contraction():
            return f"{attributes}{_contraction(statement)};"
        case Scan():
            return f"{attributes}{_scan(statement, target)};"
        case While():
            return f"{attributes}{_while(statement, target)};"
        case Constant(name=name, value=value, dims=dims):
            return f"{attributes}constant {_declared(name, dims)} = {value_text(value)};"
        case _:
            assert_never(statement)


def expression_text(expr: Expr, least: int = CONDITIONAL_RANK) -> str:
    """Return an expression or polynomial, in parentheses if its rank is lower than ``least``."""
    match expr:
        case Name(name=name):
            return spell_tensor(name)
        case Binary(operator=operator, lhs=lhs, rhs=rhs):
            return OPERATORS.infix_text(operator, expression_text, (lhs, rhs), least)
        case IntLiteral(value=value):
            return str(value)
        case FloatLiteral(value=value):
            return float.__repr__(value) if math.isfinite(value) else "1e999"
        case IndexName(name=name):
            return spell_index(name)
        case Call(function=function, arguments=arguments):
            return f"{spell_word(function)}({_expressions(arguments)})"
        case Unary(operator=operator, operand=operand):
            return operator.value + expression_text(operand, UNARY_RANK)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return OPERATORS.conditional_text(expression_text, (condition, then, otherwise), least)
        case _:
            assert_never(expr)


def _expressions(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(map(expression_text, exprs))


def _list(writer: Writer, opening: str, items: list[str]) -> None:
    writer.line(opening)
    with writer.indented():
        for number, item in enumerate(items, start=1):
            writer.line(item if number == len(items) else f"{item},")


def _input(parameter: Input | Output) -> str:
    return _declared(parameter.name, parameter.dims, parameter.dtype)


def _declared(name: str, dims: tuple[Expr, ...] | None, dtype: DType | None = None) -> str:
    kind = "" if dtype is None else f": {dtype.value}"
    sizes = "" if dims is None else f"[{_expressions(dims)}]"
    return f"{spell_tensor(name)}{kind}{sizes}"


def _attribute(attribute: Attribute) -> str:
    name = spell_index(attribute.name)
    if not attribute.parameters:
        return f"[[{name}]]"
    return f"[[{name}({', '.join(_parameter(parameter) for parameter in attribute.parameters)})]]"


def _parameter(parameter: str) -> str:
    return spell_word(parameter) if is_index_name(parameter) else spell_tensor(parameter)


def _contraction(statement: Contraction) -> str:
    target = _expressions(statement.indices)
    if statement.sizes:
        target = f"{target} : {_expressions(statement.sizes)}".lstrip()
    parts = [
        f"{spell_tensor(statement.name)}[{target}] = {_AGGREGATION_SIGNS[statement.aggregation]}({_inputs(statement)})"
    ]
    parts.extend(f", {_constraint(constraint)}" for constraint in statement.constraints)
    if statement.no_defract:
        parts.append(" no_defract")
    if statement.default is not None:
        parts.append(f" default {spell_tensor(statement.default.name)}")
    return "".join(parts)


def _constraint(constraint: Constraint) -> str:
    return f"{expression_text(constraint.polynomial)} < {expression_text(constraint.bound)}"


def _scan(statement: Scan, target: str) -> str:
    parts = [_expressions(names) for names in (statement.carries, statement.sequences, statement.constants)]
    operands = "; ".join(parts).rstrip("; ")
    count = "" if statement.count is None else f"{expression_text(statement.count)} times "
    direction = "reverse " if statement.reverse else ""
    heading = f"{target} = scan({operands}) {count}{direction}"
    return _function(statement.step, heading)


def _while(statement: While, target: str) -> str:
    operands = "; ".join(map(_expressions, (statement.carries, statement.constants))).rstrip("; ")
    condition = _function(statement.condition, f"{target} = while({operands}) ")
    return _function(statement.step, f"{condition} do ")


def _inputs(statement: Contraction) -> str:
    """Return the text between the parentheses of an aggregation."""
    accesses = [_access(access) for access in statement.inputs]
    match statement.combination:
        case Combination.NONE:
            return accesses[0]
        case Combination.COND:
            return f"{accesses[0]} == {accesses[1]} ? {accesses[2]}"
        case Combination.ADD | Combination.MUL | Combination.EQ:
            return f" {_COMBINATION_SIGNS[statement.combination]} ".join(accesses)
        case _:
            assert_never(statement.combination)


def _access(access: Access) -> str:
    return f"{spell_tensor(access.tensor)}[{_expressions(access.indices)}]"
