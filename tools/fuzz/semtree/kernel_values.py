"""Arrays, constants and operations with exact results, for random kernels."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from tileir.core import COMPUTING, DType, Op
from tileir.semtree.ir import Const, Type
from tileir_testing.generated.choices import Choices

APPROXIMATE: Final = frozenset(op for op in Op if op.info.approximates)
"""Operations whose results may differ within a bound."""

_SHIFTS: Final = frozenset({Op.BIT_LEFT, Op.BIT_RIGHT})
_LEAST_NORMAL: Final = 2.0**-126
_EVERYDAY: Final = (0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 2.0, -3.0, 100.0)
_NONZERO: Final = (0.5, -0.5, 1.0, -1.0, 2.0, -3.0, 100.0)


def aligned_copy(array: np.ndarray[Any, Any], alignment: int = 64) -> np.ndarray[Any, Any]:
    """Return a copy whose first element lies at a multiple of ``alignment`` bytes."""
    raw = np.empty(array.nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    copy: np.ndarray[Any, Any] = raw[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def content(dtype: DType, size: int, seed: int) -> np.ndarray[Any, Any]:
    """Return pseudo-random elements with a few special values among them."""
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


def constants(choices: Choices, kind: Type) -> Const:
    """Choose a constant of a type: an everyday one, a limit, or any bits but those of subnormal floats."""
    dtype = kind.dtype
    if dtype.is_bool:
        return Const(choices.integer(0, 1) == 1, kind)
    if dtype.is_float:
        if choices.integer(0, 1) == 0:
            return Const.of(choices.pick(_EVERYDAY), kind)
        (value,) = struct.unpack("<f", struct.pack("<I", choices.integer(0, (1 << 32) - 1)))
        return Const.of(0.0 if 0 < abs(value) < _LEAST_NORMAL else value, kind)
    low, high = int(dtype.minimum), int(dtype.maximum)
    match choices.integer(0, 3):
        case 0:
            return Const(choices.integer(low, high), kind)
        case 1:
            return Const(choices.pick((low, high, max(low, -1))), kind)
        case _:
            return Const(choices.integer(0, 9), kind)


def nonzero_constants(choices: Choices, kind: Type) -> Const:
    """Choose a float constant that is no zero."""
    return Const.of(choices.pick(_NONZERO), kind)


def same_content(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    """Return whether two arrays are equal up to the bits of NaN and the sign of zero."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    equal = actual == expected
    return bool(np.all(equal | ((actual != actual) & (expected != expected))))


def allowed_ops(dtype: DType) -> tuple[Op, ...]:
    """Return the operations with exact results whose operands can have ``dtype``, without comparisons and COND."""
    return tuple(op for op in COMPUTING if _allowed(op, dtype) and op not in APPROXIMATE and op is not Op.COND)


def _allowed(op: Op, dtype: DType) -> bool:
    return not op.info.compares and op.works_on(dtype)


EXACT_OPS: Final = {dtype: allowed_ops(dtype) for dtype in DType}
COMPARISONS: Final = tuple(op for op in Op if op.info.compares)
