"""Into which pieces the rows of a kernel are cut, so that all panels read a piece before the next one.

Panel after panel reads what the rows have. Where that is more than the caches near the processor hold, and jumps from
page to page, as pixels of channels that come first do, each panel waits for it again. A piece, as a few images of a
batch are, stays near while all panels pass over it; each packs the panels again, which have to be near for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tileir.core.nodes import attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.registers.cost import Limits, Tiling, row_pieces
from tileir.passes.schedules.registers.steps import Step
from tileir.schedule.nest import Nest, Use, product
from tileir.stripe.ir import Index

_LEAST_SHARE: Final = 1 / 32
"""Waiting for less than this share of all work is not worth that loops over rows begin more often."""


@attrs.frozen
class Pieces:
    """The index that is cut, and into how many pieces."""

    index: Index
    count: int


def pieces(nest: Nest, plan: Tiling, limits: Limits) -> Pieces | None:
    """Return the pieces that pay; None where one panel is all there is, or packing costs more than what is waited for.

    A piece has little memory in common with the others: between images there are but borders. It and all panels fit a
    cache of twice ``limits.panel_bytes``.
    """
    panels = plan.vector.range // (plan.columns * plan.lanes)
    segments = [segment for segment in nest.segments if segment.loops]
    if panels < 2 or len(segments) != 1:
        return None
    (segment,) = segments
    reads, loops, most = sch.reads_of(nest, segment), segment.loops, 2 * limits.panel_bytes
    along = [use for use in reads if use.stride(plan.vector.name)]
    still = [use for use in reads if use not in along]
    outer = [i for i in nest.indices if i is not plan.vector and not any(use.stride(i.name) for use in along)]
    if not still or not outer or sum(_extent(use, (plan.vector, *loops)) for use in along) > most:
        return None
    use = max(still, key=lambda use: _extent(use, (*outer, *loops)))
    index = max(outer, key=lambda i: abs(use.stride(i.name)))
    each = _extent(use, (*(i for i in outer if i is not index), *loops))
    count = -(-index.range // max(1, limits.panel_bytes // each))
    if count < 2 or each > min(most, 2 * use.dtype.itemsize * abs(use.stride(index.name))):
        return None
    step = Step.of(nest, segment, plan.vector, plan.lanes, limits.cache_bytes, limits.panel_bytes)
    elsewhere = sum(tiles * step.over(heights).elsewhere for tiles, heights in row_pieces(plan.rows))
    around = product(i.range for i in nest.indices if i is not plan.vector) / product(r.index.range for r in plan.rows)
    waits = around * (panels - 1) * step.depth * elsewhere
    return Pieces(index, count) if waits - (count - 1) * plan.packing > _LEAST_SHARE * plan.cost else None


def _extent(use: Use, indices: Iterable[Index]) -> int:
    """Return how many bytes lie between the first and the last element that is read."""
    return use.dtype.itemsize * (1 + sum((i.range - 1) * abs(use.stride(i.name)) for i in indices))
