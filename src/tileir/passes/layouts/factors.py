"""Which axis of a factor of a product of matrices should be the fastest: one along which tiles of it can be copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.passes.analysis.walks import Walk

LEAST: Final = 16
"""Fewer neighbours are not worth a copy."""


def factor_axis(walk: Walk, together: Sequence[Walk], sizes: Sequence[int]) -> int | None:
    """Return the axis of a factor's tensor that should be the fastest; None where the product does not care.

    ``together`` are all walks of the kernel, ``sizes`` those of the tensor. Tiles of a factor are copied in wide pieces
    along an index that is summed over and moves both factors, or along one of the outputs. Where neighbours are the
    pixels of a window, or the places in it, pieces would begin anywhere.
    """
    reads = [each for each in together if not each.writes]
    points = max((each.points for each in reads), default=0)
    factors = [each for each in reads if each.points == points]
    if len(factors) != 2 or walk not in factors:
        return None
    (other,) = (each for each in factors if each is not walk)
    kept = {name for each in together if each.writes for name in _indices(each)}
    panels = [(_indices(one) - _indices(two)) & kept for one, two in ((walk, other), (other, walk))]
    if not all(panels) or not (_indices(walk) & _indices(other)) - kept:
        return None  # no tile of one meets a tile of the other
    moved = [axis for axis, affine in enumerate(walk.access) if affine.indices]
    fastest = min(moved, key=lambda axis: (abs(walk.strides[axis]), -axis), default=None)
    if fastest is None:
        return None
    shared, own = [], []
    for axis in moved:
        name = _alone(walk, axis)
        if name is None or (axis != fastest and sizes[axis] < LEAST):
            continue
        if name in kept:
            own += [] if other.stride(name) else [axis]
        elif any(_alone(other, each) == name for each in range(len(other.access))):
            shared.append(axis)
    if fastest in (*shared, *own):
        return None
    return max(shared or own, key=lambda axis: sizes[axis], default=None)


def _indices(walk: Walk) -> set[str]:
    return {name for affine in walk.access for name in affine.indices}


def _alone(walk: Walk, axis: int) -> str | None:
    """Return the index that moves a walk along an axis from each element to the next, if it moves nothing else."""
    affine = walk.access[axis]
    if len(affine.indices) != 1 or affine.coefficient(affine.indices[0]) != 1:
        return None
    name = affine.indices[0]
    return name if all(name not in each.indices for n, each in enumerate(walk.access) if n != axis) else None
