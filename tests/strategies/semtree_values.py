"""What random kernels are made of: arrays, constants, and operations with exact results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from hypothesis import strategies as st

from tileir.core.dtype import DType
from tileir.core.ops import Domain, Op
from tileir.semtree.ir import Const

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileir.semtree.ir import Type

ALL_DTYPES: Final = tuple(DType)
APPROXIMATE: Final = frozenset(
    {
        Op.RSQRT, Op.EXP, Op.LOG, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN,
        Op.SINH, Op.COSH, Op.TANH, Op.SIGMOID, Op.ERF, Op.POW,
    }
)  # fmt: skip
_SHIFTS: Final = frozenset({Op.BIT_LEFT, Op.BIT_RIGHT})


def aligned_copy(array: np.ndarray[Any, Any], alignment: int = 64) -> np.ndarray[Any, Any]:
    """Return a copy whose first element lies at a multiple of ``alignment`` bytes."""
    raw = np.empty(array.nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    copy: np.ndarray[Any, Any] = raw[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def content(dtype: DType, size: int, seed: int) -> np.ndarray[Any, Any]:
    """Return pseudo-random elements with a few special ones among them."""
    generator = np.random.default_rng(seed)
    if dtype.is_bool:
        return generator.integers(0, 2, size).astype(np.bool_)
    if dtype.is_float:
        values = np.round(generator.normal(0, 20, size), 2)
        special: Iterable[float] = (0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-40, 65504.0, 3.0e9, -1.5)
        values = np.where(generator.random(size) < 0.2, generator.choice(list(special), size), values)
        with np.errstate(all="ignore"):
            return values.astype(np.float32 if dtype is not DType.F64 else np.float64).astype(dtype.numpy)
    low, high = int(dtype.minimum), int(dtype.maximum)
    wide = generator.integers(low, high, size, dtype=dtype.numpy, endpoint=True)
    small = generator.integers(0, 20, size).astype(dtype.numpy)
    edges = np.array([low, high, 0, 1], dtype.numpy)
    choice = generator.random(size)
    rare = np.where(choice < 0.8, wide, generator.choice(edges, size))
    return np.asarray(np.where(choice < 0.5, small, rare))


def special_values(dtype: DType) -> np.ndarray[Any, Any]:
    """Return the values at which operations and casts are most likely to go wrong."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_integer:
        low, high = int(dtype.minimum), int(dtype.maximum)
        edges = {low, low + 1, -1, 0, 1, 2, 3, 7, 31, 63, high - 1, high, high // 2, 2**24 + 1, 2**53 + 1, 0x101801}
        return np.array(sorted(value for value in edges if low <= value <= high), dtype.numpy)
    values = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 1e-40, 6e-8, 6.1e-5, 127.5, 255.0, 256.0, 32767.5, 65504.0, 65520.0]
    values += [2.0**31, 2.0**32, 2.0**63, 2.0**64, 3.4e38, 1.0039062, 1.0000000000001, 65519.999999, np.inf]
    with np.errstate(all="ignore"):
        both = np.array([*values, *(-value for value in values), np.nan])
        return (both if dtype is DType.F64 else both.astype(np.float32)).astype(dtype.numpy)


def constants(kind: Type) -> st.SearchStrategy[Const]:
    """Return constants of a type."""
    dtype = kind.dtype
    if dtype.is_bool:
        return st.booleans().map(lambda value: Const(value, kind))
    if dtype.is_float:
        return st.floats(width=32, allow_subnormal=False).map(lambda value: Const.of(value, kind))
    edges = st.integers(int(dtype.minimum), int(dtype.maximum))
    return st.one_of(st.integers(0, 9), edges).map(lambda value: Const(value, kind))


def nonzero_constants(kind: Type) -> st.SearchStrategy[Const]:
    """Return float constants that are no zero."""
    return st.sampled_from([0.5, -0.5, 1.0, -1.0, 2.0, -3.0, 100.0]).map(lambda value: Const.of(value, kind))


def same_content(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    """Return whether two arrays are equal up to the bits of NaN and the sign of zero."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    equal = actual == expected
    return bool(np.all(equal | ((actual != actual) & (expected != expected))))


def allowed_ops(dtype: DType) -> tuple[Op, ...]:
    """Return the operations with exact results whose operands can have ``dtype``, without comparisons and COND."""
    return tuple(op for op in Op if _allowed(op, dtype) and op not in APPROXIMATE and op is not Op.COND)


def _allowed(op: Op, dtype: DType) -> bool:
    domain = op.info.domain
    if op.info.compares:
        return False
    if domain is Domain.FLOAT:
        return dtype.is_float
    if domain is Domain.BITS:
        return not dtype.is_float and not (dtype.is_bool and op in _SHIFTS)
    return domain is Domain.ANY or not dtype.is_bool


EXACT_OPS: Final = {dtype: allowed_ops(dtype) for dtype in DType}
COMPARISONS: Final = tuple(op for op in Op if op.info.compares)
