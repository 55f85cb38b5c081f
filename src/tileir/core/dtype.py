"""Element types, the formats of floats, and the one promotion rule of tileir."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from functools import cache, cached_property, reduce
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tileir.core.nodes import attrs


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
    F8E4M3FN = "f8e4m3fn"
    F8E5M2 = "f8e5m2"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"

    # Members are singletons, so identity hashing is sound and far cheaper than Enum's own.
    __hash__ = object.__hash__

    @cached_property
    def bits(self) -> int:
        """Bits that take part in promotion: 1 for bool, although it fills a byte in memory."""
        return _BITS[self]

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return max(1, _BITS[self] // 8)

    @cached_property
    def is_float(self) -> bool:
        """True if this is one of the types of :data:`FORMATS`."""
        return self in FORMATS

    @cached_property
    def format(self) -> FloatFormat:
        """Representation of the numbers of a float; a KeyError, a defect of the caller, for any other type."""
        return FORMATS[self]

    @cached_property
    def is_narrow(self) -> bool:
        """True if this is a float that is computed in f32, and rounded when it is stored."""
        return self in _NARROW

    @cached_property
    def is_storage(self) -> bool:
        """True if elements are only stored and moved: :func:`arithmetic_type` returns the dtype for computations."""
        return self in _STORAGE

    @cached_property
    def is_bool(self) -> bool:
        """True if this is bool."""
        return self is DType.BOOL

    @cached_property
    def is_integer(self) -> bool:
        """True if this is a signed or unsigned integer; bool is not."""
        return not self.is_float and self is not DType.BOOL

    @cached_property
    def is_signed(self) -> bool:
        """True if values can be negative: floats and i8 to i64."""
        return self in _SIGNED

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; ``ml_dtypes`` registers those that NumPy lacks."""
        return _NUMPY[self] if self in _NUMPY else _registered(self)

    @cached_property
    def minimum(self) -> int | float:
        """The least value: minus infinity for floats, 0 for bool."""
        if self.is_float:
            return -self.format.greatest
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @cached_property
    def maximum(self) -> int | float:
        """The greatest value: infinity for floats, 1 for bool."""
        if self.is_float:
            return self.format.greatest
        return (1 << (self.bits - 1 if self.is_signed else self.bits)) - 1

    def typed(self, value: float) -> bool | int | float:
        """Return a number as Python's kind for this dtype: bool, float or int."""
        return bool(value) if self.is_bool else float(value) if self.is_float else int(value)

    def holds(self, other: DType) -> bool:
        """Return whether every value of ``other`` is a value of this type, so that a cast to it loses nothing."""
        if other is self or other.is_bool:
            return True
        if not self.is_float:
            return not other.is_float and self.minimum <= other.minimum and other.maximum <= self.maximum
        if other.is_float:
            return self.format.holds(other.format)
        # 65535 exceeds the 11 bits of f16, too, so its exponent never matters here.
        return other.bits - other.is_signed <= self.format.precision

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> DType | None:
        """Return the element type of a NumPy dtype, or None if tileir has no equal."""
        found = _OF_NUMPY.get(dtype)  # NumPy makes the name of a dtype anew each time, which takes microseconds
        if found is None and dtype.isnative and (found := _BY_NUMPY_NAME.get(dtype.name)) is not None:
            _OF_NUMPY[dtype] = found
        return found


@attrs.frozen
class FloatFormat:
    """Representation of numbers by a float type, from which all other facts about it follow.

    A sign, an exponent and a fraction, as in section 3.4 of IEEE 754-2019: the exponent 0 is that of zeros and
    subnormal numbers.

    Attributes:
        exponent_bits: The bits of the exponent; its bias is the middle of their range.
        precision: The bits of the significand, including the hidden one.
        numpy: The name of the NumPy dtype.
        computed_in: The type of arithmetic on values of this one, whose results are then rounded to this one; None
            if that is the type itself.
        registered: Whether ``ml_dtypes`` has the NumPy dtype, because NumPy lacks it.
        storage: Whether elements are only stored: results computed from them are not rounded, and remain of the type
            ``computed_in``.
        infinities: Whether the greatest exponent is that of infinities and NaN. Without infinities, its only NaN is the
            largest fraction, and all others are numbers.
    """

    exponent_bits: int
    precision: int
    numpy: str
    computed_in: DType | None = None
    registered: bool = False
    storage: bool = False
    infinities: bool = True

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return self.exponent_bits + self.precision

    @property
    def fraction_bits(self) -> int:
        """Bits of the significand that are stored: all but the hidden one."""
        return self.precision - 1

    @property
    def bias(self) -> int:
        """Difference between the stored exponent and the exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def greatest_bits(self) -> int:
        """The bits of the greatest value; those of NaN are greater, apart from the sign."""
        hidden = 1 << self.fraction_bits
        return (hidden << self.exponent_bits) - (hidden if self.infinities else 2)

    @property
    def nan_bits(self) -> int:
        """The bits of a NaN: a quiet one, or the only one."""
        return self.greatest_bits + ((1 << self.fraction_bits - 1) if self.infinities else 1)

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next number."""
        return 2.0**-self.fraction_bits

    @property
    def largest(self) -> float:
        """The largest finite number."""
        if self.infinities:
            return (2.0 - self.epsilon) * 2.0**self.bias
        return (2.0 - 2.0 * self.epsilon) * 2.0 ** (self.bias + 1)

    @property
    def greatest(self) -> float:
        """The greatest value: infinity if there is one."""
        return float("inf") if self.infinities else self.largest

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with the hidden bit set."""
        return 2.0 ** (1 - self.bias)

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive number."""
        return 2.0 ** (1 - self.bias - self.fraction_bits)

    def holds(self, other: FloatFormat) -> bool:
        """Return whether every value of ``other`` is a value of this format."""
        return (
            other.precision <= self.precision
            and other.greatest <= self.greatest
            and other.largest <= self.largest
            and other.smallest_subnormal >= self.smallest_subnormal
        )


FORMATS: Final[Mapping[DType, FloatFormat]] = MappingProxyType(
    {
        DType.F8E4M3FN: FloatFormat(4, 4, "float8_e4m3fn", DType.F32, registered=True, storage=True, infinities=False),
        DType.F8E5M2: FloatFormat(5, 3, "float8_e5m2", DType.F32, registered=True, storage=True),
        DType.F16: FloatFormat(5, 11, "float16", DType.F32),
        DType.BF16: FloatFormat(8, 8, "bfloat16", DType.F32, registered=True),
        DType.F32: FloatFormat(8, 24, "float32"),
        DType.F64: FloatFormat(11, 53, "float64"),
    }
)
"""The float types, one row for each."""

_BITS = {
    DType.BOOL: 1,
    **{dtype: int(dtype.value[1:]) for dtype in DType if dtype.value[0] in "iu"},
    **{dtype: row.bits for dtype, row in FORMATS.items()},
}
_SIGNED = frozenset({*FORMATS, *(dtype for dtype in DType if dtype.value[0] == "i")})
_NARROW = frozenset(dtype for dtype, row in FORMATS.items() if row.computed_in is not None)
_STORAGE = frozenset(dtype for dtype, row in FORMATS.items() if row.storage)
_NUMPY_NAMES = {
    DType.BOOL: "bool",
    **{dtype: f"int{dtype.bits}" for dtype in DType if dtype.value[0] == "i"},
    **{dtype: f"uint{dtype.bits}" for dtype in DType if dtype.value[0] == "u"},
    **{dtype: row.numpy for dtype, row in FORMATS.items()},
}
_NUMPY: dict[DType, np.dtype[Any]] = {
    dtype: np.dtype(name)
    for dtype, name in _NUMPY_NAMES.items()
    if dtype not in FORMATS or not FORMATS[dtype].registered
}
_BY_NUMPY_NAME = {name: dtype for dtype, name in _NUMPY_NAMES.items()}
_OF_NUMPY: dict[np.dtype[Any], DType] = {}


@cache
def _registered(dtype: DType) -> np.dtype[Any]:
    import ml_dtypes  # few programs need it, and importing tileir must stay cheap

    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype.format.numpy))
    return found


def promote(left: DType, right: DType) -> DType:
    """Return the common type of two operands.

    Any float beats any integer, the wider beats the narrower, and a tie keeps the left operand; bool counts as the
    narrowest integer. Beside another type, a storage type counts as its arithmetic type.
    """
    if left is not right:
        left, right = arithmetic_type(left), arithmetic_type(right)
    if left.is_float != right.is_float:
        return left if left.is_float else right
    return right if right.bits > left.bits else left


def promote_all(dtypes: Iterable[DType]) -> DType:
    """Fold :func:`promote` over one or more operand types, left to right."""
    return reduce(promote, dtypes)


def arithmetic_type(dtype: DType) -> DType:
    """Return the dtype for computations on ``dtype``: f32 for a storage type, else itself."""
    return _ACCUMULATORS[dtype] if dtype in _STORAGE else dtype


def float_for(dtype: DType) -> DType:
    """Return the dtype of exp, sqrt and similar functions of ``dtype``: f64 for 64-bit integers, else f32."""
    if dtype.is_float:
        return arithmetic_type(dtype)
    return DType.F64 if dtype.bits == 64 else DType.F32


def accumulator(dtype: DType) -> DType:
    """Return the dtype of sums of ``dtype``: f32 for narrow floats, else itself."""
    return _ACCUMULATORS.get(dtype, dtype)


_ACCUMULATORS = {dtype: row.computed_in for dtype, row in FORMATS.items() if row.computed_in is not None}
