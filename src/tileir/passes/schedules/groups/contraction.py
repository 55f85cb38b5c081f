"""Construction of a contraction shared by the threads of a group: staging, tiles in registers, and epilogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tileir.core import Aggregation, NameScope, Op, attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.groups.reduction import identity_block, merge_block
from tileir.passes.schedules.groups.staging import RUN, Staging, TileShape
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Segment, Use, leaf, product
from tileir.stripe import ir as stripe


@attrs.frozen(eq=False)
class Tiles:
    """Tile of a contraction for a group, and the share of each thread.

    Attributes:
        row: The output index along the rows of a tile; None for one row.
        column: The output index along its columns, and the lanes.
        above: The output index of which ``high`` values share a tile, each with its own threads.
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
    """Return the local memory of a tile in bytes."""
    segment, shape = nest.reductions[0], tiles.shape
    inputs = sum(shape.local_bytes(use) for use in sch.reads_of(nest, segment)) if staged else 0
    results = sum(use.dtype.itemsize for use in segment.uses if use.direction.writes)
    return inputs + (tiles.parts * tiles.height * tiles.width * results if tiles.parts > 1 else 0)


def build(nest: Nest, tiles: Tiles, elements: Mapping[str, int]) -> Node:
    """Return the tree of a kernel; ``elements`` holds the size of the tensor behind each root."""
    return _ContractionKernel.of(nest, tiles, elements).kernel()


@attrs.frozen(eq=False, repr=False)
class _ContractionKernel:
    """Builder of one kernel."""

    nest: Nest
    tiles: Tiles
    elements: Mapping[str, int]
    names: NameScope
    segment: Segment
    staging: Staging
    zeros: bool  # whether steps behind the end of the reduction change nothing
    grid: tuple[stripe.Index, ...]
    team: tuple[stripe.Index, stripe.Index, stripe.Index, stripe.Index]  # part of the reduction, above, row, column
    own: tuple[stripe.Index, stripe.Index, stripe.Index]  # row, vector, lane of a thread
    starts: dict[str, Affine]  # of the tile along the output indices
    step: stripe.Index  # number of the staged part of the reduction
    inner: stripe.Index  # run of steps of a thread within it
    run: stripe.Index  # step within a run

    @classmethod
    def of(cls, nest: Nest, tiles: Tiles, elements: Mapping[str, int]) -> _ContractionKernel:
        """Choose names and the grid of a kernel."""
        names = nest.taken_names()
        row = "row" if tiles.row is None else tiles.row.name
        column = "column" if tiles.column is None else tiles.column.name
        grid, starts = sch.tile_grid(nest.indices, tiles.shape.extents)
        team = (
            sch.index(names.fresh(f"{tiles.loop.name}_thread"), tiles.parts, stripe.Binding.THREAD),
            sch.index(names.fresh("above_thread"), tiles.high, stripe.Binding.THREAD),
            sch.index(names.fresh(f"{row}_thread"), tiles.down, stripe.Binding.THREAD),
            sch.index(names.fresh(f"{column}_thread"), tiles.across, stripe.Binding.THREAD),
        )
        own = (
            sch.index(names.fresh(f"{row}_own"), tiles.rows, stripe.Binding.UNROLL),
            sch.index(names.fresh(f"{column}_own"), tiles.vectors, stripe.Binding.UNROLL),
            sch.index(names.fresh(f"{column}_lane"), tiles.lanes, stripe.Binding.LANE),
        )
        step = sch.index(names.fresh(f"{tiles.loop.name}_tile"), -(-tiles.loop.range // tiles.depth))
        segment = nest.reductions[0]
        staging = Staging(
            tiles.shape,
            (*nest.indices, *segment.loops),
            frozenset(name for constraint in segment.constraints for name in constraint.indices),
            product(i.range for i in team),
            tiles.load_bytes,
            tiles.max_lanes,
            elements,
            names,
        )
        zeros = _adds_zeros(sch.reads_of(nest, segment), segment, tiles, staging)
        whole = (zeros or tiles.loop.range % tiles.depth == 0) and tiles.depth % (RUN * tiles.parts) == 0
        runs = tiles.staged and any(tiles.shape.in_runs(use) for use in sch.reads_of(nest, segment))
        width = RUN if runs and whole else 1
        inner = sch.index(names.fresh(f"{tiles.loop.name}_step"), -(-tiles.depth // (tiles.parts * width)))
        run = sch.index(names.fresh(f"{tiles.loop.name}_run"), width, stripe.Binding.UNROLL)
        axes = sch.present(grid)
        return cls(nest, tiles, elements, names, segment, staging, zeros, axes, team, own, starts, step, inner, run)

    def kernel(self) -> Node:
        """Return the tree."""
        threads = product(i.range for i in self.team)
        writes = [use for use in self.segment.uses if use.direction.writes]
        sums = {
            use: stripe.allocation(
                self.names.fresh(f"{use.root}_tile"),
                use.dtype,
                (threads, self.tiles.rows, self.tiles.vectors * self.tiles.lanes),
                sch.REGISTER,
            )
            for use in writes
        }
        views = {use: self._sum(use, found) for use, found in sums.items()}
        start = self._threads([identity_block(view, self.own) for view in views.values()])
        children = [start, self._steps(views)]
        results = views
        shared: tuple[stripe.Refinement, ...] = ()
        if self.tiles.parts > 1:
            shared = tuple(self._shared_memory(use) for use in writes)
            places = {use: self._shared(use, found) for use, found in zip(writes, shared, strict=True)}
            own = sch.part(self.team[0])
            children.append(self._threads([self._copied(views[use], places[use](own)) for use in writes]))
            half = self.tiles.parts // 2
            while half:
                part = sch.index(self.names.fresh(self.team[0].name), half, stripe.Binding.THREAD)
                place = sch.part(part)
                merges = [merge_block(at(place + half), at(place), self.own) for at in places.values()]
                children.append(self._threads(merges, part))
                half //= 2
            results = {use: at(Affine()) for use, at in places.items()}
        children.append(self._finish(results))
        return Node(self.grid, (*sums.values(), *shared), tuple(children))

    def _threads(self, children: Iterable[Node], part: stripe.Index | None = None) -> Node:
        return Node(sch.present((part or self.team[0], *self.team[1:])), children=tuple(children))

    @property
    def _row(self) -> Affine:
        """The row in its tile: those of a thread are adjacent, or adjacent threads have adjacent runs."""
        row = self.tiles.row
        rows = [u for u in sch.reads_of(self.nest, self.segment) if row is not None and u.stride(row.name)]
        if any(map(self.tiles.shape.in_runs, rows)):
            return sch.part(self.team[2]) + sch.part(self.own[0], self.tiles.down)
        return sch.part(self.team[2], self.tiles.rows) + sch.part(self.own[0])

    @property
    def _column(self) -> Affine:
        """The column in its tile: adjacent threads have adjacent vectors."""
        lanes = self.tiles.lanes
        vector = sch.part(self.own[1], self.tiles.across * lanes) + sch.part(self.team[3], lanes)
        return vector + sch.part(self.own[2])

    def _places(self) -> dict[str, Affine]:
        return {
            self.tiles.loop.name: sch.part(self.inner, self.tiles.parts * self.run.range)
            + sch.part(self.team[0], self.run.range)
            + sch.part(self.run),
            **{index.name: place for index, place in self._axes},
        }

    @property
    def _axes(self) -> tuple[tuple[stripe.Index, Affine], ...]:
        """The output indices of the tile, with the place of a thread along each."""
        indices = (self.tiles.above, self.tiles.row, self.tiles.column)
        places = (sch.part(self.team[1]), self._row, self._column)
        return tuple((i, place) for i, place in zip(indices, places, strict=True) if i is not None)

    @property
    def _outputs(self) -> dict[str, Affine]:
        return {**self.starts, **{index.name: self.starts[index.name] + place for index, place in self._axes}}

    @property
    def _ends(self) -> tuple[Affine, ...]:
        """Tests for rows and columns past the end; not for lanes, since vectors are whole."""
        values = self._outputs
        return tuple(
            index.range - 1 - values[index.name].substitute({self.own[2].name: Affine()})
            for index, _ in self._axes
            if index.range % self.tiles.shape.extents[index.name]
        )

    def _sum(self, use: Use, found: stripe.Refinement) -> Use:
        place = sch.part(self.own[1], self.tiles.lanes) + sch.part(self.own[2])
        access = (sch.number_of(self.team), sch.part(self.own[0]), place)
        return attrs.evolve(use, root=found.name, access=access, strides=found.shape.strides, sizes=())

    def _shared_memory(self, use: Use) -> stripe.Refinement:
        extents = (self.tiles.parts, self.tiles.height, self.tiles.width)
        return stripe.allocation(self.names.fresh(f"{use.root}_shared"), use.dtype, extents, sch.LOCAL)

    def _shared(self, use: Use, found: stripe.Refinement) -> _Accumulator:
        return _Accumulator(use, found, self._row, self._column)

    def _copied(self, source: Use, target: Use) -> Node:
        return merge_block(source, attrs.evolve(target, aggregation=None, direction=stripe.Direction.OUT), self.own)

    def _steps(self, sums: Mapping[Use, Use]) -> Node:
        """Return the loop over the staged parts of the reduction."""
        others = tuple(i for i in self.segment.loops if i.name != self.tiles.loop.name)
        staging = self.staging
        reads = sch.reads_of(self.nest, self.segment)
        stages = {u: staging.memory(u) for u in reads if self.tiles.staged and staging.shape.axes(u)}
        first = sch.part(self.step, self.tiles.depth)
        starts = {**self.starts, self.tiles.loop.name: first}
        fills = [staging.fill(use, stage, starts) for use, stage in stages.items()]
        places = self._places()
        staged = {use: staging.staged(use, stage, places) for use, stage in stages.items()}
        fills.append(self._multiply(sums, staged, first))
        ahead = stripe.Pipeline(self.tiles.stages) if staging.shape.ahead else None
        return Node((*others, *sch.present((self.step,))), tuple(stages.values()), tuple(fills), instruction=ahead)

    def _multiply(self, sums: Mapping[Use, Use], staged: Mapping[Use, Use], first: Affine) -> Node:
        """Return the products that a thread adds to its tile for one staged part of the reduction."""
        loop, depth, parts = self.tiles.loop, self.tiles.depth, self.tiles.parts
        place = self._places()[loop.name]
        values = {**self._outputs, loop.name: first + place}
        uses = tuple(sums.get(use) or staged.get(use) or use.substitute(values) for use in self.segment.uses)
        inside = leaf(self.segment, values, sch.present(self.own))
        tests = list(inside.constraints)
        if depth % parts:
            tests.append(depth - 1 - place)
        if loop.range % depth and not self.zeros:
            tests.append(loop.range - 1 - first - place)
        direct = [u for u in sch.reads_of(self.nest, self.segment) if u not in staged]
        if any(u.stride(index.name) for u in direct for index, _ in self._axes):
            tests.extend(self._ends)
        *unrolled, lane = self.own
        body = attrs.evolve(inside, indices=sch.present((lane,)), uses=uses, constraints=())
        around = Node(
            sch.present((self.inner, self.run, *unrolled)),
            children=(body,),
            constraints=tuple(tests),
            tags=self.segment.tags,
        )
        return self._threads([around])

    def _finish(self, results: Mapping[Use, Use]) -> Node:
        """Return the epilogue, once for each output, with the prologue, for which nothing waits."""
        *unrolled, lane = self.own
        lanes = sch.present((lane,))
        own = {
            r.name: stripe.allocation(r.name, r.shape.dtype, (self.tiles.lanes,), sch.REGISTER)
            for r in self.nest.allocations
        }
        children: list[Node] = []
        for segment in self.nest.segments:
            if segment.loops:
                merges = {use: merge_block(found, self._in_registers(use), lanes) for use, found in results.items()}
                children.extend(sch.where_set(self.nest, use, self._outputs, each) for use, each in merges.items())
                continue
            moved = attrs.evolve(
                segment, uses=tuple(self._in_registers(u) if u.root in own else u for u in segment.uses)
            )
            inside = leaf(moved, self._outputs, lanes)
            children.append(Node(children=(attrs.evolve(inside, constraints=()),), constraints=inside.constraints))
        point = Node(sch.present(unrolled), tuple(own.values()), tuple(children), constraints=self._ends)
        return Node(sch.present(self.team[1:]), children=(point,))

    def _in_registers(self, use: Use) -> Use:
        return attrs.evolve(use, access=(sch.part(self.own[2]),), strides=(1,), sizes=())


def _adds_zeros(reads: Sequence[Use], segment: Segment, tiles: Tiles, staging: Staging) -> bool:
    """Return whether steps past the end of a reduction add products of zeros, so that they need no tests.

    A loop with equally many steps for each tile is fully unrolled.
    """
    computed = [s.op for s in segment.statements if isinstance(s, stripe.Intrinsic)]
    merged = {use.aggregation for use in segment.uses if use.direction.writes}
    return (
        tiles.staged
        and computed == [Op.MUL]
        and len(reads) == 2
        and merged == {Aggregation.SUM}
        and all(tiles.loop.name in tiles.shape.axes(use) and staging.pads(use) for use in reads)
    )


@attrs.frozen(eq=False, repr=False)
class _Accumulator:
    """The elements of local memory in which threads merge one result."""

    use: Use
    memory: stripe.Refinement
    row: Affine
    column: Affine

    def __call__(self, part: Affine) -> Use:
        name, shape = self.memory.name, self.memory.shape
        access = (part, self.row, self.column)
        return attrs.evolve(self.use, name=name, root=name, access=access, strides=shape.strides, sizes=())
