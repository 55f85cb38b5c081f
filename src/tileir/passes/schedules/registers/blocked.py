"""Blocking of a product along its depth: steps of a panel, and panels beside each other.

A panel of all steps of a long reduction does not fit the nearest cache, and going down its columns touches another page
at each step. Here a group packs a block of the operand under the lanes, so many steps of the reduction of so many
panels that a panel fits the nearest cache and all of them the next one, and runs all its rows over it before the next
block. Its sums wait in a cache between two blocks; where they are too many for it, panels are read where they are. The
scheme is the one of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34(3), 2008).
"""

from __future__ import annotations

from typing import Final

from tileir.core.nodes import attrs
from tileir.passes.kernels import schedule as sch
from tileir.schedule.nest import Nest, Segment, Use, product
from tileir.stripe.ir import Index

_LEAST_ROWS: Final = 24
"""Fewest rows for which a block is packed: it is loaded and stored once, and read for each tile of them. What fewer
rows read is streamed in its own order."""

_LEAST_STEPS: Final = 32
"""Fewest steps of a panel: between two visits of a tile its sums are loaded and stored."""


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
    """Return how to cut a reduction whose panels of ``use`` are ``width`` wide; None where nothing is won.

    Half of the nearest cache, ``cache_bytes``, is for a panel, and ``panel_bytes`` are for a block, or for the sums.
    How many threads there are does not matter: sums are added up in the same order on any number.
    """
    if len(nest.allocations) != 1 or segment.constraints or not _is_apart(use, (vector, *segment.loops)):
        return None
    others = [i for i in nest.indices if i is not vector]
    rows = product(i.range for i in others if not use.stride(i.name))
    depth = product(i.range for i in segment.loops)
    # As many rows as steps amortise the copy of a whole panel, and spare the sums their way through memory.
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
    # Rows whose sums do not fit would be cut into chunks, each of which copies all blocks again.
    return Visit(loop, steps, panels) if blocks == 1 or rows * sums_bytes <= panel_bytes else None


def _is_apart(use: Use, indices: tuple[Index, ...]) -> bool:
    """Return whether no two points of ``indices`` read one element, as they do where windows overlap."""
    expected = 1
    for index in sorted(indices, key=lambda i: abs(use.stride(i.name))):
        stride = abs(use.stride(index.name))
        if stride < expected:
            return False
        expected = stride * index.range
    return True


def along_lanes(nest: Nest, vector: str) -> tuple[Segment, Use] | None:
    """Return the only reduction of a nest, and the only operand of it that lanes run along; None without such."""
    if len(nest.reductions) != 1:
        return None
    along = [use for use in dict.fromkeys(sch.reads_of(nest, nest.reductions[0])) if use.stride(vector)]
    return (nest.reductions[0], along[0]) if len(along) == 1 else None
