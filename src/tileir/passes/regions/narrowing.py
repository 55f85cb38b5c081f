"""Shrinking of views to their use: without tests, no view may extend beyond its source.

Tested blocks may see more of a tensor than exists, and so may blocks around them, which share views between tested
blocks and others. After a pass drops the last test of a block, its views have to be in bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tileir.core import attrs, rewritten
from tileir.passes.analysis.accesses import known_ranges
from tileir.stripe.check.views import has_constraints, same_axes
from tileir.stripe.ir import Block, Dim, Direction, Refinement, views_read, views_written

_Extents: TypeAlias = tuple[tuple[int, int], ...]
"""Start and end along each axis of a view."""


def narrowed(block: Block, before: Block) -> Block:
    """Return a pass's result for ``before``, with views as small as their use wherever no test is around or inside.

    Unused views go. Views stay as they are if statements use them directly, or if nested blocks see them along other
    axes or by indices of the enclosing block.
    """
    if block is before or block.constraints or not has_constraints(before):
        return block
    return _narrowed(block)


def _narrowed(block: Block) -> Block:
    """Narrow the views of a block and of nested blocks, innermost first; below a test nothing has to change."""
    if block.constraints:
        return block
    statements = rewritten(block.statements, lambda s: (_narrowed(s) if isinstance(s, Block) else s,))
    if statements is not block.statements:
        block = attrs.evolve(block, statements=statements)
    if has_constraints(block):
        return block
    direct = {n for s in block.statements if not isinstance(s, Block) for n in (*views_read(s), *views_written(s))}
    kept: list[Refinement] = []
    cuts: dict[str, _Extents] = {}
    for view in block.refinements:
        users = [(r, known_ranges(inner)) for inner in block.blocks for r in inner.refinements if r.source == view.name]
        if view.direction is Direction.NONE or view.name in direct:
            kept.append(view)
        elif users:
            seen = _seen(view, users)
            if seen is not None and seen != tuple((0, size) for size in view.shape.sizes):
                cuts[view.name] = seen
            kept.append(_cut(view, cuts[view.name]) if view.name in cuts else view)
    if not cuts and len(kept) == len(block.refinements):
        return block
    statements = tuple(_moved(s, cuts) if isinstance(s, Block) else s for s in block.statements)
    return attrs.evolve(block, refinements=tuple(kept), statements=statements)


def _seen(view: Refinement, users: Sequence[tuple[Refinement, Mapping[str, int]]]) -> _Extents | None:
    """Return the extents of ``view`` that nested views use, given index ranges; None if axes do not match."""
    parts = [_reach(user, view, ranges) for user, ranges in users]
    axes = zip(*(part for part in parts if part is not None), strict=True)
    seen = tuple((min(low for low, _ in axis), max(high for _, high in axis)) for axis in axes)
    inside = all(low >= 0 and high <= size for (low, high), size in zip(seen, view.shape.sizes, strict=False))
    return seen if inside and None not in parts else None


def _reach(user: Refinement, view: Refinement, ranges: Mapping[str, int]) -> _Extents | None:
    if not same_axes(user, view) or any(name not in ranges for affine in user.access for name in affine.indices):
        return None
    bounds = (affine.bounds(ranges) for affine in user.access)
    return tuple((int(low), int(high) + size) for (low, high), size in zip(bounds, user.shape.sizes, strict=True))


def _cut(view: Refinement, extents: _Extents) -> Refinement:
    access = tuple(affine + low for affine, (low, _) in zip(view.access, extents, strict=True))
    dims = tuple(Dim(high - low, dim.stride) for dim, (low, high) in zip(view.shape.dims, extents, strict=True))
    return attrs.evolve(view, access=access, shape=attrs.evolve(view.shape, dims=dims))


def _moved(block: Block, cuts: Mapping[str, _Extents]) -> Block:
    """Return a block with views adjusted to cuts of their sources."""
    views = tuple(_from_start(r, cuts[r.source]) if r.source in cuts else r for r in block.refinements)
    return attrs.evolve(block, refinements=views)


def _from_start(view: Refinement, extents: _Extents) -> Refinement:
    return attrs.evolve(view, access=tuple(a - low for a, (low, _) in zip(view.access, extents, strict=True)))
