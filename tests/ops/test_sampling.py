"""Grids: what they are along axes of one point."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.operations import run
from tileir import ops


@pytest.mark.parametrize("align_corners", [False, True])
def test_an_axis_of_one_point_has_it_in_the_middle(align_corners: bool) -> None:
    identity = np.array([[[1.0, 0, 0], [0, 1, 0]]])
    found = run(lambda m: ops.affine_grid(m, (1, 3), align_corners=align_corners), identity)
    ends = 1.0 if align_corners else 2 / 3
    np.testing.assert_allclose(found, [[[[-ends, 0.0], [0.0, 0.0], [ends, 0.0]]]], atol=1e-15)
