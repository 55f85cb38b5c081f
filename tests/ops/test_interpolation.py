"""Interpolation and images: what is refused, and what stays exact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.operations import fault_of, run
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

OTHER: Any = "another kind of value"


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (ops.interpolate, "TIL217", "give either the size or the scale of the result"),
        (lambda x: ops.interpolate(x, 3, scale=2), "TIL217", "give either the size or the scale of the result"),
        (lambda x: ops.interpolate(x, 3, mode="area"), "TIL217", "mode is one of 'nearest', 'nearest_exact', 'linear'"),
        (lambda x: ops.interpolate(x, (3, 4)), "TIL217", "size is one size, or 1 of them; it was (3, 4)"),
        (lambda x: ops.interpolate(x, scale=0), "TIL217", "scale is a finite number above 0, or 1 of them; it was 0"),
        (lambda x: ops.interpolate(x, scale=math.inf), "TIL217", "scale is a finite number above 0"),
        (lambda x: ops.interpolate(x, 3, align_corners=True), "TIL217", "align_corners is an option of the modes"),
        (lambda x: ops.upsample(x, 0), "TIL217", "factor is an integer from 1 on"),
        (lambda x: ops.space_to_depth(x, 2, order="last"), "TIL217", "order is one of 'block_first', 'channel_first'"),
        (lambda x: ops.depth_to_space(x, 2, layout="nx"), "TIL217", "a layout has letters of 'ncx', each at most once"),
        (lambda x: ops.crop(x, (0, 0), 2), "TIL217", "start is one size, or 1 of them; it was (0, 0)"),
    ],
)
def test_wrong_arguments(attempt: Callable[[Tensor], object], code: str, message: str) -> None:
    x = tileir.FunctionBuilder().input("X", "N", "C", "H")
    found, text = fault_of(lambda: attempt(x), __file__)
    assert (found, text[: len(message)]) == (code, message)


@pytest.mark.parametrize(
    "build", [lambda x: ops.space_to_depth(x, 2), lambda x: ops.depth_to_space(x, 2), lambda x: ops.reorg_yolo(x, 2)]
)
def test_blocks_divide_what_they_are_made_of(build: Callable[[Tensor], Tensor]) -> None:
    assert fault_of(lambda: run(build, np.zeros((1, 3, 3))), __file__)[0] == "TIL312"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_interpolation_keeps_dtypes(dtype: type[Any]) -> None:
    x = np.array([[[0.0, 1.0]]], dtype)
    found = run(lambda t: ops.interpolate(t, 4, mode="linear"), x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, [[[0, 0.25, 0.75, 1]]])


def test_pixels_between_two_are_exact() -> None:
    x = np.arange(49.0).reshape(1, 1, 49)
    found = run(lambda t: ops.interpolate(t, 7), x)
    np.testing.assert_array_equal(found, x[..., ::7])


@pytest.mark.sampled(13)
@pytest.mark.parametrize("scale", [1.1, 1.25, 1.3, 1.9])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_axes_that_keep_their_size_are_copied_where_pytorch_does(size: int, scale: float) -> None:
    x = np.arange(2 * size, dtype=np.float64).reshape(1, 2, size) ** 2
    found = run(lambda t: ops.interpolate(t, scale=scale, mode="linear"), x)
    if int(size * scale) == size:
        np.testing.assert_array_equal(found, x)
    else:
        places = np.clip((np.arange(int(size * scale)) + 0.5) / scale - 0.5, 0, size - 1)
        wanted = np.stack([np.interp(places, np.arange(size), row) for row in x[0]])
        np.testing.assert_allclose(found[0], wanted, atol=1e-9)
