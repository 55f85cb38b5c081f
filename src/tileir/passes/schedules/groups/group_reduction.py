"""Reductions over groups of threads, which share the work on one or a few outputs.

Each thread reduces its part with its own accumulators; a tree in local memory merges those of a group (Harris,
"Optimizing parallel reduction in CUDA", 2007), and the first threads run the epilogue.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Final

from tileir.core.nodes import attrs
from tileir.passes.base import at_least, map_kernels
from tileir.passes.kernels import against_plain, schedule as sch, unscheduled_reduction
from tileir.passes.schedules.groups.reduction import Plan, SharedReduction
from tileir.passes.schedules.groups.staging import TileShape
from tileir.passes.schedules.groups.windows import (
    WindowPlan,
    along_rows,
    build as write_windows,
    places_of,
    shared_out,
    slides_of,
)
from tileir.schedule import Done, Nest, Refused, Use, accepted, emit, product, refused, refusing, rule_out, strongest
from tileir.schedule.application import first_that_fits
from tileir.stripe import ir as stripe


@attrs.frozen
class GroupReduction:
    """Schedule reductions without reuse of inputs, shared by the threads of a group.

    Along contiguous memory, neighbouring threads share the reduction, and several outputs share a group if it is short.
    Across it, neighbouring threads compute neighbouring outputs, and rows of threads share the reduction if outputs are
    few. With many outputs, as for windows over one channel, a thread computes whole outputs, and groups copy shared
    weights. Inputs with separate elements for most outputs determine the direction.

    Attributes:
        threads: Threads of a group.
        most_threads: Maximum number of threads if outputs are too few to keep the device busy.
        width: Neighbouring threads whose accesses are coalesced.
        vector_bytes: Bytes of a thread's vector accesses.
        max_lanes: Maximum lanes of a vector; 0 for no limit.
        local_bytes: Local memory of a group.
        vectors: Vectors that a thread loads together.
        groups: Groups that keep the device busy.

    """

    name: ClassVar[str] = "group_reduction"
    threads: int = attrs.field(default=256, validator=at_least(1))
    most_threads: int = attrs.field(default=256, validator=at_least(1))
    width: int = attrs.field(default=32, validator=at_least(1))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    local_bytes: int = attrs.field(default=32 * 1024, validator=at_least(0))
    vectors: int = attrs.field(default=4, validator=at_least(1))
    groups: int = attrs.field(default=1, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with these reductions scheduled."""
        sizes = {r.name: r.shape.elements for r in program.main.refinements}
        return map_kernels(program, lambda kernel: self._kernel(kernel, sizes))

    @refusing
    def _kernel(self, kernel: stripe.Block, sizes: Mapping[str, int]) -> Done | Refused:
        nest = accepted(unscheduled_reduction(kernel))
        if not nest.indices:
            nest = attrs.evolve(nest, indices=(stripe.Index(nest.taken_names().fresh("output"), 1),))
        rule_out(against_plain(nest, placed=True))
        if is_product_of_panels(nest):
            return refused("TR401")
        elements = {r.name: sizes[r.source] for r in kernel.refinements if r.source in sizes}
        if (found := self._windows(nest, elements) or self._places(nest)) is not None:
            seen, windows = found
            several = product(slide.outputs for slide in windows.slides)
            facts = (("threads", 1), ("lanes", windows.lanes), ("windows", several))
            return Done((emit(write_windows(seen, windows, elements), kernel),), facts)
        plan = self._along_reduction(nest)
        if isinstance(plan, Refused):
            first, plan = plan, self._along_outputs(nest, elements)
            if isinstance(plan, Refused):
                return strongest((first, plan))
        plans = (plan, attrs.evolve(plan, staged=())) if plan.staged else (plan,)
        return first_that_fits(SharedReduction.of(nest, each).candidate() for each in plans)

    def _slid(self, nest: Nest, *, apart: bool = False) -> tuple[Use, stripe.Index, int] | None:
        """Return the input of possible depthwise windows, the index of channels, and the lanes along it.

        Results may be stored ``apart`` if they are few.
        """
        segment = nest.reductions[0]
        streamed = _streamed(nest, sch.reads_of(nest, segment))
        uses = streamed if apart else (*streamed, *sch.written_uses(nest))
        columns = [i for i in nest.indices if i.range > 1 and all(u.stride(i.name) == 1 for u in uses)]
        if len(streamed) != 1 or not columns or sch.indirect_names(segment):
            return None
        column = columns[0]
        lanes = sch.vector_lanes(self.vector_bytes, _OF_SUMS, self.max_lanes)
        along = (*uses, *(u for u in sch.read_uses(nest) if u.stride(column.name) == 1))
        lanes = sch.aligned_lanes(along, column.name, min(lanes, sch.power_of_two_below(column.range)))
        fits = not column.range % lanes and column.name not in sch.constrained_indices(nest) and lanes > 1
        return (streamed[0], column, lanes) if fits else None

    def _places(self, nest: Nest) -> tuple[Nest, WindowPlan] | None:
        """Plan for depthwise weight gradients, where a thread has all places of a window along an axis."""
        segment, slid = nest.reductions[0], self._slid(nest, apart=True)
        if slid is None or product(i.range for i in segment.loops) < _MANY:
            return None
        use, column, lanes = slid
        others = [each for each in sch.reads_of(nest, segment) if each != use]
        found = places_of(nest, use)
        if (
            found is None
            or len(others) != 1
            or any(others[0].stride(i.name) == 0 for i in segment.loops if i.range > 1)
        ):
            return None
        (nest, slide), name = found, others[0].name
        segment = nest.reductions[0]
        (use,) = (each for each in segment.uses if each.name == use.name)
        (held,) = (each for each in segment.uses if each.name == name)
        still = [i for i in nest.indices if 1 < i.range <= PLACES and not held.stride(i.name) and i is not slide.output]
        if held.stride(slide.output.name) or held.stride(column.name) != 1 or slide.outputs * lanes > _OF_REGISTERS:
            return None
        row = max(still, key=lambda i: i.range, default=None)
        vectors = column.range // lanes
        beside = -(-vectors // -(-vectors // self.width))
        down = 1 if row is None else -(-row.range // -(-row.range // max(1, self.threads // beside)))
        loops = tuple(i for i in segment.loops if i.name != slide.term.name)
        team = ((column, beside), *(() if row is None else ((row, down),)))
        return nest, WindowPlan(column, use, (slide,), lanes, team, (), (held,), loops)

    def _windows(self, nest: Nest, elements: Mapping[str, int]) -> tuple[Nest, WindowPlan] | None:
        """Plan for a depthwise window with many outputs; else None."""
        segment, slid = nest.reductions[0], self._slid(nest)
        if slid is None:
            return self._rows(nest)
        if not (slides := slides_of(nest, segment, slid[0])):
            return None
        use, column, lanes = slid
        most = min(self.threads, _OF_WINDOWS)
        enough = self.groups * (most if product(i.range for i in segment.loops) >= _LONG else self.threads)
        slides = shared_out(slides, lanes, product(i.range for i in nest.indices) // (lanes * enough))
        if all(slide.outputs == 1 for slide in slides):
            return None
        vectors = column.range // lanes
        beside = -(-vectors // -(-vectors // most))
        rows = slides[-1].output.range // slides[-1].outputs
        down = -(-rows // -(-rows // max(1, most // beside)))
        plan = WindowPlan(column, use, slides, lanes, ((column, beside), (slides[-1].output, down)))
        staged = self._copied(nest, plan.column, plan.shape(segment), elements)
        held = staged if all(slide.outputs == 1 for slide in slides[:-1]) else ()
        return nest, attrs.evolve(plan, staged=staged, held=held)

    def _rows(self, nest: Nest) -> tuple[Nest, WindowPlan] | None:
        """Plan for a window that slides along rows in memory, with several outputs per thread; else None."""
        segment = nest.reductions[0]
        streamed = _streamed(nest, sch.reads_of(nest, segment))
        others = [each for each in sch.reads_of(nest, segment) if each not in streamed]
        if len(streamed) != 1 or len(others) != 1 or sch.indirect_names(segment):
            return None
        (use,), (held,) = streamed, others
        slides = slides_of(nest, segment, use)
        if not slides or any(held.stride(slide.output.name) for slide in slides):
            return None
        across = slides[-1]
        near = use.stride(across.output.name) == across.step and abs(use.stride(across.term.name)) == abs(across.apart)
        if not near or any(each.stride(across.output.name) != 1 for each in sch.written_uses(nest)):
            return None
        most = min(self.threads, _OF_WINDOWS)
        enough = self.groups * (most if product(i.range for i in segment.loops) >= _LONG else self.threads)
        lanes = sch.power_of_two_below(sch.vector_lanes(self.vector_bytes, use.dtype.itemsize, self.max_lanes))
        slides = along_rows(slides, use, product(i.range for i in nest.indices) // enough, lanes)
        if slides[-1].outputs == 1:
            return None
        team = []
        for index in sorted(nest.indices, key=lambda i: abs(use.stride(i.name)) or 1 << 62):
            count = index.range // slides[-1].outputs if index is across.output else index.range
            sizes = [n for n in range(1, min(count, most) + 1) if count % n == 0]
            team.append((index, sizes[-1] if 2 * sizes[-1] > min(count, most) else min(count, most)))
            most //= team[-1][1]
        bounds = (self.vector_bytes, self.max_lanes)
        return nest, WindowPlan(across.output, use, slides, 1, tuple(team), (), (held,), (), *bounds)

    def _along_reduction(self, nest: Nest) -> Plan | Refused:
        """Plan for inputs that are contiguous along a reduction index; refused for others."""
        segment = nest.reductions[0]
        reads = sch.reads_of(nest, segment)
        streamed = _streamed(nest, reads)
        loops = [i for i in segment.loops if i.range > 1 and any(u.stride(i.name) == 1 for u in streamed)]
        if not loops or any(_slides(nest, use, loops) for use in streamed):
            return refused("TR403")
        loop = max(loops, key=lambda i: (sum(u.stride(i.name) in (0, 1) for u in reads), i.range))
        lanes = self._lanes(nest, loop, reads)
        vectors = loop.range // lanes
        outputs = product(i.range for i in nest.indices)
        threads = self._beside(nest, vectors, outputs)
        if threads < min(4, self.width):
            return refused("TR404", index=loop.name, range=loop.range, lanes=lanes, threads=threads)
        column = max(nest.indices, key=lambda i: i.range)
        many = min(self.threads // threads, outputs // self.groups, column.range)
        beside = self._within_local_memory(nest, threads, sch.power_of_two_below(max(1, many)))
        unroll = max(1, min(self.vectors, vectors // threads))
        plan = Plan(loop, column, threads, beside, lanes, unroll, along_outputs=False)
        deep, depth = self._deep(nest, loop, threads * beside)
        return attrs.evolve(plan, deep=deep, depth=depth) if depth > 1 else plan

    def _deep(self, nest: Nest, loop: stripe.Index, threads: int) -> tuple[stripe.Index, int]:
        """Return another index along which more threads, by this factor, share an output, at most half of its range."""
        tested = sch.constrained_indices(nest)
        others = [i for i in nest.reductions[0].loops if i is not loop and i.name not in tested]
        deep = max(others, key=lambda i: i.range, default=None)
        depth = self._within_local_memory(nest, threads, self.threads // threads)
        while deep is not None and depth > 1 and (deep.range % depth or 2 * depth > deep.range):
            depth //= 2
        return (loop, 1) if deep is None else (deep, depth)

    def _beside(self, nest: Nest, vectors: int, outputs: int) -> int:
        """Return the number of threads that share one output, a power of two."""
        alone = min(self.threads * max(1, self.groups // outputs), max(self.threads, self.most_threads))
        most = self._within_local_memory(nest, 1, sch.power_of_two_below(alone))
        wanted = -(-vectors // (self.vectors if outputs >= self.groups else 1))
        threads = max(power_of_two_from(wanted), min(self.width, power_of_two_from(vectors)))
        return min(most, sch.power_of_two_below(threads))

    def _along_outputs(self, nest: Nest, elements: Collection[str]) -> Plan | Refused:
        """Plan for inputs that are contiguous along an output index; refused for others."""
        segment = nest.reductions[0]
        reads = sch.reads_of(nest, segment)
        streamed = _streamed(nest, reads)
        seldom = product(i.range for i in segment.loops) >= _MANY and product(i.range for i in nest.indices) < _FEW
        uses = streamed if seldom else (*streamed, *sch.written_uses(nest))
        columns = [
            i
            for i in nest.indices
            if i.range > 1
            and any(u.stride(i.name) == 1 for u in streamed)
            and all(u.stride(i.name) in (0, 1) for u in uses)
        ]
        if not columns:
            return refused("TR405")
        column = max(columns, key=lambda i: i.range)
        along = (u for u in (*reads, *sch.read_uses(nest)) if u.stride(column.name) == 1)
        lanes = self._lanes(nest, column, (*streamed, *sch.written_uses(nest), *along), streamed)
        while column.range % lanes:
            lanes //= 2
        loop = max(segment.loops, key=lambda i: i.range)
        vectors = column.range // lanes
        beside = min(self.width, self.threads, power_of_two_from(vectors))
        beside = sch.power_of_two_below(beside)
        outputs = product(i.range for i in nest.indices)
        half, least = self.groups // 2, max(1, _SECTOR // sch.widest_access(nest))
        threads = self.threads
        if loop.range >= _LONG and outputs // (beside * lanes) < half:
            threads = max(self.threads, sch.power_of_two_below(self.most_threads))
            while beside * lanes > least and outputs // (beside * lanes) < half:
                lanes, beside = (lanes // 2, beside) if lanes > 1 else (1, beside // 2)
        rows = sch.power_of_two_below(max(1, threads // beside))
        while rows > 1 and (rows * 4 > loop.range or outputs // lanes >= self.groups * self.threads):
            rows //= 2
        few = outputs // lanes < self.groups * self.threads and product(i.range for i in segment.loops) >= _SUMS
        shared = _places_of_window(nest, column, reads) if few else None
        down = 1 if shared is None else min(shared.range, max(1, threads // beside))
        rows = self._within_local_memory(
            nest, beside * lanes * down, min(rows, sch.power_of_two_below(max(1, threads // (beside * down))))
        )
        if rows == down == 1:
            beside = sch.power_of_two_below(min(self.threads, power_of_two_from(vectors)))
        unroll = max(1, min(self.vectors, loop.range // rows))
        plan = Plan(loop, column, rows, beside, lanes, unroll, along_outputs=True)
        if down > 1:
            return attrs.evolve(plan, row=shared, down=down)
        return self._with_rows(nest, plan, elements) if rows == 1 else plan

    def _with_rows(self, nest: Nest, plan: Plan, elements: Collection[str]) -> Plan:
        """Return a plan whose groups take several rows of outputs, too, and copy shared transposed inputs."""
        (written, *_) = sch.written_uses(nest)
        others = [i for i in nest.indices if i is not plan.column and i.range > 1]
        row = min(others, key=lambda i: abs(written.stride(i.name)), default=None)
        if row is None:
            return plan
        down = min(sch.power_of_two_below(self.threads // plan.beside), sch.power_of_two_below(row.range))
        outputs = product(i.range for i in nest.indices)
        while down > 1 and outputs // (plan.width * down) < self.groups:
            down //= 2
        if down == 1:
            return plan
        staged = self._copied(nest, plan.column, plan.shape(nest.reductions[0]), elements)
        return attrs.evolve(plan, row=row, down=down, staged=staged)

    def _copied(
        self, nest: Nest, column: stripe.Index | None, shape: TileShape, elements: Collection[str]
    ) -> tuple[Use, ...]:
        """Return the transposed inputs of a reduction that only columns move, as far as copies of them fit."""
        left, staged = self.local_bytes // _STAGED, []
        segment = nest.reductions[0]
        chosen = sch.indirect_names(segment)
        for use in sch.reads_of(nest, segment):
            moving = [i for i in nest.indices if use.stride(i.name)]
            size = shape.local_bytes(use)
            plain = use.root in elements and use.name not in chosen
            if plain and moving == [column] and use.stride(moving[0].name) != 1 and size <= left:
                staged.append(use)
                left -= size
        return tuple(staged)

    def _lanes(self, nest: Nest, index: stripe.Index, uses: tuple[Use, ...], streamed: tuple[Use, ...] = ()) -> int:
        """Return the lanes of aligned accesses along an index: as wide as one of ``streamed`` if outputs are few."""
        if index.name in sch.constrained_indices(nest):
            return 1
        terms = product(i.range for i in nest.reductions[0].loops)
        narrow = streamed and terms >= _MANY
        widest = max(u.dtype.itemsize for u in streamed) if narrow else sch.widest_access(nest)
        lanes = sch.vector_lanes(self.vector_bytes, widest, self.max_lanes)
        return sch.aligned_lanes(uses, index.name, min(lanes, sch.power_of_two_below(index.range)))

    def _within_local_memory(self, nest: Nest, elements: int, threads: int) -> int:
        """Return how many rows, at most ``threads``, of ``elements`` elements per accumulator fit local memory."""
        size = sum(u.dtype.itemsize for u in nest.reductions[0].uses if u.direction.writes) * elements
        while threads > 1 and threads * size > self.local_bytes:
            threads //= 2
        return threads


def _streamed(nest: Nest, reads: tuple[Use, ...]) -> tuple[Use, ...]:
    """Return the inputs with separate elements for most outputs: they dominate the time."""
    moved = {use: product(i.range for i in nest.indices if use.stride(i.name)) for use in reads}
    most = max(moved.values(), default=0)
    return tuple(use for use in reads if moved[use] * _REUSE > most)


def _places_of_window(nest: Nest, column: stripe.Index, reads: Sequence[Use]) -> stripe.Index | None:
    """Return the output index that has few adjacent places of a window over inputs, if there is one.

    Inputs that it does not move are read again for each, and inputs that it moves mostly overlap, so that threads of
    one group find both in a cache. Matrix products have none, as each input is read again along another index.
    """
    outputs = [i.name for i in nest.indices if i.range > 1]
    if not any(all(map(use.stride, outputs)) for use in reads):
        return None
    moved = [(affine, u) for u in reads for affine in u.access if len(affine.indices) > 1]
    places = [
        (min(abs(use.stride(i.name)) for affine, use in moved if i.name in affine.indices), number)
        for number, i in enumerate(nest.indices)
        if i is not column
        and 1 < i.range <= PLACES
        and any(i.name in affine.indices for affine, _ in moved)
        and not all(use.stride(i.name) for use in reads)
    ]
    return nest.indices[min(places)[1]] if places else None


def _slides(nest: Nest, use: Use, loops: Sequence[stripe.Index]) -> bool:
    """Return whether adjacent outputs read adjacent elements, as the terms of one do, and outputs are more."""
    terms = max((i.range for i in loops if use.stride(i.name) == 1), default=0)
    near = (i for i in nest.indices if 0 < use.stride(i.name) < max(2, terms))
    return terms > 0 and any(i.range > terms for i in near)


def is_product_of_panels(nest: Nest) -> bool:
    """Return whether a nest reads two tensors, each repeatedly for many outputs: tiles of both should be reused.

    False if each term meets an element that no other one does: those take longer to read.
    """
    segment = nest.reductions[0]
    reads = sch.reads_of(nest, segment)
    moving = [i.name for i in (*nest.indices, *segment.loops) if i.range > 1]
    if any(all(map(use.stride, moving)) for use in reads):
        return False
    still = [use for use in reads if _times_again(nest, use) >= _REUSE]
    panels = {use for use in still if any(use.stride(i.name) for i in nest.indices)}
    return len(panels) >= 2


def _times_again(nest: Nest, use: Use) -> int:
    """Return the number of outputs that reread an input; short indices count together in large results of halves."""
    again = [i.range for i in nest.indices if not use.stride(i.name)]
    large = product(i.range for i in nest.indices) >= _LARGE and use.dtype.itemsize == _HALF
    return product(again) if large and max(again, default=1) >= _SHORT else max(again, default=1)


_HALF: Final = 2
_LARGE: Final = 1 << 17
"""Bytes of elements, and outputs, from which on groups have enough tiles along several short indices."""

_SHORT: Final = 4
"""Minimum places of a window along one axis for tiles: on an H200 gradients of 3 x 3 places over three channels took
0.9 ms with tiles, not 0.33, but those of 7 x 7 places 0.33, not 1.3.
"""

PLACES: Final = 16
"""Maximum window places that the threads of one group take together."""

_SUMS: Final = 128
"""Minimum terms of a sum for threads of one group to read window places together."""

_STAGED = 4
"""Reciprocal of the share of local memory for copied inputs, so that several groups fit."""

_SECTOR = 32
"""Sector size of memory transactions on cards: minimum width of a group's columns if there would be few groups."""

_LONG = 32
"""Elements of a column from which on several threads share it."""

_MANY = 32
"""Terms of a sum from which on wide loads count more than wide stores."""

_FEW = 1 << 18
"""Maximum outputs of long sums with strided stores, if inputs are contiguous."""

_OF_REGISTERS = 64
"""Maximum sums in a thread's registers, for all window places along an axis."""

_OF_WINDOWS = 128
"""Threads of a group with sums of several windows each; fewer larger groups would fit a processor."""

_OF_SUMS = 4
"""Bytes of a sum, by which lanes are counted if threads hold several of them."""

_REUSE = 8
"""Minimum outputs per input element for a copy to local memory."""


def power_of_two_from(value: int) -> int:
    """Return the least power of two that is at least ``value`` >= 1."""
    return 1 << (value - 1).bit_length()
