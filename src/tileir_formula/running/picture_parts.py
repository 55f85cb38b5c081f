"""Parts of results: strips of large pictures, and rectangles that are shown first.

A part is computed from all pixels that it reads, and the margin around it is cut off. All strips have one size, also
those at the edges, so that they share their kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tileir.core import ArgumentError, attrs

if TYPE_CHECKING:
    from tileir_formula.running.footprint import Reach

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Compute: TypeAlias = Callable[[Sequence[Array]], tuple[Array, ...]]

MOST_PIXELS: Final = 50_000_000
"""The most pixels of pictures that are computed as a whole."""

STRIP_PIXELS: Final = 8_000_000
"""Pixels of a strip, about."""


@attrs.frozen
class Rectangle:
    """Rows and columns of a picture."""

    top: int
    left: int
    height: int
    width: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Its place in an array, as slices."""
        return slice(self.top, self.top + self.height), slice(self.left, self.left + self.width)


def check_inside(wanted: Rectangle, shape: tuple[int, ...]) -> None:
    """Raise ArgumentError, TIL314, unless results of a shape have these rows and columns."""
    rows = 0 <= wanted.top < wanted.top + wanted.height <= shape[0]
    if not rows or not 0 <= wanted.left < wanted.left + wanted.width <= shape[1]:
        raise ArgumentError.of("TIL314", f"a result of {shape[0]} rows and {shape[1]} columns has no {wanted}")


def part(compute: Compute, pictures: Sequence[Array], reach: Reach, wanted: Rectangle) -> tuple[Array, ...]:
    """Return a rectangle of each result."""
    read = part_read(wanted, reach, pictures[0].shape)
    results = compute([np.ascontiguousarray(picture[read.slices]) for picture in pictures])
    inner = Rectangle(wanted.top - read.top, wanted.left - read.left, wanted.height, wanted.width)
    return tuple(result[inner.slices] for result in results)


def part_read(wanted: Rectangle, reach: Reach, shape: tuple[int, ...]) -> Rectangle:
    """Return the rectangle of the pictures that a rectangle of results reads."""
    top, height = _start_and_size(wanted.top, wanted.height, reach.above, reach.below, shape[0])
    left, width = _start_and_size(wanted.left, wanted.width, reach.left, reach.right, shape[1])
    return Rectangle(top, left, height, width)


def in_strips(
    compute: Compute, pictures: Sequence[Array], reach: Reach, rows_at_once: int
) -> Iterator[tuple[Rectangle, tuple[Array, ...]]]:
    """Yield strips of all results, from top to bottom, with their places; the last may overlap another."""
    rows, columns = pictures[0].shape[:2]
    yield from in_tiles(compute, pictures, reach, Rectangle(0, 0, min(rows_at_once, rows), columns))


def in_tiles(
    compute: Compute, pictures: Sequence[Array], reach: Reach, first: Rectangle
) -> Iterator[tuple[Rectangle, tuple[Array, ...]]]:
    """Yield a part of all results, then the others of its size, with their places.

    They share the kernels of the first part. Tiles at the ends overlap others.
    """
    yield first, part(compute, pictures, reach, first)
    rows, columns = pictures[0].shape[:2]
    for top in range(0, rows, first.height):
        for left in range(0, columns, first.width):
            place = (min(top, rows - first.height), min(left, columns - first.width))
            wanted = Rectangle(*place, first.height, first.width)
            if wanted != first:
                yield wanted, part(compute, pictures, reach, wanted)


def _start_and_size(start: int, size: int, before: int, after: int, whole: int) -> tuple[int, int]:
    """Return the first element and the number of elements read for a range; the number is equal at the edges."""
    read = min(whole, size + before + after)
    return min(max(0, start - before), whole - read), read
