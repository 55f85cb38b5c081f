"""Ranges of numbers and places of values: exact wherever NumPy and Python's integers are."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.operations import run
from tileir import ops
from tileir.core.dtype import DType
from tileir.core.errors import TileError

ANY = np.zeros(1, np.float32)


@pytest.mark.parametrize(
    ("bounds", "dtype"),
    [
        ((2**31 - 2, 2**31 + 2), "i64"),
        ((0, 2**32, 2**30), "i64"),
        ((0, 4 * 10**9, 10**9), "f64"),
        ((2**40, 2**40 + 2), "i64"),
        ((-(2**31) - 2, -(2**31) + 1), "i64"),
        ((2**31 + 10, 2**31, -3), "i64"),
        ((1, 10, 2**33), "i64"),
        ((0, -(2**35), -(2**33)), "f32"),
        ((0, 2**33, 2**31), "u64"),
        ((5, -7, -3), "i8"),
        ((7, 3), "i32"),
    ],
)
def test_arange_counts_beyond_32_bits(bounds: tuple[int, ...], dtype: str) -> None:
    found = run(lambda x: ops.arange(x, *bounds, dtype=dtype), ANY)
    expected = np.arange(*bounds).astype(DType(dtype).numpy)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


ENDS = (0, 5, 2**31, 2**63 - 5, 2**63 - 1, 2**63, 2**63 + 4, 2**64 - 4, 2**64 - 1, -3, -(2**31), -(2**63), 2 - 2**63)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", [1, -1, 7, -(2**40), 2**62, 2**63, -(2**63), 2**64])
@pytest.mark.parametrize("dtype", ["i64", "u64"])
def test_arange_has_the_numbers_of_a_range_whose_bounds_are_beyond_them(step: int, dtype: str) -> None:
    least, most = DType(dtype).minimum, DType(dtype).maximum
    for start, stop in itertools.product(ENDS, ENDS):
        numbers = range(start, stop, step)
        if (stop - start) // step < 20 and all(least <= number <= most for number in numbers):
            found = run(lambda x, low=start, high=stop: ops.arange(x, low, high, step, dtype=dtype), ANY)
            assert found.tolist() == list(numbers), (start, stop)


@given(
    st.integers(-(2**40), 2**40) | st.integers(-200, 200),
    st.integers(-(2**40), 2**40) | st.integers(-200, 200),
    st.integers(1, 300),
    st.booleans(),
)
def test_linspace_of_integers_is_exact(start: int, stop: int, count: int, endpoint: bool) -> None:
    found = run(lambda x: ops.linspace(x, start, stop, count, endpoint=endpoint, dtype="i64"), ANY)
    parts = max(count - 1, 1) if endpoint else count
    assert found.tolist() == [(start * parts + place * (stop - start)) // parts for place in range(count)]


@pytest.mark.parametrize("count", [201, 256, 300])
def test_linspace_of_bytes(count: int) -> None:
    found = run(lambda x: ops.linspace(x, 0, 255, count, dtype="u8"), ANY)
    assert found.tolist() == [place * 255 // (count - 1) for place in range(count)]


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_linspace_of_floats_is_rounded_once(kind: Any) -> None:
    dtype = DType.of(np.dtype(kind))
    assert dtype is not None
    found = run(lambda x: ops.linspace(x, -1.5, 7.25, 5001, dtype=dtype), ANY)
    exact = np.linspace(-1.5, 7.25, 5001)
    rounding = np.abs(exact.astype(kind).astype(np.float64) - exact)
    few = 4 * 7.25 * float(np.finfo(np.float64 if dtype is DType.F64 else np.float32).eps)
    assert (np.abs(found.astype(np.float64) - exact) <= rounding + few).all()


def test_linspace_to_integers_between_floats() -> None:
    found = run(lambda x: ops.linspace(x, -2.5, 2.5, 11, dtype="i32"), ANY)
    np.testing.assert_array_equal(found, np.linspace(-2.5, 2.5, 11, dtype=np.int32))


@pytest.mark.parametrize("dtype", ["u64", "f64"])
@pytest.mark.parametrize(
    "numbers",
    [
        range(2**63, 2**63 + 3),
        range(2**63 - 2, 2**63 + 2),
        range(2**64 - 4, 2**64 - 1),
        range(2**64 - 1, 2**63, -(2**62)),
        range(2**63 + 4, 2**63 - 4, -3),
        range(3, 2**64 - 1, 2**62),
    ],
)
def test_ranges_of_what_only_64_bits_without_a_sign_hold(numbers: range, dtype: str) -> None:
    found = run(lambda x: ops.arange(x, numbers.start, numbers.stop, numbers.step, dtype=dtype), np.zeros(1))
    np.testing.assert_array_equal(found, np.array(list(numbers), DType(dtype).numpy))


def test_ranges_that_no_integers_hold_are_refused() -> None:
    with pytest.raises(TileError, match="TIL104"):
        run(lambda x: ops.arange(x, 2**64 - 1, 2**64 + 2, dtype="u64"), np.zeros(1))
