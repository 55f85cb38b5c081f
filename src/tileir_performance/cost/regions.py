"""Regions of addresses that an access touches over a box of points, and distinct addresses of several accesses.

A region is ``offset + Σ stride·x`` with ``0 <= x < count`` for each of its dimensions. It is *exact* where every
address occurs once, which its construction ensures: a step that is a multiple of the dimension below it, and no longer
than that, extends that dimension (a sliding window); a step beyond all below adds one. Creusillet and Irigoin,
"Interprocedural array region analyses" (1996), summarise the extents of array sections by these two rules. Everything
else is bounded by the smaller of the number of points and the reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Final, TypeAlias

from tileir.core.nodes import attrs

Dims: TypeAlias = tuple[tuple[int, int], ...]
"""(stride, count) pairs by growing stride, all strides positive and all counts above 1."""


MOST_REGIONS: Final = 32
"""Of more regions the union is only bounded."""


@attrs.frozen(cache_hash=True)
class Region:
    """A set of addresses; see the module text. ``elements`` is a bound where it is not ``exact``."""

    offset: int
    dims: Dims
    elements: int
    exact: bool = True

    @property
    def reach(self) -> int:
        """Addresses from the first to the last, both included."""
        return 1 + sum(stride * (count - 1) for stride, count in self.dims)

    def limited(self, elements: int) -> Region:
        """Return a region of at most this many of these addresses."""
        return self if self.elements <= elements else attrs.evolve(self, elements=elements, exact=False)


def region_of(offset: int, steps: Iterable[tuple[int, int]]) -> Region:
    """Return the region of an access that moves by (step, range) pairs."""
    moves = []
    for step, size in steps:
        if step and size > 1:
            offset += min(0, step * (size - 1))
            moves.append((abs(step), size))
    moves.sort()
    return _region(offset, tuple(moves))


@lru_cache(maxsize=4096)
def _shape(moves: Dims) -> tuple[Dims, int, bool]:
    dims: list[tuple[int, int]] = []
    below = 0  # the reach of all dimensions below the last, less one
    points, exact = 1, True
    for step, size in moves:
        points *= size
        if dims:
            stride, count = dims[-1]
            times, left = divmod(step, stride)
            if left == 0 and times <= count:
                dims[-1] = (stride, count + times * (size - 1))
                continue
            reach = below + stride * (count - 1)
            exact = exact and step > reach
            below = reach
        dims.append((step, size))
    elements = prod([count for _, count in dims])
    reach = 1 + sum(stride * (count - 1) for stride, count in dims)
    return tuple(dims), min(elements, points, reach), exact


def _region(offset: int, moves: Dims) -> Region:
    dims, elements, exact = _shape(moves)
    return Region(offset, dims, elements, exact)


def distinct(regions: Sequence[Region]) -> tuple[int, bool]:
    """Return the number of distinct addresses in regions of one tensor, and whether that is exact."""
    different = list(dict.fromkeys(regions))
    if len(different) == 1:
        return different[0].elements, different[0].exact
    total = sum(region.elements for region in different)
    first = min(region.offset for region in different)
    last = max(region.offset + region.reach for region in different)
    boxes = _as_boxes(different, first) if len(different) <= MOST_REGIONS else None
    if boxes is None:
        apart = _are_apart(different)
        return (total, all(r.exact for r in different)) if apart else (min(total, last - first), False)
    return _union(boxes), True


def _are_apart(regions: Sequence[Region]) -> bool:
    ordered = sorted(regions, key=lambda region: region.offset)
    return all(one.offset + one.reach <= other.offset for one, other in pairwise(ordered))


Box: TypeAlias = tuple[tuple[int, int], ...]
"""First and past-the-last coordinate along each axis."""


def _as_boxes(regions: Sequence[Region], first: int) -> list[Box] | None:
    """Return the regions as boxes of one grid whose points have different addresses; None where there is none."""
    strides = sorted({stride for region in regions for stride, _ in region.dims})
    if not all(region.exact for region in regions):
        return None
    boxes: list[Box] = []
    for region in regions:
        left, counts, box = region.offset - first, dict(region.dims), []
        for stride in reversed(strides):
            at = (2 * left + stride) // (2 * stride)
            left -= at * stride
            box.append((at, at + counts.get(stride, 1)))
        if left:
            return None
        boxes.append(tuple(reversed(box)))
    reach = 0
    for axis, stride in enumerate(strides):
        if stride <= reach:
            return None
        reach += stride * (max(box[axis][1] for box in boxes) - min(box[axis][0] for box in boxes) - 1)
    return boxes


def _union(boxes: Sequence[Box]) -> int:
    """Return the number of points in the union of boxes, by the cells between all their corners."""
    if not boxes[0]:
        return 1
    cuts = sorted({corner for box in boxes for corner in box[-1]})
    points = 0
    for low, high in pairwise(cuts):
        inside = list(dict.fromkeys(box[:-1] for box in boxes if box[-1][0] <= low and high <= box[-1][1]))
        if inside:
            points += (high - low) * (_union(inside) if len(inside) > 1 else _size(inside[0]))
    return points


def _size(box: Box) -> int:
    return prod([high - low for low, high in box])


def lines_of(region: Region, itemsize: int, line_bytes: int) -> float:
    """Return the number of cache lines that a region touches; the expected number where its alignment is unknown."""
    run, runs, aligned = 1, 1, True
    for stride, count in region.dims:
        if stride * itemsize < line_bytes or stride <= run:
            run += stride * (count - 1)
        else:
            runs *= count
            aligned = aligned and stride * itemsize % line_bytes == 0
    length = run * itemsize
    if aligned:
        return min(region.elements, runs * (-(-((region.offset * itemsize) % line_bytes + length) // line_bytes)))
    return min(region.elements, runs * (1 + (length - itemsize) / line_bytes))
