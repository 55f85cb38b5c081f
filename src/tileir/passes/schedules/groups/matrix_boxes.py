"""Tiles of inputs as boxes of tensors, which some devices copy at the request of one thread."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from tileir.core.frozen import frozen
from tileir.passes.schedules.groups.matrix_plan import MatrixTiling, Panel, piece_of, swizzle_of
from tileir.stripe.instructions import Copy

_UNIT: Final = 16
"""Bytes of which all distances in a tensor are multiples, but that of neighbours."""

_LINE: Final = 128
"""Bytes of a line of the cache that all processors share."""

_AXES: Final = 5
_SIDE: Final = 256
_EXTENT: Final = 1 << 32
_REACH: Final = 1 << 40
"""Most axes, elements of a box along one, elements of a tensor along one, and bytes between two of them."""

_ROWS: Final = (128, 64, 32)
"""Bytes of the rows that are swizzled as matrix instructions read them."""


@frozen
class _Axis:
    """An axis of a tensor: what moves along it, the distance of elements, how many there are, and those of the box."""

    index: str
    stride: int
    extent: int
    box: int


def boxes(plan: MatrixTiling, ranges: Mapping[str, int]) -> tuple[Copy, Copy] | str:
    """Return how both inputs are copied as boxes, the left one first; else what keeps one from that, as a word.

    ``ranges`` are those of the indices of the kernel and of its reduction.
    """
    left, right = (_box(panel, plan, ranges) for panel in (plan.left, plan.right))
    if isinstance(left, str):
        return left
    return right if isinstance(right, str) else (left, right)


def are_whole_lines(plan: MatrixTiling) -> bool:
    """Return whether rows of both inputs begin where lines of the cache do, so that a row of a box lies in one."""
    uses = (plan.left.use, plan.right.use)
    steps = [step * use.dtype.itemsize for use in uses for step in use.strides if step != 1]
    return all(step % _LINE == 0 for step in steps)


def _box(panel: Panel, plan: MatrixTiling, ranges: Mapping[str, int]) -> Copy | str:
    if plan.tests(panel):
        return "constraints"
    axes = _axes(panel, plan, ranges)
    if isinstance(axes, str):
        return axes
    size = panel.use.dtype.itemsize
    strides = [axis.stride for axis in axes]
    if strides[-1] != 1 or any(stride * size % _UNIT for stride in strides[:-1]):
        return "alignment"
    if any(outer.stride < inner.stride * inner.extent for outer, inner in pairwise(axes)):
        return "overlap"
    width = plan.depth if panel.along_loop else plan.extent(panel)
    piece = piece_of(panel, plan.fragment, width)
    if (
        piece * size not in _ROWS
        or not swizzle_of(panel, plan.fragment, piece)[1]
        or max(axis.box for axis in axes) > _SIDE
    ):
        return "width"
    if len(axes) > _AXES or max(axis.extent for axis in axes) >= _EXTENT or strides[0] * size >= _REACH:
        return "size"
    return Copy(*(tuple(getattr(axis, name) for axis in axes) for name in ("box", "extent", "stride")))


def _axes(panel: Panel, plan: MatrixTiling, ranges: Mapping[str, int]) -> list[_Axis] | str:
    """Return the axes of the tensor, the outermost first; the order of those of the tile is that in local memory."""
    own = plan.extent(panel) if panel is plan.right else plan.across
    sizes = {panel.index.name: own, plan.loop.name: plan.depth}
    tile = [panel.index.name]
    if panel is plan.left and plan.above is not None:
        sizes[plan.above.name] = plan.high
        tile.insert(0, plan.above.name)
    tile.insert(len(tile) if panel.along_loop else 0, plan.loop.name)
    axes: list[_Axis] = []
    for affine, stride in zip(panel.use.access, panel.use.strides, strict=True):
        first = affine.offset
        if not affine.terms and not first:
            continue
        name, step = affine.terms[0] if affine.terms else ("", 1)
        if len(affine.terms) > 1 or step < 1 or first % step or first < 0:
            return "window"
        extent = int(first / step) + ranges.get(name, 1)
        axes.append(_Axis(name, stride * int(step), extent, sizes.get(name, 1)))
    axes.sort(key=lambda axis: -axis.stride)
    if [axis.index for axis in axes if axis.index in tile] != tile:
        return "order"
    return axes
