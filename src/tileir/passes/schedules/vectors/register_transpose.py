"""Elementwise kernels with transposed inputs, on processors: tiles of these are turned in vector registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.passes.base import at_least, expand_kernels
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.forms import (
    against_crossing,
    against_parallel,
    against_plain_places,
    unscheduled_elementwise,
)
from tileir.passes.kernels.merge import merged
from tileir.passes.schedules.vectors.turning import turned_tile
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Use, emit, leaf
from tileir.schedule.remarks import Done, Refused, refused
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding

if TYPE_CHECKING:
    from tileir.core.text.names import NameScope


@attrs.frozen
class RegisterTranspose:
    """Schedule elementwise kernels some of whose inputs are contiguous along another index than their results.

    Square tiles of such an input are loaded by its rows, as vectors, turned by the special ``transpose``, and read by
    rows of the results; so all memory is accessed by whole vectors, a cache line each where those are as wide. Groups
    of the grid take blocks of tiles, so that pages are used for more than one line. What does not fill a tile is left
    to the pass ``vectorise``.

    Attributes:
        reqs: Tags that a kernel must carry.
        vector_bytes: Width of a vector register.
        max_lanes: Most lanes of a vector; 0 for as many as fit.
        max_tile: Most rows of a tile: all of them are in registers at the same time.
        rows: About how many elements a group takes along the rows of the inputs that cross.
        columns: About how many along those of the results.

    """

    name: ClassVar[str] = "register_transpose"
    reqs: tuple[str, ...] = ()
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    max_tile: int = attrs.field(default=16, validator=at_least(2))
    rows: int = attrs.field(default=64, validator=at_least(1))
    columns: int = attrs.field(default=64, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with such kernels scheduled."""
        return expand_kernels(program, self._kernel, self.reqs)

    def _kernel(self, kernel: stripe.Block) -> Done | Refused:
        nest = unscheduled_elementwise(kernel)
        if isinstance(nest, Refused):
            return nest
        if (why := against_plain_places(nest) or against_parallel(nest)) is not None:
            return why
        nest = merged(nest)
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)
        lanes = min(sch.power_of_two_below(lanes), sch.power_of_two_below(self.max_tile))
        found = _crossing(nest, lanes)
        if isinstance(found, Refused):
            return found
        if lanes < 2:
            return refused("TR309", bytes=sch.widest_itemsize(nest), vector_bytes=self.vector_bytes)
        row, column = found
        builder = _Builder(self, nest, row, column, lanes, nest.taken_names())
        facts = (("row", row.name), ("column", column.name), ("lanes", lanes))
        return Done(tuple(emit(node, kernel) for node in builder.nodes()), facts)


def _crossing(nest: Nest, least: int) -> tuple[stripe.Index, stripe.Index] | Refused:
    """Return the index along which some input is contiguous, and the one along which all results are.

    Refused where there are none, where they have fewer than ``least`` values, or where constraints tell points apart.
    """
    written, constrained = sch.written_uses(nest), sch.constrained_indices(nest)
    long = [i for i in nest.indices if i.range >= least and i.name not in constrained]
    for column in long:
        if written and all(use.stride(column.name) == 1 for use in written):
            for row in long:
                crossing = [u for u in sch.read_uses(nest) if row is not column and u.crosses(row.name, column.name)]
                if crossing and not any(use.dtype.is_bool for use in crossing):
                    return row, column
    return against_crossing(nest, least)


@attrs.frozen(repr=False)
class _Axis:
    """One axis of the tiles: blocks of them for the grid, tiles of a block, and the elements of a tile."""

    block: stripe.Index
    tile: stripe.Index
    point: stripe.Index

    @classmethod
    def of(cls, index: stripe.Index, lanes: int, wanted: int, names: NameScope) -> _Axis:
        """Cut the whole tiles of an index into blocks of about ``wanted`` elements."""
        tiles = index.range // lanes
        counts = [n for n in range(1, 2 * max(1, wanted // lanes) + 1) if tiles % n == 0]
        inside = min(counts, key=lambda n: (abs(n * lanes - wanted), n))
        return cls(
            sch.index(names.fresh(f"{index.name}_block"), tiles // inside, Binding.GRID),
            sch.index(names.fresh(f"{index.name}_tile"), inside),
            sch.index(names.fresh(f"{index.name}_in"), lanes),
        )

    @property
    def start(self) -> Affine:
        """The first element of a tile."""
        return sch.part(self.block, self.tile.range * self.point.range) + sch.part(self.tile, self.point.range)

    def bound(self, binding: Binding) -> tuple[stripe.Index, ...]:
        """Return the index over the elements of a tile, as lanes or to be unrolled."""
        return (self.point.bound(binding),)


@attrs.define(repr=False)
class _Builder:
    """Builds the kernels that take the place of one."""

    options: RegisterTranspose
    nest: Nest
    row: stripe.Index
    column: stripe.Index
    lanes: int
    names: NameScope

    def nodes(self) -> list[Node]:
        """Return the tiles, and what is left on their two sides."""
        (segment,) = self.nest.segments
        result = [self._tiles()]
        rows, columns = (index.range // self.lanes * self.lanes for index in (self.row, self.column))
        for index, start, beside in ((self.row, rows, None), (self.column, columns, rows)):
            if start == index.range:
                continue
            left = {index.name: index.range - start}
            if beside is not None:
                left[self.row.name] = beside
            indices = tuple(attrs.evolve(i, range=left.get(i.name, i.range)) for i in self.nest.indices)
            moved = {index.name: Affine.index(index.name) + start}
            inside = leaf(segment, moved, indices)
            result.append(inside)
        return result

    def _tiles(self) -> Node:
        (segment,) = self.nest.segments
        row = _Axis.of(self.row, self.lanes, self.options.rows, self.names)
        column = _Axis.of(self.column, self.lanes, self.options.columns, self.names)
        crossing = [u for u in segment.uses if not u.direction.writes and u.crosses(self.row.name, self.column.name)]
        allocations: list[stripe.Refinement] = []
        children: list[Node] = []
        turned: dict[Use, Use] = {}
        start = {self.row.name: row.start, self.column.name: column.start}
        whole = {
            self.row.name: row.start + sch.part(row.point),
            self.column.name: column.start + sch.part(column.point),
        }
        for use in crossing:
            tiles, nodes, turned[use] = turned_tile(use.substitute(whole), row.point, column.point, self.names)
            allocations.extend(tiles)
            children.extend(nodes)
        inside = leaf(segment, whole, (*row.bound(Binding.UNROLL), *column.bound(Binding.LANE)))
        uses = tuple(turned.get(use) or use.substitute(whole) for use in segment.uses)
        children.append(attrs.evolve(inside, uses=uses, constraints=()))
        constraints = tuple(c.substitute(start) for c in segment.constraints)
        others = [i for i in self.nest.indices if i.name not in (self.row.name, self.column.name)]
        grid = (*others, *sch.present((row.block, column.block)))
        inner = Node(sch.present((column.tile, row.tile)), tuple(allocations), tuple(children), constraints=constraints)
        return Node(_as_grid(grid), children=(inner,))


def _as_grid(indices: tuple[stripe.Index, ...]) -> tuple[stripe.Index, ...]:
    return tuple(i.bound(Binding.GRID) for i in indices)
