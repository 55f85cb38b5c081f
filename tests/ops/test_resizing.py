"""Other sizes of tensors: what is refused, and what nothing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from strategies.operations import fault_of, run
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x: ops.resize(x), "TIL217", "give either the sizes or the scales of the result"),
        (lambda x: ops.resize(x, (1, 2), scales=(1, 2)), "TIL217", "give either the sizes or the scales"),
        (lambda x: ops.resize(x, (1,)), "TIL217", "each of 2 axes needs its size or scale; given were (1,)"),
        (lambda x: ops.resize(x, (1,), axes=2), "TIL314", "the axis is 2"),
        (lambda x: ops.resize(x, scales=(0.0, 1.0)), "TIL217", "scale is a finite number above 0, or 2 of them"),
        (lambda x: ops.resize(x, scales=(2, 2), policy="not_larger"), "TIL217", "a policy makes scales of sizes equal"),
        (lambda x: ops.resize(x, (1, 2), mode="quadratic"), "TIL217", "mode is one of 'nearest', 'linear', 'cubic'"),
        (lambda x: ops.resize(x, (1, 2), antialias=True), "TIL217", "antialias is an option of the modes"),
        (lambda x: ops.resize(x, (1, 2), coordinates="pixels"), "TIL217", "coordinates is one of 'half_pixel'"),
        (lambda x: ops.resize(x, (1, 2), coordinates="tf_crop_and_resize"), "TIL217", "tf_crop_and_resize needs roi"),
        (
            lambda x: ops.resize(x, (1, 2), coordinates="tf_crop_and_resize", roi=(0, 1)),
            "TIL217",
            "roi has 2 starts and as many ends, not 2 numbers",
        ),
    ],
)
def test_mistakes(attempt: Callable[[Tensor], object], code: str, message: str) -> None:
    x = tileir.FunctionBuilder().input("X", "N", "C")
    found, text = fault_of(lambda: attempt(x), __file__)
    assert (found, text[: len(message)]) == (code, message)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_axes_that_stay_are_not_touched(mode: str) -> None:
    x = np.array([[np.inf, -1], [np.nan, 2]], np.float32)
    np.testing.assert_array_equal(run(lambda x: ops.resize(x, scales=(1, 1), mode=mode), x), x)
    np.testing.assert_array_equal(run(lambda x: ops.resize(x, x.dims, mode=mode), x), x)


def test_integers_stay_integers_where_elements_are_taken() -> None:
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    found = run(lambda x: ops.resize(x, (4,), axes=0), x)
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, x.repeat(2, 0))
    assert run(lambda x: ops.resize(x, (4,), axes=0, mode="linear"), x).dtype == np.float32


@pytest.mark.parametrize(("nearest", "expected"), [("round_prefer_floor", [0, 2, 3, 4]), ("ceil", [1, 2, 4, 5])])
def test_places_in_the_middle_round_as_the_reference_of_onnx_does(nearest: str, expected: list[int]) -> None:
    x = np.arange(6, dtype=np.float32)
    options = {"coordinates": "half_pixel_symmetric", "nearest": nearest}
    np.testing.assert_array_equal(run(lambda x: ops.resize(x, scales=(0.75,), **options), x), expected)
