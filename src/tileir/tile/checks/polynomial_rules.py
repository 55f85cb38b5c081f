"""Rules for index polynomials: their contents, and when they are affine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from tileir.core.errors import Diagnostic
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
from tileir.tile.text.grammar import POLYNOMIAL_OPERATORS
from tileir.tile.traversal import children


def has_index(polynomial: Expr) -> bool:
    """Return whether ``polynomial``, whose depth is bounded, contains an index variable."""
    match polynomial:
        case IndexName():
            return True
        case Unary(operand=operand):
            return has_index(operand)
        case Binary(lhs=lhs, rhs=rhs):
            return has_index(lhs) or has_index(rhs)
        case IntLiteral() | FloatLiteral() | Name() | Call() | Conditional():
            return False
        case _:
            assert_never(polynomial)


def in_polynomial(node: Expr) -> bool:
    """Return whether a node can occur in an index polynomial, regardless of its operands."""
    match node:
        case IntLiteral() | Name() | IndexName():
            return True
        case Unary(operator=operator):
            return operator is UnaryOperator.NEG
        case Binary(operator=operator):
            return operator in POLYNOMIAL_OPERATORS
        case FloatLiteral() | Conditional() | Call():
            return False
        case _:
            assert_never(node)


def check_affine(node: Expr) -> Iterator[Diagnostic]:
    """Yield the reasons why a polynomial, whose depth is bounded, is not affine in its index variables."""
    if not in_polynomial(node):
        yield Diagnostic("TIL214", "an index polynomial has only integers, dimensions, indices and + - * /", node.span)
        return
    for operand in children(node):
        yield from check_affine(operand)
    if isinstance(node, Binary):
        yield from _nonlinear(node)


def _nonlinear(node: Binary) -> Iterator[Diagnostic]:
    """Yield the fault of one operator: a product of indices, an invalid divisor, or a truncated fraction."""
    if node.operator is BinaryOperator.MUL and has_index(node.lhs) and has_index(node.rhs):
        yield Diagnostic("TIL402", "a product of index variables is not affine; one factor must be constant", node.span)
    elif node.operator is BinaryOperator.DIV and has_index(node.rhs):
        yield Diagnostic("TIL402", "an index polynomial can be divided by a constant only", node.rhs.span or node.span)
    elif node.operator is BinaryOperator.DIV and isinstance(node.rhs, IntLiteral) and node.rhs.value == 0:
        yield Diagnostic("TIL402", "an index polynomial cannot be divided by 0", node.rhs.span or node.span)
    elif node.operator is BinaryOperator.DIV and _cuts(node.lhs, node.rhs):
        message = "this quotient has no index, so it is a size, which is whole: divide what has an index, as in i / 2"
        yield Diagnostic("TIL214", message, node.span)


def _cuts(dividend: Expr, divisor: Expr) -> bool:
    """Return whether a quotient of two literals has a remainder: 1 / 2 is not meant to be 0."""
    if isinstance(dividend, Unary):
        dividend = dividend.operand
    return isinstance(dividend, IntLiteral) and isinstance(divisor, IntLiteral) and dividend.value % divisor.value != 0
