"""A bilateral filter by a grid, in tileir's Python and in Halide's.

After Chen, Paris and Durand, "Real-time edge-aware image processing with the bilateral grid", 2007:

1. Each pixel adds its value, and 1, to the bin of its value in the cell of its place: a histogram of each cell.
2. The grid is blurred by (1 4 6 4 1) along values, columns and rows.
3. Each pixel reads the grid by trilinear interpolation at its place and value; the result is the quotient of both sums.

Cells have 8 x 8 pixels, values from 0 to 1 ten bins. The edges of the picture are repeated, as far as blurring reaches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

import tileir
from tileir import ops
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from tileir.tile.builder import Tensor

CELL: Final = 8
BINS: Final = 10
MARGIN: Final = 2 * CELL + CELL // 2
"""Pixels around the picture that the blurred grid depends on: cells lie around their pixels."""

BLUR: Final = (1.0, 4.0, 6.0, 4.0, 1.0)


def picture(width: int, height: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return a picture of smooth steps and noise, f32[height, width] from 0 to 1, both sizes multiples of 8."""
    rows, columns = np.mgrid[:height, :width]
    smooth = np.rint(2 + 1.4 * np.sin(rows / 47) + 1.4 * np.cos(columns / 61)) / 5
    noise = np.random.default_rng(1).normal(0.1, 0.05, rows.shape)
    return np.asarray(np.clip(smooth + noise, 0, 1), np.float32)


def function() -> tileir.Function:
    """Return the filter as a function of a picture, f32[H, W] from 0 to 1."""
    f = tileir.FunctionBuilder()
    image = f.input("I", "H", "W")
    seen = ops.pad(image, [(MARGIN, MARGIN)] * 2, mode="edge")
    rows, columns, bins = seen.dims[0] // CELL, seen.dims[1] // CELL, BINS + 6
    cell = tf.index(seen, 0) / CELL * columns + tf.index(seen, 1) / CELL
    place = ops.reshape(cell * bins + tf.cast(seen * BINS + 0.5, "i32") + 2, -1)
    grids = []
    for name, added in (("Values", seen), ("Counts", ops.ones_like(seen))):
        flat = tf.scatter(ops.reshape(added, -1), place, ops.zeros(image, [rows * columns * bins]))
        grid = f.let(name, ops.reshape(flat, rows, columns, bins))
        for axis in (2, 1, 0):
            grid = _blurred(f, grid, axis)
        grids.append(grid)
    values, counts = (_interpolated(image, grid) for grid in grids)
    return f.build(O=values / counts)


def _blurred(f: tileir.FunctionBuilder, grid: Tensor, axis: int) -> Tensor:
    weights = f.constant(np.array(BLUR, np.float32))
    *place, k = f.indices("y x z k")
    seen = [index + k if number == axis else index for number, index in enumerate(place)]
    sizes = [size - 4 if number == axis else size for number, size in enumerate(grid.dims)]
    return f.sum(grid[tuple(seen)] * weights[k], place, sizes)


def _interpolated(image: Tensor, grid: Tensor) -> Tensor:
    """Return what the grid has at the place and value of each pixel."""
    _, columns, bins = grid.dims
    value = image * BINS
    lower = tf.cast(value, "i32")
    row, column = tf.index(image, 0), tf.index(image, 1)
    down, across = (tf.cast(index % CELL, "f32") / CELL for index in (row, column))
    flat = ops.reshape(grid, -1)

    def at(y: int, x: int, z: int) -> Tensor:
        return tf.gather(flat, ((row / CELL + y) * columns + column / CELL + x) * bins + lower + z)

    def between(z: int) -> Any:
        return _mixed(_mixed(at(0, 0, z), at(0, 1, z), across), _mixed(at(1, 0, z), at(1, 1, z), across), down)

    result: Tensor = _mixed(between(0), between(1), value - tf.cast(lower, "f32"))
    return result


def _mixed(a: Any, b: Any, share: Any) -> Any:
    return a + (b - a) * share


def halide(api: Any, source: Any) -> Any:
    """Return the filter in Halide's language."""
    x, y, _, c = place = tuple(api.Var(name) for name in "xyzc")
    bins = api.f32(float(BINS))
    seen = api.BoundaryConditions.repeat_edge(source, [(0, source.width()), (0, source.height())])
    cell = api.RDom([(0, CELL), (0, CELL)], "cell")
    value = seen[x * CELL + cell.x - CELL // 2, y * CELL + cell.y - CELL // 2]
    grid = api.Func("grid")
    grid[place] = api.f32(0)
    grid[x, y, api.clamp(api.i32(value * bins + api.f32(0.5)), 0, BINS), c] += api.select(c == 0, value, api.f32(1))
    for axis in (2, 0, 1):
        blurred = api.Func("blurred_" + "xyz"[axis])
        terms = [
            grid[tuple(index + (k if number == axis else 0) for number, index in enumerate(place))] * api.f32(weight)
            for k, weight in enumerate(BLUR, -2)
        ]
        blurred[place] = sum(terms[1:], terms[0])
        grid = blurred
    value = source[x, y] * bins
    lower = api.clamp(api.i32(value), 0, BINS)
    down, across = (api.f32(index % CELL) / api.f32(CELL) for index in (y, x))

    def between(step: int) -> Any:
        def at(down: int, across: int) -> Any:
            return grid[x / CELL + across, y / CELL + down, lower + step, c]

        return _mixed(_mixed(at(0, 0), at(0, 1), across), _mixed(at(1, 0), at(1, 1), across), down)

    sums, result = api.Func("sums"), api.Func("bilateral")
    sums[x, y, c] = _mixed(between(0), between(1), value - api.f32(lower))
    result[x, y] = sums[x, y, 0] / sums[x, y, 1]
    return result
