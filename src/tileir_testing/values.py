"""Values at which implementations go wrong, for every dtype.

How far floats are apart, counted in units in the last place.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tileir.core import DType, Op
from tileir.core.numbers.arithmetic import cast, dtype_of
from tileir.semtree.transform.expansions import ULP

Array = np.ndarray[Any, np.dtype[Any]]


def special(dtype: DType) -> Array:
    """Return limits, neighbours of limits, small and large numbers of both signs; NaN, infinities and denormals."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_integer:
        low, high = int(dtype.minimum), int(dtype.maximum)
        small = [n for n in (-100, -33, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, 31, 33, 100) if low <= n <= high]
        return np.array([low, low + 1, *small, high - 1, high], dtype.numpy)
    finite = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, -0.7, 3.14159, 1e-3, 10.0, -100.0, 700.0]
    finite += [1e-7, 12345.678, -88.5, 1e4, 1e-4]
    largest, tiny = dtype.format.largest, dtype.format.smallest_normal
    limits = [largest, -largest, tiny, -tiny, dtype.format.smallest_subnormal, np.inf, -np.inf, np.nan]
    return np.concatenate([cast(np.array(finite), dtype), np.array(limits).astype(dtype.numpy)])


def to_cast(dtype: DType) -> Array:
    """Return :func:`special` and numbers around the limits of all other dtypes."""
    if not dtype.is_float:
        return special(dtype)
    edges = [float(sign * 2**bits + step) for bits in (7, 8, 15, 16, 31, 32) for sign in (-1, 1) for step in (-1, 0, 1)]
    edges += [2.0**63, -(2.0**63), 2.0**64, 1e20, 65504.0, 65520.0, 3e38, -0.999, 127.5, 255.5]
    return np.concatenate([special(dtype), cast(np.array(edges), dtype)])


def small(dtype: DType, *shape: int, seed: int) -> Array:
    """Return integers from -3 to 4, within the dtype's range: sums and products of a few are exact."""
    values = np.random.default_rng(seed).integers(-3 if dtype.is_signed or dtype.is_float else 0, 5, shape)
    return np.asarray(cast(np.asarray(values, np.int64), dtype))


_OURS: Final = {DType.F32: 1, DType.F64: 4}
"""What the typed interpreter may be off: it rounds f32 from f64, and the f64 functions of NumPy differ by machine."""


def ulps_apart(left: Array, right: Array) -> Array:
    """Return the number of values of the dtype between two arrays; 0 for two NaNs, the greatest for one.

    Infinity follows the largest number, and the zeros are one value.
    """
    near, far = _places(left), _places(right)
    distance = (np.maximum(near, far) - np.minimum(near, far)).astype(np.float64)
    nan_left, nan_right = (np.isnan(array.astype(np.float64)) for array in (left, right))
    return np.where(nan_left & nan_right, 0.0, np.where(nan_left ^ nan_right, np.inf, distance))


def _places(array: Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return numbers of the values of a float dtype in their order; both zeros get one number."""
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").astype(np.uint64)
    sign = np.uint64(1 << (8 * array.dtype.itemsize - 1))
    size = bits & (sign - np.uint64(1))
    return np.asarray(np.where(bits & sign != 0, sign - size, sign + size), np.uint64).reshape(array.shape)


def bound(op: Op, dtype: DType) -> float:
    """Return the allowed distance of a device from the typed interpreter; 0 where IEEE 754 fixes the result.

    It is the bound of the expansions, which native functions must meet too, plus the interpreter's own error. Halves
    are computed in f32 and rounded, so that they are off by one unit at most.
    """
    if (op, DType.F32) not in ULP:
        return 0.0
    if dtype not in _OURS:
        return 1.0
    return ULP[op, dtype] + _OURS[dtype]


def check_close(name: str, actual: Array, expected: Array, ulps: float = 0.0) -> None:
    """Raise AssertionError unless dtypes, shapes and integers are equal, and floats at most ``ulps`` apart."""
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        raise AssertionError(
            f"{name} is {actual.dtype} of shape {actual.shape}, not {expected.dtype} of shape {expected.shape}"
        )
    is_float = dtype_of(expected).is_float
    apart = ulps_apart(actual, expected) if is_float else (actual != expected).astype(np.float64)
    wrong = np.argwhere(apart > ulps)
    if len(wrong) == 0:
        return
    worst = np.unravel_index(int(np.argmax(apart)), apart.shape)
    where = f"[{', '.join(map(str, worst))}]"
    margin = f", {apart[worst]:g} ulp apart where {ulps:g} are allowed" if is_float else ""
    raise AssertionError(
        f"{name}{where} is {actual[worst]}, not {expected[worst]}{margin}; "
        f"{len(wrong)} of {apart.size} elements are wrong"
    )
