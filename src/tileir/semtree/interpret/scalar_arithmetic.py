"""Operations on values of the interpreter, selected once for each node.

A scalar integer is a Python int and a scalar bool a Python bool; a scalar float is a NumPy scalar, and a
vector a NumPy array. :mod:`tileir.core.numbers.arithmetic` defines every operation; the common ones have short
paths here, which the tests prove equal to it. Callers hold ``numpy.errstate(all="ignore")``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core import DType, Op
from tileir.core.numbers.arithmetic import apply
from tileir.core.numbers.integers import quotient, remainder
from tileir.core.numbers.number_system import REAL, NumberSystem
from tileir.semtree.ir import Type

Value: TypeAlias = Any
"""An int, a bool, a NumPy scalar or a NumPy array, as in the module docstring."""

_ON_BOTH: Final[Mapping[Op, Callable[..., Value]]] = MappingProxyType(
    {
        Op.ADD: operator.add,
        Op.SUB: operator.sub,
        Op.MUL: operator.mul,
        Op.NEG: operator.neg,
        Op.BIT_AND: operator.and_,
        Op.BIT_OR: operator.or_,
        Op.BIT_XOR: operator.xor,
        Op.CMP_EQ: operator.eq,
        Op.CMP_NE: operator.ne,
        Op.CMP_LT: operator.lt,
        Op.CMP_LE: operator.le,
        Op.CMP_GT: operator.gt,
        Op.CMP_GE: operator.ge,
    }
)
_ON_ARRAYS: Final[Mapping[Op, Callable[..., Value]]] = MappingProxyType(
    {**_ON_BOTH, Op.MAX: np.maximum, Op.MIN: np.minimum}
)
_ON_FLOATS: Final[Mapping[Op, Callable[..., Value]]] = MappingProxyType({**_ON_ARRAYS, Op.DIV: operator.truediv})
_FLOAT: Final = Struct("d")
_BITS_OF: Final = Struct("Q")
_LACKING: Final = np.array(0x1FFF_FFFF, np.int64)  # arrays: NumPy takes a microsecond to find a dtype for a Python int
_MIDDLE: Final = np.array(0x1000_0000, np.int64)
_ONE: Final = np.array(1, np.int64)
_NORMAL: Final = np.array(2 * int(np.float64(2.0**-126).view(np.int64)) - 1, np.uint64)
_REDUCTIONS: Final[Mapping[Op, Callable[..., Value]]] = MappingProxyType(
    {Op.ADD: np.add.reduce, Op.MUL: np.multiply.reduce, Op.MAX: np.maximum.reduce, Op.MIN: np.minimum.reduce}
)


def operation(op: Op, operand: Type, numbers: NumberSystem = REAL) -> Callable[..., Value]:
    """Return the function that computes ``op`` on values of type ``operand``."""
    if op is Op.IDENT:
        return _same
    if operand.dtype.is_float and numbers is not REAL:
        return _in_system(op, operand, numbers)
    if op is Op.FMA and operand.dtype is DType.F32:
        return _fma_f32 if operand.lanes > 1 else _fma_of_one
    if operand.lanes == 1 and not operand.dtype.is_float:
        return _scalar_operation(op, operand.dtype)
    function = (_ON_FLOATS if operand.dtype.is_float else _ON_ARRAYS).get(op)
    if function is None or operand.dtype.is_narrow:
        return _by_definition(op, operand)
    if op.info.compares and operand.lanes == 1:
        return lambda left, right: bool(function(left, right))
    return function


def _in_system(op: Op, operand: Type, numbers: NumberSystem) -> Callable[..., Value]:
    """Compute in another number system than that of devices."""
    dtype = DType.BOOL if op.info.compares else operand.dtype
    if op is Op.COND and operand.lanes == 1:
        return lambda test, left, right: left if test else right
    if op.info.compares and operand.lanes == 1:
        return lambda *args: bool(numbers.apply(op, dtype, *map(np.asarray, args)))
    return lambda *args: numbers.apply(op, dtype, *map(np.asarray, args))[()]


def _same(value: Value) -> Value:
    return value


def _fma_f32(x: Value, y: Value, z: Value) -> Value:
    """Round the f64 sum, in which the product is exact, unless double rounding could go wrong.

    That is possible only if the sum is halfway between two values of f32: if the 29 bits that f32 lacks are 100…0, or
    below its normal range. Twice the bits are those of the magnitude, and one less makes zero the largest of all.
    """
    total = np.multiply(x, y, dtype=np.float64) + z
    bits = total.view(np.int64)
    middle = (bits & _LACKING) == _MIDDLE
    if np.count_nonzero(middle | ((bits + bits - _ONE).view(np.uint64) < _NORMAL)):
        return apply(Op.FMA, np.asarray(x), np.asarray(y), np.asarray(z))[()]
    return total.astype(np.float32)


def _fma_of_one(x: Value, y: Value, z: Value) -> Value:
    """Round the f64 sum, in which the product is exact, to odd first, so that double rounding cannot go wrong.

    Of two neighbours in f64, that is the one with its last bit set, unless the sum is exact (S. Boldo and
    G. Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd, 2008).
    """
    product, addend = float(x) * float(y), float(z)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)  # of the sum (Knuth, TAOCP 4.2.2)
    if error and not _BITS_OF.unpack(_FLOAT.pack(total))[0] & 1 and math.isfinite(total):
        total = math.nextafter(total, math.copysign(math.inf, error))
    return np.float32(total)


def _scalar_operation(op: Op, dtype: DType) -> Callable[..., Value]:
    if op is Op.COND:
        return lambda test, left, right: left if test else right
    if op is Op.MAX:
        return max
    if op is Op.MIN:
        return min
    if op is Op.BIT_NOT and dtype.is_bool:
        return operator.not_
    if dtype.is_integer and op in (Op.ADD, Op.SUB, Op.MUL, Op.NEG):
        return _wrapping(_ON_BOTH[op], dtype)
    if dtype.is_integer and op is Op.DIV:
        return _wrapping(quotient, dtype)
    if dtype.is_integer and op is Op.MOD:
        return remainder
    if op in _ON_BOTH:
        return _ON_BOTH[op]
    return _by_definition(op, Type(dtype))


def wrap(value: int, dtype: DType) -> int:
    """Return ``value`` modulo the range of an integer dtype."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.maximum else value


def _wrapping(function: Callable[..., int], dtype: DType) -> Callable[..., int]:
    low, high = dtype.minimum, dtype.maximum

    def wrapped(*args: int) -> int:
        result = function(*args)
        return result if low <= result <= high else wrap(result, dtype)

    return wrapped


def _by_definition(op: Op, operand: Type) -> Callable[..., Value]:
    """Compute through NumPy arrays, whatever the type."""
    dtype = operand.dtype.numpy
    if operand.lanes > 1:
        return lambda *args: apply(op, *args)
    if op is Op.COND:
        return lambda test, left, right: left if test else right
    plain = not operand.dtype.is_float or op.info.compares

    def scalar(*args: Value) -> Value:
        result = apply(op, *(np.asarray(arg, dtype) for arg in args))
        return result.item() if plain else result[()]

    return scalar


def conversion(source: Type, target: DType, numbers: NumberSystem = REAL) -> Callable[[Value], Value]:
    """Return the function that casts values of type ``source`` to ``target`` by value."""
    if source.dtype is target:
        return _same
    if source.lanes > 1:
        return lambda value: numbers.cast(value, target)
    if source.dtype.is_integer and target.is_integer:
        return _wrapping(int, target)
    if target.is_float:
        return lambda value: numbers.cast(np.asarray(value), target)[()]
    return lambda value: numbers.cast(np.asarray(value), target).item()


def reinterpretation(source: Type, target: DType) -> Callable[[Value], Value]:
    """Return the function that reads the bits of values of type ``source`` as ``target``."""
    dtype, wanted = source.dtype.numpy, target.numpy
    if source.lanes > 1:
        return lambda value: value.view(wanted)
    if target.is_float:
        return lambda value: np.asarray(value, dtype).view(wanted)[()]
    return lambda value: np.asarray(value, dtype).view(wanted).item()


def reduction(op: Op, operand: Type, numbers: NumberSystem = REAL) -> Callable[[Value], Value]:
    """Return the function that merges all lanes of values of type ``operand``."""
    if operand.lanes == 1:
        return _same
    if operand.dtype.is_narrow or (operand.dtype.is_float and numbers is not REAL):
        return lambda value: reduce(lambda left, right: numbers.apply(op, operand.dtype, left, right), value)[()]
    function = _REDUCTIONS[op]
    if operand.dtype.is_float:
        return function
    dtype = operand.dtype.numpy
    return lambda value: function(value, dtype=dtype).item()


def constant(value: bool | int | float, kind: Type, numbers: NumberSystem = REAL) -> Value:
    """Return a constant in the interpreter's form."""
    if kind.dtype.is_float and numbers is not REAL:
        number = numbers.constant(value, kind.dtype)
        return number[()] if kind.lanes == 1 else np.full(kind.lanes, number)
    if kind.lanes > 1:
        return np.full(kind.lanes, value, kind.dtype.numpy)
    return kind.dtype.numpy.type(value) if kind.dtype.is_float else value
