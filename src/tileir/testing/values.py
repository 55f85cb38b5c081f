"""Values at which implementations go wrong, for every dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tileir.core.arithmetic import cast

if TYPE_CHECKING:
    from tileir.core.dtype import DType

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
    """Return integers from -3 to 4, as far as the dtype has them: sums and products of a few are exact."""
    values = np.random.default_rng(seed).integers(-3 if dtype.is_signed or dtype.is_float else 0, 5, shape)
    return np.asarray(cast(np.asarray(values, np.int64), dtype))
