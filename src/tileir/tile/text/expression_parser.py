"""Expressions and index polynomials: a Pratt parser over the ranks of :mod:`tileir.tile.text.grammar`.

Pratt, "Top down operator precedence", POPL 1973. Recursion is bounded by ``MAX_DEPTH``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from tileir.core.text.advice import meant
from tileir.core.text.lexing import AbandonError, Token
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
    POLYNOMIAL_OPERATORS,
    RANK,
    UNARY_RANK,
    UNCHAINED,
)
from tileir.tile.text.lexer import INDEX, NAME, Cursor

_INFIX: Final[Mapping[str, BinaryOperator]] = MappingProxyType({op.value: op for op in BinaryOperator})
_POLYNOMIAL_INFIX: Final[Mapping[str, BinaryOperator]] = MappingProxyType({op.value: op for op in POLYNOMIAL_OPERATORS})
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
class ExpressionParser:
    """Reads expressions and polynomials at a cursor."""

    cursor: Cursor
    _level: int = attrs.field(default=0, init=False)
    _height: int = attrs.field(default=0, init=False)  # of the node read last
    _polynomial: bool = attrs.field(default=False, init=False)
    _infix: Mapping[str, BinaryOperator] = attrs.field(default=_INFIX, init=False)

    def expression(self) -> Expr:
        """Read an elementwise expression.

        Raises:
            AbandonError: There is none; this is reported.

        """
        self._level, self._polynomial, self._infix = 0, False, _INFIX
        return self._parse(CONDITIONAL_RANK)

    def polynomial(self) -> Expr:
        """Read an index polynomial.

        Raises:
            AbandonError: There is none; this is reported.

        """
        self._level, self._polynomial, self._infix = 0, True, _POLYNOMIAL_INFIX
        return self._parse(CONDITIONAL_RANK)

    def _parse(self, least: int) -> Expr:
        """Read an expression whose operators outside parentheses all have rank ``least`` or more."""
        cursor = self.cursor
        start = cursor.token.start
        self._level += 1
        if self._level > MAX_DEPTH:
            raise self._too_deep()
        lhs = self._operand()
        while (operator := self._infix.get(cursor.token.kind)) is not None and (rank := RANK[operator]) >= least:
            cursor.advance()
            height = self._height
            rhs = self._parse(rank + 1)
            self._grow(height)
            lhs = Binary(operator, lhs, rhs, span=cursor.span_from(start))
            if rank in UNCHAINED:
                self._refuse_chain(rank)
        if least <= CONDITIONAL_RANK and not self._polynomial and cursor.at("?"):
            lhs = self._conditional(lhs, start)
        self._level -= 1
        return lhs

    def _conditional(self, condition: Expr, start: int) -> Expr:
        cursor = self.cursor
        cursor.advance()
        height = self._height
        then = self._parse(CONDITIONAL_RANK)
        height = max(height, self._height)
        cursor.expect(":", "':' and the value where the condition is false")
        otherwise = self._parse(CONDITIONAL_RANK)
        self._grow(height)
        return Conditional(condition, then, otherwise, span=cursor.span_from(start))

    def _refuse_chain(self, rank: int) -> None:
        operator = self._infix.get(self.cursor.token.kind)
        if operator is not None and RANK[operator] == rank:
            message = "comparisons do not chain; write (a < b) & (b < c), or parentheses around one of them"
            self.cursor.report(message, self.cursor.here)

    def _operand(self) -> Expr:
        cursor = self.cursor
        token = cursor.token
        self._height = 1
        match token.kind:
            case "name":
                cursor.advance()
                return self._call(token) if cursor.at("(") else self._name(token)
            case "integer":
                cursor.advance()
                return self._integer(token)
            case "index":
                cursor.advance()
                return self._call(token) if cursor.at("(") else self._index(token)
            case "float":
                cursor.advance()
                return self._float(token)
            case "(":
                cursor.advance()
                inner = self._parse(CONDITIONAL_RANK)
                cursor.expect(")")
                return inner
            case "-" | "~":
                return self._unary(UnaryOperator(token.kind))
        advice = _DOUBLED.get(token.kind)
        expected = "an index polynomial" if self._polynomial else "an expression"
        raise cursor.unexpected(expected, *([] if advice is None else [advice]))

    def _unary(self, operator: UnaryOperator) -> Expr:
        token = self.cursor.advance()
        if self._polynomial and operator is UnaryOperator.BIT_NOT:
            self._not_in_polynomial("'~'", token)
        operand = self._parse(UNARY_RANK)
        self._grow(0)
        return Unary(operator, operand, span=self.cursor.span_from(token.start))

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

    def _integer(self, token: Token) -> Expr:
        span = self.cursor.span_of(token)
        digits = token.text.lstrip("0")
        value = 0
        if len(digits) > _LITERAL_DIGITS or (value := int(digits or "0")) > MAX_INTEGER:
            self.cursor.report("an integer has at most 64 bits", span, "TIL104")
            value = 0
        literal = IntLiteral(value, span=span)
        if self._polynomial and self.cursor.at(INDEX):
            index = self.cursor.advance()
            self._height = 2
            whole = self.cursor.span_from(token.start)
            return Binary(BinaryOperator.MUL, literal, self._index(index), span=whole)
        if self.cursor.at(NAME) and not self.cursor.on_new_line:
            raise self.cursor.unexpected("an operator", f"write {token.text} * {self.cursor.token.text} for a product")
        return literal

    def _float(self, token: Token) -> Expr:
        if self._polynomial:
            self._not_in_polynomial("a float", token)
        return FloatLiteral(float(token.text), span=self.cursor.span_of(token))

    def _call(self, name: Token) -> Expr:
        if self._polynomial:
            self._not_in_polynomial("a call", name)
        cursor = self.cursor
        cursor.advance()
        if cursor.at(")"):
            raise cursor.refuse("a function has one argument at least")
        arguments = [self._parse(CONDITIONAL_RANK)]
        height = self._height
        while cursor.skip(","):
            arguments.append(self._parse(CONDITIONAL_RANK))
            height = max(height, self._height)
        if cursor.at(";") and name.text != "scan" and meant(name.text, ("scan",)):
            raise cursor.unexpected("',' or ')'", "did you mean scan?")
        cursor.expect(")", "',' or ')'")
        self._grow(height)
        return Call(name.text, tuple(arguments), span=cursor.span_from(name.start))

    def _not_in_polynomial(self, what: str, token: Token) -> None:
        message = f"{what} cannot stand in an index polynomial, which has integers, dimensions, indices and + - * /"
        self.cursor.report(message, self.cursor.span_of(token), "TIL214")

    def _grow(self, other: int) -> None:
        """Note that the node read last joins one of height ``other`` under a new node."""
        self._height = max(self._height, other) + 1
        if self._height > MAX_DEPTH:
            raise self._too_deep()

    def _too_deep(self) -> AbandonError:
        message = f"this is nested more than {MAX_DEPTH} levels deep; split it into several statements"
        self.cursor.report(message, self.cursor.here, "TIL103")
        return AbandonError()
