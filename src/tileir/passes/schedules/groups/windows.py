"""Windows that slide along two axes, or one, of which a thread computes several neighbours from what it loads once.

Of each row of its inputs a thread loads all that its outputs see into registers; each element is then multiplied into
all sums that it is part of, row after row. In gradients by weights the places in a window are the outputs, and the
terms of their sums, which are many, come in loops over a few that are neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tileir.core import NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.groups.reduction import identity_block, in_registers, merge_block
from tileir.passes.schedules.groups.staging import TileShape, copied_whole
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Segment, Use, leaf, product
from tileir.stripe import ir as stripe


@attrs.frozen(eq=False)
class Slide:
    """Movement of a window along an axis: ``step`` places for an output, ``apart`` for a term; ``outputs`` a thread.

    Terms go backwards in gradients by what windows slide over: ``apart`` is negative then.
    """

    output: stripe.Index
    term: stripe.Index
    step: int
    apart: int
    outputs: int = 1

    @property
    def places(self) -> range:
        """The places along the axis that the outputs of a thread see, counted from that of the first term of one."""
        reach = (self.term.range - 1) * self.apart
        return range(min(0, reach), (self.outputs - 1) * self.step + max(0, reach) + 1)

    def pairs(self, place: int) -> list[tuple[int, int]]:
        """Return which outputs of a thread have a place as which term, the first terms first."""
        terms = ((*divmod(place - term * self.apart, self.step), term) for term in range(self.term.range))
        return [(output, term) for output, rest, term in terms if not rest and 0 <= output < self.outputs]

    def holds(self, constraint: Affine) -> bool:
        """Return whether a constraint asks for a place along this axis alone, whichever output has it."""
        step, apart = constraint.coefficient(self.output.name), constraint.coefficient(self.term.name)
        return step != 0 and step * self.apart == apart * self.step


@attrs.frozen(eq=False)
class WindowPlan:
    """Work of the threads of a group: ``beside`` of them stand along ``column``, ``lanes`` each, ``down`` along rows.

    ``slid`` is the input that the window slides over, along one axis or, outer one first, two; ``staged`` the inputs
    that a group copies to local memory, ``held`` those of which a thread loads all terms of a row. What it adds up for
    them is repeated for ``loops``. Threads ``down`` stand along ``row``, or along the outputs of the last slide.
    """

    column: stripe.Index
    slid: Use
    slides: tuple[Slide, ...]
    lanes: int
    beside: int
    down: int
    staged: tuple[Use, ...] = ()
    held: tuple[Use, ...] = ()
    loops: tuple[stripe.Index, ...] = ()
    row: stripe.Index | None = None

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return self.beside * self.down

    @property
    def width(self) -> int:
        """Values of ``column`` that a group takes."""
        return self.beside * self.lanes

    def shape(self, segment: Segment) -> TileShape:
        """Return how far staged inputs reach: over all of the window, and the columns of a group."""
        extents = {i.name: i.range for i in segment.loops}
        return TileShape({**extents, self.column.name: self.width}, self.column.name, self.lanes)


def slides_of(nest: Nest, segment: Segment, use: Use) -> tuple[Slide, ...]:
    """Return how the window of a reduction slides over an input; nothing where it does not, or otherwise."""
    outputs, terms = ({i.name: i for i in indices} for indices in (nest.indices, segment.loops))
    found = []
    for affine, stride in sorted(zip(use.access, use.strides, strict=True), key=lambda axis: -axis[1]):
        moving, reduced = ([name for name in affine.indices if name in each] for each in (outputs, terms))
        if stride > 0 and len(moving) == len(reduced) == 1:
            steps = (int(affine.coefficient(name)) for name in (moving[0], reduced[0]))
            found.append(Slide(outputs[moving[0]], terms[reduced[0]], *steps))
    whole = {slide.term.name for slide in found} == terms.keys() and len(found) == len(terms)
    alone = all(sum(bool(a.coefficient(s.output.name)) for a in use.access) == 1 for s in found)
    forward = all(slide.step > 0 and slide.apart for slide in found)
    tests = all(len(c.terms) == _AXES and any(slide.holds(c) for slide in found) for c in segment.constraints)
    return tuple(found) if whole and alone and forward and tests and len(found) <= _AXES else ()


def shared_out(slides: tuple[Slide, ...], lanes: int, most: int) -> tuple[Slide, ...]:
    """Return the axes with the outputs of a thread along each: ``most``, if they divide all and fit registers."""
    found = slides
    for each in _TILES:
        tile = each[-len(slides) :]
        sized = tuple(attrs.evolve(slide, outputs=n) for slide, n in zip(slides, tile, strict=True))
        multiplied = product(n * slide.term.range for slide, n in zip(slides, tile, strict=True))
        fits = (
            product(tile) <= most
            and product(tile) * lanes <= _SUMS
            and len(sized[-1].places) <= _ROW
            and multiplied <= _WRITTEN_OUT
        )
        if fits and all(slide.output.range % slide.outputs == 0 for slide in sized):
            found = sized
            break
    return found


def places_of(nest: Nest, use: Use) -> tuple[Nest, Slide] | None:
    """Return how a thread has all places of a window, as outputs, along an axis of an input, and a nest for that.

    The terms of a place are many: they are cut into loops over so many neighbours as registers hold. None where the
    outputs along no axis are few, or terms too many to be held and prime, or constraints ask for more than the axis.
    """
    segment = nest.reductions[0]
    outputs, terms = ({i.name: i for i in indices} for indices in (nest.indices, segment.loops))
    for affine, stride in sorted(zip(use.access, use.strides, strict=True), key=lambda axis: axis[1]):
        moving, reduced = ([name for name in affine.indices if name in each] for each in (outputs, terms))
        if stride <= 0 or len(moving) != 1 or len(reduced) != 1:
            continue
        output, term = outputs[moving[0]], terms[reduced[0]]
        step, apart = (int(affine.coefficient(each.name)) for each in (output, term))
        slide = Slide(output, term, step, apart, output.range)
        alone = all(slide.holds(c) or not {output.name, term.name} & {*c.indices} for c in segment.constraints)
        own = sum(output.name in a.indices or term.name in a.indices for a in use.access) == 1
        counts = (n for n in range(term.range, 1, -1) if term.range % n == 0)
        sized = (attrs.evolve(slide, term=attrs.evolve(term, range=n)) for n in counts)
        found = next((each for each in sized if len(each.places) <= _ROW), None)
        if 1 < output.range <= _ROW and step > 0 and apart and alone and own and found is not None:
            return _cut(nest, segment, term, found)
    return None


def _cut(nest: Nest, segment: Segment, term: stripe.Index, slide: Slide) -> tuple[Nest, Slide]:
    """Return a nest whose loop over terms is one over those of a slide, and one around that if there are more."""
    if slide.term.range == term.range:
        return nest, slide
    outer = sch.index(nest.taken_names().fresh(f"{term.name}_row"), term.range // slide.term.range)
    place = {term.name: sch.part(outer, slide.term.range) + sch.part(slide.term)}
    parted = attrs.evolve(
        segment,
        loops=tuple(each for loop in segment.loops for each in ((outer, slide.term) if loop is term else (loop,))),
        uses=tuple(use.substitute(place) for use in segment.uses),
        constraints=tuple(each.substitute(place) for each in segment.constraints),
    )
    return attrs.evolve(nest, segments=tuple(parted if each is segment else each for each in nest.segments)), slide


_AXES: Final = 2

_TILES: Final = ((2, 4), (1, 4), (2, 2), (1, 2), (2, 1))
"""Outputs of a thread along both axes, the best first: on an H100 3 x 3 of 32 x 112 x 112 x 96 took 67 us with 2 x 4 in
f16, 76 with 4 x 4, whose sums leave room for fewer threads, and 133 with one; in f32 113, 114 and 165."""

_SUMS: Final = 64
"""Sums that a thread holds in registers, at most."""

_ROW: Final = 13
"""Elements of each channel that a thread holds of a row of its input, at most."""

_WRITTEN_OUT: Final = 512
"""Products of vectors that are written one behind the other, at most."""


def build(nest: Nest, plan: WindowPlan, elements: Mapping[str, int]) -> Node:
    """Return the tree of a kernel; ``elements`` is the size of the tensor behind each input that is staged."""
    return _Windows.of(nest, plan, elements).kernel()


@attrs.frozen(eq=False, repr=False)
class _Windows:
    """Builds one kernel: ``values`` are those of the indices of its first output; ``own`` number a thread's outputs."""

    nest: Nest
    plan: WindowPlan
    names: NameScope
    team: tuple[stripe.Index, ...]
    grid: tuple[stripe.Index, ...]
    lane: stripe.Index
    own: tuple[stripe.Index, ...]
    values: dict[str, Affine]
    start: Affine
    ends: tuple[Affine, ...]
    row: stripe.Refinement
    held: Mapping[Use, stripe.Refinement]
    sums: Mapping[Use, stripe.Refinement]
    elements: Mapping[str, int]

    @classmethod
    def of(cls, nest: Nest, plan: WindowPlan, elements: Mapping[str, int]) -> _Windows:
        """Choose names, the grid and the memory of a kernel."""
        names = nest.taken_names()
        place = sch.index(names.fresh(f"{plan.column.name}_thread"), plan.beside, stripe.Binding.THREAD)
        above = sch.index(names.fresh("row_thread"), plan.down, stripe.Binding.THREAD)
        lane = sch.index(names.fresh("lane"), plan.lanes, stripe.Binding.LANE)
        sides = {slide.output.name: (slide.outputs, 1) for slide in plan.slides}
        across = plan.slides[-1]
        rows = across.output if plan.row is None else plan.row
        sides[rows.name] = sides.get(rows.name, (1, 1))[0], plan.down
        sides[plan.column.name] = plan.lanes, plan.beside
        grid, values, ends = [], {}, []
        start = Affine()
        for index in nest.indices:
            each, threads = sides.get(index.name, (1, 1))
            count = -(-index.range // (each * threads))
            group = stripe.Index(names.fresh(f"{index.name}_group"), count, None, stripe.Binding.GRID)
            grid.append(group)
            thread = place if index is plan.column else above if index is rows else None
            first = sch.part(group, each * threads)
            start = first if index is plan.column else start
            values[index.name] = first if thread is None else first + sch.part(thread, each)
            if count * each * threads > index.range:
                ends.append(index.range - each - values[index.name])
        segment = nest.reductions[0]
        own = tuple(
            sch.index(names.fresh(f"{slide.output.name}_own"), slide.outputs, stripe.Binding.UNROLL)
            for slide in plan.slides
        )
        extents = (*(i.range for i in own), plan.lanes)
        row = stripe.allocation(
            names.fresh(f"{plan.slid.root}_row"), plan.slid.dtype, (len(across.places), plan.lanes), sch.REGISTER
        )
        held = {
            use: stripe.allocation(
                names.fresh(f"{use.root}_row"), use.dtype, (across.term.range, plan.lanes), sch.REGISTER
            )
            for use in plan.held
        }
        sums = {
            use: stripe.allocation(names.fresh(f"{use.root}_sums"), use.dtype, extents, sch.REGISTER)
            for use in segment.uses
            if use.direction.writes
        }
        team = sch.present((above, place))
        return cls(
            nest, plan, names, team, sch.present(grid), lane, own, values, start, tuple(ends), row, held, sums, elements
        )

    def kernel(self) -> Node:
        """Return the tree."""
        before, reduction, after = sch.around_reduction(self.nest)
        plan = self.plan
        column = plan.column.name, self.start, self._column - self.start
        stages, fills, segment = copied_whole(
            self.nest, plan.staged, plan.shape(reduction), plan.threads, self.elements, self.names, column
        )
        room = tuple(
            stripe.allocation(r.name, r.shape.dtype, (self.plan.lanes,), sch.REGISTER) for r in self.nest.allocations
        )
        begin = [
            identity_block(self._sum(use, [sch.part(i) for i in self.own]), (*self.own, self.lane)) for use in self.sums
        ]
        rows = tuple(self._rows(segment))
        done = Node(
            sch.present(self.own),
            room,
            (*map(self._output, before), *map(self._merge, self.sums), *map(self._output, after)),
        )
        memory = (self.row, *self.held.values(), *self.sums.values())
        team = Node(self.team, memory, (*begin, *rows, done), constraints=self.ends)
        return Node(self.grid, stages, (*fills, team))

    @property
    def _column(self) -> Affine:
        return self.values[self.plan.column.name] + sch.part(self.lane)

    def _at(self, places: Sequence[tuple[int, int]]) -> dict[str, Affine]:
        """Return the values of all indices for an output of the thread and a term of it along each axis."""
        values = {**self.values, self.plan.column.name: self._column}
        for slide, (output, term) in zip(self.plan.slides, places, strict=True):
            values[slide.output.name] = self.values[slide.output.name] + output
            values[slide.term.name] = Affine.constant(term)
        return values

    def _rows(self, segment: Segment) -> Iterator[Node]:
        """Yield what loads a row of the input, and adds all its products up, for each row that a thread sees."""
        *outer, across = self.plan.slides
        for row in outer[0].places if outer else range(1):
            above = [(pair,) for pair in outer[0].pairs(row)] if outer else [()]
            loads, adds = [], []
            for place in across.places:
                pairs = [(*high, pair) for high in above for pair in across.pairs(place)]
                if not pairs:
                    continue
                tests = self._tests(segment, across, pairs[0])
                loads.append(Node(children=(self._load(place, pairs[0]),), constraints=tests))
                parts = tuple(self._add(segment, place, pair) for pair in pairs)
                adds.append(Node(children=parts, constraints=tests))
            if loads:
                tests = (
                    self._tests(segment, outer[0], (*above[0], across.pairs(0)[0])) if outer else self._around(segment)
                )
                kept = self._loads_of_terms(across)
                yield Node(self.plan.loops, children=(*kept, *loads, *adds), constraints=tests, tags=segment.tags)

    def _tests(self, segment: Segment, slide: Slide, pairs: Sequence[tuple[int, int]]) -> tuple[Affine, ...]:
        """Return the tests for a place along an axis; they are the same for all outputs that have it."""
        return self._open(c.substitute(self._at(pairs)) for c in segment.constraints if slide.holds(c))

    def _around(self, segment: Segment) -> tuple[Affine, ...]:
        """Return the tests that no slide sees to, for all terms of a row."""
        slides = self.plan.slides
        others = (c for c in segment.constraints if not any(slide.holds(c) for slide in slides))
        return self._open(each.substitute(self.values) for each in others)

    def _open(self, tests: Iterable[Affine]) -> tuple[Affine, ...]:
        """Return the tests that do not hold everywhere."""
        ranges = {i.name: i.range for i in (*self.grid, *self.team, *self.plan.loops)}
        return tuple(test for test in tests if test.bounds(ranges)[0] < 0)

    def _loads_of_terms(self, slide: Slide) -> list[Node]:
        """Return the loads of what each term of a row has, which all outputs of a thread read."""
        loads = []
        for use, memory in self.held.items():
            for term in range(slide.term.range):
                source = use.substitute(self._at(((0, term),)))
                target = Use(
                    memory.name,
                    memory.name,
                    (Affine.constant(term), sch.part(self.lane)),
                    memory.shape.strides,
                    use.dtype,
                    stripe.Direction.OUT,
                )
                statements = (stripe.Load(source.name, "value"), stripe.Store("value", target.name))
                loads.append(Node(sch.present((self.lane,)), statements=statements, uses=(source, target)))
        return loads

    def _in_row(self, place: int, name: str) -> Use:
        access = (Affine.constant(place - self.plan.slides[-1].places.start), sch.part(self.lane))
        return Use(name, self.row.name, access, self.row.shape.strides, self.plan.slid.dtype, stripe.Direction.IN)

    def _load(self, place: int, pairs: Sequence[tuple[int, int]]) -> Node:
        source = self.plan.slid.substitute(self._at(pairs))
        target = attrs.evolve(self._in_row(place, self.row.name), direction=stripe.Direction.OUT)
        statements = (stripe.Load(source.name, "value"), stripe.Store("value", target.name))
        return Node(sch.present((self.lane,)), statements=statements, uses=(source, target))

    def _add(self, segment: Segment, place: int, pairs: Sequence[tuple[int, int]]) -> Node:
        own = [Affine.constant(output) for output, _ in pairs]
        uses = []
        for use in segment.uses:
            seen = self._in_row(place, use.name) if use == self.plan.slid else use
            if use in self.held:
                term = Affine.constant(pairs[-1][1])
                memory = self.held[use]
                seen = attrs.evolve(
                    use, root=memory.name, access=(term, sch.part(self.lane)), strides=memory.shape.strides, sizes=()
                )
            uses.append(self._sum(use, own) if use in self.sums else seen)
        inside = leaf(attrs.evolve(segment, uses=tuple(uses)), self._at(pairs), sch.present((self.lane,)))
        return attrs.evolve(inside, constraints=())

    def _sum(self, use: Use, own: Sequence[Affine]) -> Use:
        memory = self.sums[use]
        access = (*own, sch.part(self.lane))
        return attrs.evolve(use, root=memory.name, access=access, strides=memory.shape.strides, sizes=())

    @property
    def _outputs(self) -> dict[str, Affine]:
        values = {**self.values, self.plan.column.name: self._column}
        for slide, index in zip(self.plan.slides, self.own, strict=True):
            values[slide.output.name] = values[slide.output.name] + sch.part(index)
        return values

    def _output(self, segment: Segment) -> Node:
        moved = attrs.evolve(
            segment, uses=tuple(in_registers(self.nest, use, sch.part(self.lane)) for use in segment.uses)
        )
        beside = all(use.stride(self.plan.column.name) == 1 for use in sch.written_uses(self.nest))
        lane = self.lane if beside else self.lane.bound(stripe.Binding.UNROLL)
        return sch.below_tests(leaf(moved, self._outputs, sch.present((lane,))))

    def _merge(self, use: Use) -> Node:
        found = self._sum(use, [sch.part(i) for i in self.own])
        merge = merge_block(found, in_registers(self.nest, use, sch.part(self.lane)), sch.present((self.lane,)))
        return sch.where_set(self.nest, use, self._outputs, merge)
