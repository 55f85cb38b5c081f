"""Sampling of images at grids of points: spatial transformers, for any number of spatial axes.

Images are [N, C, D…], grids [N, O…, d], whose last axis holds a point for each result: its coordinates in PyTorch's
order, that of the innermost spatial axis first. -1 and 1 are the ends of an axis: the centres of its first and last
elements with ``align_corners``, else their outer edges. Source: Jaderberg et al., "Spatial transformer networks", 2015;
PyTorch's ``grid_sample`` and ``affine_grid``.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Final

from tileir.ops.arrays.indexing import cubic_weights, gather_nd
from tileir.ops.arrays.joining import stack
from tileir.ops.arrays.shaping import moveaxis
from tileir.ops.arrays.slicing import select
from tileir.ops.shared.foundation import (
    Dim,
    Size,
    Tensor,
    call,
    cast_to,
    chosen,
    dim_like,
    dims_of,
    full,
    mistake,
    mistaken,
    narrowed,
    rank_of,
    real,
    wide,
    wide_together,
)
from tileir.ops.shared.positions import coordinates_of
from tileir.tile import builder_functions as tf

MODES: Final = ("linear", "nearest", "cubic")
PADDINGS: Final = ("zeros", "border", "reflection")


def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    mode: str = "linear",
    padding: str = "zeros",
    align_corners: bool = False,
    coefficient: float = -0.75,
) -> Tensor:
    """Return the pixels of images at the points of grids: ``O[n, c, o] = X[n, c, position(grid[n, o])]``.

    A coordinate g of an axis of size S is the position ``(g + 1) / 2 * (S - 1)`` with ``align_corners``, else ``((g +
    1) * S - 1) / 2``. "linear" weights the neighbours of a position, 2 on each axis, by their distances, and "nearest"
    takes one, of two the even one. "cubic" weights 4 on each axis, as :func:`tileir.ops.interpolate` does with its
    ``coefficient``. Outside of an image there are zeros, or its "border" is repeated, or it is mirrored ("reflection").
    Linear and cubic sampling have gradients for the grid, too.

    Shapes: as above; the result is [N, C, O…]. Dtype: the promoted one; integers give f32.

    Raises:
        TileError: TIL305, a rank differs; TIL217, an option is wrong; TIL312 when compiling, the last axis of the grid
            has not an element for each spatial axis.
    """
    chosen(mode, MODES, "mode")
    chosen(padding, PADDINGS, "padding")
    space = rank_of(x) - 2
    if space < 1 or rank_of(grid) != space + 2:
        raise mistake(
            "TIL305", f"images have three axes or more, and grids as many; not {rank_of(x)} and {rank_of(grid)}"
        )
    sizes = dims_of(x)[2:]
    coordinates = coordinates_of(wide_together(grid, x)[0], space, space)[::-1]
    pixels = moveaxis(x, 1, -1)

    def at(wholes: Sequence[Tensor]) -> Tensor:
        points = stack([cast_to(whole, "i32") for whole in wholes], -1)
        return gather_nd(pixels, points, depth=space, batch_dims=1, mode="fill")

    neighbours = [
        _neighbours(_position(g, size, align_corners), size, mode, padding, align_corners, coefficient)
        for g, size in zip(coordinates, sizes, strict=True)
    ]
    result = None
    for corner in itertools.product(*neighbours):
        taken = at([place for place, _ in corner])
        weights = [part for _, part in corner if part is not None]
        if weights:
            weight = functools.reduce(operator.mul, weights)
            taken = taken * tf.reshape(weight, *dims_of(weight), 1)
        result = taken if result is None else result + taken
    assert result is not None  # there is a corner or more
    return moveaxis(narrowed(result, x, grid), -1, 1)


def affine_grid(matrix: Tensor, sizes: Sequence[Size], *, align_corners: bool = False) -> Tensor:
    """Return the grids for :func:`grid_sample` that move images by affine maps: ``O[n, o] = M[n] (o, 1)``.

    Shapes: ``matrix`` is [N, d, d + 1], ``sizes`` are the d spatial ones of the result [N, sizes…, d]; points o are
    (x, y, …), from -1 to 1; along an axis of one point it is 0, as in PyTorch. Dtype: that of ``matrix``.

    Raises:
        TileError: TIL305, ``matrix`` has not three axes; TIL217, there are no sizes; TIL310 when compiling, ``matrix``
            has not d rows and d + 1 columns.

    """
    if rank_of(matrix) != 3:
        raise mistake("TIL305", f"affine maps have three axes, not {rank_of(matrix)}")
    if not sizes:
        raise mistaken("a grid has one size or more")
    space, batch = len(sizes), dims_of(matrix)[0]
    checked = tf.reshape(wide(matrix), batch, space, space + 1)
    columns = [tf.reshape(select(checked, 2, place), batch, *[1] * space, space) for place in range(space + 1)]
    result = columns[-1]
    for axis, size in enumerate(dim_like(matrix, size) for size in sizes):
        step = call("as_like", tf.index(full(matrix, [size], 0), 0), wide(matrix))
        place = (
            (step * 2 - real(size - 1)) / real((size - 1).max(1)) if align_corners else (step * 2 + 1) / real(size) - 1
        )
        result = result + tf.reshape(place, size, *[1] * (space - axis)) * columns[space - 1 - axis]
    return narrowed(result, matrix)


def _neighbours(
    place: Tensor, size: Dim, mode: str, padding: str, align_corners: bool, coefficient: float
) -> list[tuple[Tensor, Tensor | None]]:
    """Return the positions of the elements around a position on an axis, and their weights; None is 1."""
    if mode == "cubic":
        if padding != "reflection":  # all neighbours farther away are equal
            place = tf.where(place < -3, -3, tf.where(place > size + 2, size + 2, place))
        low = tf.floor(place)
        taps = (_within(low + offset, size, padding, align_corners) for offset in (-1, 0, 1, 2))
        return list(zip(taps, cubic_weights(place - low, coefficient), strict=True))
    place = _within(place, size, padding, align_corners)
    if mode == "nearest":
        return [(tf.round(place), None)]
    low = tf.floor(place)
    return [(low, 1 - (place - low)), (low + 1, place - low)]


def _position(coordinate: Tensor, size: Dim, align_corners: bool) -> Tensor:
    """Return the position of a coordinate, in elements."""
    if align_corners:
        return (coordinate + 1) * real(size - 1) / 2
    return ((coordinate + 1) * real(size) - 1) / 2


def _within(place: Tensor, size: Dim, padding: str, align_corners: bool) -> Tensor:
    """Return a position within an axis, unless there are zeros around it."""
    if padding == "zeros":  # farther away all is zero, too, but infinity has no neighbours
        return tf.where(place < -2, -2, tf.where(place > size + 1, size + 1, place))
    if padding == "reflection":
        low, span = (0.0, real((size - 1).max(1))) if align_corners else (-0.5, real(size))
        distance = tf.abs(place - low)
        rest, times = tf.mod(distance, span), tf.floor(distance / span)
        place = tf.where(tf.mod(times, 2) == 0, rest, span - rest) + low
    last = size - 1
    inner = tf.where(place < 0, 0, place)
    return tf.where(inner > last, last, inner)
