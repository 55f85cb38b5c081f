"""Arithmetic on numbers known when compiling: dimensions, literals, and expressions of these.

Integers are exact and never wrap, division truncates towards zero, floats are f64. A constant that a cast gave a dtype
follows :mod:`tileir.core.numbers.arithmetic` in that dtype.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from tileir.core import Domain, DType, Op, Span, fail
from tileir.core.numbers import arithmetic
from tileir.typed.inference.values import ConstantScalar, Operand

_LIMIT: Final = 1 << 64  # larger integers fit no dtype, and repeated squaring must not exhaust the memory
_MAX_SHIFT: Final = 64


def fold(op: Op, values: Sequence[ConstantScalar], dtype: DType | None, span: Span | None) -> ConstantScalar:
    """Compute ``op`` on constants.

    Args:
        op: The operation; the operands are in its domain.
        values: One constant for each operand.
        dtype: The dtype of the operands after casts, or None if all are literals.
        span: The expression, for errors.

    Raises:
        TileError: TIL308, an integer division by zero or an integer that no dtype holds.
    """
    if dtype is not None:
        return _fold_typed(op, values, dtype)
    numbers = [value.value for value in values]
    if op is Op.COND:
        chosen = numbers[1] if numbers[0] != 0 else numbers[2]
        return ConstantScalar(float(chosen) if any(isinstance(number, float) for number in numbers[1:]) else chosen)
    if op.info.domain is Domain.FLOAT or any(isinstance(number, float) for number in numbers):
        return _fold_floats(op, numbers)
    return _fold_integers(op, [int(number) for number in numbers], span)


def known_integer(operand: Operand, purpose: str) -> int:
    """Return the value of an operand that has to be an integer known when compiling.

    Raises:
        TileError: TIL306, it is a tensor; TIL307, it is not integral.
    """
    value = operand.value
    if not isinstance(value, ConstantScalar):
        raise fail("TIL306", f"{purpose} must be known when compiling; use dimensions and literals", operand.span)
    number = value.value
    if isinstance(number, float):
        if not number.is_integer():  # infinities and NaN are not integral either
            raise fail(
                "TIL307", f"{purpose} is {number}; it must be an integer, so round it with floor or ceil", operand.span
            )
        return int(number)
    return int(number)


def size(operand: Operand, purpose: str) -> int:
    """Return the value of an operand that has to be a size known when compiling; 0 is allowed.

    Raises:
        TileError: TIL306 or TIL307 as for :func:`known_integer`, and TIL307 if it is negative or above 2**63 - 1.
    """
    result = known_integer(operand, purpose)
    if result < 0:
        raise fail("TIL307", f"{purpose} is {result}; it must not be negative", operand.span)
    if result >= 1 << 63:
        raise fail("TIL307", f"{purpose} is {result}; no array is that large", operand.span)
    return result


def divide(left: int, right: int) -> int:
    """Divide exactly and truncate towards zero; ``right`` is not 0."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _fold_typed(op: Op, values: Sequence[ConstantScalar], dtype: DType) -> ConstantScalar:
    dtypes = [DType.BOOL if op is Op.COND and position == 0 else dtype for position in range(len(values))]
    arrays = [arithmetic.constant(v.value, d) for v, d in zip(values, dtypes, strict=True)]
    return read_constant(arithmetic.apply(op, *arrays), DType.BOOL if op.info.compares else dtype)


def read_constant(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], dtype: DType) -> ConstantScalar:
    """Return the element of an array without axes as a constant of its dtype."""
    if dtype.is_float:
        return ConstantScalar(float(array.astype(np.float64)), dtype)
    return ConstantScalar(bool(array) if dtype.is_bool else int(array), dtype)


def _fold_floats(op: Op, numbers: Sequence[bool | int | float]) -> ConstantScalar:
    arrays = [arithmetic.constant(number, DType.F64) for number in numbers]
    result = arithmetic.apply(op, *arrays)
    return ConstantScalar(bool(result), DType.BOOL) if op.info.compares else ConstantScalar(float(result))


def _fold_integers(op: Op, numbers: Sequence[int], span: Span | None) -> ConstantScalar:
    if op in _COMPARISONS:
        return ConstantScalar(_COMPARISONS[op](numbers[0], numbers[1]), DType.BOOL)
    if op in (Op.DIV, Op.MOD) and numbers[1] == 0:
        raise fail("TIL308", "the divisor of this constant is 0", span)
    result = _INTEGERS[op](*numbers)
    if abs(result) > _LIMIT:
        raise fail("TIL308", "this constant is too large for any dtype", span)
    return ConstantScalar(result)


def _remainder(left: int, right: int) -> int:
    return left - right * divide(left, right)


def _shift_left(value: int, count: int) -> int:
    return value << min(count, _MAX_SHIFT + 1) if count >= 0 else 0


def _shift_right(value: int, count: int) -> int:
    if count < 0:
        return -1 if value < 0 else 0
    return value >> min(count, _MAX_SHIFT + 1)


def _same(value: int) -> int:
    return value


_COMPARISONS: Final[Mapping[Op, Callable[[int, int], bool]]] = MappingProxyType(
    {
        Op.CMP_EQ: operator.eq,
        Op.CMP_NE: operator.ne,
        Op.CMP_LT: operator.lt,
        Op.CMP_LE: operator.le,
        Op.CMP_GT: operator.gt,
        Op.CMP_GE: operator.ge,
    }
)

_INTEGERS: Final[Mapping[Op, Callable[..., int]]] = MappingProxyType(
    {
        **dict.fromkeys((Op.IDENT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC), _same),
        Op.NEG: operator.neg,
        Op.ABS: abs,
        Op.BIT_NOT: operator.invert,
        Op.ADD: operator.add,
        Op.SUB: operator.sub,
        Op.MUL: operator.mul,
        Op.DIV: divide,
        Op.MOD: _remainder,
        Op.MAX: max,
        Op.MIN: min,
        Op.BIT_AND: operator.and_,
        Op.BIT_OR: operator.or_,
        Op.BIT_XOR: operator.xor,
        Op.BIT_LEFT: _shift_left,
        Op.BIT_RIGHT: _shift_right,
    }
)
