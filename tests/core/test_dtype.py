"""Element types and promotion."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.core.arithmetic import Array, cast
from tileir.core.dtype import DType, accumulator, float_for, promote, promote_all


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


def test_kinds_partition_the_types() -> None:
    for dtype in DType:
        assert [dtype.is_bool, dtype.is_integer, dtype.is_float].count(True) == 1
    assert [d.value for d in DType if d.is_signed] == ["i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"]


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


def extreme(dtype: DType) -> Array:
    """Return the values that another type is most likely to lose: limits, long significands, the least steps."""
    if dtype.is_float:
        tiny = 2.0**-133 if dtype is DType.BF16 else float(np.finfo(dtype.numpy).smallest_subnormal)
        ulp = {DType.BF16: 2.0**-7, DType.F16: 2.0**-10, DType.F32: 2.0**-23, DType.F64: 2.0**-52}[dtype]
        return np.array([0.0, -0.5, tiny, 1 + ulp, float("inf")], dtype.numpy)
    return np.array([0, 1, dtype.minimum, dtype.maximum, dtype.maximum - 1], dtype.numpy)


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
