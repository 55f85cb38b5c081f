"""The bilateral grid and the camera pipe of the benchmarks, by NumPy and by the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bilateral_grid
import camera_pipe
import tileir

SHAPES = [(8, 8), (16, 64), (72, 48)]


def by_definition(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what the bilateral grid makes of a picture: bins by ``add.at``, weights of the eight corners."""
    cell, margin = bilateral_grid.CELL, bilateral_grid.MARGIN
    seen = np.pad(image, margin, mode="edge")
    bins = (seen * np.float32(bilateral_grid.BINS) + np.float32(0.5)).astype(int) + 2
    places = np.indices(seen.shape) // cell
    rows, columns = np.indices(image.shape)
    value = image * np.float32(bilateral_grid.BINS)
    place = np.stack([rows / cell, columns / cell, value])
    sums = []
    for added in (seen, np.ones_like(seen)):
        grid = np.zeros((seen.shape[0] // cell, seen.shape[1] // cell, bilateral_grid.BINS + 6))
        np.add.at(grid, (*places, bins), added)
        for axis in range(3):
            grid = np.apply_along_axis(np.convolve, axis, grid, bilateral_grid.BLUR, "valid")
        total = np.zeros(image.shape)
        for corner in np.ndindex(2, 2, 2):
            near = np.floor(place).astype(int) + np.reshape(corner, (3, 1, 1))
            total += np.prod(1 - np.abs(place - near), axis=0) * grid[tuple(near)]
        sums.append(total)
    return sums[0] / sums[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_bilateral_grid_is_that_of_numpy(shape: tuple[int, int], threads: int) -> None:
    image = bilateral_grid.picture(*reversed(shape))
    image[0, :3] = 0, 1, 0.25
    context = tileir.Context(options=tileir.Options(threads=threads))
    found = tileir.compile(bilateral_grid.function(), [image], context=context)(image)
    np.testing.assert_allclose(np.asarray(found), by_definition(image), rtol=2e-6)


def test_each_channel_of_a_colour_picture_has_a_grid_of_its_own() -> None:
    image = bilateral_grid.picture(48, 24, 3)
    found = np.asarray(tileir.compile(bilateral_grid.function(3), [image])(image))
    for channel in range(3):
        np.testing.assert_allclose(found[..., channel], by_definition(image[..., channel]), rtol=2e-6)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_camera_pipe_is_that_of_the_interpreter(shape: tuple[int, int], threads: int) -> None:
    seen = camera_pipe.picture(*reversed(shape))
    function = camera_pipe.function()
    context = tileir.Context(options=tileir.Options(threads=threads))
    found = np.asarray(tileir.compile(function, [seen], context=context)(seen))
    assert found.shape == (3, *shape)
    np.testing.assert_array_equal(found, np.asarray(tileir.evaluate(function, [seen])))


@pytest.mark.sampled(0)
def test_the_camera_pipe_keeps_gray_and_takes_hot_pixels_away() -> None:
    """Equal pixels leave nothing to choose, correct or sharpen: tones are the matrix and the table."""
    function = camera_pipe.function()
    level = 500
    seen = np.full((32, 48), level, np.uint16)
    mixed = [min(max(level * (r + g + b) + 256 * offset >> 8, 0), 1023) for r, g, b, offset in camera_pipe.MATRIX]
    expected = np.broadcast_to(camera_pipe.curve()[mixed][:, None, None], (3, 16, 32))
    for hot in (level, 1000):
        seen[15, 20] = hot
        np.testing.assert_array_equal(np.asarray(tileir.jit(function)(seen)), expected)
