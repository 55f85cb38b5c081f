"""Grids: what they are along axes of one point."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.operations import run, sample
from tileir import ops


@pytest.mark.parametrize("align_corners", [False, True])
def test_an_axis_of_one_point_has_it_in_the_middle(align_corners: bool) -> None:
    identity = np.array([[[1.0, 0, 0], [0, 1, 0]]])
    found = run(lambda m: ops.affine_grid(m, (1, 3), align_corners=align_corners), identity)
    ends = 1.0 if align_corners else 2 / 3
    np.testing.assert_allclose(found, [[[[-ends, 0.0], [0.0, 0.0], [ends, 0.0]]]], atol=1e-15)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_reflections_repeat_at_any_distance(mode: str, align_corners: bool) -> None:
    image, grid = sample(1, 2, 5, 3), np.random.default_rng(0).uniform(-1.9, 1.9, (1, 7, 6, 2))
    far = grid + 4 * np.random.default_rng(1).integers(-9, 10, grid.shape)  # twice an image is 4 long
    near, found = (
        run(
            lambda x, g: ops.grid_sample(x, g, mode=mode, padding="reflection", align_corners=align_corners),
            image,
            places,
        )
        for places in (grid, far)
    )
    np.testing.assert_allclose(found, near, atol=1e-9)
