"""Construction of the blocks of a contraction in registers: packed panels, tiles of sums, and loops around them.

:func:`kernels` makes whole kernels with a launch grid; :func:`nested` makes blocks without one, for a reduction that is
part of a larger kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product as combinations
from types import MappingProxyType
from typing import Final

from tileir.core import NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.registers.copies import CopiedPieces
from tileir.passes.schedules.registers.cost import Tiling, overlapping
from tileir.passes.schedules.registers.edges import Edges
from tileir.passes.schedules.registers.panels import UNROLLED, Columns, Panel, ordered_loops, panel, sliding, unrolled
from tileir.passes.schedules.registers.prefetching import Tile, before_tile
from tileir.passes.schedules.registers.row_blocking import Pieces
from tileir.passes.schedules.registers.selections import selecting, tests_of_tile
from tileir.passes.schedules.registers.spans import Span, Spans
from tileir.passes.schedules.registers.strided_epilogue import StridedSums, is_spread
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Segment, Use, leaf, product
from tileir.stripe import ir as stripe

_GROUPS: Final = 4
"""Groups per thread, so that others can do more when one starts late."""

_PACKED_ROWS: Final = 32
"""Minimum rows of a group that packs its own panel."""


def kernels(nest: Nest, plan: Tiling, threads: int, pieces: Pieces | CopiedPieces | None = None) -> Iterator[Node]:
    """Yield a kernel for the full panels, and one for each width of the remaining columns.

    If panels alone would not keep ``threads`` threads busy, rows are divided, too. With ``pieces``, all panels pass
    over one piece before the next.
    """
    builder = TileBlocks(nest, plan, nest.taken_names())
    for piece in column_pieces(plan):
        if isinstance(pieces, CopiedPieces):
            yield builder.copying(piece, pieces)
        else:
            yield builder.kernel(piece, threads, pieces)


def nested(nest: Nest, plan: Tiling, names: NameScope) -> tuple[Node, ...]:
    """Return blocks that run all points of a nest in serial loops, inside a kernel with outer loops.

    Accesses may depend on indices of that kernel; ``names`` holds all its names.
    """
    builder = TileBlocks(nest, plan, names)
    return tuple(builder.serial(piece) for piece in column_pieces(plan))


@attrs.frozen
class Piece:
    """A run of columns: ``count`` panels of ``columns`` vectors of ``lanes`` elements from ``start`` on."""

    start: int
    count: int
    columns: int
    lanes: int


def column_pieces(plan: Tiling) -> Iterator[Piece]:
    """Yield the runs of columns whose tiles have one width."""
    width = plan.columns * plan.lanes
    count, left = divmod(plan.vector.range, width)
    start = count * width
    if count:
        yield Piece(0, count, plan.columns, plan.lanes)
    if plan.overlaps and (columns := overlapping(left, plan.lanes, only_whole=plan.term is not None)):
        yield Piece(plan.vector.range - columns * plan.lanes, 1, columns, plan.lanes)
        return
    if left >= plan.lanes:
        columns = left // plan.lanes
        yield Piece(start, 1, columns, plan.lanes)
        start, left = start + columns * plan.lanes, left % plan.lanes
    while left:
        lanes = sch.power_of_two_below(left)
        yield Piece(start, 1, 1, lanes)
        start, left = start + lanes, left - lanes


@attrs.frozen
class Split:
    """An index split into loops: ``around`` outside all tiles, ``rows`` inside them, ``value`` in terms of both.

    Points at which some of ``tests`` is negative do not exist. Over the ranges in ``blocks`` of the outer loops,
    ``place`` has exactly the values of the index. A group with some of the values numbers them by ``kept``.
    """

    around: tuple[stripe.Index, ...]
    rows: tuple[stripe.Index, ...]
    value: Affine
    row: Affine
    height: int
    place: Affine
    kept: Affine
    blocks: tuple[tuple[str, int], ...] = ()
    tests: tuple[Affine, ...] = ()


@attrs.frozen
class Chunk:
    """Division of an index among groups: ``grid`` counts them, each takes ``size`` blocks, of at most ``rows`` rows."""

    grid: stripe.Index
    size: int
    blocks: int
    rows: int


@attrs.frozen
class TileBlocks:
    """Builder of the blocks of one plan."""

    nest: Nest
    plan: Tiling
    names: NameScope

    @cached_property
    def selected(self) -> dict[str, frozenset[Affine]]:
        """Tests that hold wherever the value of an accumulator matters."""
        return selecting(self.nest)

    def kernel(self, piece: Piece, threads: int, pieces: Pieces | None) -> Node:
        """Return the kernel for some columns."""
        panels, columns, start = self.columns(piece, stripe.Binding.GRID)
        own = {i.name for i in self.outside()}
        outside = [i for i in self.nest.indices if i.name in own]
        within = [i for i in self.nest.indices if i.name not in own and i.name != self.plan.vector.name]
        groups = product(i.range for i in outside) * piece.count
        wanted = 1 if threads == 1 else -(-_GROUPS * threads // groups)
        if self.plan.plane is not None:
            wanted = 1
        elif self.plan.packed:
            wanted = min(wanted, max(1, product(i.range for i in within) // _PACKED_ROWS))
        if pieces is None or pieces.count < wanted:
            chunks = self.chunks(within, wanted)
        else:
            chunks = self.chunks(pieces.indices, pieces.count)
        marked = [i.bound(stripe.Binding.GRID) for i in outside]
        shares = [chunk.grid for chunk in chunks.values()]
        grid = (*marked, *panels, *shares)
        if pieces is not None:
            first = tuple(i for i in marked if i.name not in pieces.panels)
            grid = (*first, *shares, *(i for i in marked if i not in first), *panels)
        return self._panel(grid, within, {self.plan.vector.name: start + columns.inner}, columns, chunks)

    def copying(self, piece: Piece, pieces: CopiedPieces) -> Node:
        """Return the kernel for some columns whose groups copy the inputs of their rows."""
        panels, columns, start = self.columns(piece, None)
        vector = self.plan.vector.name
        heights = {r.index.name: r.height for r in self.plan.rows}
        outside = self.outside()
        own = {i.name for i in outside}
        within = [i for i in self.nest.indices if i.name not in own and i.name != vector]
        ordered = sorted((i for i in within if i.name in pieces.blocks), key=self._reach_of(pieces))
        chunks: dict[str, Chunk] = {}
        for index in ordered:
            height = heights.get(index.name, 1)
            found = self._chunk(index, height, pieces.blocks[index.name])
            if found is not None:
                chunks[index.name] = found
        starts = {n: sch.part(c.grid, c.size * heights.get(n, 1)) for n, c in chunks.items()}
        first = tuple(i.bound(stripe.Binding.GRID) for i in outside if i.name not in pieces.panels)
        starts |= {i.name: Affine.index(i.name) for i in first}
        grid = (*first, *(chunk.grid for chunk in chunks.values()))
        ranges = {i.name: i.range for i in grid}
        memory = [copied.memory(self.names) for copied in pieces.copies]
        both = list(zip(pieces.copies, memory, strict=True))
        copies = (node for copied, each in both for node in copied.nodes(each, starts, ranges, self.names))
        replaced = {copied.use: copied.read(each, starts) for copied, each in both}
        inner = (*(i for i in outside if i.name in pieces.panels), *panels)
        tiles = self._panel(inner, within, {vector: start + columns.inner}, columns, chunks, replaced)
        return Node(grid, tuple(memory), (*copies, tiles))

    @staticmethod
    def _reach_of(pieces: CopiedPieces) -> Callable[[stripe.Index], int]:
        return lambda i: -max(abs(copied.use.stride(i.name)) for copied in pieces.copies)

    def serial(self, piece: Piece) -> Node:
        """Return the blocks for some columns without a grid."""
        panels, columns, start = self.columns(piece, None)
        own = {i.name for i in self.outside()}
        within = [i for i in self.nest.indices if i.name not in own and i.name != self.plan.vector.name]
        indices = (*self.outside(), *panels)
        return self._panel(indices, within, {self.plan.vector.name: start + columns.inner}, columns, {})

    def columns(self, piece: Piece, binding: stripe.Binding | None) -> tuple[tuple[stripe.Index, ...], Columns, Affine]:
        """Return the loop over panels, the columns of a tile, and the start of a panel."""
        vector = self.plan.vector.name
        panel = sch.index(self.names.fresh(f"{vector}_panel"), piece.count, binding)
        column = sch.index(self.names.fresh(f"{vector}_vector"), piece.columns, stripe.Binding.UNROLL)
        lane = sch.index(self.names.fresh(f"{vector}_lane"), piece.lanes, stripe.Binding.LANE)
        width = piece.columns * piece.lanes
        inner = sch.part(column, piece.lanes) + sch.part(lane)
        columns = Columns(sch.present((column,)), sch.present((lane,)), inner, width)
        return sch.present((panel,)), columns, sch.part(panel, width) + piece.start

    def outside(self) -> tuple[stripe.Index, ...]:
        """Return the indices whose values each have their own panels, or, without any, those that share nothing."""
        rows = {r.index.name for r in self.plan.rows}
        others = [i for i in self.nest.indices if i is not self.plan.vector and i.name not in rows]
        if self.plan.plane is not None:
            return tuple(i for i in others if i.name not in self.plan.plane.slid)
        if self.plan.packed:
            return tuple(i for i in others if any(use.stride(i.name) for use in self.plan.packed))
        reads = [use for s in self.nest.segments if s.loops for use in s.uses if use in sch.read_uses(self.nest)]
        along = [use for use in reads if use.stride(self.plan.vector.name)]
        return tuple(i for i in others if along and all(use.stride(i.name) for use in along))

    def chunks(self, within: Sequence[stripe.Index], wanted: int) -> dict[str, Chunk]:
        """Divide the outermost loops of a group among about ``wanted`` groups."""
        heights = {r.index.name: r.height for r in self.plan.rows}
        chunks: dict[str, Chunk] = {}
        for index in sorted(within, key=lambda i: i.name in heights):
            if wanted < 2:
                break
            height = heights.get(index.name, 1)
            blocks = index.range // height
            chunk = self._chunk(index, height, -(-blocks // max(1, min(wanted, blocks))))
            if chunk is not None:
                chunks[index.name] = chunk
                wanted = -(-wanted // chunk.grid.range)
        return chunks

    def _chunk(self, index: stripe.Index, height: int, size: int) -> Chunk | None:
        """Return the division of an index into chunks of ``size`` tiles; None if one chunk has all of them."""
        blocks, left = divmod(index.range, height)
        count = -(-blocks // size)
        if count < 2:
            return None
        grid = sch.index(self.names.fresh(f"{index.name}_chunk"), count, stripe.Binding.GRID)
        return Chunk(grid, size, blocks, size * height + left)

    def _panel(
        self,
        indices: tuple[stripe.Index, ...],
        within: Sequence[stripe.Index],
        mapping: Mapping[str, Affine],
        columns: Columns,
        chunks: Mapping[str, Chunk],
        copied: Mapping[Use, Use] = MappingProxyType({}),
    ) -> Node:
        """Return a block over ``indices`` that packs its panels and runs all tiles along them."""
        packs = [self._pack(use, mapping, columns) for use in self.plan.packed]
        replaced = {**copied, **{use: pack.use for use, pack in zip(self.plan.packed, packs, strict=True)}}
        choices = [tuple(self.splits(index, chunks.get(index.name))) for index in within]
        tiles = [self.tile(splits, within, mapping, columns, replaced, indices) for splits in combinations(*choices)]
        allocations = tuple(pack.allocation for pack in packs)
        return Node(indices, allocations, children=(*(node for pack in packs for node in pack.nodes), *tiles))

    def _pack(self, use: Use, mapping: Mapping[str, Affine], columns: Columns) -> Panel:
        if self.plan.plane is not None and use == self.plan.plane.use:
            return self.plan.plane.panel(self.plan.vector.name, mapping, columns, self.names)
        # Several reductions may read the same rows of a panel, by loops of one name.
        reading = (s for s in self.nest.segments if use in s.uses)
        loops = tuple(dict.fromkeys(i for s in reading for i in s.loops if use.stride(i.name)))
        return panel(
            use, ordered_loops(loops, (use,)), self.plan.vector.name, mapping, columns, self._terms((use,)), self.names
        )

    def splits(self, index: stripe.Index, chunk: Chunk | None) -> Iterator[Split]:
        """Yield the loops over an index: whole tiles, and the remaining rows."""
        height = next((r.height for r in self.plan.rows if r.index.name == index.name), 1)
        blocks, left = divmod(index.range, height)
        if blocks:
            yield self._split(index, blocks, height, chunk)
        if left:
            row = sch.index(self.names.fresh(f"{index.name}_row"), left, stripe.Binding.UNROLL)
            last = () if chunk is None else (sch.part(chunk.grid) - (chunk.grid.range - 1),)
            inner = sch.part(row)
            value = inner + blocks * height
            kept = value if chunk is None else inner + chunk.size * height
            yield Split((), sch.present((row,)), value, inner, left, value, kept, tests=last)

    def _split(self, index: stripe.Index, blocks: int, height: int, chunk: Chunk | None) -> Split:
        """Return the loop over whole tiles along an index, or over those of one chunk."""
        start = Affine()
        tests: tuple[Affine, ...] = ()
        name = self.names.fresh(f"{index.name}_block") if height > 1 else index.name
        if chunk is not None:
            name = self.names.fresh(name) if name == index.name else name
            start, count = sch.part(chunk.grid, chunk.size), chunk.size
        else:
            count = blocks
        block = sch.index(name, count)
        number = start + sch.part(block)
        if chunk is not None and chunk.size * chunk.grid.range > blocks:
            tests = (blocks - 1 - number,)
        row = sch.index(self.names.fresh(f"{index.name}_row"), height, stripe.Binding.UNROLL)
        inner = sch.part(row)
        place = Affine.of({name: height}) + inner
        around, rows = sch.present((block,)), sch.present((row,))
        kept = sch.part(block, height) + inner
        return Split(around, rows, number * height + inner, inner, height, place, kept, ((name, blocks),), tests)

    def tile(
        self,
        splits: Sequence[Split],
        within: Sequence[stripe.Index],
        mapping: Mapping[str, Affine],
        columns: Columns,
        replaced: Mapping[Use, Use],
        panels: Sequence[stripe.Index] = (),
    ) -> Node:
        """Return the loops over tiles, inside of ``panels``; each initialises its sums, reduces, and stores."""
        values = {**mapping, **{i.name: split.value for i, split in zip(within, splits, strict=True)}}
        height, row = 1, Affine()
        for _, split in sorted(zip(within, splits, strict=True), key=lambda pair: -self._reach(pair[0])):
            row = row * split.height + split.row
            height *= split.height
        allocations = []
        for allocation in self.nest.allocations:
            shape = stripe.TensorShape.dense(allocation.shape.dtype, (height, columns.width))
            zero = (Affine(), Affine())
            allocations.append(attrs.evolve(allocation, access=zero, shape=shape, location=sch.REGISTER))
        registers = {a.name: a for a in allocations}
        rows = tuple(i for split in splits for i in split.rows)
        indices = (*rows, *columns.vectors, *columns.lanes)
        children = list(self._asked(values, indices))
        for segment in self.nest.segments:
            moved = _replaced(segment, replaced, registers, (row, columns.inner))
            if is_spread(segment, frozenset(registers), self.plan.vector.name):
                vector, overlaps = self.plan.vector.name, self.plan.overlaps
                spread = StridedSums(moved, registers, values, rows, vector, columns, self.names, overlaps)
                spilled, nodes = spread.nodes()
                allocations.extend(spilled)
                children.extend(nodes)
                continue
            if segment.loops:
                node = self.reduction(moved, values, splits, within, columns, panels)
                tests = tests_of_tile(self._selecting(segment), values, indices)
                node = attrs.evolve(node, constraints=(*node.constraints, *tests))
            else:
                node = leaf(moved, values, indices)
            children.append(node)
        around = tuple(i for split in splits for i in split.around)
        ends = tuple(test for split in splits for test in split.tests)
        return Node(around, tuple(allocations), tuple(children), constraints=ends)

    def _asked(self, values: Mapping[str, Affine], inside: tuple[stripe.Index, ...]) -> Iterator[Node]:
        for segment in self.nest.segments:
            indirect = sch.indirect_names(segment)
            for use in () if segment.loops else sch.reads_of(self.nest, segment):
                if use.root in self.plan.far and use.name not in indirect and not use.direction.writes:
                    yield before_tile(use, inside, values, self.names)

    def _reach(self, index: stripe.Index) -> int:
        """Return the distance of results along an index: rows of a tile are ordered by it."""
        return max((abs(use.stride(index.name)) for use in sch.written_uses(self.nest)), default=0)

    def reduction(
        self,
        segment: Segment,
        values: Mapping[str, Affine],
        splits: Sequence[Split],
        within: Sequence[stripe.Index],
        columns: Columns,
        panels: Sequence[stripe.Index] = (),
    ) -> Node:
        """Return the loops of a reduction over one tile, inside of ``panels``.

        Rows of it, and unrolled steps, that constraints may exclude have tests of their own.
        """
        rows = tuple(i for split in splits for i in split.rows)
        size = product(i.range for i in (*rows, *columns.vectors))
        spare = self._spare_registers(product(i.range for i in rows), size)
        slides = sliding(segment, frozenset(i.name for i, split in zip(within, splits, strict=True) if split.rows))
        loops = unrolled(ordered_loops(segment.loops, segment.uses), size, spare, slides)
        tested = {name for constraint in segment.constraints for name in constraint.indices}
        steps = tuple(i for i in loops if i.binding is stripe.Binding.UNROLL and i.name in tested)
        serial = tuple(i for i in loops if i not in steps)
        vectors = (*columns.vectors, *columns.lanes, *self._terms(segment.uses))
        places = {index.name: split.place for index, split in zip(within, splits, strict=True)}
        ranges = {i.name: i.range for i in (*self.nest.indices, *segment.loops, *rows)}
        ranges |= {block: count for split in splits for block, count in split.blocks}
        inside = (*rows, *(i for i in loops if i.binding is stripe.Binding.UNROLL), *vectors)
        tile = Tile((*panels, *(i for split in splits for i in split.around)), serial, inside, values)
        far, ready = [use for use in segment.uses if use.root in self.plan.far], not self.plan.packed
        requests = [node for use in far for node in tile.requests(use, shares=ready)]
        spans = Spans.of(segment, values, rows, serial, self.names)
        parts = []
        for span in (Span((), segment),) if spans is None else spans:
            edges = Edges.of(span.segment, places, (*steps, *rows), ranges)
            around = tuple(c.substitute(values) for c in span.segment.constraints if c not in edges.tests)
            constraints = span.tests((*span.bounds, *around), ranges)
            blocks = edges.blocks(span.segment, {**values, **span.place}, vectors, self.names)
            children = (*(requests if span.edge is None else ()), *blocks)
            parts.append(Node(span.loops(serial), (), children, constraints=constraints, tags=segment.tags))
        return parts[0] if len(parts) == 1 else Node((), (), tuple(parts))

    def _selecting(self, segment: Segment) -> tuple[Affine, ...]:
        """Return tests of outer indices that hold wherever the sums of a segment matter."""
        needs = [self.selected.get(use.root, frozenset()) for use in segment.uses if use.direction.writes]
        return tuple(sorted(frozenset.intersection(*needs), key=str)) if needs else ()

    def _spare_registers(self, height: int, size: int) -> int:
        """Return the registers left by a step with ``size`` sums that loads a column and ``height`` elements.

        A single row has nothing to share.
        """
        return self.plan.registers - size - size // height - height if height > 1 else UNROLLED

    def _terms(self, uses: Sequence[Use]) -> tuple[stripe.Index, ...]:
        """Return the index of the terms of dot products, if it moves one of ``uses``."""
        term = self.plan.term
        return () if term is None or not any(use.stride(term.name) for use in uses) else (term,)


def _replaced(
    segment: Segment,
    packed: Mapping[Use, Use],
    registers: Mapping[str, stripe.Refinement],
    place: tuple[Affine, Affine],
) -> Segment:
    """Return a segment that reads packed panels, and keeps its sums in the tile."""
    uses = []
    for use in segment.uses:
        if use.root in registers:
            uses.append(attrs.evolve(use, access=place, strides=registers[use.root].shape.strides, sizes=()))
        else:
            uses.append(packed.get(use, use) if segment.loops else use)
    return attrs.evolve(segment, uses=tuple(uses))
