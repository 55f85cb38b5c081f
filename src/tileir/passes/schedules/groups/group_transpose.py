"""Elementwise kernels with transposed inputs: tiles go through local memory, so that all accesses are along rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from tileir.core import NameScope, attrs
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
from tileir.schedule import Nest, Node, Refused, Use, accepted, emit, leaf, refused, refusing, rule_out
from tileir.stripe import ir as stripe


@attrs.frozen
class GroupTranspose:
    """Schedule elementwise kernels some of whose inputs are contiguous along another index than their results.

    Groups take square tiles. The inputs that cross are staged in local memory by loads along their rows, and read from
    there by columns.

    Attributes:
        threads: Threads of a group.
        vector_bytes: Width of the loads of one thread.
        max_lanes: Most lanes of a load; 0 for as many as fit.
        local_bytes: Memory that the threads of a group share.
        tile: Rows and columns of a tile of elements as wide as a bank, 4 bytes; there are more of narrower ones, whose
            rows would fill a part of a cache line otherwise. Kernels of fewer rows or columns are left alone.

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
        crossing = tuple(use for use in sch.read_uses(nest) if use.crosses(row.name, column.name))
        for row_bytes in (_BANK_BYTES, 1):
            shape = self._shape(nest, row, column, crossing, row_bytes)
            needed = sum(shape.local_bytes(use) for use in crossing)
            if needed <= self.local_bytes:
                break
        else:
            return refused("TR406", bytes=needed, local_bytes=self.local_bytes)
        elements = {r.name: sizes[r.source] for r in kernel.refinements if r.source in sizes}
        return emit(self._node(nest, row, column, shape, crossing, elements), kernel)

    def _shape(
        self, nest: Nest, row: stripe.Index, column: stripe.Index, crossing: Sequence[Use], width: int
    ) -> TileShape:
        """Return the tile whose rows are ``width`` bytes for each of ``tile`` threads, which access them as vectors."""
        written, constrained = sch.written_uses(nest), sch.constrained_indices(nest)
        direct = [use for use in (*sch.read_uses(nest), *written) if use not in crossing]
        lanes = sch.aligned_lanes(direct, column.name, sch.vector_lanes(width, _widest(direct), self.max_lanes))
        extents = {row.name: self._extent(crossing, row, width), column.name: self._extent(written, column, width)}
        whole = column.range % lanes == 0 == extents[column.name] % lanes
        return TileShape(extents, column.name, lanes if whole and column.name not in constrained else 1)

    def _extent(self, uses: Sequence[Use], index: stripe.Index, width: int) -> int:
        """Return the extent of a tile along the index that uses are contiguous along."""
        extent = self.tile * max(1, width // _widest(uses))
        while extent > max(self.tile, index.range):
            extent //= 2
        return extent

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
        height, width = shape.extents[row.name], shape.extents[column.name] // shape.lanes
        across = sch.power_of_two_below(min(width, self.threads))
        down = sch.power_of_two_below(min(height, self.threads // across))
        starts, grid = {}, []
        for index in nest.indices:
            extent = shape.extents.get(index.name, 1)
            group = attrs.evolve(index, range=-(-index.range // extent), binding=stripe.Binding.GRID)
            starts[index.name] = sch.part(group, extent)
            grid.append(group)
        tested = sch.constrained_indices(nest)
        lanes = self.vector_bytes, self.max_lanes
        staging = Staging(shape, nest.indices, tested, across * down, *lanes, elements, names)
        stages = {use: staging.memory(use) for use in crossing}
        fills = [staging.fill(use, stage, starts) for use, stage in stages.items()]
        points = [
            _Points.of(row, down, height, 1, names),
            _Points.of(column, across, width, shape.lanes, names),
        ]
        places = {row.name: points[0].place, column.name: points[1].place}
        values = {**starts, **{name: starts[name] + place for name, place in places.items()}}
        ends = [i.range - 1 - values[i.name] for i in (row, column) if i.range % shape.extents[i.name]]
        ends += [point.vectors - 1 - point.number for point in points if point.vectors % point.thread.range]
        (segment,) = nest.segments
        inside = leaf(segment, values, sch.present((*(point.more for point in points), points[1].lane)))
        staged = {use: staging.staged(use, stage, places) for use, stage in stages.items()}
        uses = tuple(staged.get(use) or use.substitute(values) for use in segment.uses)
        elements_of_tile = attrs.evolve(inside, uses=uses, constraints=(*ends, *inside.constraints))
        store = Node(sch.present(point.thread for point in points), children=(elements_of_tile,))
        return Node(sch.present(grid), tuple(stages.values()), (*fills, store))


@attrs.frozen(eq=False, repr=False)
class _Points:
    """The points of one axis of a tile, in vectors: those of a thread lie as far apart as there are threads."""

    thread: stripe.Index
    more: stripe.Index
    lane: stripe.Index
    vectors: int

    @staticmethod
    def of(index: stripe.Index, threads: int, vectors: int, lanes: int, names: NameScope) -> _Points:
        """Share the vectors of one axis of a tile out to threads."""
        thread = sch.index(names.fresh(f"{index.name}_thread"), threads, stripe.Binding.THREAD)
        more = sch.index(names.fresh(f"{index.name}_more"), -(-vectors // threads), stripe.Binding.UNROLL)
        return _Points(thread, more, sch.index(names.fresh(f"{index.name}_lane"), lanes, stripe.Binding.LANE), vectors)

    @property
    def number(self) -> Affine:
        """The vector, counted from the start of the tile."""
        return sch.part(self.more, self.thread.range) + sch.part(self.thread)

    @property
    def place(self) -> Affine:
        """The point, counted from the start of the tile."""
        return self.number * self.lane.range + sch.part(self.lane)


def _widest(uses: Sequence[Use]) -> int:
    """Return the bytes of the widest element of some uses."""
    return max(use.dtype.itemsize for use in uses)


_BANK_BYTES: Final = 4
"""Width of a bank of local memory: threads side by side access such words at a time, and fill cache lines with them."""
