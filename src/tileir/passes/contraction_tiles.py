"""Which part of a contraction a group of threads does at a time, and how much local memory that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.passes import schedule as sch
from tileir.passes.nest import product

if TYPE_CHECKING:
    from tileir.passes.nest import Nest, Use
    from tileir.stripe import ir as stripe


@attrs.frozen
class Tiles:
    """Which part of a contraction a group does at a time, and which thread which part of that.

    Attributes:
        row: The output index along the rows of a tile; None for one row.
        column: The output index along its columns, and the lanes.
        loop: The reduction index that is staged in steps of ``depth``.
        lanes: Lanes of a vector.
        across: Threads along a row.
        down: Threads along a column.
        parts: Threads that share the reduction.
        rows: Rows of each thread.
        vectors: Vectors of each thread in each row.
        depth: See ``loop``.
        staged: Whether there is local memory for the inputs.
        load_bytes: Width of a load that stages neighbouring elements.
        max_lanes: Most lanes of it; 0 for as many as fit.

    """

    row: stripe.Index | None
    column: stripe.Index | None
    loop: stripe.Index
    lanes: int = 1
    across: int = 1
    down: int = 1
    parts: int = 1
    rows: int = 1
    vectors: int = 1
    depth: int = 1
    staged: bool = True
    load_bytes: int = 1
    max_lanes: int = 0

    @property
    def height(self) -> int:
        """Rows of the tile."""
        return self.down * self.rows

    @property
    def width(self) -> int:
        """Columns of the tile."""
        return self.across * self.vectors * self.lanes

    @property
    def extents(self) -> dict[str, int]:
        """How far the tile reaches along each of its indices."""
        extents = {self.loop.name: self.depth}
        if self.row is not None:
            extents[self.row.name] = self.height
        if self.column is not None:
            extents[self.column.name] = self.width
        return extents


def local_bytes(nest: Nest, tiles: Tiles, *, staged: bool) -> int:
    """Return how much local memory a tile takes."""
    segment = sch.the_reduction(nest)
    inputs = (
        sum(stage_elements(use, tiles) * use.dtype.itemsize for use in sch.reads_of(nest, segment)) if staged else 0
    )
    results = sum(use.dtype.itemsize for use in segment.uses if use.direction.writes)
    return inputs + (tiles.parts * tiles.height * tiles.width * results if tiles.parts > 1 else 0)


def stage_axes(use: Use, tiles: Tiles) -> tuple[str, ...]:
    """Return the indices of a tile that move a use: the reduction first, then rows and columns."""
    return tuple(name for name, extent in tiles.extents.items() if extent > 1 and use.stride(name))


def padded_width(use: Use, tiles: Tiles) -> int:
    """Return the distance of rows in local memory.

    Where the loads of neighbouring threads go down a column of it, the distance is odd, so that these are in different
    banks; but for vectors, which want to be aligned.
    """
    axes = stage_axes(use, tiles)
    width = tiles.extents[axes[-1]]
    fastest = min(axes, key=lambda name: abs(use.stride(name)))
    if fastest == axes[-1] or len(axes) == 1:
        return width
    along_lanes = tiles.column is not None and axes[-1] == tiles.column.name and tiles.lanes > 1
    return width + (tiles.lanes if along_lanes else 1 - width % 2)


def stage_elements(use: Use, tiles: Tiles) -> int:
    """Return how many elements of local memory a tile of an input takes; 0 where it is not worth one."""
    axes = stage_axes(use, tiles)
    if not axes:
        return 0
    return product(tiles.extents[name] for name in axes[:-1]) * padded_width(use, tiles)
