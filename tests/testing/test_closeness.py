from __future__ import annotations

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir_testing.values import bound, check_close, ulps_apart

FLOATS = [dtype for dtype in DType if dtype.is_float]


@pytest.mark.parametrize("dtype", FLOATS)
def test_neighbours_are_one_apart(dtype: DType) -> None:
    numbers = np.array([0.0, 1.0, -1.0, 0.37, -1e-3, 100.0]).astype(dtype.numpy)
    bits = numbers.view(f"u{dtype.itemsize}")
    neighbours = (bits + np.array(1).astype(bits.dtype)).view(dtype.numpy)
    np.testing.assert_array_equal(ulps_apart(numbers, neighbours), 1)
    np.testing.assert_array_equal(ulps_apart(neighbours, numbers), 1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_are_one_number_and_nan_equals_itself_only(dtype: DType) -> None:
    left = np.array([0.0, np.nan, np.nan, 1.0]).astype(dtype.numpy)
    right = np.array([-0.0, np.nan, 1.0, np.nan]).astype(dtype.numpy)
    np.testing.assert_array_equal(ulps_apart(left, right), [0, 0, np.inf, np.inf])


def test_distances_go_through_zero_and_to_infinity() -> None:
    least, largest = np.float32(2.0**-149), np.finfo(np.float32).max
    left = np.array([least, largest, -np.inf], np.float32)
    right = np.array([-least, np.inf, np.inf], np.float32)
    np.testing.assert_array_equal(ulps_apart(left, right), [2, 1, 2 * 0x7F800000])


def test_bounds_are_those_of_the_expansions_and_of_the_interpreter() -> None:
    assert bound(Op.ADD, DType.F32) == 0.0
    assert bound(Op.SQRT, DType.F64) == 0.0
    assert bound(Op.EXP, DType.F32) == 2.0
    assert bound(Op.EXP, DType.F64) == 5.0
    assert bound(Op.TANH, DType.F16) == 1.0


def test_what_is_wrong_is_named() -> None:
    right = np.array([[1.0, 2.0]], np.float32)
    check_close("O", right, right)
    check_close("O", np.nextafter(right, np.float32(9)), right, 1.0)
    with pytest.raises(AssertionError, match=r"O\[0, 1\] is 3\.0, not 2\.0.* ulp apart where 1 are allowed; 1 of 2"):
        check_close("O", np.array([[1.0, 3.0]], np.float32), right, 1.0)
    with pytest.raises(AssertionError, match=r"O\[0\] is 1, not 2; 1 of 1"):
        check_close("O", np.array([1]), np.array([2]))
    with pytest.raises(AssertionError, match=r"float64 of shape \(2,\), not float32 of shape \(1, 2\)"):
        check_close("O", np.zeros(2), right)
