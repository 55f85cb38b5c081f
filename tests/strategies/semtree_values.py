"""Constants and special values for tests of kernels, beside those of the generator of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from hypothesis import strategies as st

from fuzz.semtree.kernel_values import aligned_copy, allowed_ops, content, same_content
from tileir.core.dtype import DType
from tileir.semtree.ir import Const

if TYPE_CHECKING:
    from tileir.semtree.ir import Type

__all__ = ["ALL_DTYPES", "aligned_copy", "allowed_ops", "constants", "content", "same_content", "special_values"]

ALL_DTYPES: Final = tuple(DType)


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
