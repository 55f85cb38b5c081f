"""Rows that several kernels of groups sort on a device, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from strategies.opencl_device import device

FEW = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("shape", "axis", "count", "dtype"), [((190,), 0, 190, "f4"), ((2, 300), 1, 7, "f2"), ((300, 3), 0, 5, "i8")]
)
def test_rows_that_are_longer_than_a_group_holds(shape: tuple[int, ...], axis: int, count: int, dtype: str) -> None:
    random: Any = np.random.default_rng(3)
    with np.errstate(invalid="ignore"):
        keys = np.where(random.random(shape) < 0.5, random.choice(FEW, shape), random.standard_normal(shape) * 100)
        keys = keys.astype(dtype)
    sizes = ", ".join(f"N{number}" for number in range(len(shape)))
    text = f"function (X[{sizes}]) -> (O) {{ O = argsort(X, {axis}, 0, {count}); }}"
    executable = tileir.compile(text, {"X": keys}, device=device().id, target="gpu:GROUP=32,SORTED=3")
    found = np.asarray(executable(keys))
    expected = np.take(np.argsort(keys, axis, kind="stable"), range(count), axis)
    np.testing.assert_array_equal(found, expected)
    assert len(executable.sem.works) > 1
