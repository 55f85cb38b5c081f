"""What an index polynomial may hold, and when it is affine."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from tileir.core.errors import Diagnostic
from tileir.tile.grammar import POLYNOMIAL_OPERATORS
from tileir.tile.ir import (
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    FloatLiteral,
    IndexName,
    IntLiteral,
    Name,
    Unary,
    UnaryOperator,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.tile.ir import Expr


def has_index(polynomial: Expr) -> bool:
    """Return whether an index variable takes part in ``polynomial``, whose depth is bounded."""
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


def check_affine(node: Expr) -> Iterator[Diagnostic]:
    """Yield the reasons why a polynomial, whose depth is bounded, is not affine in its index variables."""
    match node:
        case IntLiteral() | Name() | IndexName():
            return
        case Unary(operator=UnaryOperator.NEG, operand=operand):
            yield from check_affine(operand)
        case Binary(operator=operator, lhs=lhs, rhs=rhs) if operator in POLYNOMIAL_OPERATORS:
            yield from check_affine(lhs)
            yield from check_affine(rhs)
            yield from _nonlinear(node)
        case FloatLiteral() | Unary() | Binary() | Conditional() | Call():
            message = "an index polynomial has only integers, dimensions, indices and + - * /"
            yield Diagnostic("TIL214", message, node.span)
        case _:
            assert_never(node)


def _nonlinear(node: Binary) -> Iterator[Diagnostic]:
    """Yield what is wrong with one operator: a product of indices, or a divisor that is none."""
    if node.operator is BinaryOperator.MUL and has_index(node.lhs) and has_index(node.rhs):
        yield Diagnostic("TIL402", "a product of index variables is not affine; one factor must be constant", node.span)
    elif node.operator is BinaryOperator.DIV and has_index(node.rhs):
        yield Diagnostic("TIL402", "an index polynomial can be divided by a constant only", node.rhs.span or node.span)
    elif node.operator is BinaryOperator.DIV and isinstance(node.rhs, IntLiteral) and node.rhs.value == 0:
        yield Diagnostic("TIL402", "an index polynomial cannot be divided by 0", node.rhs.span or node.span)
