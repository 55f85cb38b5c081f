"""Contractions over groups of threads: tiles of the inputs in local memory, a tile of the output in registers.

Each step stages a tile of every input by coalesced loads. Loads past the end of a tensor are clamped to its last
element, and their values do not reach any result. Threads without outputs share the reduction, as in PlaidML's first
code generator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.passes.base import at_least
from tileir.passes.kernels import against_plain, schedule as sch, unscheduled_reduction
from tileir.passes.schedules.groups.contraction import SharedContraction, Tiles
from tileir.passes.schedules.groups.group_reduction import is_product_of_panels, power_of_two_from
from tileir.passes.schedules.strategy import Strategy
from tileir.schedule import Nest, Refused, Use, accepted, product, refused, rule_out
from tileir.schedule.application import Candidate
from tileir.stripe import ir as stripe


@attrs.frozen
class GroupContraction(Strategy):
    """Schedule contractions that reuse elements of two or more inputs: tiles in local memory and registers.

    Attributes:
        threads: Threads in a group.
        vector_bytes: Width of a thread's vector in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        local_bytes: Local memory of a group, in bytes; inputs that exceed it are not staged.
        groups: Number of groups that keeps the device busy; tiles shrink to reach it.
        rows: Approximate number of rows of an output tile; 0 for automatic.
        columns: Approximate number of columns of an output tile; 0 for automatic.
        depth: Steps of the reduction that are staged at a time, even beyond its range; 0 for automatic.
        stages: Maximum number of steps in local memory at a time, for software pipelining.
        always: Whether to schedule reductions without reuse as well.
    """

    name: ClassVar[str] = "group_contraction"
    threads: int = attrs.field(default=256, validator=at_least(1))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    local_bytes: int = attrs.field(default=32 * 1024, validator=at_least(0))
    groups: int = attrs.field(default=1, validator=at_least(1))
    rows: int = attrs.field(default=0, validator=at_least(0))
    columns: int = attrs.field(default=0, validator=at_least(0))
    depth: int = attrs.field(default=0, validator=at_least(0))
    stages: int = attrs.field(default=1, validator=at_least(1))
    always: bool = False

    def candidates(self, kernel: stripe.Block) -> Iterator[Candidate | Refused]:
        """Yield tiles in local memory, and tiles whose inputs are read where they are."""
        nest = accepted(unscheduled_reduction(kernel))
        rule_out(against_plain(nest))
        if not self.always and not is_product_of_panels(nest):
            rule_out(refused("TR402"))
        if not nest.indices:
            nest = attrs.evolve(nest, indices=(stripe.Index(nest.taken_names().fresh("output"), 1),))
        tiles = self._tiles(nest)
        yield SharedContraction.of(nest, tiles).candidate()
        if tiles.staged:
            direct = attrs.evolve(tiles, staged=False, stages=1, runs=False)
            yield SharedContraction.of(nest, direct).candidate()

    def _tiles(self, nest: Nest) -> Tiles:
        """Choose the indices and the size of a tile."""
        reads = sch.reads_of(nest, nest.reductions[0])
        free = sch.constrained_indices(nest)
        column = _column_of(nest, reads, free)
        moved = [u for u in reads if u.stride(column.name)]
        rows = [i for i in nest.indices if i is not column and i.range > 1]
        row = max(
            rows,
            key=lambda i: (not any(u.stride(i.name) for u in moved), i.name not in free and i.range >= _ROWS, i.range),
            default=None,
        )
        loop = max(nest.reductions[0].loops, key=lambda i: (i.range >= _DEPTH, i.name not in free, i.range))
        lanes = self._lanes(nest, column)
        start = Tiles(row, column, loop, lanes=lanes, load_bytes=self.vector_bytes, max_lanes=self.max_lanes)
        tiles = self._several(nest, start, moved) or self._sized(nest, start)
        tiles = attrs.evolve(tiles, depth=-(-tiles.depth // tiles.parts) * tiles.parts)
        while tiles.depth > 1 and tiles.local_bytes(nest) > self.local_bytes:
            tiles = attrs.evolve(tiles, depth=-(-tiles.depth // 2))
        tiles = attrs.evolve(tiles, parts=min(tiles.parts, sch.power_of_two_below(tiles.depth)))
        tiles = attrs.evolve(tiles, staged=tiles.local_bytes(nest) <= self.local_bytes)
        if tiles.staged and tiles.parts == 1:
            others = product(i.range for i in nest.reductions[0].loops if i is not tiles.loop)
            tiles = attrs.evolve(tiles, stages=min(self.stages, others * -(-tiles.loop.range // tiles.depth)))
            tiles = attrs.evolve(tiles, runs=tiles.stages > 1 and _is_tested(nest, tiles))
            while tiles.stages > 1 and tiles.stages * tiles.local_bytes(nest) > self.local_bytes:
                tiles = attrs.evolve(tiles, stages=tiles.stages - 1, runs=tiles.runs and tiles.stages > 2)
        while tiles.parts > 1 and tiles.local_bytes(nest) > self.local_bytes:
            tiles = attrs.evolve(tiles, parts=tiles.parts // 2)
        return tiles

    def _lanes(self, nest: Nest, column: stripe.Index) -> int:
        if column.name in sch.constrained_indices(nest):
            return 1
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)
        outside = [u for s in nest.segments if not s.loops for u in sch.reads_of(nest, s)]
        lanes = min(lanes, 4, sch.power_of_two_below(self.columns or lanes))
        # Strided results are stored one by one, but staged inputs are still read in vectors.
        near = (use for use in (*outside, *sch.written_uses(nest)) if use.stride(column.name) in (0, 1))
        lanes = sch.aligned_lanes(near, column.name, lanes)
        while column.range % lanes:
            lanes //= 2
        return lanes

    def _several(self, nest: Nest, tiles: Tiles, moved: list[Use]) -> Tiles | None:
        """Return a tile whose rows continue along another index, chosen by waves of groups; None if it has no use.

        ``moved`` are the inputs that columns move. Threads have rows along the first index alone, so that constraints
        on the other one hold for all or none of a thread's work.
        """
        row, column = tiles.row, tiles.column
        if row is None or self.rows or self.columns or self.always:
            return None
        others = [i for i in nest.indices if i not in (row, column) and i.range > 1]
        others = [i for i in others if not any(u.stride(i.name) for u in moved)]
        outputs = product(i.range for i in nest.indices)
        if not others or row.range >= sch.power_of_two_below(self.threads):
            return None
        found: list[Tiles] = []
        for rows, columns in _TILES[:_LARGE]:
            if outputs < _RESIDENT * self.groups * rows * columns:
                continue
            if columns % tiles.lanes or columns >= 2 * column.range or rows >= 2 * row.range:
                continue
            down = power_of_two_from(-(-row.range // rows))
            found += [
                attrs.evolve(
                    tiles, across=across, down=down, rows=rows, vectors=columns // tiles.lanes, above=above, high=high
                )
                for across in _powers(power_of_two_from(-(-column.range // columns)))
                for high in _powers(self.threads // (across * down))
                for above in others
                if _FEWEST <= across * down * high <= self.threads and high < 2 * above.range
            ]
        if not found:
            return None
        best = min(found, key=lambda tile: self._time(nest, tile))
        return attrs.evolve(best, depth=self.depth or min(tiles.loop.range, _DEPTH))

    def _sized(self, nest: Nest, tiles: Tiles) -> Tiles:
        """Return the largest tile with enough groups to keep the device busy, else the one with most threads."""
        height = min(self.rows or 1 << 30, tiles.row.range if tiles.row else 1)
        width = min(self.columns or 1 << 30, tiles.column.range)
        outputs = product(i.range for i in nest.indices)
        threads = sch.power_of_two_below(self.threads)
        best: tuple[tuple[int, int, int], Tiles] | None = None
        for rows, columns in _TILES:
            if columns % tiles.lanes or (columns > 1 and columns >= 2 * width) or (rows > 1 and rows >= 2 * height):
                continue
            tall, wide = power_of_two_from(-(-height // rows)), power_of_two_from(-(-width // columns))
            across = min(wide, max(1 << threads.bit_length() // 2, threads // tall))
            down = min(tall, threads // across)
            tile = attrs.evolve(tiles, across=across, down=down, rows=rows, vectors=columns // tiles.lanes)
            many = outputs // (tile.height * tile.width) >= self.groups
            score = (int(many), across * down, rows * columns if many else -rows * columns)
            if best is None or score > best[0]:
                best = (score, tile)
        tile = self._by_waves(nest, best[1] if best is not None else tiles)
        left = threads // (tile.across * tile.down)
        few = outputs // (tile.height * tile.width) < self.groups or self.always
        parts = min(left, power_of_two_from(tile.loop.range)) if few else 1
        depth = self.depth or min(tile.loop.range, max(_DEPTH, 2 * parts))
        return attrs.evolve(tile, parts=parts, depth=depth)

    def _by_waves(self, nest: Nest, tile: Tiles) -> Tiles:
        """Return a tile, or another one whose groups fill the last wave better."""
        chosen = self.rows or self.columns or self.always or tile.row is None
        if chosen or self.groups == 1 or sch.constrained_indices(nest) or self._groups(nest, tile) < self.groups:
            return tile
        assert tile.row is not None  # as above, for type checkers
        others = [
            attrs.evolve(tile, rows=rows, vectors=columns // tile.lanes, down=down, across=across)
            for rows, columns in _OF_WAVES
            for down, across in _TEAMS
            if down * across <= self.threads and columns % tile.lanes == 0
        ]
        fitting = [each for each in others if each.height <= tile.row.range and each.width <= tile.column.range]
        outputs = product(i.range for i in nest.indices)
        busy = (
            each
            for each in fitting
            if 2 * each.down * each.across > self.threads or outputs // (each.height * each.width) >= self.groups
        )  # remaining threads would share the reduction
        return min((tile, *busy), key=lambda each: self._time(nest, each))

    def _groups(self, nest: Nest, tiles: Tiles) -> int:
        extents = tiles.extents
        return product(-(-i.range // extents.get(i.name, 1)) for i in nest.indices)

    def _time(self, nest: Nest, tiles: Tiles) -> float:
        """Estimate the time of all groups if threads have several outputs, in products of elements.

        The reads of a thread in each step are the rows plus columns of its outputs; with few threads, latency is
        exposed. Of the tiles measured on an H200 in f32 this chooses the fastest at 1000, 1024, 1280, 1536, 2048, 2560,
        4096 and 5000, and at 3000 one that takes 1 % more; its error for tiles of one size is within some 20 %. For
        windows of 3 x 3 it chooses the fastest on 14 x 14 pixels and, in parts of the sum, on 7 x 7: there a group of
        one row of pixels skips steps in which all of it is beside the border.
        """
        rows, columns = tiles.rows, tiles.vectors * tiles.lanes
        tested = _overhangs(nest, attrs.evolve(tiles, depth=_DEPTH))
        waves = -(-self._groups(nest, tiles) // self.groups)
        missing = max(0, _HIDING - waves * tiles.down * tiles.across * tiles.high)
        height = tiles.height * tiles.high
        area = height * tiles.width
        read = (_TESTED_COST if tested else _READ_COST) * (height + tiles.width)
        own = area + area * (rows + columns) // (rows * columns)
        own -= area // _SHARED if tiles.across >= _TOGETHER else 0
        return waves * (own + read) * (_IDLE_COST + missing) * _share_of_steps(nest, tiles)


_TILES = ((8, 8), (8, 4), (4, 4), (2, 4), (1, 4), (4, 2), (2, 2), (1, 2), (4, 1), (2, 1), (1, 1))
"""Rows and columns of the outputs of one thread."""

_LARGE = 2
"""Number of the first :data:`_TILES` that may have rows along another index."""

_OF_WAVES = ((8, 8), (6, 8), (8, 4))
"""Outputs of one thread in tiles that the number of groups selects."""

_TEAMS = ((16, 16), (16, 8), (8, 16), (8, 32))
"""Threads along a column and along a row of tiles of :data:`_OF_WAVES`."""

_TOGETHER = 32
"""Threads along a row that read each element of a column at once, since no others are beside them."""

_SHARED = 10
"""Reciprocal of the share of products that tiles with :data:`_TOGETHER` threads along a row save."""

_HIDING = 384
"""Threads of a processor that hide latency."""

_IDLE_COST = 640
"""Missing threads that double the time."""

_TESTED_COST = 50
""":data:`_READ_COST` if copies test for the end of a tensor."""

_RESIDENT = 160
"""Minimum threads for each group that keeps the device busy, to hide memory latency."""

_FEWEST = 64
"""Minimum threads of a group, which share loads."""

_READ_COST = 16
"""Cost of reading an element of a tile, in products."""


def _column_of(nest: Nest, reads: Sequence[Use], constrained: Collection[str]) -> stripe.Index:
    """Return the index along the columns of a tile: one with contiguous outputs, if that costs no tests."""
    contiguous = [i for i in nest.indices if all(u.stride(i.name) == 1 for u in sch.written_uses(nest))]
    column = max(contiguous or nest.indices, key=lambda i: i.range)
    if column.name not in constrained:
        return column
    moved = [u for u in reads if u.stride(column.name)]
    if any(u.stride(column.name) == 1 for u in moved):
        return column
    others = [i for i in nest.indices if i.name not in constrained and i.range >= _COLUMNS]
    others = [i for i in others if not any(u.stride(i.name) for u in moved)]
    return max(others, key=lambda i: i.range, default=column)


def _is_tested(nest: Nest, tiles: Tiles) -> bool:
    """Return whether copies test for the end of a tensor, or are clamped.

    Each of them takes several instructions then, so that fewer and wider copies pay. Otherwise they do not: steps that
    threads read together arrive in registers of one bank, by which a product of 4096 takes an eighth more on an H200.
    """
    return bool(sch.constrained_indices(nest)) or _overhangs(nest, tiles)


def _overhangs(nest: Nest, tiles: Tiles) -> bool:
    """Return whether some tiles extend beyond the end of an index."""
    extents = tiles.extents
    return any(i.range % extents.get(i.name, 1) for i in (*nest.indices, *nest.reductions[0].loops))


def _share_of_steps(nest: Nest, tiles: Tiles) -> float:
    """Return the share of steps in which constraints on the index above leave some term to a group."""
    if tiles.above is None:
        return 1.0
    segment, above, share = nest.reductions[0], tiles.above, 1.0
    for loop in segment.loops:
        tests = [each for each in segment.constraints if {*each.indices} == {above.name, loop.name}]
        reached = 0
        for step in range(loop.range if tests else 0):
            first, last = 0, above.range - 1
            for test in tests:
                slope, rest = test.coefficient(above.name), test.offset + test.coefficient(loop.name) * step
                first, last = (max(first, -(rest // slope)), last) if slope > 0 else (first, min(last, rest // -slope))
            reached += last // tiles.high - first // tiles.high + 1 if first <= last else 0
        share *= reached / (loop.range * -(-above.range // tiles.high)) if tests else 1.0
    return share


def _powers(most: int) -> list[int]:
    return [1 << n for n in reversed(range(most.bit_length()))]


_ROWS = 8
"""Minimum rows along an unconstrained index that is preferred to a longer constrained one."""

_COLUMNS = 32
"""Minimum columns along an unconstrained index, even without contiguous outputs."""

_DEPTH = 16
"""Steps staged at a time, enough to amortise two barriers."""
