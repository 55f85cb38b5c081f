"""Typed values as Tile expressions: literals, operators and functions, and index polynomials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op, rounded
from tileir.poly.affine import Affine
from tileir.tile.ir import (
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    Expr,
    FloatLiteral,
    IndexName,
    IntLiteral,
    Unary,
    UnaryOperator,
)
from tileir.typed.inference.elementwise import common_dtype
from tileir.typed.inference.values import Known, Scalar, Tensor
from tileir.typed.ir import Constant

_PREFIX: Final[Mapping[Op, UnaryOperator]] = MappingProxyType({Op[sign.name]: sign for sign in UnaryOperator})
_INFIX: Final[Mapping[Op, BinaryOperator]] = MappingProxyType({Op[sign.name]: sign for sign in BinaryOperator})
_DIGITS: Final = 17  # tell all numbers of double precision apart


def application(op: Op, operands: Sequence[Expr]) -> Expr:
    """Return ``op`` of these operands: a sign where Tile has one, else a call."""
    match operands:
        case [operand] if op is Op.IDENT:
            return operand
        case [condition, then, otherwise] if op is Op.COND:
            return Conditional(condition, then, otherwise)
        case [operand] if op in _PREFIX:
            return Unary(_PREFIX[op], operand)
        case [lhs, rhs] if op in _INFIX:
            return Binary(_INFIX[op], lhs, rhs)
        case _:
            return Call(op.value, tuple(operands))


def cast_call(dtype: DType, operand: Expr) -> Expr:
    """Return the cast of ``operand`` to ``dtype``."""
    return Call(f"as_{dtype.value}", (operand,))


def typed_literal(constant: Constant) -> Expr:
    """Return a constant that keeps its dtype wherever it stands."""
    return cast_call(constant.dtype, literal(constant.value, constant.dtype))


def lone_literal(constant: Constant) -> Expr:
    """Return a constant that stands beside nothing to which it would adapt."""
    return operand_literals([constant], [], constant.dtype)[0]


def operand_literals(constants: Sequence[Constant], others: Sequence[DType], dtype: DType) -> list[Expr]:
    """Return the constants among the operands of one operation, with casts only where they would not adapt.

    Args:
        constants: Operands of ``dtype`` that are constants.
        others: The dtypes of the other operands.
        dtype: In which the operation works.

    """
    values: list[Scalar] = [Tensor("", other, ()) for other in others]
    values += [Known(constant.value) for constant in constants]
    if not dtype.is_bool and common_dtype(values) is dtype:
        return [literal(constant.value, dtype) for constant in constants]
    return [typed_literal(constant) for constant in constants]


def literal(value: bool | int | float, dtype: DType) -> Expr:
    """Return a value of ``dtype`` as an expression without a dtype, which that dtype takes exactly."""
    if isinstance(value, float):
        if math.isnan(value):
            return Binary(BinaryOperator.DIV, FloatLiteral(0.0), FloatLiteral(0.0))
        size: Expr = FloatLiteral(_shortest(abs(value), dtype))
        return Unary(UnaryOperator.NEG, size) if math.copysign(1.0, value) < 0 else size
    return integer(int(value))


def integer(value: int) -> Expr:
    """Return an integer, of any sign."""
    return IntLiteral(value) if value >= 0 else Unary(UnaryOperator.NEG, IntLiteral(-value))


@lru_cache(maxsize=256)  # rounding takes long, and the same few constants come again and again
def _shortest(value: float, dtype: DType) -> float:
    """Return the number with the fewest digits that ``dtype`` rounds to ``value``: 0.1 for an f32 near it."""
    if not math.isfinite(value):
        return value
    candidates = (float(f"{value:.{digits}g}") for digits in range(1, _DIGITS))
    return next((number for number in candidates if rounded(number, dtype) == value), value)


def polynomial(affine: Affine, names: Mapping[str, str]) -> Expr:
    """Return an index polynomial: positive terms first, and one division at the end for fractions.

    ``names`` has the index variables that are called something else in the text.
    """
    divisor = math.lcm(affine.offset.denominator, *(c.denominator for _, c in affine.terms))
    whole = affine * divisor
    terms = [(names.get(index, index), int(coefficient)) for index, coefficient in whole.terms]
    offset = int(whole.offset)
    positive = [_term(index, coefficient) for index, coefficient in terms if coefficient > 0]
    negative = [_term(index, -coefficient) for index, coefficient in terms if coefficient < 0]
    if offset < 0:
        negative.append(IntLiteral(-offset))
    elif offset > 0 or not terms:
        positive.append(IntLiteral(offset))
    result = _sum(positive, negative)
    return result if divisor == 1 else Binary(BinaryOperator.DIV, result, IntLiteral(divisor))


def _term(index: str, coefficient: int) -> Expr:
    name = IndexName(index)
    return name if coefficient == 1 else Binary(BinaryOperator.MUL, IntLiteral(coefficient), name)


def _sum(positive: Sequence[Expr], negative: Sequence[Expr]) -> Expr:
    """Return the difference of two sums; one of them has a term."""
    if positive:
        result, *added = positive
        subtracted = negative
    else:
        first, *subtracted = negative
        result, added = Unary(UnaryOperator.NEG, first), []
    for term in added:
        result = Binary(BinaryOperator.ADD, result, term)
    for term in subtracted:
        result = Binary(BinaryOperator.SUB, result, term)
    return result
