"""Which panels of a contraction may be copied as a whole, though some points of their indices do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.passes.kernels.nest import product
from tileir.poly.box import feasible
from tileir.poly.constraint import system

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileir.passes.kernels.nest import Nest, Segment, Use
    from tileir.poly.constraint import Span


def whole_uses(nest: Nest, constrained: frozenset[str], sizes: Mapping[str, Sequence[int]]) -> frozenset[Use]:
    """Return the uses that stay inside of their memory over the whole box of their indices, constraints aside.

    ``sizes`` holds those of the tensor behind each root, as far as they are known: bounds decide then. Where they do
    not, an axis that one constrained index moves stays inside where points exist at both ends of that index: the kernel
    itself reads there, and what lies between is inside, too. Axes that several move are not looked at more closely.
    """
    reached: dict[str, bool] = {}

    def whole(name: str) -> bool:
        found = reached.get(name)
        if found is None:
            found = reached[name] = _reaches_both_ends(nest, name)
        return found

    def inside(use: Use) -> bool:
        axes = [[name for name in affine.indices if name in constrained] for affine in use.access]
        return all(not axis or (len(axis) == 1 and whole(axis[0])) for axis in axes)

    return frozenset(
        use
        for segment in nest.segments
        for use in segment.uses
        if _fits(use, sizes.get(use.root), _ranges(nest, segment)) or inside(use)
    )


def _ranges(nest: Nest, segment: Segment) -> dict[str, int]:
    return {index.name: index.range for index in (*nest.indices, *segment.loops)}


def _fits(use: Use, sizes: Sequence[int] | None, ranges: Mapping[str, int]) -> bool:
    """Return whether every axis of an access, or its one axis over the elements of a tensor, stays in bounds."""
    if sizes is None:
        return False
    sizes = sizes if len(sizes) == len(use.access) else (product(sizes),)
    if len(sizes) != len(use.access):
        return False
    spans = (affine.bounds(ranges) for affine in use.access)
    return all(low >= 0 and high < size for (low, high), size in zip(spans, sizes, strict=True))


def _reaches_both_ends(nest: Nest, name: str) -> bool:
    """Return whether every segment with a loop over an index, or none, has points at its first and last value."""
    for segment in nest.segments:
        ranges = _ranges(nest, segment)
        if name not in ranges:
            continue
        for value in (0, ranges[name] - 1):
            box: Mapping[str, Span] = {n: (value, value) if n == name else (0, r - 1) for n, r in ranges.items()}
            points = system(box, [(constraint, None) for constraint in segment.constraints], box)
            if points is None or feasible(points) is not True:
                return False
    return True
