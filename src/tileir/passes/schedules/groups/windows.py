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
    """Work of the threads of a group: ``team`` tells how many stand along which indices, the innermost ones first.

    Those along ``column`` have vectors of ``lanes`` each, or what they have of the last slide where that is 1.
    ``slid`` is the input that the window slides over, along one axis or, outer one first, two; ``staged`` the inputs
    that a group copies to local memory, ``held`` those of which a thread loads all terms of a row. What it adds up for
    them is repeated for ``loops``. It loads and stores ``vector_bytes`` and ``max_lanes`` neighbours at once, at most.
    """

    column: stripe.Index
    slid: Use
    slides: tuple[Slide, ...]
    lanes: int
    team: tuple[tuple[stripe.Index, int], ...]
    staged: tuple[Use, ...] = ()
    held: tuple[Use, ...] = ()
    loops: tuple[stripe.Index, ...] = ()
    vector_bytes: int = 0
    max_lanes: int = 0

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return product(count for _, count in self.team)

    @property
    def width(self) -> int:
        """Values of ``column`` that a group takes."""
        return self.lanes * product(count for index, count in self.team if index is self.column)

    def widest(self, itemsize: int) -> int:
        """Return how many neighbours of a size a thread loads at once, at most."""
        return sch.power_of_two_below(sch.vector_lanes(self.vector_bytes, itemsize, self.max_lanes))

    def shape(self, segment: Segment) -> TileShape:
        """Return how far staged inputs reach: over all of the window, and the columns of a group."""
        extents = {i.name: i.range for i in segment.loops}
        return TileShape({**extents, self.column.name: self.width}, self.column.name, self.lanes)


def slides_of(nest: Nest, segment: Segment, use: Use) -> tuple[Slide, ...]:
    """Return how the window of a reduction slides over an input; nothing where it does not, or otherwise."""
    outputs, terms = ({i.name: i for i in indices} for indices in (nest.indices, segment.loops))
    found = []
    for affine, stride in sorted(_axes(use, outputs, terms), key=lambda axis: -axis[1]):
        moving, reduced = ([name for name in affine.indices if name in each] for each in (outputs, terms))
        if stride > 0 and len(moving) == len(reduced) == 1:
            steps = (int(affine.coefficient(name)) for name in (moving[0], reduced[0]))
            found.append(Slide(outputs[moving[0]], terms[reduced[0]], *steps))
    whole = {slide.term.name for slide in found} == terms.keys() and len(found) == len(terms)
    alone = all(sum(bool(a.coefficient(s.output.name)) for a in use.access) == 1 for s in found)
    forward = all(slide.step > 0 and slide.apart for slide in found)
    tests = all(len(c.terms) == _AXES and any(slide.holds(c) for slide in found) for c in segment.constraints)
    return tuple(found) if whole and alone and forward and tests and len(found) <= _AXES else ()


def _axes(use: Use, outputs: Iterable[str], terms: Iterable[str]) -> list[tuple[Affine, int]]:
    """Return the axes of an input and their strides; where one has all, those of each term and the nearest output."""
    if len(use.access) > 1:
        return [*zip(use.access, use.strides, strict=True)]
    found = []
    for term in terms:
        near: dict[int, tuple[int, str]] = {}
        for name in outputs:
            low, high = sorted((abs(use.stride(name)), abs(use.stride(term))))
            if low and high % low == 0:
                near.setdefault(high // low, (low, name))
        if near:
            stride, own = near[min(near)]
            found.append((Affine.of({each: use.stride(each) // stride for each in (own, term)}), stride))
    return found


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


def along_rows(slides: tuple[Slide, ...], use: Use, most: int, widest: int) -> tuple[Slide, ...]:
    """Return the axes with the outputs of a thread along the last one, that of neighbours in memory: few cost least.

    They divide the axis and are ``most`` at most; ``widest`` neighbours are loaded at once, at most.
    """
    *outer, across = slides
    counts = (n for n in range(2, min(most, _OF_ROW) + 1) if across.output.range % n == 0)
    sized = [attrs.evolve(across, outputs=n) for n in counts]
    terms = product(slide.term.range for slide in slides)
    fitting = [each for each in sized if each.outputs * terms <= _WRITTEN_OUT and len(each.places) <= _OF_ROW * 2]
    best = min(fitting, key=lambda each: _cost(each, use, widest), default=across)
    return (*outer, best)


def _cost(slide: Slide, use: Use, widest: int) -> float:
    """Return about how long one output of a thread takes for a row of the window, in multiplications.

    A load takes as long as several for each line of the cache that neighbouring threads have elements of.
    """
    names = {name for affine in use.access for name in affine.indices}
    far = [step for step in map(use.stride, sorted(names)) if abs(step) > slide.step]
    inside = slide.outputs * slide.step
    lanes = widest
    while any(value % lanes for value in (inside, *far)):
        lanes //= 2
    whole = slide.outputs == slide.output.range
    edges = 0 if whole else len(slide.places) - inside
    lines = max(1.0, inside * use.dtype.itemsize * _WARP / _LINE)
    loads = (inside // lanes + max(0, edges)) * lines * _LOAD
    return (loads + len(slide.places) + 2 * slide.term.range) / slide.outputs + slide.term.range


_OF_ROW: Final = 16
"""Outputs along a row that a thread has, at most."""

_WARP: Final = 32
_LINE: Final = 128
_LOAD: Final = 4
"""Threads that load together, bytes of a line, and multiplications in the time of a load from one line."""

_AXES: Final = 2

_TILES: Final = ((2, 4), (1, 4), (1, 7), (2, 2), (1, 2), (2, 1))
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
    """Builds one kernel: ``values`` are those of the indices of its first output; ``own`` number a thread's outputs.

    ``stored`` are those that it stores one after the other, each of as many neighbours as ``side`` tells.
    """

    nest: Nest
    plan: WindowPlan
    names: NameScope
    team: tuple[stripe.Index, ...]
    grid: tuple[stripe.Index, ...]
    lane: stripe.Index
    own: tuple[stripe.Index, ...]
    stored: tuple[stripe.Index, ...]
    side: stripe.Index
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
        threads = {i.name: sch.index(names.fresh(f"{i.name}_thread"), n, stripe.Binding.THREAD) for i, n in plan.team}
        lane = sch.index(names.fresh("lane"), plan.lanes, stripe.Binding.LANE)
        across = plan.slides[-1]
        grid, values, start, ends = _shared(nest, plan, threads, names)
        segment = nest.reductions[0]
        own = tuple(
            sch.index(names.fresh(f"{slide.output.name}_own"), slide.outputs, stripe.Binding.UNROLL)
            for slide in plan.slides
        )
        stored, side = (own, lane) if plan.lanes > 1 else _stored(nest, plan, own, names)
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
        team = sch.present(reversed(threads.values()))
        axes = sch.present(grid)
        return cls(
            nest,
            plan,
            names,
            team,
            axes,
            lane,
            own,
            stored,
            side,
            values,
            start,
            tuple(ends),
            row,
            held,
            sums,
            elements,
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
            stripe.allocation(r.name, r.shape.dtype, (self.side.range,), sch.REGISTER) for r in self.nest.allocations
        )
        begin = [
            identity_block(self._sum(use, [sch.part(i) for i in self.own]), (*self.own, self.lane)) for use in self.sums
        ]
        copied = dict(zip(reduction.uses, segment.uses, strict=True))
        reading = attrs.evolve(self, held={copied[use]: memory for use, memory in self.held.items()})
        rows = tuple(reading._rows(segment))
        done = Node(
            sch.present(self.stored),
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
            seen: list[tuple[int, tuple[tuple[int, int], ...], tuple[Affine, ...]]] = []
            adds = []
            for place in across.places:
                pairs = [(*high, pair) for high in above for pair in across.pairs(place)]
                tests = self._tests(segment, across, pairs[0]) if pairs else ()
                if not pairs or self._never(tests):
                    continue
                seen.append((place, pairs[0], tests))
                parts = tuple(self._add(segment, place, pair) for pair in pairs)
                adds.append(Node(children=parts, constraints=tests))
            if seen:
                tests = self._tests(segment, outer[0], seen[0][1]) if outer else self._around(segment)
                loads = self._loads(seen)
                kept = self._loads_of_terms(above[0])
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

    def _never(self, tests: Iterable[Affine]) -> bool:
        """Return whether some test holds nowhere."""
        ranges = {i.name: i.range for i in (*self.grid, *self.team, *self.plan.loops)}
        return any(test.bounds(ranges)[1] < 0 for test in tests)

    def _loads_of_terms(self, above: tuple[tuple[int, int], ...]) -> list[Node]:
        """Return the loads of what each term of a row has, which all outputs of a thread read."""
        loads = []
        for use, memory in self.held.items():
            for term in range(self.plan.slides[-1].term.range):
                source = use.substitute(self._at((*above, (0, term))))
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

    def _loads(self, seen: Sequence[tuple[int, tuple[tuple[int, int], ...], tuple[Affine, ...]]]) -> list[Node]:
        """Return the loads of the places of a row, with their tests: of several at once where no test is between."""
        loads, next_place = [], -1 << 30
        places = {place: tests for place, _, tests in seen}
        for place, pairs, tests in seen:
            if place < next_place:
                continue
            source = self.plan.slid.substitute(self._at(pairs))
            count = self._together(source) if self.plan.lanes == 1 else 1
            while count > 1 and any(places.get(place + n, (Affine(),)) for n in range(count)):
                count //= 2
            loads.append(Node(children=(self._load(place, source, count),), constraints=tests))
            next_place = place + count
        return loads

    def _together(self, source: Use) -> int:
        """Return how many neighbours of an element are one aligned vector with it, at most."""
        address = source.address
        lanes = self.plan.widest(source.dtype.itemsize)
        while any(value % lanes for value in (*(c for _, c in address.terms), address.offset)):
            lanes //= 2
        return lanes

    def _load(self, place: int, source: Use, count: int) -> Node:
        target = attrs.evolve(self._in_row(place, self.row.name), direction=stripe.Direction.OUT)
        lane = self.lane
        if count > 1:
            lane = sch.index(self.names.fresh("place_lane"), count, stripe.Binding.LANE)
            name = self.plan.slides[-1].output.name
            moved = (bool(each.coefficient(name)) for each in self.plan.slid.access)
            access = (a + sch.part(lane) if moves else a for a, moves in zip(source.access, moved, strict=True))
            source = attrs.evolve(source, access=tuple(access))
            target = attrs.evolve(target, access=(target.access[0] + sch.part(lane), *target.access[1:]))
        statements = (stripe.Load(source.name, "value"), stripe.Store("value", target.name))
        return Node(sch.present((lane,)), statements=statements, uses=(source, target))

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
    def _places(self) -> list[Affine]:
        """The numbers of the outputs of a thread that it stores together, along each axis."""
        *outer, last = self.stored
        apart = self.side.range if self.plan.lanes == 1 else 1
        beside = sch.part(self.side) if self.plan.lanes == 1 else Affine()
        return [*map(sch.part, outer), sch.part(last, apart) + beside]

    @property
    def _outputs(self) -> dict[str, Affine]:
        values = {**self.values, self.plan.column.name: self._column}
        for slide, place in zip(self.plan.slides, self._places, strict=True):
            values[slide.output.name] = values[slide.output.name] + place
        return values

    def _output(self, segment: Segment) -> Node:
        moved = attrs.evolve(
            segment, uses=tuple(in_registers(self.nest, use, sch.part(self.side)) for use in segment.uses)
        )
        along = self.plan.column if self.plan.lanes > 1 else self.plan.slides[-1].output
        beside = all(use.stride(along.name) == 1 for use in sch.written_uses(self.nest))
        lane = self.side if beside else self.side.bound(stripe.Binding.UNROLL)
        return sch.below_tests(leaf(moved, self._outputs, sch.present((lane,))))

    def _merge(self, use: Use) -> Node:
        found = self._sum(use, self._places)
        merge = merge_block(found, in_registers(self.nest, use, sch.part(self.side)), sch.present((self.side,)))
        return sch.where_set(self.nest, use, self._outputs, merge)


def _shared(
    nest: Nest, plan: WindowPlan, threads: Mapping[str, stripe.Index], names: NameScope
) -> tuple[list[stripe.Index], dict[str, Affine], Affine, list[Affine]]:
    """Return the grid, the values of all indices, that of the column of the first thread, and tests for their ends."""
    sides = {slide.output.name: slide.outputs for slide in plan.slides}
    sides[plan.column.name] = max(plan.lanes, sides.get(plan.column.name, 1))
    grid: list[stripe.Index] = []
    values: dict[str, Affine] = {}
    ends: list[Affine] = []
    start = Affine()
    for index in nest.indices:
        each, thread = sides.get(index.name, 1), threads.get(index.name)
        taken = each * (1 if thread is None else thread.range)
        count = -(-index.range // taken)
        group = stripe.Index(names.fresh(f"{index.name}_group"), count, None, stripe.Binding.GRID)
        grid.append(group)
        first = sch.part(group, taken)
        start = first if index is plan.column else start
        values[index.name] = first if thread is None else first + sch.part(thread, each)
        if count * taken > index.range:
            ends.append(index.range - each - values[index.name])
    return grid, values, start, ends


def _stored(
    nest: Nest, plan: WindowPlan, own: tuple[stripe.Index, ...], names: NameScope
) -> tuple[tuple[stripe.Index, ...], stripe.Index]:
    """Return what numbers the outputs that a thread stores one after the other, and those that it stores at once."""
    across = plan.slides[-1]
    near = all(use.stride(across.output.name) == 1 for use in sch.written_uses(nest))
    count = _neighbours(nest, plan) if near else 1
    side = sch.index(names.fresh(f"{across.output.name}_lane"), count, stripe.Binding.LANE)
    last = sch.index(names.fresh(f"{across.output.name}_own"), across.outputs // count, stripe.Binding.UNROLL)
    return (*own[:-1], last), side


def _neighbours(nest: Nest, plan: WindowPlan) -> int:
    """Return how many neighbours along the last slide, of those that a thread has, are stored, and read, at once."""
    index, wide = plan.slides[-1].output.name, sch.widest_access(nest)
    outside = (use for s in nest.segments if not s.loops for use in s.uses if use.root not in nest.local)
    uses = [use for use in outside if use.stride(index)]
    lanes = plan.widest(wide)
    while lanes > 1 and (plan.slides[-1].outputs % lanes or sch.aligned_lanes(uses, index, lanes) < lanes):
        lanes //= 2
    return lanes
