"""Quantiles: what is equal is met exactly, and what lies between is where exact arithmetic has it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from strategies.operations import run
from tileir import ops
from tileir.tile.builder_functions import gradient

Q = (0.1, 0.3, 0.35, 0.5, 0.9)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("q", Q)
def test_quantiles_of_equal_elements_are_these(q: float, dtype: Any) -> None:
    least = np.finfo(dtype).smallest_subnormal
    drawn = np.random.default_rng(0).normal(size=100)
    values = np.array([1, 3, 5, 7, np.inf, -np.inf, *drawn, np.finfo(dtype).max], dtype)
    values[:4] *= least
    equal = np.repeat(values[:, None], 4, 1)
    for manner in ("linear", "midpoint"):
        found = run(lambda x, manner=manner: ops.quantile(x, q, 1, interpolation=manner), equal)
        np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("q", Q)
def test_quantiles_are_within_roundings_of_the_fraction(q: float) -> None:
    most = float(np.finfo(np.float32).max)
    rows = np.array([[-most, most], [most, -most], [1, 2], [-1, 1], [1e-45, 4e-45], [1, 1e30]], np.float32)
    found = run(lambda x: ops.quantile(x, q, 1), rows)
    for value, row in zip(found, np.sort(rows), strict=True):
        low, high = (Fraction(float(each)) for each in row)
        exact = low + (high - low) * Fraction(q)
        roundings = 2.0**-23 * max(abs(low), abs(high)) + Fraction(float(np.float32(1e-45)))
        assert abs(Fraction(float(value)) - exact) <= roundings


def test_gradients_of_quantiles_go_to_both_neighbours_also_if_they_are_equal() -> None:
    rows = np.array([[1, 1, 1, 1], [4, 2, 2, 1]], np.float32)
    found = run(lambda x: gradient(ops.quantile(x, 0.3, 1), x), rows)
    np.testing.assert_allclose(found, [[0.1, 0.9, 0, 0], [0, 0.9, 0, 0.1]], rtol=1e-6)  # those of PyTorch
