"""Tile of a contraction that a group of threads does at a time, and the local memory that it takes."""

from __future__ import annotations

from tileir.core.nodes import attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.groups.staging import TileShape
from tileir.schedule.nest import Nest
from tileir.stripe import ir as stripe


@attrs.frozen(eq=False)
class Tiles:
    """The part of a contraction that a group does at a time, and the share of each thread.

    Attributes:
        row: The output index along the rows of a tile; None for one row.
        column: The output index along its columns, and the lanes.
        above: The output index along which ``high`` places share a tile; each has threads of its own.
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
        stages: How many steps of the reduction are in local memory at a time; copies run ahead where it is not 1.
        runs: Whether tiles of inputs that lie along the reduction do, too, where copies run ahead.

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
    stages: int = 1
    runs: bool = False
    above: stripe.Index | None = None
    high: int = 1

    @property
    def height(self) -> int:
        """Rows of the tile along its row index."""
        return self.down * self.rows

    @property
    def width(self) -> int:
        """Columns of the tile."""
        return self.across * self.vectors * self.lanes

    @property
    def shape(self) -> TileShape:
        """Extents of the tile along each of its indices: the reduction first, then rows and columns."""
        extents = {self.loop.name: self.depth}
        if self.above is not None:
            extents[self.above.name] = self.high
        if self.row is not None:
            extents[self.row.name] = self.height
        if self.column is not None:
            extents[self.column.name] = self.width
        column = None if self.column is None else self.column.name
        together = () if self.above is None or self.row is None else (self.above.name, self.row.name)
        return TileShape(extents, column, self.lanes, self.stages > 1, self.stages > 1 and self.runs, together)


def local_bytes(nest: Nest, tiles: Tiles, *, staged: bool) -> int:
    """Return how much local memory a tile takes."""
    segment, shape = nest.reductions[0], tiles.shape
    inputs = sum(shape.local_bytes(use) for use in sch.reads_of(nest, segment)) if staged else 0
    results = sum(use.dtype.itemsize for use in segment.uses if use.direction.writes)
    return inputs + (tiles.parts * tiles.height * tiles.width * results if tiles.parts > 1 else 0)
