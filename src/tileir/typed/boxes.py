"""Boxes of elements of a tensor: an interval of each axis, from its first place to the one after the last."""

from __future__ import annotations

import math
from typing import TypeAlias

from tileir.typed.tensor_type import Shape

Interval: TypeAlias = tuple[int, int]
"""The first place on an axis, and the one after the last; empty where both are equal."""

Box: TypeAlias = tuple[Interval, ...]
"""An interval of each axis."""


def whole_box(shape: Shape) -> Box:
    """Return the box of all elements."""
    return tuple((0, size) for size in shape)


def sizes_of(box: Box) -> Shape:
    """Return how many places a box has along each axis."""
    return tuple(high - low for low, high in box)


def elements(box: Box) -> int:
    """Return how many elements a box has."""
    return math.prod(sizes_of(box))


def shared(left: Box, right: Box) -> Box:
    """Return the elements of two boxes; an interval ends before it begins where they have none along an axis."""
    return tuple((max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(left, right, strict=True))


def overlap(left: Box, right: Box) -> int:
    """Return how many elements two boxes share."""
    return math.prod(max(0, size) for size in sizes_of(shared(left, right)))


def hull(left: Box, right: Box) -> Box:
    """Return the smallest box around two; an empty one counts by where it lies."""
    return tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(left, right, strict=True))


def holds(outer: Box, inner: Box) -> bool:
    """Return whether one box lies within another."""
    return all(a[0] <= b[0] and b[1] <= a[1] for a, b in zip(outer, inner, strict=True))
