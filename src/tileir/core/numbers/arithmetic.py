"""Definition of every elementwise operation and conversion, on NumPy arrays.

Integers wrap. f16 and bf16 are computed in f32 and rounded after each operation. Mathematical functions of
f32 are computed in f64 and rounded once; those of f64 are NumPy's. No operation warns or raises for any value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Op

Array: TypeAlias = np.ndarray[Any, Any]
Number: TypeAlias = bool | int | float


def apply(op: Op, *args: Array) -> Array:
    """Compute ``op`` at every element; operands broadcast as in NumPy.

    Args:
        op: The operation.
        args: As many operands as ``op`` takes, of one dtype in its domain; the first of ``COND`` is bool.

    Returns:
        An array of the operands' dtype, or bool for comparisons. ``IDENT`` returns its operand itself.
    """
    dtype = dtype_of(args[-1])
    with np.errstate(all="ignore"):
        if op is Op.COND:
            return np.where(args[0], args[1], args[2])
        if not dtype.is_narrow:
            return np.asarray(_apply(op, dtype, args))
        if op is Op.IDENT:
            return args[0]
        result = np.asarray(_apply(op, DType.F32, tuple(np.asarray(arg, np.float32) for arg in args)))
    return result if op.info.compares else cast(result, dtype)


def merge(aggregation: Aggregation, left: Array, right: Array) -> Array:
    """Merge two values that meet at one output element; ``right`` came later."""
    op = aggregation.op
    return right if op is None else apply(op, left, right)


def cast(array: Array, dtype: DType) -> Array:
    """Convert every element by value.

    Float to integer truncates towards zero and saturates at the limits, and NaN gives 0; integer to integer
    wraps; anything to bool asks ``!= 0``, so NaN is true; a narrower float is rounded once, to nearest even.
    """
    source = dtype_of(array)
    if source is dtype:
        return array
    with np.errstate(all="ignore"):
        if dtype is DType.BOOL:
            return np.asarray(array != 0)
        if source.is_float and dtype.is_integer:
            return _saturate(np.asarray(array, np.float64), dtype)
        if any(kind.is_float and kind.format.registered for kind in (source, dtype)):
            return (_odd_f32(array) if source.bits >= 32 else array.astype(np.float32)).astype(dtype.numpy)
        return array.astype(dtype.numpy)


def constant(value: Number, dtype: DType) -> Array:
    """Return ``rounded(value, dtype)`` as an array without axes."""
    return np.asarray(rounded(value, dtype)).astype(dtype.numpy)


def order(array: Array, axis: int, *, descending: bool) -> Array:
    """Return the positions of the elements along ``axis`` in sorted order.

    NaN is greater than all numbers, and 0.0 equals -0.0. Equal elements keep their order, in descending order too.

    Args:
        array: Elements of any dtype, with one axis or more.
        axis: The axis to sort along, counted from the front.
        descending: Whether the greatest element comes first.

    Returns:
        Positions, i64, in the shape of ``array``.
    """
    if dtype_of(array).is_narrow:
        array = array.astype(np.float32)
    if not descending:
        return np.argsort(array, axis, kind="stable")
    turned = np.argsort(np.flip(array, axis), axis, kind="stable")
    return np.asarray(array.shape[axis] - 1 - np.flip(turned, axis))


def fits(value: Number, dtype: DType) -> bool:
    """Return whether ``dtype`` can hold ``value``: integers exactly, floats up to rounding.

    A finite value does not fit a float type in which it would become infinite.
    """
    if dtype.is_float:
        return not _is_finite(value) or math.isfinite(rounded(value, dtype))
    return _is_finite(value) and value == int(value) and dtype.minimum <= value <= dtype.maximum


def rounded(value: Number, dtype: DType) -> Number:
    """Return the Python value of ``value`` after :func:`cast` to ``dtype``: a bool, int or float.

    Integers of any size are taken exactly, so that a float type sees one rounding only.
    """
    if dtype is DType.BOOL:
        return bool(value != 0)
    if dtype.is_integer:
        return (
            _wrap(int(value), dtype) if isinstance(value, int) else int(cast(np.asarray(value, np.float64), dtype)[()])
        )
    if dtype is DType.F64:
        return _nearest_f64(value)
    if dtype is DType.F32 and isinstance(value, float) and abs(value) <= _F32_MAXIMUM:
        nearest: float = _F32.unpack(_F32.pack(value))[0]  # takes a hundredth of the time for an array
        return nearest
    wide = np.asarray(_odd_f64(value) if isinstance(value, int) else value, np.float64)
    return float(cast(wide, dtype))


_F32: Final = Struct("<f")
_F32_MAXIMUM: Final = float(np.finfo(np.float32).max)


def dtype_of(array: Array) -> DType:
    """Return the element type of an array; a TypeError, a defect of the caller, if tileir has none."""
    dtype = DType.of(array.dtype)
    if dtype is None:
        raise TypeError(f"tileir has no element type for {array.dtype}")
    return dtype


def _is_finite(value: Number) -> bool:
    return isinstance(value, int) or math.isfinite(value)


def _wrap(value: int, dtype: DType) -> int:
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.maximum else value


def _nearest_f64(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _odd_f64(value: int) -> float:
    """Round an integer to f64 towards zero, with the last bit set if it is inexact.

    Rounding the result again, to a type of at most 51 bits, equals rounding ``value`` once (Boldo and Melquiond,
    "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
    """
    size = abs(value)
    excess = max(0, size.bit_length() - 53)
    lost = size & ((1 << excess) - 1) != 0
    result = math.ldexp(size >> excess | lost, excess) if excess <= 971 else math.inf
    return -result if value < 0 else result


def _odd_f32(array: Array) -> Array:
    """Round f32, f64 or integers to f32 "to odd", so that a second rounding to at most 22 bits equals a single one."""
    if array.dtype == np.float32:
        return array
    exact = np.asarray(array, np.float64)
    if array.dtype.kind in "iu":
        # From 2**53 on, f64 would round: fold the low 12 bits into one, far below the precision of f32.
        mask = np.array(0xFFF).astype(array.dtype)
        folded = (array & ~mask) | ((array & mask != 0) * (mask // 2 + 1)).astype(array.dtype)
        exact = np.where(np.abs(exact) < 2.0**53, exact, folded.astype(np.float64))
    near = np.asarray(exact.astype(np.float32))
    back = near.astype(np.float64)
    lost = (back != exact) & ~np.isnan(exact)
    bits = near.view(np.uint32) - (np.abs(back) > np.abs(exact)).astype(np.uint32)
    return np.asarray(bits | lost.astype(np.uint32)).view(np.float32)


def _saturate(array: Array, dtype: DType) -> Array:
    whole = np.trunc(array)
    low, end = float(dtype.minimum), float(int(dtype.maximum) + 1)
    inside = (whole >= low) & (whole < end)
    result = np.where(inside, whole, 0.0).astype(dtype.numpy)
    result = np.where(whole >= end, np.array(dtype.maximum, dtype.numpy), result)
    return np.where(whole < low, np.array(dtype.minimum, dtype.numpy), result)


def _apply(op: Op, dtype: DType, args: tuple[Array, ...]) -> Array:
    if dtype.is_float:
        if op is Op.FMA:
            return _fma_f32(*args) if dtype is DType.F32 else _fma_f64(*args)
        if (meaning := op.info.meaning) is not None:
            wide = meaning(*(np.asarray(arg, np.float64) for arg in args))
            return np.asarray(wide).astype(dtype.numpy)
    elif op in _INTEGER:
        return _INTEGER[op](*args)
    result: Array = _UFUNCS[op](*args)
    return result


def _same(array: Array) -> Array:
    return array


def _divide(left: Array, right: Array) -> Array:
    """Divide integers towards zero; 0 if the divisor is, as in NumPy's fmod and floor_divide."""
    quotient: Array = (left - np.fmod(left, right)) // right
    return quotient


def _two_sum(left: Array, right: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its exact error (Knuth, TAOCP 4.2.2)."""
    total = left + right
    part = total - left
    return total, (left - (total - part)) + (right - part)


def _odd_sum(left: Array, right: Array) -> Array:
    """Add f64 values, rounding to odd."""
    total, error = _two_sum(left, right)
    bits = np.asarray(total).view(np.int64)
    away = np.where((error > 0) == (total > 0), 1, -1)
    even = (error != 0) & np.isfinite(error) & (bits & 1 == 0)
    return np.asarray(bits + np.where(even, away, 0)).view(np.float64)


def _fma_f32(x: Array, y: Array, z: Array) -> Array:
    """Compute ``x * y + z`` with one rounding: the product is exact in f64, and the sum rounds to odd there."""
    x, y, z = (np.asarray(value, np.float64) for value in (x, y, z))
    return _odd_sum(x * y, z).astype(np.float32)


def _fma_f64(x: Array, y: Array, z: Array) -> Array:
    """Compute ``x * y + z`` with one rounding (Boldo and Melquiond 2008); by fractions if parts over- or underflow.

    If the product is exact, as that of 0, or not finite, the sum rounds once by itself.
    """
    product = x * y
    upper, lower = _two_sum(z, _product_error(x, y, product))
    total, rest = _two_sum(product, upper)
    size = np.abs(product)
    largest = np.maximum(np.maximum(np.abs(x), np.abs(y)), np.maximum(np.abs(z), size))
    usual = (size > 2.0**-900) & (largest < 2.0**990)
    result = np.where(usual, total + _odd_sum(rest, lower), product + z)
    rare = np.asarray(np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0) & ~usual)
    if rare.any():
        result[rare] = _by_fractions(*(array[rare] for array in np.broadcast_arrays(x, y, z)))
    return result


def _fma_of_fractions(x: float, y: float, z: float) -> float:
    """Return ``x * y + z`` of a finite product that is not 0."""
    if not math.isfinite(z):
        return z
    total = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


_by_fractions = np.frompyfunc(_fma_of_fractions, 3, 1)


def _product_error(x: Array, y: Array, product: Array) -> Array:
    """Return ``x * y - product`` exactly (Dekker 1971)."""
    (x_high, x_low), (y_high, y_low) = _split(x), _split(y)
    high = product - x_high * y_high
    return np.asarray(x_low * y_low - ((high - x_low * y_high) - x_high * y_low))


def _split(x: Array) -> tuple[Array, Array]:
    """Split into two parts of at most 26 bits (Veltkamp)."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


_UFUNCS: Final[Mapping[Op, Callable[..., Array]]] = MappingProxyType(
    {
        Op.IDENT: _same,
        Op.NEG: np.negative,
        Op.ABS: np.abs,
        Op.BIT_NOT: np.invert,
        Op.SQRT: np.sqrt,
        Op.FLOOR: np.floor,
        Op.CEIL: np.ceil,
        Op.ROUND: np.rint,
        Op.TRUNC: np.trunc,
        Op.ADD: np.add,
        Op.SUB: np.subtract,
        Op.MUL: np.multiply,
        Op.DIV: np.divide,
        Op.MOD: np.fmod,
        Op.MAX: np.maximum,
        Op.MIN: np.minimum,
        Op.BIT_AND: np.bitwise_and,
        Op.BIT_OR: np.bitwise_or,
        Op.BIT_XOR: np.bitwise_xor,
        Op.CMP_EQ: np.equal,
        Op.CMP_NE: np.not_equal,
        Op.CMP_LT: np.less,
        Op.CMP_LE: np.less_equal,
        Op.CMP_GT: np.greater,
        Op.CMP_GE: np.greater_equal,
    }
)

_INTEGER: Final[Mapping[Op, Callable[..., Array]]] = MappingProxyType(
    {
        **dict.fromkeys((Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC), _same),
        Op.DIV: _divide,
        Op.BIT_LEFT: np.left_shift,
        Op.BIT_RIGHT: np.right_shift,
    }
)
