"""Division of the rows of a kernel into pieces, so that all panels read a piece before the next one.

Panel after panel reads the inputs of the rows. If these exceed nearby caches and jump from page to page, as with
channels-first pixels, each panel waits for them again. A piece, such as a few images of a batch or a few rows of an
image, stays in a cache while all panels pass over it; each piece packs the panels again, which must be in a cache for
that, or reads packed ones again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tileir.core.nodes import attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.registers.cost import Limits, Tiling, row_pieces
from tileir.passes.schedules.registers.packing import is_dense
from tileir.passes.schedules.registers.steps import FAR, Step, touched
from tileir.schedule.nest import Nest, Use, product
from tileir.stripe.ir import Index

_LEAST_SHARE: Final = 1 / 32
"""Minimum share of waiting in all work at which restarting loops over rows pays."""

_RESULTS: Final = 8
"""Divisor of the panel cache for a piece of results, beside the inputs of tiles."""


@attrs.frozen
class Pieces:
    """Division of rows into pieces.

    Attributes:
        indices: The split indices; outer indices are split to single values.
        count: Number of pieces.
        panels: The outer indices that number panels, all of which traverse a piece.
    """

    indices: tuple[Index, ...]
    count: int
    panels: frozenset[str]


def pieces(nest: Nest, plan: Tiling, limits: Limits) -> Pieces | None:
    """Return the pieces that pay; None if there is one panel, or if reading panels again costs more than waiting.

    A piece has little memory in common with others: between images there are only borders. It and all panels fit a
    cache of twice ``limits.panel_bytes``; packed panels may be farther away. If these are near, it also pays to write
    results, and to read addends, row by row.
    """
    segments, width = nest.reductions, plan.columns * plan.lanes
    reads = [(use, segment.loops) for segment in segments for use in sch.reads_of(nest, segment)]
    along = [(use, loops) for use, loops in reads if use.stride(plan.vector.name)]
    still = [(use, loops) for use, loops in reads if not use.stride(plan.vector.name)]
    others = [i for i in nest.indices if i is not plan.vector]
    outer = [i for i in others if not any(use.stride(i.name) for use, _ in along)]
    if not still or not outer:
        return None
    use, loops = max(still, key=lambda each: touched(each[0], (*outer, *each[1])))
    numbered = [i for i in others if i not in outer and not any(each.stride(i.name) for each, _ in still)]
    panels = plan.vector.range // width * product(i.range for i in numbered)
    if panels < 2:
        return None
    names, along_panels = frozenset(i.name for i in numbered), (plan.vector, *numbered)
    ready = all(is_dense(each, [i for i in steps if each.stride(i.name)], width) for each, steps in along)
    if ready and sum(touched(each, (*along_panels, *steps)) for each, steps in along) <= limits.panel_bytes:
        results = _cut_results(nest, plan.vector, outer, along_panels, limits.panel_bytes)
        if results is not None:
            return Pieces(*results, names)
    found = _cut(use, outer, loops, limits.panel_bytes)
    if found is None:
        return None
    again = plan.packing
    for each, steps in along:
        moving = [i for i in steps if each.stride(i.name)]
        if touched(each, (plan.vector, *numbered, *moving)) > 2 * limits.panel_bytes:
            if not is_dense(each, moving, width):
                return None
            again += FAR * product(i.range for i in (*nest.indices, *moving) if i not in outer) / plan.lanes
    waits = 0.0
    for segment in segments:
        step = Step.of(nest, segment, plan.vector, plan.lanes, limits.cache_bytes, limits.panel_bytes)
        waits += step.depth * sum(tiles * step.over(heights).elsewhere for tiles, heights in row_pieces(plan.rows))
    around = product(i.range for i in others if i not in numbered) / product(r.index.range for r in plan.rows)
    waits *= around * (panels - 1)
    if waits - (found[1] - 1) * again <= _LEAST_SHARE * plan.cost:
        return None
    return Pieces(*found, names)


def _cut_results(
    nest: Nest, vector: Index, outer: Sequence[Index], panels: Sequence[Index], panel_bytes: int
) -> tuple[tuple[Index, ...], int] | None:
    """Return pieces of the epilogue's inputs and outputs; None if lanes are strided there, or if all fits a cache.

    Each panel has a part of each row of these. All panels in turn finish a row while its TLB entry is present, and
    hardware foresees the next part.
    """
    after = [use for s in nest.segments if not s.loops for use in sch.reads_of(nest, s) if use.stride(vector.name) == 1]
    rows = [use for use in dict.fromkeys(after) if any(use.stride(i.name) for i in outer)]
    if sum(touched(use, (*outer, *panels)) for use in rows) <= panel_bytes:
        return None
    return _cut(rows[0], outer, panels, panel_bytes // _RESULTS)


def _cut(
    use: Use, outer: Sequence[Index], loops: Sequence[Index], panel_bytes: int
) -> tuple[tuple[Index, ...], int] | None:
    """Return the fewest pieces of a use that fit a cache, by the outermost indices; None if one piece does.

    None, too, if the pieces would read twice as much as the whole.
    """
    order = sorted((i for i in outer if use.stride(i.name)), key=lambda i: -abs(use.stride(i.name)))
    whole = touched(use, (*order, *loops))
    for place, index in enumerate(order):
        inner = (*order[place + 1 :], *loops)
        each = touched(use, inner)
        if each <= 2 * panel_bytes:
            values = max(1, panel_bytes // each)
            count = product(i.range for i in order[:place]) * -(-index.range // values)
            size = touched(use, (attrs.evolve(index, range=min(values, index.range)), *inner))
            return (tuple(order[: place + 1]), count) if count > 1 and count * size <= 2 * whole else None
    return None
