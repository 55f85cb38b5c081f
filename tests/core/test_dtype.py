"""Element types and promotion."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tileir.core.dtype import FORMATS, DType, accumulator, arithmetic_type, float_for, promote, promote_all
from tileir.core.numbers.arithmetic import Array, cast


@pytest.mark.parametrize("dtype", DType)
def test_numpy_and_back(dtype: DType) -> None:
    assert DType.of(dtype.numpy) is dtype
    assert dtype.numpy.itemsize == dtype.itemsize
    assert type(dtype.itemsize) is int
    assert DType(dtype.value) is dtype


@pytest.mark.parametrize("name", ["complex64", "S4", "datetime64[s]", ">f4", ">i8", "object"])
def test_foreign_numpy_types_have_no_equal(name: str) -> None:
    assert DType.of(np.dtype(name)) is None


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.is_integer])
def test_integer_limits_are_those_of_numpy(dtype: DType) -> None:
    info = np.iinfo(dtype.numpy)
    assert (dtype.minimum, dtype.maximum) == (info.min, info.max)


@pytest.mark.parametrize("dtype", FORMATS)
def test_the_row_of_a_float_tells_its_limits(dtype: DType) -> None:
    row, info = dtype.format, ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]  # it has no annotations
    assert (dtype.bits, row.exponent_bits, row.fraction_bits) == (info.bits, info.nexp, info.nmant)
    assert [row.largest, row.epsilon, row.smallest_normal, row.smallest_subnormal] == [
        float(limit) for limit in (info.max, info.eps, info.smallest_normal, info.smallest_subnormal)
    ]
    assert (dtype.minimum, dtype.maximum) == (-row.greatest, row.greatest)


@pytest.mark.parametrize("dtype", [dtype for dtype in FORMATS if dtype.bits <= 16])
def test_the_row_of_a_float_tells_each_pattern_of_bits(dtype: DType) -> None:
    row, codes = dtype.format, np.arange(1 << dtype.bits)
    with np.errstate(invalid="ignore"):
        values = codes.astype(f"u{dtype.itemsize}").view(dtype.numpy).astype(np.float64)
    size = codes & (1 << (dtype.bits - 1)) - 1
    exponent, fraction = size >> row.fraction_bits, size & (1 << row.fraction_bits) - 1
    hidden = np.where(exponent == 0, 0, 1 << row.fraction_bits)
    expected = (hidden + fraction) * 2.0 ** (np.maximum(exponent, 1) - row.bias - row.fraction_bits)
    expected = np.where(size > row.greatest_bits, np.nan, np.where(expected > row.largest, np.inf, expected))
    assert np.array_equal(np.where(codes >> (dtype.bits - 1), -expected, expected), values, equal_nan=True)


def test_kinds_partition_the_types() -> None:
    for dtype in DType:
        assert [dtype.is_bool, dtype.is_integer, dtype.is_float].count(True) == 1
    assert [d.value for d in DType if d.is_signed] == [
        *("i8", "i16", "i32", "i64", "f8e4m3fn", "f8e5m2", "f16", "bf16", "f32", "f64")
    ]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("i64", "f16", "f16"),
        ("f16", "u64", "f16"),
        ("i8", "i16", "i16"),
        ("u8", "i8", "u8"),
        ("i8", "u8", "i8"),
        ("f16", "bf16", "f16"),
        ("bf16", "f16", "bf16"),
        ("bool", "i8", "i8"),
        ("u8", "bool", "u8"),
        ("bool", "bool", "bool"),
        ("f32", "f64", "f64"),
        ("f8e5m2", "f8e5m2", "f8e5m2"),
        ("f8e5m2", "i64", "f32"),
        ("f16", "f8e4m3fn", "f32"),
        ("f8e4m3fn", "f64", "f64"),
        ("bool", "f8e4m3fn", "f32"),
    ],
)
def test_promotion(left: str, right: str, expected: str) -> None:
    assert promote(DType(left), DType(right)) is DType(expected)


def test_promotion_of_many_goes_left_to_right() -> None:
    assert promote_all([DType.BOOL, DType.U8, DType.I8, DType.BF16, DType.F16]) is DType.BF16
    assert promote_all([DType.I32]) is DType.I32


def test_float_for_and_accumulator() -> None:
    assert [float_for(d).value for d in (DType.BOOL, DType.I32, DType.U64, DType.F16)] == ["f32", "f32", "f64", "f16"]
    assert [accumulator(d).value for d in (DType.F16, DType.BF16, DType.F64, DType.I8)] == ["f32", "f32", "f64", "i8"]


@pytest.mark.parametrize("dtype", [DType.F8E4M3FN, DType.F8E5M2])
def test_what_is_computed_from_a_type_of_storage_is_f32(dtype: DType) -> None:
    assert arithmetic_type(dtype) is float_for(dtype) is accumulator(dtype) is DType.F32
    assert [arithmetic_type(other) for other in DType if not other.is_storage] == [d for d in DType if not d.is_storage]


def extreme(dtype: DType) -> Array:
    """Return the values that another type is most likely to lose: limits, long significands, the least steps."""
    if dtype.is_float:
        row = dtype.format
        return np.array([0.0, -0.5, row.smallest_subnormal, 1 + row.epsilon, row.largest, row.greatest], dtype.numpy)
    return np.array([0, 1, dtype.minimum, dtype.maximum, dtype.maximum - 1], dtype.numpy)


@pytest.mark.sampled(129)
@pytest.mark.parametrize("wide", DType)
@pytest.mark.parametrize("narrow", DType)
def test_a_type_holds_another_where_a_cast_keeps_all_values(wide: DType, narrow: DType) -> None:
    values = extreme(narrow)
    with np.errstate(over="ignore"):
        after = cast(values, wide)
    # Python compares integers with floats exactly.
    assert wide.holds(narrow) == all(int_or_float(a) == int_or_float(b) for a, b in zip(after, values, strict=True))


def int_or_float(value: np.generic) -> int | float:
    return int(value) if isinstance(value, np.integer | np.bool_) else float(value)
