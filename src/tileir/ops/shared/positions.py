"""Positions along axes as row and element numbers for gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Size,
    Tensor,
    aggregate,
    broadcast_dims,
    call,
    dim_like,
    dims_of,
    full,
    indices_of,
    integer_of,
    mistaken,
    rank_of,
    tensor_of,
)
from tileir.tile import builder_functions as tf


def without_gaps(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return ``x`` with an element of 0 along empty axes among ``axes``, to which positions outside can point."""
    sizes = [size.max(1) if axis in axes else size for axis, size in enumerate(dims_of(x))]
    return resized(x, sizes)


def resized(x: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """Return ``x`` with other sizes: its first elements along each axis, and 0 beyond its ends."""
    if list(sizes) == list(dims_of(x)):
        return x
    indices = indices_of(x)
    return aggregate(Aggregation.ASSIGN, x[tuple(indices)], indices, sizes)


def element_numbers(flat: Tensor, dims: Sequence[Dim], indices: Tensor, axis: int, mode: str = "clamp") -> Tensor:
    """Return row-major numbers of the elements of a tensor of ``dims`` that ``indices`` name along ``axis``.

    ``flat`` has all elements along one axis.

    Raises:
        TileError: TIL217, the indices have another number of axes.

    """
    if rank_of(indices) != len(dims):
        raise mistaken(f"indices along an axis have as many axes as the tensor, {len(dims)}, not {rank_of(indices)}")
    sizes = [*dims]
    sizes[axis] = dim_like(flat, 1)
    shape = broadcast_dims(full(flat, sizes, 0), indices)
    number = None
    for place, size in enumerate(dims):
        if place == axis:
            part = within(indices, size, flat, mode)
        else:
            part = coordinates(flat, [shape[place] if other == place else 1 for other in range(len(dims))], place)
        number = next_number(number, size, part)
    assert number is not None  # there is an axis
    return number


def within(indices: Tensor, size: Dim, rows: Tensor, mode: str = "clamp") -> Tensor:
    """Return indices inside of an axis of this size, in the dtype that counts the first axis of ``rows``."""
    wide = widened(indices)
    clamped = mode != "wrap"
    inside = tf.min(tf.max(wide, 0), size - 1) if clamped else tf.mod(tf.mod(wide, size) + size, size)
    return tf.as_like(inside, tf.index(rows, 0))


def is_inside(indices: Tensor, size: Dim) -> Tensor:
    """Return whether indices lie inside of an axis of this size."""
    wide = widened(indices)
    return tf.logical_and(wide >= 0, wide < size)


def widened(indices: Tensor) -> Tensor:
    """Return integers of at least 32 bits, which can hold sizes; floats are refused when compiling."""
    return call("bit_or", indices, tf.cast(tensor_of(indices, 0), "i32"))


def coordinates_of(indices: Tensor, depth: int | None, most: int) -> list[Tensor]:
    """Return the coordinates of points along the last axis of ``indices``: one tensor for each coordinate.

    Raises:
        TileError: TIL217, the number of coordinates is not known, or not from 1 to ``most``.
    """
    sizes = dims_of(indices)
    if not sizes:
        raise mistaken("the last axis of indices of points holds their coordinates, but there are no axes")
    count = sizes[-1].value if depth is None else integer_of(depth, "depth")
    if count is None:
        raise mistaken("the number of coordinates of a point is not known; say depth=…")
    if not 1 <= count <= most:
        raise mistaken(f"a point has from 1 to {most} coordinates here, not {count}")
    points = tf.reshape(indices, *sizes[:-1], sizes[-1].call("match", count))
    kept = indices_of(indices)[:-1]
    return [aggregate(Aggregation.ASSIGN, points[(*kept, place)], kept, sizes[:-1]) for place in range(count)]


def row_numbers(rows: Tensor, sizes: Sequence[Dim], behind: int) -> Tensor:
    """Return the row-major number of each element of a tensor of ``sizes``, with ``behind`` further axes of size 1."""
    number = None
    for axis, size in enumerate(sizes):
        own = [size if place == axis else 1 for place in range(len(sizes) + behind)]
        number = next_number(number, size, coordinates(rows, own, axis))
    assert number is not None  # callers have an axis
    return number


def coordinates(rows: Tensor, sizes: Sequence[Size], axis: int) -> Tensor:
    """Return coordinates along an axis, in the dtype that counts the first axis of ``rows``."""
    return tf.as_like(tf.index(full(rows, sizes, 0), axis), tf.index(rows, 0))


def next_number(number: Tensor | None, size: Dim, part: Tensor) -> Tensor:
    """Return the row-major number of an element after one more coordinate."""
    return part if number is None else number * size + part
