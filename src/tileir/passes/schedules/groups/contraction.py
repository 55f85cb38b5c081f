"""Script of a contraction shared by the threads of a group: tiles of its inputs in local memory, sums in registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tileir.core import NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.strategy import shared_out
from tileir.schedule import Nest, Tail, Use, product, tree_of_nest
from tileir.schedule.application import Candidate, Rearrangement
from tileir.schedule.steps.iterations import Sink
from tileir.schedule.steps.legality import word
from tileir.schedule.steps.loops import Bind, Jam, Reorder, Split
from tileir.schedule.steps.memory import Level, Outside, Pipeline, RFactor, Stage, past_the_end, reach_of
from tileir.schedule.steps.tensors import Interleave
from tileir.stripe import ir as stripe


@attrs.frozen(eq=False)
class Tiles:
    """Tile of a contraction for a group, and the share of each thread.

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
        depth: Steps of ``loop`` that are staged at a time.
        staged: Whether there is local memory for the inputs.
        load_bytes: Width of a staging load in bytes.
        max_lanes: Maximum number of lanes of a load; 0 for as many as fit.
        stages: Number of steps of the reduction in local memory at a time; software-pipelined unless it is 1.
        runs: Whether pipelined tiles of inputs that are contiguous along the reduction keep that layout.
        above: The output index of which ``high`` values share a tile, each with its own threads.
    """

    row: stripe.Index | None
    column: stripe.Index
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
    def threads(self) -> int:
        """Threads of a group."""
        return self.parts * self.high * self.down * self.across

    @property
    def extents(self) -> dict[str, int]:
        """Extents of the tile along each of its indices: the reduction first, then rows and columns."""
        sizes = ((self.loop, self.depth), (self.above, self.high), (self.row, self.height), (self.column, self.width))
        return {index.name: size for index, size in sizes if index is not None}

    def axes(self, use: Use) -> tuple[str, ...]:
        """Return the indices of the tile that move an input, slowest first in local memory."""
        found = tuple(name for name, extent in self.extents.items() if extent > 1 and use.stride(name))
        return (*found[1:], found[0]) if self.in_runs(use) else found

    def in_runs(self, use: Use) -> bool:
        """Return whether a tile is contiguous along the reduction in local memory, as its tensor is.

        Prefetching copies are then wide, and threads read several steps of a row at once.
        """
        loop, *others = self.extents
        moving = [name for name in others if self.extents[name] > 1 and use.stride(name)]
        return (
            self.runs
            and self.staged
            and bool(moving)
            and self.column.name not in moving
            and use.stride(loop) == 1
            and self.depth % RUN == 0
            and sch.aligned_lanes((use,), loop, RUN) == RUN
        )

    def pad(self, use: Use) -> int:
        """Return the padding of a tile's rows in local memory, in elements.

        If adjacent threads read down a column, the row stride is odd, so that their reads are in distinct banks; except
        for vectors, which need alignment, and for copies of single elements, where coalesced loads along a row count
        more. Runs of adjacent rows are in distinct banks, too.
        """
        axes = self.axes(use)
        if self.in_runs(use):
            return RUN
        if len(axes) == 1 or min(axes, key=lambda name: abs(use.stride(name))) == axes[-1]:
            return 0
        aligned = self.stages > 1 or (axes[-1] == self.column.name and self.lanes > 1)
        return self.lanes if aligned else 1 - self.extents[axes[-1]] % 2

    def local_bytes(self, nest: Nest) -> int:
        """Return the local memory of a group in bytes, with one step of the reduction."""
        segment, size = nest.reductions[0], 0
        for use in sch.reads_of(nest, segment) if self.staged else ():
            if axes := self.axes(use):
                *others, last = (self.extents[name] for name in axes)
                size += product((*others, last + self.pad(use))) * use.dtype.itemsize
        sums = sum(use.dtype.itemsize for use in segment.uses if use.direction.writes)
        return size + (self.parts * self.height * self.width * sums if self.parts > 1 else 0)


@attrs.frozen(eq=False, repr=False)
class SharedContraction:
    """Script that distributes a contraction over the threads of a group, and the names of its loops.

    Attributes:
        nest: The kernel.
        tiles: The tile of a group.
        names: Names in use.
        ways: Division of the outputs of a tile among threads, by index.
        terms: Loop over the steps of the reduction that are staged at a time.
        part: Loop over the threads that share the reduction.
        bound: Final bindings of loops.
    """

    nest: Nest
    tiles: Tiles
    names: NameScope
    ways: dict[str, Way]
    terms: str
    part: str
    bound: dict[stripe.Binding, list[str]]

    @classmethod
    def of(cls, nest: Nest, tiles: Tiles) -> SharedContraction:
        """Choose names."""
        names, loop = nest.taken_names(), tiles.loop.name
        ways = {name: Way.of(nest, tiles, name, names) for name, n in tiles.extents.items() if name != loop and n > 1}
        bound = {
            stripe.Binding.GRID: [index.name for index in nest.indices],
            stripe.Binding.THREAD: [way.thread for way in ways.values() if way.count > 1],
            stripe.Binding.UNROLL: [way.own for way in ways.values()],
            stripe.Binding.LANE: [way.lane for way in ways.values() if way.lanes > 1],
        }
        terms = names.fresh(f"{loop}_in") if tiles.depth > 1 else loop
        return cls(nest, tiles, names, ways, terms, names.fresh(f"{loop}_thread"), bound)

    def candidate(self) -> Candidate:
        """Return the script with facts for remarks."""
        tiles = self.tiles
        sizes = {"rows": tiles.height * tiles.high, "columns": tiles.width, "depth": tiles.depth}
        return Candidate.of(self.nest, self._steps(), **sizes, staged=tiles.staged)

    def _steps(self) -> Iterator[Rearrangement]:
        tiles, (segment,), loop = self.tiles, self.nest.reductions, self.tiles.loop.name
        others = [index.name for index in segment.loops if index.name != loop]
        for name, way in self.ways.items():
            yield Split(name, way.size, (name, way.inside), Tail.MASK)
        inside = tuple(way.inside for way in self.ways.values())
        yield Reorder((*self.bound[stripe.Binding.GRID], *inside))
        if tiles.depth > 1:
            yield Split(loop, tiles.depth, (loop, self.terms), Tail.MASK)
        yield Reorder(tuple(dict.fromkeys((*others, loop, self.terms))))
        if inside:
            yield Jam(inside)
        yield from (step for use in reversed(self._staged()) for step in self._copied(use))
        yield from self._shared((*others, loop)[0], tuple(use.root for use in segment.uses if use.direction.writes))
        yield from (Bind(tuple(loops), binding) for binding, loops in self.bound.items() if loops)
        if tiles.stages > 1:
            yield Pipeline((*others, loop), tiles.stages)

    def _staged(self) -> list[Use]:
        reads = sch.reads_of(self.nest, self.nest.reductions[0]) if self.tiles.staged else ()
        return [use for use in reads if self.tiles.axes(use)]

    def _copied(self, use: Use) -> Iterator[Rearrangement]:
        """Yield steps that copy a tile of an input to local memory, by coalesced loads."""
        tiles, axes, stage = self.tiles, self.tiles.axes(use), self.names.fresh(f"{word(use.root)}_stage")
        over = tuple(self.terms if name == tiles.loop.name else self.ways[name].inside for name in axes)
        outside = Outside.ZERO if self._pads(use) else Outside.CLAMP
        fastest, *others = sorted(axes, key=lambda name: abs(use.stride(name)))
        lanes = self._lanes(use, fastest)
        yield Stage(use.root, tiles.loop.name, stage, Level.LOCAL, (), over, tiles.pad(use), lanes, outside)
        slow = [(f"{stage}_{axes.index(name)}", tiles.extents[name]) for name in reversed(others)]
        yield from shared_out(
            [*slow, (f"{stage}_{axes.index(fastest)}", tiles.extents[fastest] // lanes)], tiles.threads
        )

    def _pads(self, use: Use) -> bool:
        """Return whether zeros replace elements past the end of an input: a test suffices, without clamping."""
        tested = {name for test in self.nest.reductions[0].constraints for name in test.indices}
        return self.tiles.stages > 1 and not any(use.stride(name) for name in tested)

    def _lanes(self, use: Use, axis: str) -> int:
        """Return the elements along an axis that one load can stage: whole aligned vectors."""
        tiles, extents = self.tiles, self.tiles.extents
        if tiles.stages > 1 and axis != tiles.axes(use)[-1]:
            return 1
        lanes = sch.vector_lanes(tiles.load_bytes, use.dtype.itemsize, tiles.max_lanes)
        lanes = sch.aligned_lanes((use,), axis, sch.power_of_two_below(lanes))
        wholes = [extents[axis]]
        indices = (*self.nest.indices, *self.nest.reductions[0].loops)
        moving = [index for index in indices if use.stride(index.name)]
        tree = tree_of_nest(self.nest)
        if any(index.range % extents.get(index.name, 1) for index in moving) or past_the_end(
            tree, use.root, use.access, {}
        ):
            wholes += [index.range for index in moving if index.name == axis]
            if not self._pads(use):  # a vector is inside or outside the tensor, and no thread idles
                wholes += reach_of(tree, use)
                tile = product(extents[name] for name in tiles.axes(use))
                lanes = min(lanes, sch.power_of_two_below(max(1, tile // tiles.threads)))
        while any(whole % lanes for whole in wholes):
            lanes //= 2
        return lanes

    def _shared(self, first: str, sums: tuple[str, ...]) -> Iterator[Rearrangement]:
        """Yield steps that divide the terms and the outputs of a tile among threads."""
        tiles, names, bound, inner = self.tiles, self.names, self.bound, list[str]()
        if tiles.depth > 1:
            whole = tiles.depth % (RUN * tiles.parts) == 0 and any(map(tiles.in_runs, self._staged()))
            share, *inner = (names.fresh(f"{tiles.loop.name}_{what}") for what in ("share", "step", "run"))
            yield Split(self.terms, tiles.parts * (RUN if whole else 1), (inner[0], share))
            yield Split(share, RUN if whole else 1, (self.part, inner[1]))
        held, loops = [(root, 0) for root in sums], list[str]()
        if tiles.parts > 1:
            parts = tuple(names.fresh(f"{word(root)}_tile") for root in sums)
            yield RFactor(sums, self.part, parts, Level.REGISTER, around=first)
            held += ((part, 1) for part in parts)
            shared = [names.fresh(f"{word(root)}_shared") for root in sums]
            yield from (step for each in zip(sums, parts, shared, strict=True) for step in self._tree(*each))
            yield Sink(bound[stripe.Binding.GRID][-1])
            loops += (*parts, *shared)
        threads, own = ([getattr(way, what) for way in self.ways.values()] for what in ("thread", "own"))
        rank = len(self.ways) + max(len(r.shape.sizes) for r in self.nest.allocations if r.name in sums)
        for axis, way in enumerate(self.ways.values()):
            yield from (step for loop in (way.inside, *(f"{own}_{axis}" for own in loops)) for step in way.loops(loop))
            yield from (step for memory, first in held for step in way.axes(memory, first + axis, first + rank))
            rank += len([*way.axes("", axis, rank)])
        if own:
            yield Reorder((*threads, *own, *bound[stripe.Binding.LANE]))
        if inner:
            yield Reorder((self.part, *threads, *inner, *own, *bound[stripe.Binding.LANE]))
            bound[stripe.Binding.UNROLL].append(inner[1])

    def _tree(self, root: str, part: str, shared: str) -> Iterator[Rearrangement]:
        """Yield the step by which ever fewer threads merge the sums of all threads in local memory."""
        through = tuple(self.tiles.parts >> level for level in range(1, self.tiles.parts.bit_length()))
        yield RFactor(root, f"{part}_merge", shared, Level.LOCAL, through, stores=True)
        left = (f"{shared}_left_{level}" for level in range(len(through)))
        self.bound[stripe.Binding.THREAD] += (self.part, f"{part}_start", f"{part}_merge", *left)


@attrs.frozen(repr=False)
class Way:
    """Division of the values of an output index among threads.

    Attributes:
        size: Number of values in a tile.
        count: Number of threads.
        lanes: Adjacent values that form a vector.
        mixed: Whether adjacent threads have adjacent vectors; otherwise, the values of a thread are adjacent.
        inside: Loop over the values.
        thread: Loop over threads.
        own: Loop over the vectors of a thread.
        lane: Loop over the elements of a vector.
    """

    size: int
    count: int
    lanes: int
    mixed: bool
    inside: str
    thread: str
    own: str
    lane: str

    @classmethod
    def of(cls, nest: Nest, tiles: Tiles, name: str, names: NameScope) -> Way:
        """Choose names for an index of a tile."""
        column, above = name == tiles.column.name, tiles.above is not None and name == tiles.above.name
        count = tiles.across if column else tiles.high if above else tiles.down
        reads = [use for use in sch.reads_of(nest, nest.reductions[0]) if use.stride(name)]
        words = (names.fresh(f"{name}_{what}") for what in ("in", "thread", "own", "lane"))
        mixed = column or any(map(tiles.in_runs, reads))
        return cls(tiles.extents[name], count, tiles.lanes if column else 1, mixed, *words)

    def loops(self, loop: str) -> Iterator[Rearrangement]:
        """Yield steps that divide a loop over the values."""
        if self.mixed:
            inner = f"{self.thread}_{self.lane}" if self.lanes > 1 else self.thread
            yield Split(loop, self.count * self.lanes, (self.own, inner))
            yield from (Split(inner, self.lanes, (self.thread, self.lane)) for _ in range(self.lanes > 1))
        else:
            yield Split(loop, self.size // self.count, (self.thread, self.own))

    def axes(self, memory: str, axis: int, rank: int) -> Iterator[Rearrangement]:
        """Yield steps that divide an axis of memory over the values, since threads need one for themselves."""
        last = self.count * self.lanes if self.mixed else self.size // self.count
        if divided := 1 < last < self.size:
            yield Interleave(memory, axis, last)
        if self.lanes > 1:
            yield Interleave(memory, rank if divided else axis, self.lanes)


RUN: Final = 4
"""Contiguous elements along a reduction that are copied, and read, at once."""
