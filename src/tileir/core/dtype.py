"""Element types, and the one promotion rule of tileir."""

from __future__ import annotations

import enum
from functools import cache, reduce
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class DType(enum.Enum):
    """An element type; the value is the name that users write."""

    BOOL = "bool"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"

    # Members are singletons, so identity hashing is sound and far cheaper than Enum's own.
    __hash__ = object.__hash__

    @property
    def bits(self) -> int:
        """Bits that take part in promotion: 1 for bool, although it fills a byte in memory."""
        return _BITS[self]

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return max(1, _BITS[self] // 8)

    @property
    def is_float(self) -> bool:
        """Whether this is one of f16, bf16, f32, f64."""
        return self in _FLOATS

    @property
    def is_bool(self) -> bool:
        """Whether this is bool."""
        return self is DType.BOOL

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer; bool is not."""
        return not self.is_float and self is not DType.BOOL

    @property
    def is_signed(self) -> bool:
        """Whether values can be negative: floats and i8 to i64."""
        return self in _SIGNED

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; bf16 is the one that ``ml_dtypes`` registers."""
        if self is DType.BF16:
            return _bfloat16()
        return _NUMPY[self]

    @property
    def minimum(self) -> int | float:
        """The least value: minus infinity for floats, 0 for bool."""
        if self.is_float:
            return float("-inf")
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def maximum(self) -> int | float:
        """The greatest value: infinity for floats, 1 for bool."""
        if self.is_float:
            return float("inf")
        return (1 << (self.bits - 1 if self.is_signed else self.bits)) - 1

    def holds(self, other: DType) -> bool:
        """Return whether every value of ``other`` is a value of this type, so that a cast to it loses nothing."""
        if other is self or other.is_bool:
            return True
        if not self.is_float:
            return self.minimum <= other.minimum and other.maximum <= self.maximum
        if other.is_float:
            return other.bits < self.bits
        # 65535 fits the 11 bits of f16 neither, so its exponent never matters here.
        return other.bits - other.is_signed <= _PRECISION[self]

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> DType | None:
        """Return the element type of a NumPy dtype, or None where tileir has no equal."""
        return _BY_NUMPY_NAME.get(dtype.name) if dtype.isnative else None


_BITS = {
    DType.BOOL: 1,
    **{d: int(d.value[1:]) for d in DType if d.value[0] in "iuf" and d.value[1:].isdigit()},
    DType.BF16: 16,
}
_FLOATS = frozenset({DType.F16, DType.BF16, DType.F32, DType.F64})
_SIGNED = _FLOATS | {d for d in DType if d.value.startswith("i")}
_PRECISION = {DType.BF16: 8, DType.F16: 11, DType.F32: 24, DType.F64: 53}
"""Bits of the significand, the hidden one among them."""
_NUMPY_NAMES = {
    DType.BOOL: "bool",
    DType.BF16: "bfloat16",
    **{d: f"int{d.bits}" for d in DType if d.value[0] == "i"},
    **{d: f"uint{d.bits}" for d in DType if d.value[0] == "u"},
    **{d: f"float{d.bits}" for d in DType if d.value[0] == "f"},
}
_NUMPY: dict[DType, np.dtype[Any]] = {d: np.dtype(n) for d, n in _NUMPY_NAMES.items() if d is not DType.BF16}
_BY_NUMPY_NAME = {name: dtype for dtype, name in _NUMPY_NAMES.items()}


@cache
def _bfloat16() -> np.dtype[Any]:
    import ml_dtypes  # only bf16 needs it, and importing tileir must stay cheap

    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def promote(left: DType, right: DType) -> DType:
    """Return the common type of two operands.

    Any float beats any integer, the wider beats the narrower, and a tie keeps the left operand;
    bool counts as the narrowest integer.
    """
    if left.is_float != right.is_float:
        return left if left.is_float else right
    return right if right.bits > left.bits else left


def promote_all(dtypes: Iterable[DType]) -> DType:
    """Fold :func:`promote` over one or more operand types, left to right."""
    return reduce(promote, dtypes)


def float_for(dtype: DType) -> DType:
    """Return the type in which exp, sqrt and their like work on ``dtype``: f64 for 64-bit integers, else f32."""
    if dtype.is_float:
        return dtype
    return DType.F64 if dtype.bits == 64 else DType.F32


def accumulator(dtype: DType) -> DType:
    """Return the type in which sums of ``dtype`` are kept: f32 for f16 and bf16, else itself."""
    return DType.F32 if dtype in (DType.F16, DType.BF16) else dtype
