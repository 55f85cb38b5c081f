"""Operations on axes without elements, beside NumPy or what their definitions say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strategies.operations import integers, run, sample
from tileir import TileError, ops

OUTSIDE = np.array([0, -1, 2])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_what_is_taken_outside_is_filled(axis: int) -> None:
    shape = [2, 3, 2]
    shape[axis] = 0
    x = sample(*shape)
    shape[axis] = len(OUTSIDE)
    np.testing.assert_array_equal(
        run(lambda x, i: ops.take(x, i, axis, mode="fill", fill=7), x, OUTSIDE), np.full(shape, 7.0)
    )
    indices = integers(*shape)
    np.testing.assert_array_equal(
        run(lambda x, i: ops.take_along_axis(x, i, axis, mode="fill", fill=7), x, indices), np.full(shape, 7.0)
    )


def test_points_outside_are_filled() -> None:
    points = np.array([[0, 0], [1, 2]])
    for shape in ((0, 3, 2), (3, 0, 2), (0, 0, 2)):
        found = run(lambda x, i: ops.gather_nd(x, i, depth=2, mode="fill", fill=7), sample(*shape), points)
        np.testing.assert_array_equal(found, np.full((2, 2), 7.0))


def test_where_another_axis_is_empty_nothing_is_taken() -> None:
    for mode in ("clamp", "fill", "wrap"):
        found = run(lambda x, i, mode=mode: ops.take(x, i, 1, mode=mode), sample(0, 3), OUTSIDE)
        np.testing.assert_array_equal(found, np.take(sample(0, 3), OUTSIDE, 1))
        found = run(lambda x, i, mode=mode: ops.take(x, i, mode=mode), sample(3, 0), OUTSIDE)
        np.testing.assert_array_equal(found, np.take(sample(3, 0), OUTSIDE, 0))


def test_an_empty_axis_has_no_nearest_element() -> None:
    with pytest.raises(TileError, match="TIL310"):
        run(ops.take, sample(0, 3), OUTSIDE)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", ["add", "mul", "max", "min", "set"])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_updates_outside_are_dropped(mode: str, shape: tuple[int, int]) -> None:
    options: dict[str, Any] = {"mode": mode, "bounds": "drop"}
    x = sample(*shape)
    for axis in (0, 1):
        size = list(shape)
        size[axis] = len(OUTSIDE)
        found = run(lambda x, i, u, axis=axis: ops.scatter(x, i, u, axis=axis, **options), x, OUTSIDE, sample(*size))
        np.testing.assert_array_equal(found, x)
        indices = integers(*size)
        found = run(
            lambda x, i, u, axis=axis: ops.scatter_along_axis(x, i, u, axis, **options), x, indices, sample(*size)
        )
        np.testing.assert_array_equal(found, x)
    found = run(lambda x, i: ops.scatter_nd(x, i, 9, depth=2, **options), x, np.array([[0, 0], [1, 1]]))
    np.testing.assert_array_equal(found, x)


def test_of_no_boxes_none_stays() -> None:
    kept, count = run(lambda boxes, scores: ops.stack([*_padded(ops.nms(boxes, scores, 2))]), sample(0, 4), sample(0))
    np.testing.assert_array_equal(kept, [-1, -1])
    np.testing.assert_array_equal(count, [0, 0])


def _padded(parts: tuple[Any, Any]) -> tuple[Any, Any]:
    return parts[0], parts[1] + parts[0] * 0


def test_outside_of_empty_images_are_zeros() -> None:
    grid = sample(2, 2, 3, 2)
    for shape in ((2, 3, 0, 4), (2, 3, 4, 0), (2, 3, 0, 0)):
        for mode in ("linear", "nearest"):
            found = run(lambda x, g, mode=mode: ops.grid_sample(x, g, mode=mode), sample(*shape), grid)
            np.testing.assert_array_equal(found, np.zeros((2, 3, 2, 3)))


@pytest.mark.parametrize("size", [0, 1, 2, 5])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_differences_of_short_axes(size: int, order: int) -> None:
    for axis, x in ((0, sample(size, 2)), (1, sample(2, size))):
        found = run(lambda x, axis=axis: ops.diff(x, order, axis), x)
        np.testing.assert_allclose(found, np.diff(x, order, axis), rtol=1e-6, atol=1e-12)
