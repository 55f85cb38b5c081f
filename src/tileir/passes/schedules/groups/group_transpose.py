"""Elementwise kernels with transposed inputs: tiles go through local memory, so that all accesses are along rows."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tileir.core.frozen import frozen
from tileir.core.text.names import NameScope
from tileir.passes.base import at_least, map_kernels
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.forms import (
    against_parallel,
    against_plain_places,
    crossing_indices,
    unscheduled_elementwise,
)
from tileir.passes.kernels.merge import merged
from tileir.passes.schedules.groups.staging import Staging, TileShape
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Use, emit, leaf
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding


@frozen
class GroupTranspose:
    """Schedule elementwise kernels some of whose inputs are contiguous along another index than their results.

    Groups take square tiles. The inputs that cross are staged in local memory by loads along their rows, and read from
    there by columns.

    Attributes:
        threads: Threads of a group.
        vector_bytes: Width of the loads of one thread.
        max_lanes: Most lanes of a load; 0 for as many as fit.
        local_bytes: Memory that the threads of a group share.
        tile: Rows and columns of a tile; kernels that are smaller than one are left alone.

    """

    name: ClassVar[str] = "group_transpose"
    threads: int = attrs.field(default=256, validator=at_least(1))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    local_bytes: int = attrs.field(default=32 * 1024, validator=at_least(0))
    tile: int = attrs.field(default=32, validator=at_least(2))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with such kernels scheduled."""
        sizes = {r.name: r.shape.elements for r in program.main.refinements}
        return map_kernels(program, lambda kernel: self._kernel(kernel, sizes))

    @refusing
    def _kernel(self, kernel: stripe.Block, sizes: dict[str, int]) -> stripe.Block | Refused:
        nest = accepted(unscheduled_elementwise(kernel))
        rule_out(against_plain_places(nest) or against_parallel(nest))
        nest = merged(nest)
        row, column = accepted(crossing_indices(nest, self.tile))
        shape = TileShape({row.name: self.tile, column.name: self.tile})
        crossing = tuple(use for use in sch.read_uses(nest) if use.crosses(row.name, column.name))
        needed = sum(shape.local_bytes(use) for use in crossing)
        if needed > self.local_bytes:
            return refused("TR406", bytes=needed, local_bytes=self.local_bytes)
        elements = {r.name: sizes[r.source] for r in kernel.refinements if r.source in sizes}
        return emit(self._node(nest, row, column, shape, crossing, elements), kernel)

    def _node(
        self,
        nest: Nest,
        row: stripe.Index,
        column: stripe.Index,
        shape: TileShape,
        crossing: tuple[Use, ...],
        elements: dict[str, int],
    ) -> Node:
        """Return the tree of a kernel."""
        names = nest.taken_names()
        across = sch.power_of_two_below(min(self.tile, self.threads))
        down = sch.power_of_two_below(min(self.tile, self.threads // across))
        starts, grid = {}, []
        for index in nest.indices:
            extent = shape.extents.get(index.name, 1)
            group = attrs.evolve(index, range=-(-index.range // extent), binding=Binding.GRID)
            starts[index.name] = sch.part(group, extent)
            grid.append(group)
        tested = sch.constrained_indices(nest)
        lanes = self.vector_bytes, self.max_lanes
        staging = Staging(shape, nest.indices, tested, across * down, *lanes, elements, names)
        stages = {use: staging.memory(use) for use in crossing}
        fills = [staging.fill(use, stage, starts) for use, stage in stages.items()]
        points = [self._points(index, size, names) for index, size in ((row, down), (column, across))]
        places = {row.name: points[0].place, column.name: points[1].place}
        values = {**starts, **{name: starts[name] + place for name, place in places.items()}}
        ends = [index.range - 1 - values[index.name] for index in (row, column) if index.range % self.tile]
        ends += [self.tile - 1 - point.place for point in points if self.tile % point.thread.range]
        (segment,) = nest.segments
        inside = leaf(segment, values, sch.present(point.more for point in points))
        staged = {use: staging.staged(use, stage, places) for use, stage in stages.items()}
        uses = tuple(staged.get(use) or use.substitute(values) for use in segment.uses)
        elements_of_tile = attrs.evolve(inside, uses=uses, constraints=(*ends, *inside.constraints))
        store = Node(sch.present(point.thread for point in points), children=(elements_of_tile,))
        return Node(sch.present(grid), tuple(stages.values()), (*fills, store))

    def _points(self, index: stripe.Index, threads: int, names: NameScope) -> _Points:
        """Share one axis of a tile out to threads."""
        thread = sch.index(names.fresh(f"{index.name}_thread"), threads, Binding.THREAD)
        more = sch.index(names.fresh(f"{index.name}_more"), -(-self.tile // threads), Binding.UNROLL)
        return _Points(thread, more)


@frozen(eq=False, repr=False)
class _Points:
    """The points of one axis of a tile: those of a thread lie as far apart as there are threads."""

    thread: stripe.Index
    more: stripe.Index

    @property
    def place(self) -> Affine:
        """The point, counted from the start of the tile."""
        return sch.part(self.more, self.thread.range) + sch.part(self.thread)
