"""A bilateral filter by a grid, in tileir's Python and in Halide's.

After Chen, Paris and Durand, "Real-time edge-aware image processing with the bilateral grid", 2007:

1. Each pixel adds its value, and 1, to the bin of its value in the cell of its place: a histogram of each cell.
2. The grid is blurred by (1 4 6 4 1) along values, columns and rows.
3. Each pixel reads the grid by trilinear interpolation at its place and value; the result is the quotient of both sums.

Cells have 8 x 8 pixels, values from 0 to 1 ten bins. The edges of the picture are repeated, as far as blurring reaches.
Each channel of a colour picture has a grid of its own.
"""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import tileir
from tileir import ops
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.tile.builder import Tensor

CELL: Final = 8
BINS: Final = 10
MARGIN: Final = 2 * CELL + CELL // 2
"""Pixels around the picture that the blurred grid depends on: cells lie around their pixels."""

BLUR: Final = (1.0, 4.0, 6.0, 4.0, 1.0)


def picture(width: int, height: int, channels: int = 1) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return a picture of smooth steps and noise, from 0 to 1, both sizes multiples of 8.

    It is f32[height, width], or f32[height, width, channels] where these are several.
    """
    rows, columns, channel = np.mgrid[:height, :width, :channels]
    smooth = np.rint(2 + 1.4 * np.sin(rows / 47 + channel) + 1.4 * np.cos(columns / 61)) / 5
    noise = np.random.default_rng(1).normal(0.1, 0.05, rows.shape)
    return np.asarray(np.clip(smooth + noise, 0, 1), np.float32).reshape(
        (height, width, channels)[: 2 + (channels > 1)]
    )


def function(channels: int = 1) -> tileir.Function:
    """Return the filter as a function of a picture, f32[H, W] or f32[H, W, C] from 0 to 1."""
    f = tileir.FunctionBuilder()
    image = f.input("I", "H", "W", *["C"][: channels - 1])
    seen = ops.pad(image, [(MARGIN, MARGIN)] * 2 + [(0, 0)] * (len(image.dims) - 2), mode="edge")
    rows, columns, *planes = seen.dims[0] // CELL, seen.dims[1] // CELL, *seen.dims[2:]
    sizes: list[Any] = [rows, columns, *planes, BINS + 6]
    cell = _row(tf.index(seen, 0) / CELL, tf.index(seen, 1) / CELL, seen, sizes)
    place = ops.reshape(cell + tf.cast(seen * BINS + 0.5, "i32") + 2, -1)
    grids = []
    for name, added in (("Values", seen), ("Counts", ops.ones_like(seen))):
        flat = tf.scatter(ops.reshape(added, -1), place, ops.zeros(image, [reduce(mul, sizes)]))
        grid = f.let(name, ops.reshape(flat, *sizes))
        for axis in (len(sizes) - 1, 1, 0):
            grid = _blurred(f, grid, axis)
        grids.append(grid)
    values, counts = (_interpolated(image, grid) for grid in grids)
    return f.build(O=values / counts)


def _row(row: Any, column: Any, image: Tensor, sizes: Sequence[Any]) -> Any:
    """Return where the bins of a cell begin, in a grid of these sizes, for the channel of each pixel."""
    number = row * sizes[1] + column
    for axis in range(2, len(sizes) - 1):
        number = number * sizes[axis] + tf.index(image, axis)
    return number * sizes[-1]


def _blurred(f: tileir.FunctionBuilder, grid: Tensor, axis: int) -> Tensor:
    weights = f.constant(np.array(BLUR, np.float32))
    *place, k = f.indices("y x c z k" if len(grid.dims) == 4 else "y x z k")
    seen = [index + k if number == axis else index for number, index in enumerate(place)]
    sizes = [size - 4 if number == axis else size for number, size in enumerate(grid.dims)]
    return f.sum(grid[tuple(seen)] * weights[k], place, sizes)


def _interpolated(image: Tensor, grid: Tensor) -> Tensor:
    """Return what the grid has at the place and value of each pixel."""
    value = image * BINS
    lower = tf.cast(value, "i32")
    row, column = tf.index(image, 0), tf.index(image, 1)
    down, across = (tf.cast(index % CELL, "f32") / CELL for index in (row, column))
    flat = ops.reshape(grid, -1)

    def at(y: int, x: int, z: int) -> Tensor:
        return tf.gather(flat, _row(row / CELL + y, column / CELL + x, image, grid.dims) + lower + z)

    def between(z: int) -> Any:
        return _mixed(_mixed(at(0, 0, z), at(0, 1, z), across), _mixed(at(1, 0, z), at(1, 1, z), across), down)

    result: Tensor = _mixed(between(0), between(1), value - tf.cast(lower, "f32"))
    return result


def _mixed(a: Any, b: Any, share: Any) -> Any:
    return a + (b - a) * share


def halide(api: Any, source: Any) -> Any:
    """Return the filter in Halide's language, of a picture whose channels come one after the other."""
    channel = [api.Var("k")][: source.dimensions() - 2]
    x, y, z, c = (api.Var(name) for name in "xyzc")
    place = (x, y, z, *channel, c)
    bins = api.f32(float(BINS))
    bounds = [(0, source.dim(axis).extent()) for axis in range(2)]
    seen = api.BoundaryConditions.repeat_edge(source, bounds)
    cell = api.RDom([(0, CELL), (0, CELL)], "cell")
    value = seen[(x * CELL + cell.x - CELL // 2, y * CELL + cell.y - CELL // 2, *channel)]
    grid = api.Func("grid")
    grid[place] = api.f32(0)
    bin_of = api.clamp(api.i32(value * bins + api.f32(0.5)), 0, BINS)
    grid[(x, y, bin_of, *channel, c)] += api.select(c == 0, value, api.f32(1))
    for axis in (2, 0, 1):
        blurred = api.Func("blurred_" + "xyz"[axis])
        terms = [
            grid[tuple(index + (k if number == axis else 0) for number, index in enumerate(place))] * api.f32(weight)
            for k, weight in enumerate(BLUR, -2)
        ]
        blurred[place] = sum(terms[1:], terms[0])
        grid = blurred
    pixel = (x, y, *channel)
    value = source[pixel] * bins
    lower = api.clamp(api.i32(value), 0, BINS)
    down, across = (api.f32(index % CELL) / api.f32(CELL) for index in (y, x))

    def between(step: int) -> Any:
        def at(down: int, across: int) -> Any:
            return grid[(x / CELL + across, y / CELL + down, lower + step, *channel, c)]

        return _mixed(_mixed(at(0, 0), at(0, 1), across), _mixed(at(1, 0), at(1, 1), across), down)

    sums, result = api.Func("sums"), api.Func("bilateral")
    sums[(*pixel, c)] = _mixed(between(0), between(1), value - api.f32(lower))
    result[pixel] = sums[(*pixel, 0)] / sums[(*pixel, 1)]
    return result
