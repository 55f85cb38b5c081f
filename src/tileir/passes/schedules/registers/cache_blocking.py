"""Cache blocking of a product along its depth, and over adjacent panels.

A panel of all steps of a long reduction exceeds the nearest cache, and reading down its columns touches another page at
each step. Here a group packs a block of the operand along the lanes, of several panels and reduction steps, such that a
panel fits the nearest cache and all of them the next one, and runs all its rows over it before the next block. Its sums
stay in a cache between two blocks; if they are too many, panels are read in place. The scheme is that of Goto and van
de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34(3), 2008).
"""

from __future__ import annotations

from typing import Final

from tileir.core.nodes import attrs
from tileir.passes.kernels import schedule as sch
from tileir.schedule.nest import Nest, Segment, Use, product
from tileir.stripe.ir import Index

_LEAST_ROWS: Final = 24
"""Minimum rows for packing a block: it is loaded and stored once, and read for each tile of them. Inputs of fewer rows
are streamed in their own order.
"""

_LEAST_STEPS: Final = 32
"""Minimum steps of a panel, since sums are loaded and stored between two visits of a tile."""


@attrs.frozen
class Visit:
    """Work of a group before it goes on to the next block.

    Attributes:
        loop: The blocked loop of the reduction, and its range.
        steps: Number of its iterations in a block.
        panels: Maximum number of panels of a block.
    """

    loop: Index
    steps: int
    panels: int

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.loop.range // self.steps)


def visit(
    nest: Nest, segment: Segment, use: Use, vector: Index, width: int, cache_bytes: int, panel_bytes: int
) -> Visit | None:
    """Return the blocking of a reduction whose panels of ``use`` are ``width`` wide; None if it has no benefit.

    A panel gets half of the nearest cache, ``cache_bytes``; a block, or the sums, get ``panel_bytes``. The number of
    threads does not matter, so that sums are added in a fixed order.
    """
    if len(nest.allocations) != 1 or segment.constraints or not _is_apart(use, (vector, *segment.loops)):
        return None
    others = [i for i in nest.indices if i is not vector]
    rows = product(i.range for i in others if not use.stride(i.name))
    depth = product(i.range for i in segment.loops)
    # As many rows as steps amortise the copy of a whole panel, and keep sums out of memory.
    if rows >= depth or rows < _LEAST_ROWS or depth * vector.range * use.dtype.itemsize <= panel_bytes // 2:
        return None
    loop = max(segment.loops, key=lambda i: abs(use.stride(i.name)))
    step_bytes = depth // loop.range * width * use.dtype.itemsize
    if depth < _LEAST_STEPS or 2 * step_bytes > cache_bytes:
        return None
    most = cache_bytes // (2 * step_bytes)
    blocks = max(1, round(loop.range / most))
    steps = -(-loop.range // blocks)
    panels = max(1, panel_bytes // (steps * step_bytes))
    sums_bytes = panels * width * nest.allocations[0].shape.dtype.itemsize
    # Rows whose sums do not fit would be split into chunks, each of which copies all blocks again.
    return Visit(loop, steps, panels) if blocks == 1 or rows * sums_bytes <= panel_bytes else None


def _is_apart(use: Use, indices: tuple[Index, ...]) -> bool:
    """Return whether the points of ``indices`` read distinct elements, unlike in overlapping windows."""
    expected = 1
    for index in sorted(indices, key=lambda i: abs(use.stride(i.name))):
        stride = abs(use.stride(index.name))
        if stride < expected:
            return False
        expected = stride * index.range
    return True


def along_lanes(nest: Nest, vector: str) -> tuple[Segment, Use] | None:
    """Return the only reduction of a nest, and its only operand along the lanes; None if there is no such pair."""
    if len(nest.reductions) != 1:
        return None
    along = [use for use in dict.fromkeys(sch.reads_of(nest, nest.reductions[0])) if use.stride(vector)]
    return (nest.reductions[0], along[0]) if len(along) == 1 else None
