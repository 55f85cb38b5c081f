"""Contractions over registers: a tile of output elements is kept in vector registers during the reduction.

The scheme is the one of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS
34(3), 2008), said in Stripe blocks: a panel of the operand that runs along the vector index is packed into
contiguous scratch memory, then rows x lanes of accumulators pass over the reduction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.names import NameScope
from tileir.passes import schedule as sch
from tileir.passes.base import at_least, expand_kernels
from tileir.passes.merge import reduction_nest
from tileir.passes.nest import Nest, Node, Segment, Use, emit, leaf, product
from tileir.poly.affine import Affine
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Iterator


@attrs.frozen
class RegisterTile:
    """Schedule kernels that reduce along indices which do not carry the vector lanes.

    Attributes:
        vector_bytes: Width of a vector register.
        max_lanes: Most lanes of a vector; 0 for as many as fit.
        registers: Number of vector registers.
        cache_bytes: Data cache that a panel read again and again should fit, else it is packed.
        threads: How many groups run at the same time; the grid gets a few times as many where the work allows.
        rows: Rows of the register tile; 0 chooses.
        columns: Vectors of the register tile; 0 chooses.
    """

    name: ClassVar[str] = "register_tile"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    registers: int = attrs.field(default=16, validator=at_least(1))
    cache_bytes: int = attrs.field(default=32 * 1024, validator=at_least(0))
    threads: int = attrs.field(default=1, validator=at_least(1))
    rows: int = attrs.field(default=0, validator=at_least(0))
    columns: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with its contractions scheduled."""
        return expand_kernels(program, self._kernel)

    def _kernel(self, kernel: stripe.Block) -> tuple[stripe.Block, ...]:
        nest = reduction_nest(kernel)
        if nest is None:
            return (kernel,)
        if any(r.shape.elements != 1 for r in nest.allocations) or len(sch.parallel_indices(nest)) < len(nest.indices):
            return (kernel,)
        plan = self._plan(nest)
        return (kernel,) if plan is None else tuple(emit(node, kernel) for node in _Builder(nest, plan).kernels())

    def _plan(self, nest: Nest) -> Plan | None:
        """Choose the vector index, the row index, tile sizes and what to pack."""
        best: tuple[tuple[int, ...], stripe.Index] | None = None
        constrained = sch.constrained_indices(nest)
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)
        for index in nest.indices:
            if index.range < 2 or index.name in constrained or not _can_be_vector(nest, index.name):
                continue
            awkward = any(use.stride(index.name) not in (0, 1) for use in _panel_uses(nest, index.name))
            if awkward and product(i.range for i in _row_indices(nest, index.name)) < 8:
                continue
            score = (min(index.range, lanes), -int(awkward), index.range)
            if best is None or score > best[0]:
                best = (score, index)
        if best is None or best[0][0] < min(lanes, 4):
            return None
        vector = best[1]
        lanes = min(lanes, sch.power_of_two_below(vector.range))
        rows = [i for i in _row_indices(nest, vector.name) if i.name not in constrained]
        row = max(rows, key=lambda i: min(i.range, 16), default=None)
        height, width = self._tile(row.range if row else 1, vector.range // lanes, nest)
        packed = tuple(u for u in _panel_uses(nest, vector.name) if self._packs(nest, u, vector, constrained))
        return Plan(vector, lanes, width, row, height, packed, self.threads)

    def _tile(self, rows: int, vectors: int, nest: Nest) -> tuple[int, int]:
        """Return rows and vectors of the register tile with the fewest loads and least waste per element."""
        accumulators = max(1, len(nest.allocations))
        room = max(1, self.registers * 3 // 4 // accumulators)
        if self.rows or self.columns:
            return max(1, min(self.rows or 1, rows)), max(1, min(self.columns or 1, vectors))
        if rows == 1:
            # Nothing is read twice: what counts is to have enough sums in flight, and no panel left over.
            widths = range(1, max(1, min(vectors, room, 16)) + 1)
            return 1, min(widths, key=lambda width: (-(-vectors // width) * width / vectors + 4 / width, -width))
        best = (float("inf"), 1, 1)
        for width in range(1, min(vectors, 4) + 1):
            for height in range(1, min(rows, 14, room // width) + 1):
                waste = -(-rows // height) * height / rows * (-(-vectors // width) * width / vectors)
                idle = max(1.0, 8 / (height * width))
                loads = (height + width) / (height * width)
                best = min(best, (waste * idle * (1 + loads), height, width))
        return best[1], best[2]

    def _packs(self, nest: Nest, use: Use, vector: stripe.Index, constrained: frozenset[str]) -> bool:
        if any(i in constrained for a in use.access for i in a.indices):
            return False
        if use.stride(vector.name) != 1:
            return True
        loops = {i.name: i.range for s in nest.segments for i in s.loops}
        depth = product(size for name, size in loops.items() if use.stride(name))
        reuse = product(i.range for i in _row_indices(nest, vector.name))
        return reuse >= 16 and depth > 1 and depth * vector.range * use.dtype.itemsize > self.cache_bytes


@attrs.frozen
class Plan:
    """What to do with one kernel."""

    vector: stripe.Index
    lanes: int
    columns: int  # vectors in the register tile
    row: stripe.Index | None
    rows: int  # rows in the register tile
    packed: tuple[Use, ...]
    threads: int


def _panel_uses(nest: Nest, vector: str) -> tuple[Use, ...]:
    """Return what the reductions read along the vector index."""
    uses = (u for s in nest.segments if s.loops for u in s.uses if u in sch.read_uses(nest))
    return tuple(dict.fromkeys(u for u in uses if u.stride(vector)))


def _row_indices(nest: Nest, vector: str) -> tuple[stripe.Index, ...]:
    """Return the outer indices along which the panels stay the same: the panels are used again for each value."""
    panels = _panel_uses(nest, vector)
    if not panels:
        return ()
    return tuple(i for i in nest.indices if i.name != vector and not any(u.stride(i.name) for u in panels))


def _can_be_vector(nest: Nest, index: str) -> bool:
    if any(use.stride(index) != 1 for use in sch.written_uses(nest)):
        return False
    panels = _panel_uses(nest, index)
    for segment in nest.segments:
        indirect = sch.indirect_names(segment)
        if segment.has_indirect_store:
            return False
        for use in segment.uses:
            packable = use in panels and use.name not in indirect and segment.loops
            if use.stride(index) not in (0, 1) and not packable:
                return False
    return True


@attrs.frozen
class _Piece:
    """A run of columns: ``count`` panels of ``columns`` vectors of ``lanes`` elements from ``start`` on."""

    start: int
    count: int
    columns: int
    lanes: int


@attrs.define
class _Builder:
    """Builds the kernels of one plan."""

    nest: Nest
    plan: Plan
    names: NameScope = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.names = sch.taken_names(self.nest)

    def kernels(self) -> Iterator[Node]:
        """Yield a kernel for the full panels, and one for the columns that are left over."""
        full, rest = self._pieces()
        if full.count:
            yield self._kernel(full)
        for piece in rest:
            yield self._kernel(piece)

    def _pieces(self) -> tuple[_Piece, list[_Piece]]:
        plan = self.plan
        panel = plan.columns * plan.lanes
        full = _Piece(0, plan.vector.range // panel, plan.columns, plan.lanes)
        start = full.count * panel
        rest = []
        left = plan.vector.range - start
        if left >= plan.lanes:
            columns = left // plan.lanes
            rest.append(_Piece(start, 1, columns, plan.lanes))
            start, left = start + columns * plan.lanes, left - columns * plan.lanes
        while left:
            lanes = sch.power_of_two_below(left)
            rest.append(_Piece(start, 1, 1, lanes))
            start, left = start + lanes, left - lanes
        return full, rest

    def _kernel(self, piece: _Piece) -> Node:
        plan, nest = self.plan, self.nest
        panel = sch.index(self.names.fresh(f"{plan.vector.name}_panel"), piece.count, sch.GRID)
        column = sch.index(self.names.fresh(f"{plan.vector.name}_vector"), piece.columns, sch.UNROLL)
        lane = sch.index(self.names.fresh(f"{plan.vector.name}_lane"), piece.lanes, sch.VECTOR)
        width = piece.columns * piece.lanes
        inner = sch.part(column, piece.lanes) + sch.part(lane)
        value = sch.part(panel, width) + piece.start + inner
        mapping = {plan.vector.name: value}
        within = {i.name for i in _row_indices(nest, plan.vector.name)}
        outside = [i for i in nest.indices if i.name != plan.vector.name and i.name not in within]
        around = [i for i in nest.indices if i.name in within and (plan.row is None or i.name != plan.row.name)]
        groups = product(i.range for i in outside) * piece.count
        chunks, around, mapping = self._chunks(around, groups, mapping)
        grid = [*outside, *sch.present((panel,)), *chunks]
        grid = [attrs.evolve(i, tags=i.tags.add("grid")) if len(grid) - n <= 3 else i for n, i in enumerate(grid)]
        grid = [attrs.evolve(i, tags=i.tags.remove("grid")) if len(grid) - n > 3 else i for n, i in enumerate(grid)]
        tile = _Tile(sch.present((column,)), sch.present((lane,)), inner, width)
        packs = [self._pack(use, mapping, tile) for use in plan.packed]
        replaced = {use: packed for use, (packed, _, _) in zip(plan.packed, packs, strict=True)}
        if plan.row is None:
            rows = [self._row_block(around, mapping, tile, replaced, None, 0, 1)]
        else:
            blocks, left = divmod(plan.row.range, plan.rows)
            rows = []
            if blocks:
                rows.append(self._row_block(around, mapping, tile, replaced, blocks, 0, plan.rows))
            if left:
                rows.append(self._row_block(around, mapping, tile, replaced, 1, blocks * plan.rows, left))
        return Node(
            indices=tuple(grid),
            allocations=tuple(allocation for _, allocation, _ in packs),
            children=(*(node for _, _, node in packs), *rows),
        )

    def _chunks(
        self, around: list[stripe.Index], groups: int, mapping: dict[str, Affine]
    ) -> tuple[list[stripe.Index], list[stripe.Index], dict[str, Affine]]:
        """Split the outermost row loop over the grid where there are fewer groups than threads want."""
        wanted = -(-4 * self.plan.threads // groups)
        if self.plan.threads == 1 or wanted < 2 or sch.total_operations(self.nest) < 1 << 16:
            return [], around, mapping
        outer = next((i for i in around if i.range > 1), None)
        if outer is None:
            return [], around, mapping
        count = sch.divisor_at_least(outer.range, wanted)
        chunk = sch.index(self.names.fresh(f"{outer.name}_chunk"), count, sch.GRID)
        inside = sch.index(self.names.fresh(outer.name), outer.range // count)
        value = sch.part(chunk, inside.range) + sch.part(inside)
        rest = [inside if i is outer else i for i in around]
        return [chunk], list(sch.present(rest)), {**mapping, outer.name: value}

    def _pack(self, use: Use, mapping: dict[str, Affine], tile: _Tile) -> tuple[Use, stripe.Refinement, Node]:
        """Return the use of the packed panel, its allocation, and the block that fills it."""
        loops = _ordered_loops(
            tuple(i for s in self.nest.segments for i in s.loops if use in s.uses and use.stride(i.name)), (use,)
        )
        name = self.names.fresh(f"{use.root}_panel")
        shape = stripe.TensorShape.dense(use.dtype, (*(i.range for i in loops), tile.width))
        zero = tuple(Affine() for _ in shape.dims)
        allocation = stripe.Refinement(name, stripe.Direction.NONE, "", zero, shape, location=sch.SCRATCH)
        access = (*(Affine.index(i.name) for i in loops), tile.inner)
        packed = Use(use.name, name, access, shape.strides, use.dtype, stripe.Direction.IN)
        target = attrs.evolve(packed, name=self.names.fresh("panel"), direction=stripe.Direction.OUT)
        source = use.substitute(mapping)
        lanes = (*tile.columns, *tile.lanes)
        if use.stride(self.plan.vector.name) != 1:
            lanes = tuple(attrs.evolve(i, tags=stripe.Tags()) for i in lanes)
            order = (*lanes, *loops)
        else:
            order = (*loops, *lanes)
        statements = (stripe.Load(source.name, "x"), stripe.Store("x", target.name))
        return packed, allocation, Node(order, statements=statements, uses=(source, target), name=f"pack_{use.root}")

    def _row_block(
        self,
        around: list[stripe.Index],
        mapping: dict[str, Affine],
        tile: _Tile,
        replaced: dict[Use, Use],
        blocks: int | None,
        start: int,
        height: int,
    ) -> Node:
        """Return the loops over row tiles; each sets its accumulators, reduces, and stores."""
        own: list[stripe.Index] = []
        row_part: tuple[stripe.Index, ...] = ()
        inner_row = Affine()
        if self.plan.row is not None and blocks is not None:
            name = self.plan.row.name
            block = sch.index(self.names.fresh(f"{name}_block"), blocks)
            row = sch.index(self.names.fresh(f"{name}_row"), height, sch.UNROLL)
            own, row_part = list(sch.present((block,))), sch.present((row,))
            inner_row = sch.part(row)
            whole = sch.part(block, height) + start + inner_row
            mapping = {**mapping, name: whole}
        allocations = []
        for allocation in self.nest.allocations:
            shape = stripe.TensorShape.dense(allocation.shape.dtype, (height, tile.width))
            zero = (Affine(), Affine())
            allocations.append(attrs.evolve(allocation, access=zero, shape=shape, location=sch.REGISTER))
        registers = {a.name: a for a in allocations}
        indices = (*row_part, *tile.columns, *tile.lanes)
        children = []
        for segment in self.nest.segments:
            moved = _replaced(segment, replaced, registers, (inner_row, tile.inner))
            node = leaf(moved, mapping, indices)
            if segment.loops:
                loops = _ordered_loops(segment.loops, segment.uses)
                inside = attrs.evolve(node, constraints=())
                node = Node(loops, children=(inside,), constraints=node.constraints, tags=segment.tags)
            children.append(node)
        return Node((*around, *own), tuple(allocations), tuple(children))


@attrs.frozen
class _Tile:
    """The columns of a register tile: unrolled vectors, lanes, and the column as an affine of both."""

    columns: tuple[stripe.Index, ...]
    lanes: tuple[stripe.Index, ...]
    inner: Affine
    width: int


def _replaced(
    segment: Segment, packed: dict[Use, Use], registers: dict[str, stripe.Refinement], place: tuple[Affine, Affine]
) -> Segment:
    """Let a segment read packed panels, and keep its accumulators in the register tile."""
    uses = []
    for use in segment.uses:
        if use.root in registers:
            uses.append(attrs.evolve(use, access=place, strides=registers[use.root].shape.strides, sizes=()))
        else:
            uses.append(packed.get(use, use) if segment.loops else use)
    return attrs.evolve(segment, uses=tuple(uses))


def _ordered_loops(loops: tuple[stripe.Index, ...], uses: tuple[Use, ...]) -> tuple[stripe.Index, ...]:
    """Order reduction loops by how far they move the accesses, farthest outermost."""
    return tuple(sorted(loops, key=lambda i: -max((abs(u.stride(i.name)) for u in uses), default=0)))
