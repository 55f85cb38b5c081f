"""Elementwise kernels with transposed inputs, by tiles in local memory, so that all accesses are along rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from tileir.core import attrs
from tileir.passes.base import at_least
from tileir.passes.kernels import (
    against_parallel,
    against_plain_places,
    crossing_indices,
    merged,
    schedule as sch,
    unscheduled_elementwise,
)
from tileir.passes.schedules.strategy import Strategy, shared_out
from tileir.schedule import Nest, Refused, Tail, Use, accepted, refused, rule_out, tree_of_nest
from tileir.schedule.application import Candidate, Rearrangement
from tileir.schedule.steps.legality import word
from tileir.schedule.steps.loops import Bind, Reorder, Split
from tileir.schedule.steps.memory import Level, Outside, Stage, reach_of
from tileir.stripe import ir as stripe


@attrs.frozen
class GroupTranspose(Strategy):
    """Schedule elementwise kernels with transposed inputs, by tiles in local memory.

    Groups take square tiles. Transposed inputs are staged in local memory by loads along their rows, and read from
    there by columns.

    Attributes:
        threads: Threads in a group.
        vector_bytes: Width of a thread's loads in bytes.
        max_lanes: Maximum number of lanes of a load; 0 for as many as fit.
        local_bytes: Local memory of a group, in bytes.
        tile: Rows and columns of a tile of 4-byte elements, the width of a bank; tiles of narrower elements are larger,
            so that their rows fill cache lines. Kernels with fewer rows or columns are left alone.
    """

    name: ClassVar[str] = "group_transpose"
    threads: int = attrs.field(default=256, validator=at_least(1))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    local_bytes: int = attrs.field(default=32 * 1024, validator=at_least(0))
    tile: int = attrs.field(default=32, validator=at_least(2))

    def candidates(self, kernel: stripe.Block) -> Iterator[Candidate | Refused]:
        """Yield tiles whose rows fill banks, and smaller tiles of narrow elements."""
        nest = accepted(unscheduled_elementwise(kernel))
        rule_out(against_plain_places(nest) or against_parallel(nest))
        nest = merged(nest)
        row, column = accepted(crossing_indices(nest, self.tile))
        crossing = [use for use in sch.read_uses(nest) if use.crosses(row.name, column.name)]
        for width in (_BANK_BYTES, 1):
            tile = self._tile(nest, row, column, crossing, width)
            needed = sum(tile.height * (tile.width + tile.pad) * use.dtype.itemsize for use in crossing)
            if needed <= self.local_bytes:
                yield Candidate.of(nest, self._steps(nest, tile, crossing))
            else:
                yield refused("TR406", bytes=needed, local_bytes=self.local_bytes)

    def _tile(self, nest: Nest, row: stripe.Index, column: stripe.Index, crossing: Sequence[Use], width: int) -> _Tile:
        """Return the tile whose rows are ``width`` bytes for each of ``tile`` threads, accessed as vectors."""
        written = sch.written_uses(nest)
        direct = [use for use in (*sch.read_uses(nest), *written) if use not in crossing]
        lanes = sch.aligned_lanes(direct, column.name, sch.vector_lanes(width, _widest(direct), self.max_lanes))
        height, across = self._extent(crossing, row, width), self._extent(written, column, width)
        whole = column.range % lanes == 0 == across % lanes and column.name not in sch.constrained_indices(nest)
        return _Tile(row, column, height, across, lanes if whole else 1)

    def _extent(self, uses: Sequence[Use], index: stripe.Index, width: int) -> int:
        """Return the extent of a tile along the contiguous index of uses."""
        extent = self.tile * max(1, width // _widest(uses))
        while extent > max(self.tile, index.range):
            extent //= 2
        return extent

    def _steps(self, nest: Nest, tile: _Tile, crossing: Sequence[Use]) -> Iterator[Rearrangement]:
        """Yield steps that divide tiles among groups, stage them, and divide their elements among threads."""
        names, row, column = nest.taken_names(), tile.row.name, tile.column.name
        inside = (names.fresh(f"{row}_in"), names.fresh(f"{column}_in"))
        yield Split(row, tile.height, (row, inside[0]))
        yield Split(column, tile.width, (column, inside[1]))
        grid = tuple(index.name for index in nest.indices)
        yield Reorder((*grid, *inside))
        yield Bind(grid, stripe.Binding.GRID)
        across = sch.power_of_two_below(min(tile.width // tile.lanes, self.threads))
        down = sch.power_of_two_below(min(tile.height, self.threads // across))
        team = across * down
        for use in reversed(crossing):
            stage, lanes = names.fresh(f"{word(use.root)}_stage"), self._lanes(nest, use, tile, team)
            yield Stage(use.root, grid[-1], stage, Level.LOCAL, (), inside, tile.pad, lanes, Outside.CLAMP)
            yield from shared_out(((f"{stage}_1", tile.width), (f"{stage}_0", tile.height // lanes)), team)
        if tile.lanes > 1:
            vector, lane = names.fresh(f"{column}_vector"), names.fresh(f"{column}_lane")
            yield Split(inside[1], tile.lanes, (vector, lane), Tail.MASK)
            yield Bind(lane, stripe.Binding.LANE)
            inside = (inside[0], vector)
        yield from shared_out(((inside[0], tile.height), (inside[1], tile.width // tile.lanes)), team)

    def _lanes(self, nest: Nest, use: Use, tile: _Tile, threads: int) -> int:
        """Return the elements of an input that one load can stage: whole vectors, aligned in all tiles."""
        lanes = sch.power_of_two_below(sch.vector_lanes(self.vector_bytes, use.dtype.itemsize, self.max_lanes))
        lanes = sch.aligned_lanes((use,), tile.row.name, lanes)
        wholes = [tile.height]
        ragged = tile.row.range % tile.height or tile.column.range % tile.width
        if ragged or sch.constrained_indices(nest):
            wholes += [tile.row.range, *reach_of(tree_of_nest(nest), use)]
            lanes = min(lanes, sch.power_of_two_below(max(1, tile.height * tile.width // threads)))
        while any(whole % lanes for whole in wholes):
            lanes //= 2
        return lanes


@attrs.frozen(eq=False, repr=False)
class _Tile:
    """Rows and columns of a group's tile, in vectors of ``lanes`` lanes."""

    row: stripe.Index
    column: stripe.Index
    height: int
    width: int
    lanes: int

    @property
    def pad(self) -> int:
        """Padding of a row in local memory: elements of a column are then in distinct banks, and vectors aligned."""
        return self.lanes if self.lanes > 1 else 1 - self.width % 2


def _widest(uses: Sequence[Use]) -> int:
    return max(use.dtype.itemsize for use in uses)


_BANK_BYTES: Final = 4
"""Width of a bank of local memory: adjacent threads access words of this size, which fill cache lines."""
