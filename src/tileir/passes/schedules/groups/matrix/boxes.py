"""Tiles of inputs as boxes of tensors, which some devices copy at the request of one thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import gcd
from operator import mul
from typing import Final

from tileir.core.nodes import attrs
from tileir.passes.schedules.groups.matrix.plan import MatrixTiling, Panel, groups_of, piece_of, swizzle_of
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Use
from tileir.stripe.ir import Copy, Index

_UNIT: Final = 16
"""Required alignment, in bytes, of all strides of a tensor except the innermost."""

_LINE: Final = 128
"""Line size of the shared cache in bytes."""

_AXES: Final = 5
_SIDE: Final = 256
_STEP: Final = 8
_EXTENT: Final = 1 << 32
_REACH: Final = 1 << 40
"""Maximum axes, elements of a box along an axis, their stride, elements of a tensor along an axis, and byte stride."""

_ROWS: Final = (128, 64, 32)
"""Bytes of rows that are swizzled for matrix instructions."""


_FEW: Final = 4
"""Ratio to the groups that keep the device busy up to which local memory has room for more stages."""

_AHEAD_BYTES: Final = 48 * 1024
"""Bytes of prefetched copies of a group that waits only for memory."""

_AHEAD: Final = 8
"""Number of stages with this prefetch if several groups fit together: on an H200, 64 rows of f16 by 8192 x 8192 took 43
us with these, 54 with four, and 128 rows 47 and 57.
"""

_WINDOW_STEPS: Final = 8
_LINE_STEPS: Final = 2
_PART_STEPS: Final = 3
"""Minimum steps of a sum per stage for which deeper prefetching pays its longer prologue, for windows and for products
with rows that are aligned to cache lines or straddle them: on an H200, 64 rows of f16 by 2048 x 2048 took 9.8 us with
two and 13.5 with eight, by 2000 x 2000 10.4 with three and 13.8 with eight, but squares of 1000 13.8 with two, 13.0
with three and 13.1 with eight.
"""

OF_TWO: Final = 256
"""Threads of two teams."""

_HALF: Final = 2
"""Bytes of an element of f16 and bf16."""

_REGISTERS: Final = {OF_TWO: (40, 232), 384: (32, 160)}
"""Registers of copying and of multiplying threads, by the number of the latter: all of a group."""


@attrs.frozen
class _Axis:
    """An axis of a tensor: its moving place, stride, extent, and the extent of the box.

    ``step`` is the stride of the box's elements, ``number`` the number of the axis in the use.
    """

    index: str
    stride: int
    extent: int
    box: int
    step: int
    number: int


def boxes(plan: MatrixTiling, ranges: Mapping[str, int]) -> tuple[Copy, Copy] | str:
    """Return how both inputs are copied as boxes, the left one first; else a word for the reason against it.

    ``ranges`` are those of the indices of the kernel and of its reduction. Points excluded by constraints are outside
    of one of the tensors, where boxes are zero.
    """
    seen: set[Affine] = set()
    left, right = (_box(panel, plan, ranges, seen) for panel in (plan.left, plan.right))
    if isinstance(left, str):
        return left
    if isinstance(right, str):
        return right
    return (left, right) if seen.issuperset(plan.constraints) else "constraints"


def are_whole_lines(plan: MatrixTiling) -> bool:
    """Return whether rows of both inputs are aligned to cache lines, so that a row of a box is in one."""
    uses = (plan.left.use, plan.right.use)
    moved = [(use, use.stride(name)) for use in uses for affine in use.access for name in affine.indices]
    return all(step * use.dtype.itemsize % _LINE == 0 for use, step in moved if step != 1)


def with_copier(plan: MatrixTiling) -> MatrixTiling:
    """Return the plan with a separate copying warp, if a group has a processor and many warps multiply."""
    registers = _REGISTERS.get(plan.threads, ()) if plan.boxes is not None and plan.beside == 1 else ()
    if not registers or plan.stages == 1:
        return plan
    teams = plan.threads // plan.fragment.threads if plan.above is None and plan.columns == plan.wide else 1
    return attrs.evolve(plan, registers=registers, teams=teams)


def copier_pays(plan: MatrixTiling) -> bool:
    """Return whether a separate warp should copy: if two teams take turns with tiles, and only store results.

    On an H200, squares of 4096, 5120 and 8192 in f16 took 0.988, 0.987 and 0.988 of the time with stores of boxes and
    this warp, and 0.997, 0.993 and 0.997 with these alone. Three teams that add up sums in parts took 1.15.
    """
    return bool(plan.groups and plan.slots) and plan.threads == OF_TWO


def fits_pairs(plan: MatrixTiling) -> bool:
    """Return whether a plan is for two teams with products of halves, not windows, one group per processor."""
    halves = plan.left.use.dtype.itemsize == _HALF and not plan.constraints and plan.repeats == 1
    return halves and plan.threads == OF_TWO and plan.beside == 1


def further_ahead(nest: Nest, plan: MatrixTiling, stages: int, groups: int, local_bytes: int) -> MatrixTiling:
    """Return the plan with deeper prefetching if few groups compute long sums, as these wait only for memory.

    Others have ``stages``; ``groups`` keep the device busy, and each may have ``local_bytes``.
    """
    beside = -(-groups_of(nest, plan) // groups)
    if plan.boxes is not None or plan.stages < max(2, stages) or beside > _FEW:
        return plan
    results = plan.rows * plan.staged * plan.left.use.dtype.itemsize
    share = (local_bytes // beside - results) // plan.stage_bytes
    most = max(min(_AHEAD_BYTES, local_bytes) // plan.stage_bytes, min(_AHEAD, share))
    is_window = plan.constraints or plan.repeats > 1
    least = _WINDOW_STEPS if is_window else _LINE_STEPS if are_whole_lines(plan) else _PART_STEPS
    return attrs.evolve(plan, stages=max(plan.stages, min(most, plan.steps // least)))


def ends(copy: Copy, use: Use) -> Iterator[Affine]:
    """Yield tests that a use is within the tensor of which a copy takes boxes."""
    for place, extent in zip(copy.places(use.access, use.strides), copy.extents, strict=True):
        yield place
        yield extent - 1 - place


def _box(panel: Panel, plan: MatrixTiling, ranges: Mapping[str, int], seen: set[Affine]) -> Copy | str:
    """Return how an input is copied; ``seen`` gets the constraints that delimit its tensor."""
    axes = _axes(panel, plan, ranges, seen)
    if isinstance(axes, str):
        return axes
    size = panel.use.dtype.itemsize
    strides = [axis.stride for axis in axes]
    if strides[-1] != 1 or any(stride * size % _UNIT for stride in strides[:-1]):
        return "alignment"
    width = plan.depth if panel.along_loop else plan.extent(panel)
    piece = piece_of(panel, plan.fragment, width)
    if (
        piece * size not in _ROWS
        or not swizzle_of(panel, plan.fragment, piece)[1]
        or max(axis.box * axis.step for axis in axes) > _SIDE
        or max(axis.step for axis in axes) > _STEP
    ):
        return "width"
    if len(axes) > _AXES or max(axis.extent for axis in axes) >= _EXTENT or max(strides) * size >= _REACH:
        return "size"
    parts = (tuple(getattr(axis, name) for axis in axes) for name in ("box", "extent", "stride", "step", "number"))
    box, extents, strides_of, steps, numbers = parts
    plain = numbers == tuple(range(len(numbers)))
    return Copy(box, extents, strides_of, steps if max(steps) > 1 else (), () if plain else numbers)


def _axes(panel: Panel, plan: MatrixTiling, ranges: Mapping[str, int], seen: set[Affine]) -> list[_Axis] | str:
    """Return the axes of the tensor, the outermost first, those of the tile in the order of local memory."""
    own = plan.extent(panel) if panel is plan.right else plan.across
    sizes = {panel.index.name: own, plan.loop.name: plan.depth}
    tile = [panel.index.name]
    if panel is plan.left and plan.above is not None:
        sizes[plan.above.name] = plan.high
        tile.insert(0, plan.above.name)
    tile.insert(len(tile) if panel.along_loop else 0, plan.loop.name)
    single = {name: Affine() for name, extent in ranges.items() if extent == 1}
    axes: list[_Axis] = []
    for number, (access, stride) in enumerate(zip(panel.use.access, panel.use.strides, strict=True)):
        affine = access.substitute(single)
        if not affine.terms and not affine.offset:
            continue
        apart = gcd(*(int(each) for _, each in affine.terms), int(affine.offset))
        place = affine / apart
        moving = [(name, int(step)) for name, step in place.terms if name in sizes]
        if len(moving) > 1:
            parts = _parts(place, sizes, plan.loop, ranges)
            if not parts:
                return "window"
            axes += [_Axis(name, stride * apart * each, n, sizes[name], 1, number) for name, each, n in parts]
            continue
        extent = _extent(place, plan, ranges, seen)
        name, step = moving[0] if moving else ("", 1)
        cut = name == plan.loop.name and plan.loop.range % plan.depth > 0  # elements past the end have to be zero
        if extent is None or step < 1 or (cut and len(place.terms) > 1):
            return "window"
        axes.append(_Axis(name, stride * apart, extent, sizes.get(name, 1), step, number))
    axes.sort(key=lambda axis: -axis.stride)
    tiled = {axis.index: axis for axis in axes if axis.index in tile}
    if len(tiled) < len(tile) or tiled[tile[-1]] is not axes[-1] or axes[-1].step > 1 or axes[-1].stride < 1:
        return "order"
    rows = iter(tile)
    return [tiled[next(rows)] if axis.index in tiled else axis for axis in axes]


def _parts(
    place: Affine, sizes: Mapping[str, int], loop: Index, ranges: Mapping[str, int]
) -> list[tuple[str, int, int]]:
    """Split an axis into those of the tile: for each the moving place, stride and extent.

    Empty if these are no digits of a place, or if a box would have more elements than are read.
    """
    moving = sorted(((int(step), name) for name, step in place.terms if name in sizes), reverse=True)
    strides = [step for step, _ in moving]
    if (
        strides[-1] != 1
        or place.offset < 0
        or any(outer % inner or outer == inner for outer, inner in pairwise(strides))
    ):
        return []
    last = [0] * len(moving)
    rest = int(place.offset)
    for axis, stride in enumerate(strides):
        last[axis], rest = divmod(rest, stride)
    for name, factor in place.terms:
        step, size, count = int(factor), sizes.get(name, 1), ranges[name]
        axis = next(n for n, stride in enumerate(strides) if step * size % stride == 0)
        if step < 1 or (name in sizes and axis != strides.index(step) and count % size):
            return []
        if name in sizes and axis != strides.index(step):
            last[strides.index(step)] += size - 1
            count //= size
            step *= size
        last[axis] += step // strides[axis] * (count - 1)
    lone = {name: last[axis] < ranges[name] for axis, (_, name) in enumerate(moving)}
    whole = all(
        last[axis] * inner < outer and inner * sizes[moving[axis][1]] <= outer
        for axis, (outer, inner) in enumerate(pairwise(strides), 1)
    )
    reach = sum(map(mul, last, strides))
    if (
        not whole
        or reach > place.bounds(ranges)[1]
        or not (lone.get(loop.name, True) or loop.range % sizes[loop.name] == 0)
    ):
        return []
    return [(name, step, end + 1) for (step, name), end in zip(moving, last, strict=True)]


def _extent(place: Affine, plan: MatrixTiling, ranges: Mapping[str, int], seen: set[Affine]) -> int | None:
    """Return the number of elements of an axis that are read, from 0 on; None if others are read, or with gaps.

    ``seen`` gets the constraints used.
    """
    low, high = place.bounds(ranges)
    if not place.terms:
        return None if low < 0 else int(high) + 1
    unit = gcd(*(int(each) for _, each in place.terms))
    moved = (place - place.offset) / unit
    for constraint in plan.constraints:
        scale = gcd(*(int(each) for _, each in constraint.terms))
        if not constraint.is_integral or not scale:
            continue
        change, reach = (constraint - constraint.offset) / scale, int(constraint.offset) // scale
        if change == moved:
            first = place.offset - unit * reach
            if low < first and first >= unit:
                return None
            low = max(low, first)
        elif change == -moved:
            high = min(high, place.offset + unit * reach)
        else:
            continue
        seen.add(constraint)
    return None if low < 0 or high < 0 else int(high) + 1
