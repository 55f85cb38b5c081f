"""Products with sums in memory, so that operands read once for all rows are read in their own order, or in blocks.

A tile whose sums stay in registers during the whole reduction reads down the columns of the larger operand, a few cache
lines of each row: every step is elsewhere in memory, often in another page, where neither prefetching nor the cache
helps. Here a group takes many adjacent panels, and a few steps of the reduction for all of them before the next ones:
it reads one run of the operand per step, which hardware prefetches. The sums of all panels stay in a cache; each visit
of a tile adds its partial sums from registers. With many rows, a group first packs the steps of one visit, which then
has more (:mod:`tileir.passes.schedules.registers.cache_blocking`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product as combinations
from typing import Final

from tileir.core.nodes import attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.registers.blocks import Chunk, Piece, Split, TileBlocks, column_pieces
from tileir.passes.schedules.registers.cache_blocking import Visit
from tileir.passes.schedules.registers.cost import Limits, Tiling, panel_uses
from tileir.passes.schedules.registers.panels import Columns, ordered_loops, panel
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Segment, Use, leaf, product
from tileir.stripe import ir as stripe

_STEPS: Final = 16
"""Reduction steps per visit of a tile: cores prefetch this many runs at a time, and adding to sums in memory costs an
eighth of these steps.
"""

_LINES: Final = 4
"""Minimum cache lines between two steps; closer steps form one run anyway."""

_LINE: Final = 64
_PARTS: Final = 512
"""Maximum visits of a tile, whose partial sums are added in sequence."""

_GROUPS: Final = 2
"""Groups per thread; with more, the runs through memory would be short."""

_LEAST_ROWS: Final = 2
"""Minimum rows; a single row, as of a plain sum, has tiles wide enough for long runs through memory."""

_LEAST_CHUNK: Final = 96
"""Minimum rows of a group that packs its own panels."""

_LEAST_PANELS: Final = 8
"""Minimum panels for threads to share, so that the number of threads does not change the order of additions."""


def is_streamed(nest: Nest, plan: Tiling, limits: Limits) -> bool:
    """Return whether a nest is a product of few rows and a large operand that nothing else keeps in caches.

    The number of threads does not matter, so that sums are added in a fixed order.
    """
    use = _streamed_operand(nest, plan)
    if use is None:
        return False
    (loop,) = nest.reductions[0].loops
    if abs(use.stride(loop.name)) * use.dtype.itemsize < _LINES * _LINE:
        return False
    others = [i for i in nest.indices if i is not plan.vector]
    width = plan.columns * plan.lanes
    panels = product(i.range for i in others if use.stride(i.name)) * (plan.vector.range // width)
    rows = product(i.range for i in others if not use.stride(i.name))
    sums_bytes = rows * width * nest.allocations[0].shape.dtype.itemsize
    nbytes = loop.range * plan.vector.range * use.dtype.itemsize
    if rows < _LEAST_ROWS or panels < _LEAST_PANELS:
        return False
    return nbytes > 2 * limits.panel_bytes and sums_bytes <= limits.cache_bytes // 2


def _streamed_operand(nest: Nest, plan: Tiling) -> Use | None:
    """Return the only operand along the lanes of a reduction with one loop, or None."""
    if len(nest.reductions) != 1 or plan.term is not None or len(nest.allocations) != 1:
        return None
    (segment,) = nest.reductions
    if len(segment.loops) != 1 or segment.constraints:
        return None
    if not 2 * _STEPS <= segment.loops[0].range <= _STEPS * _PARTS:
        return None
    along = panel_uses(nest, plan.vector.name)
    return along[0] if len(along) == 1 and along[0].stride(plan.vector.name) == 1 else None


@attrs.frozen(repr=False)
class _Sums:
    """The sums of all panels of a group: memory, and the index of the panel."""

    memory: stripe.Refinement
    panel: Affine
    columns: Columns

    def use(self, use: Use, row: Affine) -> Use:
        """Return a use of this memory, in a certain row, in place of an accumulator."""
        access = (self.panel, row, self.columns.inner)
        return attrs.evolve(use, root=self.memory.name, access=access, strides=self.memory.shape.strides, sizes=())


def streamed_kernels(nest: Nest, plan: Tiling, threads: int, most_bytes: int) -> Iterator[Node]:
    """Yield a kernel for each width of columns.

    Without a visit in the plan, the sums of a group take at most ``most_bytes``.
    """
    builder = TileBlocks(nest, plan, nest.taken_names())
    visit = plan.visit
    if visit is None:
        (loop,) = nest.reductions[0].loops
        visit = Visit(loop, _STEPS, 0)
    for piece in column_pieces(plan):
        yield _streamed(builder, piece, visit, threads, most_bytes)


def _streamed(builder: TileBlocks, piece: Piece, visit: Visit, threads: int, most_bytes: int) -> Node:
    own = {i.name for i in builder.outside()}
    outside = [i.bound(stripe.Binding.GRID) for i in builder.nest.indices if i.name in own]
    within = [i for i in builder.nest.indices if i.name not in own and i.name != builder.plan.vector.name]
    panels, columns, start = builder.columns(piece, None)
    (accumulator,) = builder.nest.allocations
    around = product(i.range for i in outside)
    groups = max(1, -(-_GROUPS * threads // around)) if threads > 1 else 1
    most = visit.panels or most_bytes // (
        product(i.range for i in within) * columns.width * accumulator.shape.dtype.itemsize
    )
    size = max(1, min(-(-piece.count // groups), most))
    count = -(-piece.count // size)
    size = -(-piece.count // count)
    chunks = builder.chunks(within, _parts(within, threads, around * count)) if visit.panels else {}
    group = sch.index(builder.names.fresh(f"{builder.plan.vector.name}_group"), count, stripe.Binding.GRID)
    inner = tuple(attrs.evolve(i, range=size) for i in panels)
    number = sch.part(group, size) + (sch.part(inner[0]) if inner else Affine())
    tests = (piece.count - 1 - number,) if count * size > piece.count else ()
    if inner:
        start = start.substitute({inner[0].name: number})
    height = product(chunks[i.name].rows if i.name in chunks else i.range for i in within)
    name, extents = builder.names.fresh(f"{accumulator.name}_sums"), (size, height, columns.width)
    memory = stripe.allocation(name, accumulator.shape.dtype, extents, sch.SCRATCH)
    sums = _Sums(memory, sch.part(inner[0]) if inner else Affine(), columns)
    mapping = {builder.plan.vector.name: start + columns.inner}
    phases = _Phases(builder, visit, within, chunks, sch.present(inner), tests, sums, mapping)
    allocations, nodes = phases.nodes()
    grid = (*outside, *sch.present((group,)), *(chunk.grid for chunk in chunks.values()))
    return Node(grid, allocations, nodes)


def _parts(within: Sequence[stripe.Index], threads: int, groups: int) -> int:
    """Return the number of groups that share rows, so that each thread has some work."""
    rows = product(i.range for i in within)
    return 1 if threads == 1 else max(1, min(-(-_GROUPS * threads // groups), rows // _LEAST_CHUNK))


@attrs.frozen(repr=False)
class _Block:
    """Some steps of a reduction: its loops, their places, and packed panels with the nodes that fill them."""

    loops: tuple[stripe.Index, ...]
    place: Mapping[str, Affine]
    replaced: Mapping[Use, Use]
    allocations: tuple[stripe.Refinement, ...]
    nodes: tuple[Node, ...]

    def segment(self, reduction: Segment) -> Segment:
        """Return these steps of ``reduction``, which read the packed panels."""
        uses = tuple(self.replaced.get(use, use.substitute(self.place)) for use in reduction.uses)
        return attrs.evolve(reduction, loops=self.loops, uses=uses)


@attrs.frozen(repr=False)
class _Phases:
    """The work of a group: it initialises its sums, adds all steps to them, and runs the epilogue.

    Panels of the visit are packed; a visit of the whole reduction leaves its sums in registers.
    """

    builder: TileBlocks
    visit: Visit
    within: Sequence[stripe.Index]
    chunks: Mapping[str, Chunk]
    panels: tuple[stripe.Index, ...]
    tests: tuple[Affine, ...]
    sums: _Sums
    mapping: Mapping[str, Affine]

    def nodes(self) -> tuple[tuple[stripe.Refinement, ...], tuple[Node, ...]]:
        """Return memory of the group, and the blocks in order."""
        segments, loop = self.builder.nest.segments, self.visit.loop
        place = next(n for n, segment in enumerate(segments) if segment.loops)
        before, reduction, after = segments[:place], segments[place], segments[place + 1 :]
        if self.visit.blocks == 1:
            block = self._block(reduction.loops, {})
            tiles = (
                self.builder.tile(splits, self.within, self.mapping, self.sums.columns, block.replaced)
                for splits, _, _ in self._tiles()
            )
            return block.allocations, (*block.nodes, *map(self._beside, tiles))
        blocks, left = divmod(loop.range, self.visit.steps)
        number = sch.index(self.builder.names.fresh(f"{loop.name}_steps"), blocks)
        allocations, nodes = [self.sums.memory], list(self._points(before))
        kinds = [(sch.present((number,)), self.visit.steps, sch.part(number, self.visit.steps))]
        if left:
            kinds.append(((), left, Affine.constant(blocks * self.visit.steps)))
        for around, steps, start in kinds:
            step = sch.index(self.builder.names.fresh(loop.name), steps)
            loops = tuple(step if i is loop else i for i in reduction.loops)
            block = self._block(loops, {loop.name: start + sch.part(step)})
            allocations.extend(block.allocations)
            nodes.append(self._steps(block.segment(reduction), before, around, block.nodes))
        return tuple(allocations), (*nodes, *self._points(after))

    def _block(self, loops: tuple[stripe.Index, ...], place: Mapping[str, Affine]) -> _Block:
        """Return some steps of the reduction: ``loops``, at some ``place``; packed if the visit has panels."""
        if not self.visit.panels:
            return _Block(loops, place, {}, (), ())
        builder, columns = self.builder, self.sums.columns
        (use,) = builder.plan.packed
        vector = builder.plan.vector.name
        source = use.substitute(place)
        packed = panel(
            source, ordered_loops(loops, (source,)), vector, self.mapping, columns, (), builder.names, self.panels
        )
        nodes = tuple(attrs.evolve(n, constraints=(*n.constraints, *self.tests)) for n in packed.nodes)
        return _Block(loops, place, {use: packed.use}, (packed.allocation,), nodes)

    def _beside(self, tile: Node) -> Node:
        """Return a loop over tiles extended to all adjacent panels, which share one row."""
        return attrs.evolve(tile, indices=(*tile.indices, *self.panels), constraints=(*tile.constraints, *self.tests))

    def _tiles(self) -> Iterator[tuple[tuple[Split, ...], dict[str, Affine], Affine]]:
        """Yield the kinds of tiles: loops over them, the values of indices, and the row of the sums."""
        choices = (tuple(self.builder.splits(index, self.chunks.get(index.name))) for index in self.within)
        for splits in combinations(*choices):
            values = {**self.mapping, **{i.name: s.value for i, s in zip(self.within, splits, strict=True)}}
            row = Affine()
            for index, split in zip(self.within, splits, strict=True):
                chunk = self.chunks.get(index.name)
                row = row * (index.range if chunk is None else chunk.rows) + split.kept
            yield splits, values, row

    def _points(self, segments: Sequence[Segment]) -> Iterator[Node]:
        """Yield the statements before or after the reduction, at all points."""
        columns = self.sums.columns
        for splits, values, row in self._tiles():
            around = tuple(i for split in splits for i in split.around)
            rows = tuple(i for split in splits for i in split.rows)
            moved = [self._in_memory(segment, row) for segment in segments]
            leaves = tuple(leaf(s, values, (*rows, *columns.vectors, *columns.lanes)) for s in moved)
            tests = tuple(test for split in splits for test in split.tests)
            yield Node((*self.panels, *around), children=leaves, constraints=(*self.tests, *tests))

    def _in_memory(self, segment: Segment, row: Affine) -> Segment:
        (accumulator,) = self.builder.nest.allocations
        uses = (self.sums.use(use, row) if use.root == accumulator.name else use for use in segment.uses)
        return attrs.evolve(segment, uses=tuple(uses))

    def _steps(
        self, part: Segment, before: Sequence[Segment], blocks: tuple[stripe.Index, ...], packing: tuple[Node, ...]
    ) -> Node:
        """Return some steps of all tiles: sums in registers, which are then added to those in memory."""
        tiles = (self._tile(part, before, *kind) for kind in self._tiles())
        if self.visit.panels:
            return Node(blocks, children=(*packing, *map(self._beside, tiles)))
        children = tuple(tiles)
        inner = children if not self.panels else (Node(self.panels, children=children, constraints=self.tests),)
        return Node(blocks, children=inner)

    def _tile(
        self,
        part: Segment,
        before: Sequence[Segment],
        splits: tuple[Split, ...],
        values: Mapping[str, Affine],
        row: Affine,
    ) -> Node:
        columns = self.sums.columns
        (allocation,) = self.builder.nest.allocations
        height, place = 1, Affine()
        for split in splits:
            place = place * split.height + split.row
            height *= split.height
        shape = stripe.TensorShape.dense(allocation.shape.dtype, (height, columns.width))
        register = attrs.evolve(allocation, access=(Affine(), Affine()), shape=shape, location=sch.REGISTER)

        def moved(use: Use) -> Use:
            if use.root != allocation.name:
                return use
            return attrs.evolve(use, access=(place, columns.inner), strides=shape.strides, sizes=())

        def in_register(segment: Segment) -> Segment:
            return attrs.evolve(segment, uses=tuple(map(moved, segment.uses)))

        indices = (*(i for split in splits for i in split.rows), *columns.vectors, *columns.lanes)
        setting = [leaf(in_register(segment), values, indices) for segment in before]
        adding = self.builder.reduction(in_register(part), values, splits, self.within, columns)
        total = next(use for use in part.uses if use.root == allocation.name)
        source = attrs.evolve(moved(total), direction=stripe.Direction.IN, aggregation=None)
        target = attrs.evolve(self.sums.use(total, row), name=self.builder.names.fresh(f"{total.name}_total"))
        load = (stripe.Load(source.name, "part"), stripe.Store("part", target.name))
        merge = Node(indices, statements=load, uses=(source, target.substitute(values)))
        around = tuple(i for split in splits for i in split.around)
        tests = tuple(test for split in splits for test in split.tests)
        return Node(around, (register,), (*setting, adding, merge), constraints=tests)
