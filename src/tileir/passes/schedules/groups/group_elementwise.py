"""Elementwise kernels over groups of threads, each of which takes whole vectors of neighbouring elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.core.text.names import NameScope
from tileir.passes.base import at_least, map_kernels
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.forms import against_parallel, unscheduled_elementwise
from tileir.passes.kernels.merge import merged
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, emit, leaf, product
from tileir.schedule.remarks import Refused, refused
from tileir.stripe.blocks import Binding

if TYPE_CHECKING:
    from tileir.stripe import ir as stripe


@attrs.frozen
class GroupElementwise:
    """Spread kernels without reductions over a grid of groups, their threads, and vectors of each thread.

    Neighbouring threads take neighbouring vectors, so that the accesses of a group are one stretch of memory. Where
    rows are short, the threads of a group take several of them.

    Attributes:
        threads: Threads of a group.
        vector_bytes: Width of the accesses to memory of one thread.
        max_lanes: Most lanes of a vector; 0 for as many as fit.
        vectors: Vectors of a thread; 0 for as many as make it load four at a time.
        groups: So many groups keep the device busy: threads take fewer vectors where there are not so many.

    """

    name: ClassVar[str] = "group_elementwise"
    threads: int = attrs.field(default=256, validator=at_least(1))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    vectors: int = attrs.field(default=0, validator=at_least(0))
    groups: int = attrs.field(default=1, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with its elementwise kernels scheduled."""
        return map_kernels(program, self._kernel)

    def _kernel(self, kernel: stripe.Block) -> stripe.Block | Refused:
        nest = unscheduled_elementwise(kernel)
        if isinstance(nest, Refused):
            return nest
        scattered = next((i.name for i in nest.indices if sch.scatters(nest.segments[0], i.name)), None)
        if scattered is not None:
            return refused("TR208", index=scattered)
        if (why := against_parallel(nest)) is not None:
            return why
        nest = merged(nest)
        index = _contiguous(nest)
        return index if isinstance(index, Refused) else emit(_Builder(self, nest, index).kernel(), kernel)

    def vectors_of(self, nest: Nest, available: int) -> int:
        """Return how many vectors a thread takes, where each thread could have ``available``."""
        loads = max(1, len(sch.read_uses(nest)))
        wanted = self.vectors or max(1, min(4, 4 // loads))
        return max(1, min(wanted, available))


def _contiguous(nest: Nest) -> stripe.Index | Refused:
    """Return the index for neighbouring threads: it moves results by one element, and most inputs by one or none."""
    written = sch.written_uses(nest)
    candidates = [i for i in nest.indices if i.range > 1 and all(u.stride(i.name) == 1 for u in written)]
    reads = sch.read_uses(nest)
    if not candidates:
        return refused("TR302", outputs=len(written))
    return max(candidates, key=lambda i: (sum(u.stride(i.name) in (0, 1) for u in reads), i.range))


@attrs.define(eq=False, repr=False)
class _Builder:
    """Builds one kernel: columns along ``index``, rows along the others."""

    options: GroupElementwise
    nest: Nest
    index: stripe.Index
    names: NameScope = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.names = self.nest.taken_names()

    def kernel(self) -> Node:
        """Return the tree of the kernel."""
        lanes = self._lanes()
        vectors, left = divmod(self.index.range, lanes)
        others = [i for i in self.nest.indices if i.name != self.index.name]
        columns = min(vectors, self._columns(others))
        grid, rows, values, ends = self._rows(others, self.options.threads // columns)
        each = -(-vectors // columns)
        many = self.options.vectors_of(self.nest, each * product(i.range for i in grid) // self.options.groups)
        count = min(many, each)
        chunks = -(-each // count)
        chunk = sch.index(self.names.fresh(f"{self.index.name}_group"), chunks, Binding.GRID)
        thread = sch.index(self.names.fresh(f"{self.index.name}_thread"), columns, Binding.THREAD)
        tile = _Columns(chunk, thread, count, lanes)
        full = vectors // (columns * count)
        whole = full - 1 - sch.part(chunk)
        if count > 1 and 0 < full < chunks:
            children = [self._vectors(tile, values, (whole,)), self._vectors(tile, values, (-whole - 1,), vectors)]
        else:
            children = [self._vectors(tile, values, (), vectors if full < chunks else None)]
        if left:
            children.append(self._rest(tile, values, self.index.range - left, left))
        team = Node((*rows, *sch.present((thread,))), children=tuple(children), constraints=tuple(ends))
        return Node((*sch.present(grid), *sch.present((chunk,))), children=(team,))

    def _lanes(self) -> int:
        lanes = sch.vector_lanes(self.options.vector_bytes, sch.widest_access(self.nest), self.options.max_lanes)
        lanes = min(lanes, sch.power_of_two_below(self.index.range))
        indirect = sch.indirect_names(self.nest.segments[0])
        if self.index.name in sch.constrained_indices(self.nest):
            return 1
        return sch.aligned_lanes((u for u in self.nest.uses if u.name not in indirect), self.index.name, lanes)

    def _columns(self, others: list[stripe.Index]) -> int:
        """Return how many threads stand side by side: all of them, but for inputs that rows are contiguous along."""
        names = {i.name for i in others}
        crossed = any(u.stride(name) == 1 for u in sch.read_uses(self.nest) for name in names)
        return min(self.options.threads, _CROSSED) if crossed else self.options.threads

    def _rows(
        self, others: list[stripe.Index], threads: int
    ) -> tuple[list[stripe.Index], tuple[stripe.Index, ...], dict[str, Affine], list[Affine]]:
        """Spread the other indices over the grid and what is left of the threads.

        Returns grid indices, thread indices, the values of the indices, and tests for the last rows.
        """
        grid: list[stripe.Index] = []
        team: list[stripe.Index] = []
        values: dict[str, Affine] = {}
        ends: list[Affine] = []
        for index in reversed(others):
            size = min(index.range, threads)
            threads //= size
            thread = sch.index(self.names.fresh(f"{index.name}_thread"), size, Binding.THREAD)
            group = attrs.evolve(index, range=-(-index.range // size), binding=Binding.GRID)
            values[index.name] = sch.part(group, size) + sch.part(thread)
            if group.range * size > index.range:
                ends.append(index.range - 1 - values[index.name])
            team.insert(0, thread)
            grid.insert(0, group)
        return grid, sch.present(team), values, ends

    def _vectors(
        self, tile: _Columns, values: dict[str, Affine], tests: tuple[Affine, ...], end: int | None = None
    ) -> Node:
        """Return the vectors of each thread; with ``end``, those from this number on are left out."""
        name = self.index.name
        step = sch.index(self.names.fresh(f"{name}_vector"), tile.count, Binding.UNROLL)
        lane = sch.index(self.names.fresh(f"{name}_lane"), tile.lanes, Binding.LANE)
        width = tile.thread.range
        number = sch.part(tile.chunk, tile.count * width) + sch.part(step, width) + sch.part(tile.thread)
        mapping = {**values, name: number * tile.lanes + sch.part(lane)}
        inside = leaf(self.nest.segments[0], mapping, sch.present((lane,)))
        tests_inside = (*inside.constraints, *(() if end is None else (end - 1 - number,)))
        each = (attrs.evolve(inside, constraints=()),)
        vector = Node(sch.present((step,)), children=each, constraints=tests_inside)
        return Node(children=(vector,), constraints=tests) if tests else vector

    def _rest(self, tile: _Columns, values: dict[str, Affine], start: int, count: int) -> Node:
        """Return the elements of each row that fill no vector, for the last group: one for each thread if possible."""
        name = self.index.name
        place = sch.part(tile.thread)
        loops: tuple[stripe.Index, ...] = ()
        tests = [count - 1 - place] if tile.thread.range > count else []
        if tile.thread.range < count:
            rest = sch.index(self.names.fresh(f"{name}_rest"), count)
            place, loops, tests = sch.part(rest), (rest,), [-place] if place.terms else []
        if tile.chunk.range > 1:
            tests.insert(0, sch.part(tile.chunk) - (tile.chunk.range - 1))
        inside = leaf(self.nest.segments[0], {**values, name: place + start}, loops)
        return attrs.evolve(inside, constraints=(*tests, *inside.constraints))


@attrs.frozen(eq=False, repr=False)
class _Columns:
    """Threads side by side, each with ``count`` vectors of ``lanes``, in each ``chunk``."""

    chunk: stripe.Index
    thread: stripe.Index
    count: int
    lanes: int


_CROSSED = 32
"""Threads side by side where an input is transposed: a group then uses whole cache lines of it."""
