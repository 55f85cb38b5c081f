"""The blocks of a reduction that the threads of a group share: parts, tree, and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tileir.core import NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.groups.staging import TileShape, copied_whole
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Node, Segment, Use, identity_of, leaf
from tileir.stripe import ir as stripe

_ALONE: Final = 16
"""So many partial results one thread merges; more are first merged by fewer threads."""

_AT_ONCE: Final = 8
"""So many partial results a thread merges before: its reads are under way together, and threads meet less often."""


@attrs.frozen(eq=False)
class Plan:
    """Division of a reduction among the threads of a group.

    Attributes:
        loop: The reduction index that threads share.
        column: The output index of which a group takes several values; None where there is none.
        threads: Threads along ``loop``, a power of two.
        beside: Values of ``column`` that a group takes at a time, in vectors of ``lanes`` where lanes run along it.
        lanes: Lanes of a vector.
        unroll: Vectors that a thread loads at a time, into accumulators of their own.
        along_outputs: Whether lanes and neighbouring threads run along ``column``, not along ``loop``.
        row: Another output index of which a group takes ``down`` values at a time, by threads of their own.
        down: See ``row``.
        staged: Inputs that a group copies to local memory, where all its threads read them.
        deep: Another reduction index that threads share, and ``depth`` of them do.
        depth: See ``deep``.

    """

    loop: stripe.Index
    column: stripe.Index | None
    threads: int
    beside: int
    lanes: int
    unroll: int
    along_outputs: bool
    row: stripe.Index | None = None
    down: int = 1
    staged: tuple[Use, ...] = ()
    deep: stripe.Index | None = None
    depth: int = 1

    @property
    def width(self) -> int:
        """Values of ``column`` that a group takes."""
        return self.beside * (self.lanes if self.along_outputs else 1)

    def shape(self, segment: Segment) -> TileShape:
        """Return how far staged inputs reach: over all of the reduction, and the columns of a group, which it needs."""
        assert self.column is not None
        extents = {i.name: i.range for i in segment.loops}
        extents[self.column.name] = min(self.width, self.column.range)
        return TileShape(extents, self.column.name, self.lanes)


def build(nest: Nest, plan: Plan, elements: Mapping[str, int]) -> Node:
    """Return the tree of a kernel; ``elements`` is the size of the tensor behind each input that is staged."""
    return _Builder.of(nest, plan, elements).kernel()


@attrs.frozen(eq=False, repr=False)
class _Accumulator:
    """Where one result of the reduction is kept.

    ``use`` is how the reduction sees it. ``wide`` holds the vectors of a thread, ``narrow`` what it merges them into,
    and ``shared`` that of all threads.
    """

    use: Use
    wide: stripe.Refinement
    narrow: stripe.Refinement
    shared: stripe.Refinement


@attrs.frozen(eq=False, repr=False)
class _Builder:
    """Builds one kernel."""

    nest: Nest
    plan: Plan
    names: NameScope
    part: stripe.Index  # the thread along the loop
    place: stripe.Index  # the thread along the column
    above: stripe.Index  # the thread along the row
    below: stripe.Index  # the thread along the other loop
    shares: stripe.Index  # what each of these goes through
    lane: stripe.Index
    grid: tuple[stripe.Index, ...]
    values: dict[str, Affine]
    ends: tuple[Affine, ...]
    accumulators: tuple[_Accumulator, ...]
    elements: Mapping[str, int]

    @classmethod
    def of(cls, nest: Nest, plan: Plan, elements: Mapping[str, int]) -> _Builder:
        """Choose names, the grid and the memory of a kernel."""
        names = nest.taken_names()
        stem = "output" if plan.column is None else plan.column.name
        part = sch.index(names.fresh(f"{plan.loop.name}_thread"), plan.threads, stripe.Binding.THREAD)
        place = sch.index(names.fresh(f"{stem}_thread"), plan.beside, stripe.Binding.THREAD)
        lane = sch.index(names.fresh("lane"), plan.lanes, stripe.Binding.LANE)
        grid = [i.bound(stripe.Binding.GRID) for i in nest.indices]
        values: dict[str, Affine] = {}
        ends: list[Affine] = []
        if plan.column is not None:
            width = plan.width
            groups = -(-plan.column.range // width)
            group = sch.index(names.fresh(f"{stem}_group"), groups, stripe.Binding.GRID)
            grid = [group if i.name == plan.column.name else i for i in grid]
            first = sch.part(group, width) + sch.part(place, plan.lanes if plan.along_outputs else 1)
            values[plan.column.name] = first + sch.part(lane) if plan.along_outputs else first
            if groups * width > plan.column.range:
                ends.append(plan.column.range - 1 - first)
        above = sch.index(names.fresh("row_thread"), plan.down, stripe.Binding.THREAD)
        if plan.row is not None:
            group = sch.index(
                names.fresh(f"{plan.row.name}_group"), -(-plan.row.range // plan.down), stripe.Binding.GRID
            )
            grid = [group if i.name == plan.row.name else i for i in grid]
            values[plan.row.name] = sch.part(group, plan.down) + sch.part(above)
            if plan.row.range % plan.down:
                ends.append(plan.row.range - 1 - values[plan.row.name])
        below, shares = _along_other(plan, names, values)
        segment = nest.reductions[0]
        writes = [use for use in segment.uses if use.direction.writes]
        kept = plan.lanes if plan.along_outputs else 1
        places = plan.down * plan.beside * kept
        extents = (plan.threads, places) if plan.along_outputs else (plan.beside, plan.threads * plan.depth)
        accumulators = tuple(
            _Accumulator(
                use,
                stripe.allocation(names.fresh(f"{use.root}_lanes"), use.dtype, (plan.unroll, plan.lanes), sch.REGISTER),
                stripe.allocation(names.fresh(f"{use.root}_part"), use.dtype, (kept,), sch.REGISTER),
                stripe.allocation(names.fresh(f"{use.root}_shared"), use.dtype, extents, sch.LOCAL),
            )
            for use in writes
        )
        return cls(
            nest,
            plan,
            names,
            part,
            place,
            above,
            below,
            shares,
            lane,
            sch.present(grid),
            values,
            tuple(ends),
            accumulators,
            elements,
        )

    def kernel(self) -> Node:
        """Return the tree."""
        before, reduction, after = sch.around_reduction(self.nest)
        own = tuple(
            stripe.allocation(r.name, r.shape.dtype, (self._kept,), sch.REGISTER) for r in self.nest.allocations
        )
        start, end = [self._output(s) for s in before], [self._output(s) for s in after]
        private = tuple(m for a in self.accumulators for m in (a.wide, a.narrow))
        stages, fills, reduction = self._staged(reduction)
        parts = self._parts(reduction)
        if self.plan.threads == 1:
            merge = [self._merge(a, self._narrow(a, a.narrow.name)) for a in self.accumulators]
            children = (*parts, *start, *merge, *end)
            team = self._team(None, children, (*own, *private))
            return Node(self.grid, stages, (*fills, team))
        shared = (*stages, *(a.shared for a in self.accumulators))
        own_part = sch.part(self.below, self.plan.threads) + sch.part(self.part)
        share = [self._copied(self._narrow(a, a.narrow.name), self._shared(a, own_part)) for a in self.accumulators]
        steps = [*fills, self._team(self.part, (*parts, *share), private)]
        count = self.plan.threads * self.plan.depth
        while count > _ALONE:
            count //= _AT_ONCE
            steps.append(self._fewer(count))
        last = sch.index(self.names.fresh("share"), count, stripe.Binding.UNROLL)
        merge = [self._merge(a, self._shared(a, sch.part(last)), last) for a in self.accumulators]
        steps.append(self._team(None, (*start, *merge, *end), own))
        return Node(self.grid, shared, tuple(steps))

    @property
    def _kept(self) -> int:
        return self.plan.lanes if self.plan.along_outputs else 1

    @property
    def _outputs(self) -> tuple[stripe.Index, ...]:
        return sch.present((self.lane,)) if self.plan.along_outputs else ()

    def _team(
        self, parts: stripe.Index | None, children: Iterable[Node], memory: tuple[stripe.Refinement, ...] = ()
    ) -> Node:
        """Return what the threads ``parts`` of each output do, or the first one only."""
        part = () if parts is None else (self.below, parts) if parts is self.part else (parts,)
        indices = (*part, self.above, self.place) if self.plan.along_outputs else (self.place, *part)
        return Node(sch.present(indices), memory, tuple(children), constraints=self.ends)

    def _staged(self, segment: Segment) -> tuple[tuple[stripe.Refinement, ...], tuple[Node, ...], Segment]:
        plan, start, place = self.plan, Affine(), sch.part(self.place, self._kept) + self._lane_place
        if plan.column is None:
            return (), (), segment
        moving = self.values[plan.column.name].indices
        if group := next((i for i in self.grid if i.name in moving), None):
            start = sch.part(group, plan.width)
        threads = plan.threads * plan.down * plan.beside
        column = plan.column.name, start, place
        return copied_whole(self.nest, plan.staged, plan.shape(segment), threads, self.elements, self.names, column)

    def _output(self, segment: Segment) -> Node:
        moved = attrs.evolve(
            segment, uses=tuple(in_registers(self.nest, use, self._lane_place) for use in segment.uses)
        )
        return sch.below_tests(leaf(moved, self.values, self._outputs))

    @property
    def _lane_place(self) -> Affine:
        return sch.part(self.lane) if self.plan.along_outputs else Affine()

    def _parts(self, segment: Segment) -> list[Node]:
        """Return the part of a reduction that one thread does."""
        plan = self.plan
        each = 1 if plan.along_outputs else plan.lanes
        vectors, left = divmod(plan.loop.range, each)
        stride = plan.threads * plan.unroll
        steps = vectors // stride
        names = self.names
        others = tuple(self.shares if i is plan.deep else i for i in segment.loops if i is not plan.loop)
        unrolled = sch.index(names.fresh(f"{plan.loop.name}_vector"), plan.unroll, stripe.Binding.UNROLL)
        nodes = [identity_block(self._wide(a, unrolled), (unrolled, self.lane)) for a in self.accumulators]
        nodes += [identity_block(self._narrow(a, a.narrow.name), self._outputs) for a in self.accumulators]
        lanes = Affine() if plan.along_outputs else sch.part(self.lane)
        step = sch.index(names.fresh(f"{plan.loop.name}_step"), steps)
        if steps:
            number = sch.part(step, stride) + sch.part(unrolled, plan.threads) + sch.part(self.part)
            body = self._step(segment, number * each + lanes, unrolled)
            nodes.append(Node((*others, *sch.present((step,))), children=(body,)))
        rest = vectors - steps * stride
        if rest:
            more = sch.index(names.fresh(f"{plan.loop.name}_rest"), -(-rest // plan.threads))
            number = sch.part(more, plan.threads) + sch.part(self.part) + steps * stride
            body = self._step(segment, number * each + lanes, attrs.evolve(unrolled, range=1))
            tests = (vectors - 1 - number,) if rest % plan.threads else ()
            nodes.append(Node((*others, *sch.present((more,))), children=(body,), constraints=tests))
        if left:
            nodes.append(self._tail(segment, others, vectors * each, left))
        indices = sch.present((unrolled, self.lane))
        nodes += [
            merge_block(self._wide(a, unrolled), self._narrow(a, a.narrow.name), indices) for a in self.accumulators
        ]
        return nodes

    def _step(self, segment: Segment, value: Affine, unrolled: stripe.Index) -> Node:
        wide = {a.use: self._wide(a, unrolled) for a in self.accumulators}
        moved = attrs.evolve(segment, uses=tuple(wide.get(use, use) for use in segment.uses))
        values = {**self.values, self.plan.loop.name: value}
        inside = leaf(moved, values, sch.present((self.lane,)))
        each = (attrs.evolve(inside, constraints=()),)
        return Node(sch.present((unrolled,)), children=each, constraints=inside.constraints, tags=segment.tags)

    def _tail(self, segment: Segment, others: tuple[stripe.Index, ...], start: int, count: int) -> Node:
        """Return the reduction of the elements that fill no vector: one for each thread, if there are enough."""
        narrow = {
            a.use: attrs.evolve(self._narrow(a, a.use.name), direction=a.use.direction) for a in self.accumulators
        }
        moved = attrs.evolve(segment, uses=tuple(narrow.get(use, use) for use in segment.uses))
        place = sch.part(self.part)
        if count <= self.plan.threads:
            tests = (count - 1 - place,) if count < self.plan.threads else ()
            inside = sch.below_tests(leaf(moved, {**self.values, self.plan.loop.name: place + start}, ()))
            return Node(others, children=(inside,), constraints=tests)
        tail = sch.index(self.names.fresh(f"{self.plan.loop.name}_tail"), count)
        inside = sch.below_tests(leaf(moved, {**self.values, self.plan.loop.name: sch.part(tail) + start}, ()))
        return Node((*others, tail), children=(inside,), constraints=(-place,) if place.terms else ())

    def _wide(self, accumulator: _Accumulator, unrolled: stripe.Index) -> Use:
        place = (sch.part(unrolled), sch.part(self.lane))
        memory = accumulator.wide
        return attrs.evolve(accumulator.use, root=memory.name, access=place, strides=memory.shape.strides, sizes=())

    def _narrow(self, accumulator: _Accumulator, name: str) -> Use:
        root = accumulator.narrow.name
        return attrs.evolve(accumulator.use, name=name, root=root, access=(self._lane_place,), strides=(1,), sizes=())

    def _shared(self, accumulator: _Accumulator, part: Affine) -> Use:
        memory = accumulator.shared
        above = sch.part(self.above, self.plan.beside * self._kept)
        place = above + sch.part(self.place, self._kept) + self._lane_place
        access = (part, place) if self.plan.along_outputs else (place, part)
        return attrs.evolve(
            accumulator.use, name=memory.name, root=memory.name, access=access, strides=memory.shape.strides, sizes=()
        )

    def _merge(self, accumulator: _Accumulator, source: Use, *shares: stripe.Index) -> Node:
        """Return the merge of what the threads have found into the accumulator that the segments know."""
        merge = merge_block(
            source, in_registers(self.nest, accumulator.use, self._lane_place), (*sch.present(shares), *self._outputs)
        )
        return sch.where_set(self.nest, accumulator.use, self.values, merge)

    def _copied(self, source: Use, target: Use) -> Node:
        return merge_block(
            source, attrs.evolve(target, aggregation=None, direction=stripe.Direction.OUT), self._outputs
        )

    def _fewer(self, count: int) -> Node:
        """Return one level of the tree, after which ``count`` partial results of an output are left."""
        part = sch.index(self.names.fresh(self.part.name), count, stripe.Binding.THREAD)
        share = sch.index(self.names.fresh("share"), _AT_ONCE - 1, stripe.Binding.UNROLL)
        place = sch.part(part)
        others = place + sch.part(share, count) + count
        merges = [
            merge_block(self._shared(a, others), self._shared(a, place), (share, *self._outputs))
            for a in self.accumulators
        ]
        return self._team(part, merges)


def _along_other(plan: Plan, names: NameScope, values: dict[str, Affine]) -> tuple[stripe.Index, stripe.Index]:
    """Return the threads along the other loop of a plan, and what each goes through; ``values`` gets both as one."""
    deep = plan.deep or plan.loop
    below = sch.index(names.fresh(f"{deep.name}_thread"), plan.depth, stripe.Binding.THREAD)
    shares = sch.index(names.fresh(f"{deep.name}_share"), deep.range // plan.depth)
    if plan.deep is not None:
        values[deep.name] = sch.part(shares, plan.depth) + sch.part(below)
    return below, shares


def in_registers(nest: Nest, use: Use, place: Affine) -> Use:
    """Return a use of what a nest allocates as one of the element at a place of registers, and others as they are."""
    if all(use.root != r.name for r in nest.allocations):
        return use
    return attrs.evolve(use, access=(place,), strides=(1,), sizes=())


def identity_block(use: Use, indices: Iterable[stripe.Index]) -> Node:
    """Return a block that sets accumulators to what changes no value that is merged into them."""
    statements = (identity_of(use, "identity"), stripe.Store("identity", use.name))
    plain = attrs.evolve(use, aggregation=None, direction=stripe.Direction.OUT)
    return Node(sch.present(indices), statements=statements, uses=(plain,))


def merge_block(source: Use, target: Use, indices: Iterable[stripe.Index]) -> Node:
    """Return a block that stores one element through the view of another."""
    read = attrs.evolve(source, name=f"{source.name}_from", direction=stripe.Direction.IN, aggregation=None)
    statements = (stripe.Load(read.name, "value"), stripe.Store("value", target.name))
    return Node(sch.present(indices), statements=statements, uses=(read, target))
