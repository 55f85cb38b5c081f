"""Laws about single operations. Each is exact for every value, including NaN and signed zeros."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op, rounded
from tileir.semtree.ir import Apply, Cast, Const, Expr
from tileir.semtree.rewrite import law

_NEGATED: Final = MappingProxyType(
    {
        Op.CMP_EQ: Op.CMP_NE,
        Op.CMP_NE: Op.CMP_EQ,
        Op.CMP_LT: Op.CMP_GE,
        Op.CMP_GE: Op.CMP_LT,
        Op.CMP_LE: Op.CMP_GT,
        Op.CMP_GT: Op.CMP_LE,
    }
)
_TRUE_OF_EQUALS: Final = frozenset({Op.CMP_EQ, Op.CMP_LE, Op.CMP_GE})


def _is(expr: Expr, value: float) -> bool:
    """Return whether an expression is this constant in every lane; -0.0 is not 0.0."""
    if not isinstance(expr, Const) or expr.value != value:
        return False
    return math.copysign(1.0, expr.value) == math.copysign(1.0, value)


@law("c + x = x + c")
def constant_to_the_right(expr: Expr) -> Expr | None:
    """Move a constant to the right in commutative operations."""
    match expr:
        case Apply(op=op, args=(Const() as left, right)) if op.info.commutes and not isinstance(right, Const):
            return Apply(op, (right, left))
        case _:
            return None


# Numbers


@law("x * 1 = x and x / 1 = x")
def unit_factor(expr: Expr) -> Expr | None:
    """Drop a factor or divisor of one."""
    match expr:
        case Apply(op=Op.MUL | Op.DIV, args=(left, right)) if _is(right, 1):
            return left
        case _:
            return None


@law("x - 0.0 = x and x + -0.0 = x")
def float_zero(expr: Expr) -> Expr | None:
    """Drop the one zero whose addition keeps the sign of zero."""
    match expr:
        case Apply(op=Op.SUB, args=(left, right)) if _is(right, 0.0) and left.type.dtype.is_float:
            return left
        case Apply(op=Op.ADD, args=(left, right)) if _is(right, -0.0) and left.type.dtype.is_float:
            return left
        case _:
            return None


@law("x / 2^n = x * 2^-n")
def power_of_two_divisor(expr: Expr) -> Expr | None:
    """Multiply by the reciprocal if it is exact and normal."""
    match expr:
        case Apply(op=Op.DIV, args=(left, Const(value=float() as value, type=kind))) if _is_power_of_two(value):
            inverse = 1.0 / value
            tiny = kind.dtype.format.smallest_normal
            exact = tiny <= abs(inverse) <= 1 / tiny and rounded(inverse, kind.dtype) == inverse
            return Apply(Op.MUL, (left, Const(inverse, kind))) if exact else None
        case _:
            return None


def _is_power_of_two(value: float) -> bool:
    return math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5


@law("x % 1 = 0 for integers")
def unit_modulus(expr: Expr) -> Expr | None:
    """Replace a remainder by one with zero."""
    match expr:
        case Apply(op=Op.MOD, args=(left, right)) if left.type.dtype.is_integer and _is(right, 1):
            return Const(0, left.type)
        case _:
            return None


@law("-(-x) = x and ~(~x) = x")
def double_negation(expr: Expr) -> Expr | None:
    """Drop two negations."""
    match expr:
        case Apply(op=Op.NEG | Op.BIT_NOT as op, args=(Apply(op=inner, args=(operand,)),)) if op is inner:
            return operand
        case _:
            return None


@law("abs(-x) = abs(x) unless unsigned, and abs(abs(x)) = abs(x)")
def sign_under_abs(expr: Expr) -> Expr | None:
    """Drop changes of sign under an absolute value."""
    match expr:
        case Apply(op=Op.ABS, args=(Apply(op=Op.ABS | Op.NEG as inner, args=(operand,)),)):
            return Apply(Op.ABS, (operand,)) if inner is Op.ABS or operand.type.dtype.is_signed else None
        case _:
            return None


@law("fma(x, 1, z) = x + z, fma(x, -1, z) = z - x and fma(x, y, -0.0) = x * y")
def trivial_fma(expr: Expr) -> Expr | None:
    """Drop a trivial product or sum of a fused operation."""
    match expr:
        case Apply(op=Op.FMA, args=(x, y, z)) if _is(y, 1):
            return Apply(Op.ADD, (x, z))
        case Apply(op=Op.FMA, args=(x, y, z)) if _is(y, -1):
            return Apply(Op.SUB, (z, x))
        case Apply(op=Op.FMA, args=(x, y, z)) if _is(z, -0.0):
            return Apply(Op.MUL, (x, y))
        case _:
            return None


@law("floor(x) = x for integers, and ident(x) = x")
def rounding_of_integers(expr: Expr) -> Expr | None:
    """Drop roundings of integers, and identities."""
    match expr:
        case Apply(op=Op.IDENT, args=(operand,)):
            return operand
        case Apply(op=Op.FLOOR | Op.CEIL | Op.ROUND | Op.TRUNC, args=(operand,)) if operand.type.dtype.is_integer:
            return operand
        case _:
            return None


@law("max(x, x) = x, x & x = x and x | x = x")
def idempotence(expr: Expr) -> Expr | None:
    """Merge equal operands."""
    match expr:
        case Apply(op=Op.MAX | Op.MIN | Op.BIT_AND | Op.BIT_OR, args=(left, right)) if left == right:
            return left
        case _:
            return None


# Bits and conditions


@law("x & 0 = 0, x | 0 = x, x ^ 0 = x, x << 0 = x; x & ~0 = x, x | ~0 = ~0")
def neutral_bits(expr: Expr) -> Expr | None:
    """Simplify bit operations with a constant of equal bits."""
    match expr:
        case Apply(op=Op.BIT_OR | Op.BIT_XOR | Op.BIT_LEFT | Op.BIT_RIGHT, args=(left, right)) if _is(right, 0):
            return left
        case Apply(op=Op.BIT_AND, args=(_, right)) if _is(right, 0):
            return right
        case Apply(op=Op.BIT_AND, args=(left, right)) if _is(right, _ones(right.type.dtype)):
            return left
        case Apply(op=Op.BIT_OR, args=(_, right)) if _is(right, _ones(right.type.dtype)):
            return right
        case _:
            return None


def _ones(dtype: DType) -> float:
    return -1 if dtype.is_signed else dtype.maximum


@law("x == x is true and x < x is false, for integers and bool")
def compared_with_itself(expr: Expr) -> Expr | None:
    """Compare equal operands; NaN differs from itself."""
    match expr:
        case Apply(op=op, args=(left, right)) if op.info.compares and not left.type.dtype.is_float and left == right:
            return Const(op in _TRUE_OF_EQUALS, expr.type)
        case _:
            return None


@law("~(x < y) = x >= y for integers, and ~(x == y) = x != y")
def negated_comparison(expr: Expr) -> Expr | None:
    """Invert a negated comparison; with floats, NaN allows it for equality only."""
    match expr:
        case Apply(op=Op.BIT_NOT, args=(Apply(op=op, args=args),)) if op in _NEGATED:
            equality = op in (Op.CMP_EQ, Op.CMP_NE)
            return Apply(_NEGATED[op], args) if equality or not args[0].type.dtype.is_float else None
        case _:
            return None


@law("x != false = x and x == true = x, for bool")
def comparison_with_truth(expr: Expr) -> Expr | None:
    """Drop a comparison of a truth value with a neutral constant."""
    match expr:
        case Apply(op=Op.CMP_NE, args=(left, Const(value=False))) if left.type.dtype.is_bool:
            return left
        case Apply(op=Op.CMP_EQ, args=(left, Const(value=True))) if left.type.dtype.is_bool:
            return left
        case _:
            return None


@law("cast(x) != 0 = x for bool")
def truth_of_cast_truth(expr: Expr) -> Expr | None:
    """Test a truth value itself, not the number converted from it."""
    match expr:
        case Apply(op=Op.CMP_NE, args=(Cast(operand=operand), Const(value=value))):
            return operand if operand.type.dtype.is_bool and value == 0 else None
        case _:
            return None


@law("true ? x : y = x, c ? x : x = x and c ? true : false = c")
def known_choice(expr: Expr) -> Expr | None:
    """Select if the choice is known or does not matter."""
    match expr:
        case Apply(op=Op.COND, args=(Const(value=value), left, right)):
            return left if value else right
        case Apply(op=Op.COND, args=(test, left, right)):
            if left == right:
                return left
            truth = left.type.dtype.is_bool and _is(left, True) and _is(right, False)
            return test if truth else None
        case _:
            return None
