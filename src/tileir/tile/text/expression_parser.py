"""Expressions and index polynomials, by the operators of :mod:`tileir.tile.text.grammar`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from tileir.core.text.advice import meant
from tileir.core.text.lexing import AbandonError, Token
from tileir.core.text.pratt import Operators, Pratt
from tileir.tile.ir import (
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    Expr,
    FloatLiteral,
    IndexName,
    IntLiteral,
    Name,
    Unary,
    UnaryOperator,
)
from tileir.tile.text.grammar import (
    CONDITIONAL_RANK,
    MAX_DEPTH,
    MAX_INTEGER,
    OPERATORS,
    POLYNOMIALS,
    UNARY_RANK,
)
from tileir.tile.text.lexer import INDEX, NAME, Cursor

Read: TypeAlias = tuple[Expr, int]
"""An expression, and its depth."""
_DOUBLED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "&": "there is no operator '&&'; write logical_and(a, b)",
        "|": "there is no operator '||'; write logical_or(a, b)",
        "*": "there is no operator '**'; write pow(a, b)",
        "=": "there is no such operator; 'O = …;' is a whole statement",
    }
)
_LITERAL_DIGITS: Final = len(str(MAX_INTEGER))


@attrs.define(eq=False, repr=False)
class ExpressionParser(Pratt[Read]):
    """Reads expressions and polynomials at a cursor."""

    most: ClassVar[int] = MAX_DEPTH
    branch: ClassVar[str] = "':' and the value where the condition is false"
    cursor: Cursor
    _polynomial: bool = attrs.field(default=False, init=False)

    def expression(self) -> Expr:
        """Read an elementwise expression.

        Raises:
            AbandonError: There is none; this is reported.

        """
        return self._whole(OPERATORS)

    def polynomial(self) -> Expr:
        """Read an index polynomial.

        Raises:
            AbandonError: There is none; this is reported.

        """
        return self._whole(POLYNOMIALS)

    def _whole(self, operators: Operators) -> Expr:
        self.weight, self.operators, self._polynomial = 0, operators, operators is POLYNOMIALS
        return self.climb(CONDITIONAL_RANK)[0]

    def joined(self, operator: Any, left: Read, right: Read, start: int) -> Read:
        """Return an infix operation."""
        (lhs, depth), (rhs, other) = left, right
        height = 1 + (depth if depth > other else other)
        if height > MAX_DEPTH:
            raise self.too_deep()
        return Binary(operator, lhs, rhs, span=self.cursor.span_from(start)), height

    def chosen(self, test: Read, then: Read, otherwise: Read, start: int) -> Read:
        """Return a conditional."""
        height = self._above(test, then, otherwise)
        return Conditional(test[0], then[0], otherwise[0], span=self.cursor.span_from(start)), height

    def chained(self) -> None:
        """Report an operator that does not associate with the one before."""
        message = "comparisons do not chain; write (a < b) & (b < c), or parentheses around one of them"
        self.cursor.report(message, self.cursor.here)

    def operand(self) -> Read:
        """Read signs, a name, a number, a call, or an expression in parentheses."""
        cursor = self.cursor
        token = cursor.token
        match token.kind:
            case "name":
                cursor.advance()
                return self._call(token) if cursor.at("(") else (self._name(token), 1)
            case "integer":
                cursor.advance()
                return self._integer(token)
            case "index":
                cursor.advance()
                return self._call(token) if cursor.at("(") else (self._index(token), 1)
            case "float":
                cursor.advance()
                return self._float(token), 1
            case "(":
                cursor.advance()
                inner = self.climb(CONDITIONAL_RANK)
                cursor.expect(")")
                return inner
            case "-" | "~":
                return self._unary(UnaryOperator(token.kind))
        advice = _DOUBLED.get(token.kind)
        expected = "an index polynomial" if self._polynomial else "an expression"
        raise cursor.unexpected(expected, *([] if advice is None else [advice]))

    def _unary(self, operator: UnaryOperator) -> Read:
        token = self.cursor.advance()
        if self._polynomial and operator is UnaryOperator.BIT_NOT:
            self._not_in_polynomial("'~'", token)
        operand = self.climb(UNARY_RANK)
        height = self._above(operand)
        return Unary(operator, operand[0], span=self.cursor.span_from(token.start)), height

    def _name(self, token: Token) -> Expr:
        if self.cursor.at("[") and not self.cursor.on_new_line:
            raise self.cursor.refuse("indices stand only inside a contraction, as in O[i : N] = +(A[i]);")
        return Name(token.text, span=self.cursor.span_of(token))

    def _index(self, token: Token) -> Expr:
        span = self.cursor.span_of(token)
        if not self._polynomial:
            message = f"'{token.text}' is an index variable, which stands only in index polynomials"
            note = f"a tensor or dimension begins with a capital letter, or is written #{token.text}"
            self.cursor.report(message, span, "TIL203", (note,))
        return IndexName(token.text, span=span)

    def _integer(self, token: Token) -> Read:
        span = self.cursor.span_of(token)
        digits = token.text.lstrip("0")
        value = 0
        if len(digits) > _LITERAL_DIGITS or (value := int(digits or "0")) > MAX_INTEGER:
            self.cursor.report("an integer has at most 64 bits", span, "TIL104")
            value = 0
        literal = IntLiteral(value, span=span)
        if self._polynomial and self.cursor.at(INDEX):
            index = self.cursor.advance()
            whole = self.cursor.span_from(token.start)
            return Binary(BinaryOperator.MUL, literal, self._index(index), span=whole), 2
        if self.cursor.at(NAME) and not self.cursor.on_new_line:
            raise self.cursor.unexpected("an operator", f"write {token.text} * {self.cursor.token.text} for a product")
        return literal, 1

    def _float(self, token: Token) -> Expr:
        if self._polynomial:
            self._not_in_polynomial("a float", token)
        return FloatLiteral(float(token.text), span=self.cursor.span_of(token))

    def _call(self, name: Token) -> Read:
        if self._polynomial:
            self._not_in_polynomial("a call", name)
        cursor = self.cursor
        cursor.advance()
        if cursor.at(")"):
            raise cursor.refuse("a function has one argument at least")
        arguments = [self.climb(CONDITIONAL_RANK)]  # with as few stack frames as possible
        while cursor.skip(","):
            arguments.append(self.climb(CONDITIONAL_RANK))
        if cursor.at(";") and name.text != "scan" and meant(name.text, ("scan",)):
            raise cursor.unexpected("',' or ')'", "did you mean scan?")
        cursor.expect(")", "',' or ')'")
        height = self._above(*arguments)
        return Call(name.text, tuple(each for each, _ in arguments), span=cursor.span_from(name.start)), height

    def _not_in_polynomial(self, what: str, token: Token) -> None:
        message = f"{what} cannot stand in an index polynomial, which has integers, dimensions, indices and + - * /"
        self.cursor.report(message, self.cursor.span_of(token), "TIL214")

    def _above(self, *operands: Read) -> int:
        """Return the depth of a node with these operands."""
        height = 1 + max([height for _, height in operands])
        if height > MAX_DEPTH:
            raise self.too_deep()
        return height

    def too_deep(self) -> AbandonError:
        """Report that an expression is nested too deeply."""
        message = f"this is nested more than {MAX_DEPTH} levels deep; split it into several statements"
        self.cursor.report(message, self.cursor.here, "TIL103")
        return AbandonError()
