"""Comparisons, beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strategies.operations import run
from tileir import ops


@pytest.mark.parametrize(
    ("kind", "x", "y", "atol", "close"),
    [
        (np.int32, 2**24, 2**24 + 1, 0.5, False),
        (np.int64, 2**53, 2**53 + 1, 0.5, False),
        (np.int64, -(2**63), 2**63 - 1, 1e18, False),
        (np.int64, -(2**63), 2**63 - 1, 2e19, True),
        (np.int8, 127, -128, 254.0, False),
        (np.int8, 127, -128, 255.0, True),
        (np.uint64, 0, 2**64 - 1, 1.8e19, False),
        (np.uint8, 3, 5, 1.0, False),
    ],
)
def test_distances_of_integers_are_exact(kind: Any, x: int, y: int, atol: float, close: bool) -> None:
    for one, other in ((x, y), (y, x)):
        arrays = (np.array([value], kind) for value in (one, other))
        assert run(lambda a, b: ops.isclose(a, b, atol=atol, rtol=0), *arrays).tolist() == [close]


def test_the_distance_of_numbers_in_f16_is_not_rounded_to_the_limit() -> None:
    x, y = np.array([-0.3333, 1024], np.float16), np.array([0.16687, 0.5], np.float16)
    assert run(lambda a, b: ops.isclose(a, b, atol=0.5, rtol=0), x, y).tolist() == [False, False]
    assert run(lambda a, b: ops.isclose(a, b, atol=1023.5, rtol=0), x, y).tolist() == [True, True]
    assert run(lambda a: ops.isclose(a, 0.1668, atol=0.5, rtol=0), x).tolist() == [False, False]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("limits", [{}, {"atol": 1.0}, {"rtol": 0.5}])
def test_isclose_is_that_of_numpy(kind: Any, limits: Any) -> None:
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 5, (2, 300)).astype(kind)
    if np.issubdtype(kind, np.floating):
        inf, nan = np.inf, np.nan
        x[:9], y[:9] = [nan, inf, -inf, inf, 0, inf, 1, -0.0, nan], [nan, inf, inf, 1, inf, -inf, nan, 0, 1]
    np.testing.assert_array_equal(run(lambda a, b: ops.isclose(a, b, **limits), x, y), np.isclose(x, y, **limits))
    np.testing.assert_array_equal(run(lambda a: ops.isclose(a, 1.5, atol=0.5), x), np.isclose(x, 1.5, atol=0.5))
    np.testing.assert_array_equal(run(lambda a: ops.isclose(2, a), x), np.isclose(2, x))
