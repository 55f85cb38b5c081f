"""Boxes of elements of a tensor: a half-open interval along each axis."""

from __future__ import annotations

import math
from typing import TypeAlias

from tileir.typed.tensor_type import Shape

Interval: TypeAlias = tuple[int, int]
"""The first position on an axis, and the one after the last; empty if both are equal."""

Box: TypeAlias = tuple[Interval, ...]
"""An interval of each axis."""


def whole_box(shape: Shape) -> Box:
    """Return the box of all elements."""
    return tuple((0, size) for size in shape)


def sizes_of(box: Box) -> Shape:
    """Return the number of positions along each axis of a box."""
    return tuple(high - low for low, high in box)


def elements(box: Box) -> int:
    """Return the number of elements of a box."""
    return math.prod(sizes_of(box))


def shared(left: Box, right: Box) -> Box:
    """Return the intersection of two boxes; an interval ends before its start where they are disjoint along an axis."""
    return tuple((max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(left, right, strict=True))


def overlap(left: Box, right: Box) -> int:
    """Return the number of elements in the intersection of two boxes."""
    return math.prod(max(0, size) for size in sizes_of(shared(left, right)))


def hull(left: Box, right: Box) -> Box:
    """Return the smallest box that contains two boxes; the position of an empty box counts, too."""
    return tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(left, right, strict=True))


def holds(outer: Box, inner: Box) -> bool:
    """Return whether one box lies within another."""
    return all(a[0] <= b[0] and b[1] <= a[1] for a, b in zip(outer, inner, strict=True))
