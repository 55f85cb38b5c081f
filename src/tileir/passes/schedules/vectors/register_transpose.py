"""Elementwise kernels with transposed inputs on processors, by square tiles transposed in vector registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.passes.base import at_least
from tileir.passes.kernels import (
    against_parallel,
    against_plain_places,
    crossing_indices,
    merged,
    schedule as sch,
    unscheduled_elementwise,
)
from tileir.passes.schedules.strategy import Strategy
from tileir.schedule import Nest, Refused, Tail, accepted, refused, rule_out
from tileir.schedule.application import Candidate, Rearrangement
from tileir.schedule.steps.loops import Bind, Reorder, Split
from tileir.schedule.steps.tensors import Transpose
from tileir.stripe import ir as stripe


@attrs.frozen
class RegisterTranspose(Strategy):
    """Schedule elementwise kernels with transposed inputs, by square tiles in registers.

    Square tiles of a transposed input are loaded along its rows, as vectors, transposed by the special ``transpose``,
    and read along rows of the results, so that all accesses are whole vectors, or whole cache lines if vectors are this
    wide. Groups of the grid take blocks of tiles, which use more than one line of a page. Partial tiles are left to the
    pass ``vectorise``.

    Attributes:
        reqs: Tags that a kernel must carry.
        vector_bytes: Width of a vector register in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        max_tile: Maximum number of rows of a tile, which occupy registers simultaneously.
        rows: Approximate number of elements of a group along the rows of transposed inputs.
        columns: Approximate number of elements of a group along the rows of results.
    """

    name: ClassVar[str] = "register_transpose"
    reqs: tuple[str, ...] = ()
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    max_tile: int = attrs.field(default=16, validator=at_least(2))
    rows: int = attrs.field(default=64, validator=at_least(1))
    columns: int = attrs.field(default=64, validator=at_least(1))

    def candidates(self, kernel: stripe.Block) -> Iterator[Candidate | Refused]:
        """Yield tiles with as many rows as a vector has lanes, leaving partial tiles."""
        nest = accepted(unscheduled_elementwise(kernel))
        rule_out(against_plain_places(nest) or against_parallel(nest))
        nest = merged(nest)
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)
        lanes = min(sch.power_of_two_below(lanes), sch.power_of_two_below(self.max_tile))
        found = accepted(crossing_indices(nest, lanes, in_registers=True))
        if lanes < 2:
            rule_out(refused("TR309", bytes=sch.widest_itemsize(nest), vector_bytes=self.vector_bytes))
        row, column = found
        rows, columns = (index.range // lanes * lanes for index in found)
        over = sch.part_of(nest, row.name, 0, rows)
        tiles = sch.part_of(over, column.name, 0, columns)
        parts: list[tuple[Nest, Iterable[Rearrangement]]] = [
            (tiles, self._steps(tiles, (row.name, column.name), lanes))
        ]
        for part, index, start in ((nest, row, rows), (over, column, columns)):
            if start < index.range:
                parts.append((sch.part_of(part, index.name, start, index.range - start), ()))
        yield Candidate(tuple(parts), (("row", row.name), ("column", column.name), ("lanes", lanes)))

    def _steps(self, nest: Nest, crossing: tuple[str, str], lanes: int) -> Iterator[Rearrangement]:
        """Yield steps that split the two indices into blocks of tiles for the grid, and transpose each tile."""
        names, ranges = nest.taken_names(), {index.name: index.range for index in nest.indices}
        loops: list[tuple[str, str, str]] = []
        for name, wanted in zip(crossing, (self.rows, self.columns), strict=True):
            whole, block, tile, point = (names.fresh(f"{name}_{what}") for what in ("tiles", "block", "tile", "in"))
            count = ranges[name] // lanes
            counts = [n for n in range(1, min(count, 2 * max(1, wanted // lanes)) + 1) if count % n == 0]
            inside = min(counts, key=lambda n: (abs(n * lanes - wanted), n))
            yield Split(name, lanes, (whole, point), Tail.EVEN)
            yield Split(whole, inside, (block, tile), Tail.EVEN)
            loops.append((block, tile, point))
        row, column = loops
        grid = (*(name for name in ranges if name not in crossing), row[0], column[0])
        yield Reorder((*grid, column[1], row[1], row[2], column[2]))
        yield from (Bind(name, stripe.Binding.GRID) for name in grid)
        yield Transpose((row[2], column[2]))
