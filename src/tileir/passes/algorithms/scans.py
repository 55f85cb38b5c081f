"""Construction of the kernels of a scan: accumulators, ordered steps, and totals passed between parallel parts."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import NameScope, attrs
from tileir.passes.analysis.accesses import address
from tileir.passes.analysis.running_aggregates import RunningAggregate
from tileir.passes.kernels import schedule as sch
from tileir.poly.affine import Affine
from tileir.schedule import Node, Use, emit, with_values
from tileir.stripe import ir as stripe


@attrs.frozen
class Part:
    """Some steps of a scan.

    Attributes:
        start: The first step.
        steps: Number of steps.
        repeats: Number of consecutive parts, each with this number of steps, that the kernel runs in parallel.
        totals: A temporary with the total of each part, from which later parts start.
        known: Number of leading totals from which a part starts; 0 for the totals of the earlier repeats.
    """

    start: int
    steps: int
    repeats: int = 1
    totals: stripe.Refinement | None = None
    known: int = 0


@attrs.frozen(repr=False)
class _Lanes:
    """Lanes of an index across the scan: a stretch of neighbours, vectors of it, and lanes of these."""

    stretch: stripe.Index
    vector: stripe.Index
    lane: stripe.Index

    @property
    def inner(self) -> Affine:
        """The element of a stretch."""
        return sch.part(self.vector, self.lane.range) + sch.part(self.lane)

    @property
    def points(self) -> tuple[stripe.Index, ...]:
        """The indices over a stretch."""
        return sch.present((self.vector, self.lane))


@attrs.define(eq=False, repr=False)
class ScanKernels:
    """Builder of the kernels of one scan."""

    kernel: stripe.Block
    found: RunningAggregate
    _names: NameScope = attrs.field(init=False)
    _accumulator: str = attrs.field(init=False)
    _now: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._names = NameScope.of(i.name for i in self.kernel.indices)
        for refinement in self.kernel.refinements:
            self._names.add(refinement.name)
            self._names.add(refinement.source)
        self._accumulator = self._names.fresh(f"{self.found.output.name}_acc")
        self._now = self._names.fresh(f"{self._accumulator}_now")

    def along(self, part: Part, lanes: int) -> stripe.Block:
        """Return a kernel whose points take the steps of a part in order, ``lanes`` at a time."""
        number = sch.index(self._names.fresh(f"{self.found.along.name}_part"), part.repeats)
        first = sch.part(number, part.steps) + part.start
        merging = self._merging((), ())
        vectors, left = divmod(part.steps, lanes) if lanes > 1 else (0, part.steps)
        nodes = [self._begin(merging, ()), *self._terms_before(merging, {}, ())]
        if part.totals is not None:
            nodes.extend(self._totals_before(part, part.totals, number, merging))
        if vectors:
            step = stripe.Index(self._names.fresh(f"{self.found.along.name}_vector"), vectors, serial=True)
            name = self._names.fresh(f"{self.found.along.name}_lane")
            lane = stripe.Index(name, lanes, binding=stripe.Binding.LANE, serial=True)
            value = first + sch.part(step, lanes) + sch.part(lane)
            nodes.append(self._steps(value, (*sch.present((step,)), lane), merging, {}))
        if left:
            step = stripe.Index(self._names.fresh(f"{self.found.along.name}_step"), left, serial=True)
            nodes.append(self._steps(first + sch.part(step) + vectors * lanes, sch.present((step,)), merging, {}))
        outer = (*self.found.others, *sch.present((number,)))
        return self._emitted(Node(outer, (self._allocation(()),), tuple(nodes)), part.totals)

    def across(self, index: stripe.Index, lanes: int, width: int) -> list[stripe.Block]:
        """Return kernels in which neighbours along ``index`` take the steps together, in stretches of ``width``."""
        stretches, left = divmod(index.range, width)
        runs = [(0, stretches, width, lanes), (stretches * width, left, 1, 1)]
        return [self._across(index, *run) for run in runs if run[1]]

    def _across(self, index: stripe.Index, start: int, stretches: int, width: int, lanes: int) -> stripe.Block:
        fresh = self._names.fresh
        where = _Lanes(
            sch.index(fresh(f"{index.name}_stretch"), stretches),
            sch.index(fresh(f"{index.name}_vector"), width // lanes),
            sch.index(fresh(f"{index.name}_lane"), lanes, stripe.Binding.LANE),
        )
        moved = {index.name: sch.part(where.stretch, width) + where.inner + start}
        merging = self._merging((where.inner,), (1,)) if width > 1 else self._merging((), ())
        step = stripe.Index(fresh(f"{self.found.along.name}_step"), self.found.steps, serial=True)
        inside = self._steps(sch.part(step), where.points, merging, moved)
        nodes = (
            self._begin(merging, where.points),
            *self._terms_before(merging, moved, where.points),
            Node((step,), children=(inside,)),
        )
        others = tuple(i for i in self.found.others if i.name != index.name)
        sizes = (width,) if width > 1 else ()
        return self._emitted(Node((*others, *sch.present((where.stretch,))), (self._allocation(sizes),), nodes), None)

    def totals(self, name: str, count: int, length: int) -> tuple[stripe.Block, stripe.Refinement]:
        """Return a contraction of each of ``count`` parts of ``length`` steps, and the temporary for the totals."""
        part = sch.index(self._names.fresh(f"{self.found.along.name}_part"), count)
        term = sch.index(self._names.fresh(f"{self.found.reduced.name}_term"), length)
        number = sch.part(part, length) + sch.part(term)
        if any(address(r).substitute(self.found.at_term(number)).coefficient(term.name) < 0 for r in self._terms_read):
            number = sch.part(part, length) + (length - 1) - sch.part(term)  # in memory order; any order is correct
        values = self.found.at_term(number)
        kept = tuple(i for i in self.found.others if i.range > 1)
        output = self.found.output
        memory = stripe.allocation(name, output.shape.dtype, (*(i.range for i in kept), count))
        place = tuple(Affine.index(i.name) for i in (*kept, part))
        total = attrs.evolve(output, source=name, access=place, shape=memory.shape.element)
        views = (
            total if r is output else attrs.evolve(r, access=tuple(a.substitute(values) for a in r.access))
            for r in self.kernel.refinements
        )
        block = attrs.evolve(
            self.kernel,
            name=f"{self.kernel.name}_parts" if self.kernel.name else "",
            indices=(*self.found.others, part, term),
            constraints=(),
            refinements=tuple(views),
            statements=tuple(with_values(s, values) for s in self.kernel.statements),
            deps=(),
        )
        return block, memory

    @property
    def _terms_read(self) -> tuple[stripe.Refinement, ...]:
        return tuple(r for r in self.kernel.refinements if r is not self.found.output)

    def _emitted(self, root: Node, totals: stripe.Refinement | None) -> stripe.Block:
        refinements = tuple(
            attrs.evolve(r, aggregation=None) if r is self.found.output else r for r in self.kernel.refinements
        )
        if totals is not None:
            view = attrs.evolve(totals, direction=stripe.Direction.IN, source=totals.name, tags=stripe.Tags())
            refinements = (*refinements, view)
        return attrs.evolve(emit(root, attrs.evolve(self.kernel, refinements=refinements)), deps=())

    def _allocation(self, sizes: tuple[int, ...]) -> stripe.Refinement:
        return stripe.allocation(self._accumulator, self.found.output.shape.dtype, sizes, sch.REGISTER)

    def _merging(self, access: tuple[Affine, ...], strides: tuple[int, ...]) -> Use:
        """Return the use by which terms merge into an accumulator."""
        output, name = self.found.output, self._accumulator
        return Use(name, name, access, strides, output.shape.dtype, stripe.Direction.INOUT, output.aggregation)

    def _begin(self, merging: Use, points: tuple[stripe.Index, ...]) -> Node:
        """Return the block that initialises accumulators."""
        assert merging.aggregation is not None
        constant = stripe.Constant("identity", merging.dtype, merging.aggregation.identity(merging.dtype))
        plain = attrs.evolve(merging, direction=stripe.Direction.OUT, aggregation=None)
        return Node(points, statements=(constant, stripe.Store("identity", merging.name)), uses=(plain,))

    def _terms_before(
        self, merging: Use, moved: Mapping[str, Affine], points: tuple[stripe.Index, ...]
    ) -> tuple[Node, ...]:
        """Return the block that merges the terms of the first output before that of its own step."""
        if not self.found.before:
            return ()
        number = sch.index(self._names.fresh(f"{self.found.reduced.name}_term"), self.found.before)
        values = {**self.found.at_term(sch.part(number)), **moved}
        tags = self.kernel.tags.add("reduction")
        inside = self._terms(values, points, merging)
        loops = sch.present((number,))
        return (attrs.evolve(inside, indices=(*loops, *points), tags=tags),)

    def _terms(self, values: Mapping[str, Affine], points: tuple[stripe.Index, ...], merging: Use) -> Node:
        """Return the block that merges the terms at ``values`` of the kernel's indices."""
        output = self.found.output
        uses = [_use(r).substitute(values) for r in self.kernel.refinements if r is not output]
        statements = (
            attrs.evolve(s, into=merging.name) if isinstance(s, stripe.Store) else with_values(s, values)
            for s in self.kernel.statements
        )
        return Node(points, statements=tuple(statements), uses=(*uses, merging))

    def _totals_before(
        self, part: Part, totals: stripe.Refinement, number: stripe.Index, merging: Use
    ) -> tuple[Node, ...]:
        """Return the block that merges the totals of earlier parts."""
        other = sch.index(self._names.fresh(f"{self.found.along.name}_other"), max(part.known, part.repeats))
        source = self._total(totals, sch.part(other), merging)
        earlier = () if part.known else (sch.part(number) - sch.part(other) - 1,)
        statements = (stripe.Load(source.name, "total"), stripe.Store("total", merging.name))
        tags = self.kernel.tags.add("reduction")
        return (Node(sch.present((other,)), (), (), statements, (source, merging), earlier, tags=tags),)

    def _total(self, totals: stripe.Refinement, part: Affine, merging: Use) -> Use:
        kept = (sch.part(i) for i in self.found.others if i.range > 1)
        name = totals.name
        return Use(name, name, (*kept, part), totals.shape.strides, merging.dtype, stripe.Direction.IN)

    def _output_use(self, values: Mapping[str, Affine]) -> Use:
        return _use(self.found.output).substitute(values)

    def _steps(self, step: Affine, points: tuple[stripe.Index, ...], merging: Use, moved: Mapping[str, Affine]) -> Node:
        """Return the block that merges the term of a step, and writes the running result."""
        values = {**self.found.at_step(step), **moved}
        terms = self._terms(values, points, merging)
        output = attrs.evolve(self._output_use(values), aggregation=None)
        scalars = NameScope.of(name for s in terms.statements if (name := stripe.scalar_output(s)) is not None)
        running = scalars.fresh("running")
        now = attrs.evolve(merging, name=self._now, direction=stripe.Direction.IN, aggregation=None)
        statements = (*terms.statements, stripe.Load(now.name, running), stripe.Store(running, output.name))
        return attrs.evolve(terms, statements=statements, uses=(*terms.uses, now, output))


def _use(refinement: stripe.Refinement) -> Use:
    shape = refinement.shape
    name = refinement.name
    return Use(name, name, refinement.access, shape.strides, shape.dtype, refinement.direction, refinement.aggregation)
