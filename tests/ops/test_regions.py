"""Regions of images, and windows that are moved: what is refused, and what no offset changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.operations import fault_of, run, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x, r: ops.roi_align(x, r, r, (2, 2), samples=-1), "TIL217", "samples are 1 or more, or 0 for the mean"),
        (lambda x, r: ops.roi_align(x, r, r, (2, 2), samples=0, mode="max"), "TIL217", "samples are 1 or more, or 0"),
        (lambda x, r: ops.roi_pool(x, r, r, (2, 2)), "TIL305", "images have 4 axes, regions two"),
        (lambda x, r: ops.roi_align(x, r, r, (2, 2), samples=1), "TIL305", "images have 4 axes, regions two"),
        (lambda x, r: ops.roi_align(x, r, r, (2, 2), samples=1, mode="min"), "TIL217", "mode is one of 'average'"),
        (lambda x, r: ops.deform_conv(x, x, r), "TIL305", "images, kernels, offsets and masks have 4 axes each"),
        (lambda x, _: ops.deform_conv(x, x, x, groups=0), "TIL217", "numbers of groups are integers from 1 on"),
        (lambda x, _: ops.fold(x, (4, 4), 2), "TIL305", "windows as columns have three axes, not 4"),
        (lambda _, r: ops.reverse_sequence(r, r), "TIL217", "examples and times are two axes, and lengths have one"),
        (lambda x, r: ops.update_cache(x, x, r), "TIL217", "the first axis of a cache are examples"),
        (lambda _, r: ops.update_cache(r, r), "TIL217", "the first axis of a cache are examples"),
    ],
)
def test_mistakes(attempt: Callable[[Tensor, Tensor], object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    x, regions = f.input("X", "N", "C", "H", "W"), f.input("R", "M", "K")
    found, text = fault_of(lambda: attempt(x, regions), __file__)
    assert (found, text[: len(message)]) == (code, message)


def test_windows_that_no_offset_moves_are_those_of_a_convolution() -> None:
    x, w = sample(1, 2, 6, 5), sample(3, 2, 3, 2, seed=1)
    options: Any = {"stride": 2, "padding": 1, "dilation": (1, 2)}
    found = run(lambda x, w, o: ops.deform_conv(x, w, o, **options), x, w, np.zeros((1, 12, 3, 3)))
    np.testing.assert_allclose(found, run(lambda x, w: ops.conv(x, w, **options), x, w), atol=1e-12)


def test_columns_of_windows_count_how_often_they_meet_an_element() -> None:
    found = run(lambda x: ops.fold(x, (4,), 3), np.ones((1, 3, 2)))
    np.testing.assert_array_equal(found, [[[1, 2, 2, 1]]])


def test_places_in_f32_do_not_round_images_in_f64() -> None:
    random = np.random.default_rng(0)
    x, offset = random.standard_normal((1, 1, 5, 6)), random.uniform(-1, 1, (1, 2, 5, 6)).astype(np.float32)
    boxes = random.uniform(0, 5, (3, 4)).astype(np.float32)
    images = np.zeros(3, np.int32)
    grid = random.uniform(-1, 1, (1, 4, 4, 2)).astype(np.float32)
    calls: list[tuple[Callable[..., Tensor], tuple[Any, ...]]] = [
        (lambda x, r, i: ops.roi_align(x, r, i, (3, 2), samples=2), (x, boxes, images)),
        (lambda x, w, o: ops.deform_conv(x, w, o), (x, np.ones((1, 1, 1, 1), np.float32), offset)),
        (lambda x, g: ops.grid_sample(x, g, mode="cubic"), (x, grid)),
    ]
    for call, arrays in calls:
        exact = [each.astype(np.float64) if each.dtype == np.float32 else each for each in arrays]
        np.testing.assert_allclose(run(call, *arrays), run(call, *exact), rtol=1e-13, atol=1e-15)


def test_the_greatest_of_samples_that_meet_at_a_border_has_one_slope() -> None:
    def greatest(x: Tensor, r: Tensor, i: Tensor) -> Tensor:
        return ops.sum(ops.roi_align(x, r, i, (1, 1), samples=3, mode="max"))

    x, first = np.array([[[[1.0, 2.0], [0.5, 0.25]]]]), np.zeros(1, np.int32)
    region = np.array([[0.5, -0.4, 2.3, 0.8]])  # two samples lie above of the upper right pixel
    _, slope = tileir.jit(tileir.value_and_grad(greatest))(x, region, first)
    np.testing.assert_allclose(slope, [[[[0, 1], [0, 0]]]])
