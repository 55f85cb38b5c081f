"""How C spells element types and constants.

A bool is ``bool`` in expressions and a byte in memory. Floats narrower than f32 are their bits everywhere, for C has no
type for them that all compilers know.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from tileir.core.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Mapping

VALUE: Final[Mapping[DType, str]] = MappingProxyType(
    {
        DType.BOOL: "bool",
        DType.F32: "float",
        DType.F64: "double",
        **{dtype: f"uint{dtype.bits}_t" for dtype in DType if dtype.is_narrow},
        **{dtype: f"{'' if dtype.is_signed else 'u'}int{dtype.bits}_t" for dtype in DType if dtype.is_integer},
    }
)
"""The type of a value in expressions and variables."""

MEMORY: Final[Mapping[DType, str]] = MappingProxyType({**VALUE, DType.BOOL: "uint8_t"})
"""The type of an element in memory."""


def constant(value: bool | int | float, dtype: DType) -> str:
    """Return an expression for ``value``, which ``dtype`` can represent; its C type is that of :data:`VALUE`.

    Constants of 8 and 16 bits are of type int, as all C expressions of these types.
    """
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_narrow:
        bits = np.asarray(value).astype(dtype.numpy).view(f"u{dtype.itemsize}")
        return f"0x{int(bits):0{dtype.bits // 4}x}"
    return _float(float(value), dtype) if dtype.is_float else _integer(int(value), dtype)


def _integer(value: int, dtype: DType) -> str:
    if dtype.bits == 64:
        if value == dtype.minimum and dtype.is_signed:
            return "INT64_MIN"
        return f"{'' if dtype.is_signed else 'U'}INT64_C({value})"
    if dtype is DType.I32 and value == dtype.minimum:
        return "INT32_MIN"
    return f"{value}u" if dtype is DType.U32 else str(value)


def _float(value: float, dtype: DType) -> str:
    """Return the shortest decimal number that the compiler rounds to ``value``."""
    suffix = "f" if dtype is DType.F32 else ""
    if math.isnan(value):
        return "NAN" if suffix else "(double)NAN"
    if math.isinf(value):
        text = "INFINITY" if suffix else "(double)INFINITY"
        return text if value > 0 else f"-{text}"
    text = repr(value) if dtype is DType.F64 else str(np.float32(value))
    return text + suffix if "." in text or "e" in text else f"{text}.0{suffix}"
