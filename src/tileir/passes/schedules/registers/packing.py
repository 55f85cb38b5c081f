"""Panels of a contraction that can be copied whole, though some points do not exist, or that need no copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.poly.box import feasible
from tileir.poly.constraint import Span, system
from tileir.schedule.nest import Nest, Segment, Use, product
from tileir.stripe.check.views import is_compact
from tileir.stripe.ir import Index, TensorShape

_FAR: Final = 32
"""Relative cost of reading a panel that exceeds the caches near the processor."""

_CROWDED: Final = 16
"""Relative cost if rows of a panel evict each other from the nearest cache: copying a vector, a load that misses and a
store, pays if about five tiles of rows load it.
"""

WAY_BYTES: Final = 4096
"""Bytes of a way of the nearest cache, its set-index period: addresses this far apart map to one set."""

_PAGES: Final = 64
"""Entries of the first-level TLB."""


def whole_uses(nest: Nest, shapes: Mapping[str, TensorShape]) -> frozenset[Use]:
    """Return the uses that stay in bounds over the whole box of their indices, ignoring constraints.

    ``shapes`` holds those of the tensor behind each root; known bounds decide. Otherwise an axis is in bounds if points
    exist at both of its ends: the kernel itself reads there, so all between is inside, too. Axes that are not those of
    the tensor count as one, the distance from its start: along diagonals, a place between the ends of each axis may
    still be behind the last element.
    """
    boxes = (_Box.of(nest, segment) for segment in nest.segments)
    return frozenset(use for box in boxes for use in box.segment.uses if box.is_inside(use, shapes.get(use.root)))


@attrs.frozen(eq=False, repr=False)
class _Box:
    """All points of a segment, including those excluded by constraints."""

    segment: Segment
    ranges: Mapping[str, int]
    tested: frozenset[str]
    _existing: dict[frozenset[tuple[str, int]], bool] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, nest: Nest, segment: Segment) -> _Box:
        """Return the box of a segment of a nest."""
        ranges = {index.name: index.range for index in (*nest.indices, *segment.loops)}
        return cls(segment, ranges, frozenset(name for c in segment.constraints for name in c.indices))

    def is_inside(self, use: Use, shape: TensorShape | None) -> bool:
        """Return whether a use stays in bounds at all points."""
        places, sizes = use.access, () if shape is None else shape.sizes
        if shape is None or use.strides != shape.strides:
            places = (use.address,)
            sizes = () if shape is None or not is_compact(shape) else (shape.elements,)
        if sizes and all(map(self._is_within, places, sizes)):
            return True
        return all(self._is_reached(place) and self._is_reached(-place) for place in places)

    def _is_within(self, place: Affine, size: int) -> bool:
        low, high = place.bounds(self.ranges)
        return low >= 0 and high < size

    def _is_reached(self, place: Affine) -> bool:
        """Return whether some existing point attains the maximum of an affine over the box."""
        terms = ((name, coefficient) for name, coefficient in place.terms if name in self.tested)
        corner = frozenset((name, self.ranges[name] - 1 if coefficient > 0 else 0) for name, coefficient in terms)
        if corner not in self._existing:
            self._existing[corner] = self._exists(dict(corner))
        return self._existing[corner]

    def _exists(self, fixed: Mapping[str, int]) -> bool:
        ends = {name: (fixed.get(name, 0), fixed.get(name, count - 1)) for name, count in self.ranges.items()}
        box: Mapping[str, Span] = dict(ends)
        points = system(box, [(constraint, None) for constraint in self.segment.constraints], box)
        return points is not None and feasible(points) is True


def is_dense(use: Use, loops: Sequence[Index], width: int) -> bool:
    """Return whether a panel of ``width`` elements is contiguous in memory, like a packed one."""
    expected = width
    for index in sorted(loops, key=lambda i: abs(use.stride(i.name))):
        if use.stride(index.name) != expected:
            return False
        expected *= index.range
    return True


def dearness(use: Use, loops: Sequence[Index], width: int, cache_bytes: int, panel_bytes: int) -> int:
    """Return the cost of reading a panel of ``width`` elements in place, relative to a packed one in the nearest cache.

    The nearest cache has ``cache_bytes``, and a panel may have ``panel_bytes`` in the next one.
    """
    if product(i.range for i in loops) * width * use.dtype.itemsize > panel_bytes:
        return _FAR
    return _CROWDED if is_crowded(use, loops, width, cache_bytes) else 1


def is_crowded(use: Use, loops: Sequence[Index], width: int, cache_bytes: int) -> bool:
    """Return whether rows of a panel evict each other from the nearest cache, though it is large enough for them.

    Rows map to few cache sets if their distance has a large power of two as a factor, or they are in more pages than
    the TLB holds. Overlapping rows, as in windows, are never crowded.
    """
    size, reach = use.dtype.itemsize, width
    sets, pages = 1, 1.0
    for index in sorted(loops, key=lambda i: abs(use.stride(i.name))):
        stride = abs(use.stride(index.name))
        if stride < reach:
            return False
        reach = stride * index.range
        sets *= min(index.range, WAY_BYTES // gcd(stride * size, WAY_BYTES))
        pages *= max(1.0, index.range * min(1.0, stride * size / WAY_BYTES))
    row, ways = width * size, cache_bytes // WAY_BYTES
    held = min(WAY_BYTES, sets * row) * ways
    return pages > _PAGES or held < product(i.range for i in loops) * row <= cache_bytes
