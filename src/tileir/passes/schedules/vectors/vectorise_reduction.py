"""Loops inside kernels, such as those over a row, along vector lanes, which keep accumulators of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from tileir.core import NameScope, attrs
from tileir.passes.base import KernelPass, at_least
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.merge import reduction_nest
from tileir.passes.regions.inside import cut, span_inside
from tileir.passes.schedules.vectors.pipelining import beside, pipelined, with_shared_reads
from tileir.poly.affine import Affine
from tileir.schedule import (
    Done,
    Fact,
    Nest,
    Node,
    Refused,
    Segment,
    Use,
    accepted,
    emit,
    leaf,
    product,
    refused,
    refusing,
    strongest,
)
from tileir.schedule.emitter import identity_of
from tileir.stripe import ir as stripe


@attrs.frozen
class VectoriseReduction(KernelPass):
    """Vectorise along loops inside a kernel, with several vectors in flight to hide the latency of adding.

    A loop may add up, store elements, or both.

    Attributes:
        vector_bytes: Width of a vector register.
        max_lanes: Most lanes of a vector; 0 for as many as fit.
        unroll: How many accumulator vectors a reduction keeps.
        rows: How many rows run side by side, each a loop behind the one before, in kernels with several loops.
        registers: Number of vector registers: rows of a matrix that is multiplied by a vector share what they load of
            that as far as these hold their sums.
        threads: How many groups run at the same time: rows that share are not taken from others.
    """

    name: ClassVar[str] = "vectorise_reduction"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    unroll: int = attrs.field(default=4, validator=at_least(1))
    rows: int = attrs.field(default=1, validator=at_least(1))
    registers: int = attrs.field(default=1, validator=at_least(1))
    threads: int = attrs.field(default=1, validator=at_least(1))

    @refusing
    def _kernel(self, kernel: stripe.Block) -> Done | Refused:
        first, *others = [accepted(self._vectorised(nest)) for nest in self._parts(accepted(reduction_nest(kernel)))]
        return Done(tuple(emit(node, kernel) for node, _ in (first, *others)), first[1])

    def _parts(self, nest: Nest) -> Iterator[Nest]:
        """Yield nests for all points of a nest: for rows beside each other, and for what is left of them."""
        index = with_shared_reads(nest)
        rows = 1 if index is None else self._sharing(nest)
        if index is None or rows == 1:
            yield pipelined(nest, self.rows)
            return
        whole = index.range // rows
        yield beside(nest, index, rows, whole, lag=0)
        if index.range % rows:
            yield beside(nest, index, 1, index.range % rows, start=whole * rows)

    def _sharing(self, nest: Nest) -> int:
        """Return how many rows share what they load; 1 where they are short, or registers do not hold their sums."""
        points = product(i.range for i in nest.indices)
        steps = max(i.range for s in nest.segments for i in s.loops) // (self._lanes(nest) * self.unroll)
        most = (self.registers - 1) // self.unroll - 1  # beside the sums of each row, vectors that they share
        choices = (n for n in (4, 2) if n <= most and points >= 2 * n * self.threads)
        return 1 if steps < _LEAST_STEPS else next(choices, 1)

    @refusing
    def _vectorised(self, nest: Nest) -> tuple[Node, tuple[Fact, ...]] | Refused:
        nest = self._cut(nest)
        found = {n: self._index(nest, s) for n, s in enumerate(nest.segments) if s.loops}
        chosen = {n: i for n, i in found.items() if not isinstance(i, Refused)}
        if not chosen:
            return strongest([why for why in found.values() if isinstance(why, Refused)])
        facts = (("loops", len(found)), ("vectorised", len(chosen)), ("lanes", self._lanes(nest)))
        return _ReductionKernel(self, nest).kernel(chosen), facts

    def _cut(self, nest: Nest) -> Nest:
        """Return a nest whose reductions are cut where constraints on the loop to vectorise begin to hold always."""
        names = nest.taken_names()
        segments: list[Segment] = []
        for segment in nest.segments:
            if not isinstance(self._index(nest, segment), Refused):
                segments.append(segment)
                continue
            index = self._index(nest, attrs.evolve(segment, constraints=()))
            low, high = (0, 0) if isinstance(index, Refused) else span_inside(nest, segment, index)
            written = [use.merges for use in segment.uses if use.direction.writes]
            alike = all(written) or not any(written)  # parts of a loop may then run in any order
            if (
                not isinstance(index, Refused)
                and alike
                and high - low >= max(self._least(nest, segment), index.range // 2)
            ):
                segments.extend(cut(nest, segment, index, names))
            else:
                segments.append(segment)
        return attrs.evolve(nest, segments=tuple(segments))

    def _lanes(self, nest: Nest) -> int:
        return sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)

    def _least(self, nest: Nest, segment: Segment) -> int:
        """Return how many elements a loop must have: a whole vector, but where rows are stored one after the other."""
        lanes = self._lanes(nest)
        rows = _may_repeat(segment) and len(segment.loops) > 1
        return min(lanes, _LEAST_LANES) if rows else lanes

    def _index(self, nest: Nest, segment: Segment) -> stripe.Index | Refused:
        """Return the index of a loop to vectorise along, or why there is none."""
        constrained = {i for c in segment.constraints for i in c.indices}
        local = {r.name for r in nest.allocations if r.shape.elements == 1}
        writes = [u for u in segment.uses if u.direction.writes]
        plain = [u for u in writes if not u.merges]
        if segment.has_indirect_store:
            return refused("TR208", index=segment.loops[0].name if segment.loops else "")
        if elsewhere := [u.root for u in writes if u.merges and u.root not in local]:
            return refused("TR206", memory=elsewhere[0])
        loaded = (segment.use(s.source) for s in segment.statements if isinstance(s, stripe.Load))
        if both := [u.root for u in loaded if u.direction.writes]:
            return refused("TR410", memory=both[0])
        reads = [u for u in segment.uses if not u.direction.writes]
        lanes = self._lanes(nest)
        near = _near(segment, reads, plain, 1)
        if not near and lanes >= _LEAST_LANES and len(plain) == len(writes):
            near = _near(segment, reads, plain, _MOST_APART)
        straight = [i for i in near if i.name not in constrained and not sch.gathers(segment, i.name)]
        candidates = [i for i in straight if i.range >= self._least(nest, segment)]
        if candidates:
            return max(candidates, key=lambda i: i.range)
        if straight or not near:
            index = max(straight or segment.loops, key=lambda i: i.range, default=None)
            facts = () if index is None else (("index", index.name), ("range", index.range), ("lanes", lanes))
            return Refused("TR301" if straight else "TR312", facts)
        index = max(near, key=lambda i: i.range)
        return refused("TR306" if index.name in constrained else "TR202", index=index.name)


_LEAST_STEPS: Final = 8
"""Rows of fewer steps are unrolled whole, and what they share is in registers all the time."""

_MOST_APART: Final = 4
"""Vectors of memory are loaded whole and shuffled where lanes are up to so many elements apart."""

_LEAST_LANES: Final = 4
"""That takes vectors of so many lanes."""


def _near(segment: Segment, reads: Sequence[Use], plain: Sequence[Use], apart: int) -> list[stripe.Index]:
    """Return the loops along which stores are contiguous, and what is read lies at most so many elements apart."""
    return [
        i
        for i in segment.loops
        if any(u.stride(i.name) == 1 for u in (*reads, *plain))
        and all(0 <= u.stride(i.name) <= apart for u in reads)
        and all(u.stride(i.name) == 1 for u in plain)
    ]


@attrs.define(eq=False, repr=False)
class _ReductionKernel:
    """Builds one kernel."""

    options: VectoriseReduction
    nest: Nest
    names: NameScope = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.names = self.nest.taken_names()

    def kernel(self, chosen: dict[int, stripe.Index]) -> Node:
        """Return the tree of the kernel, with segment number n vectorised along ``chosen[n]``."""
        children: list[Node] = []
        allocations = list(self.nest.allocations)
        for number, segment in enumerate(self.nest.segments):
            if number in chosen:
                added, nodes = self._vectors(segment, chosen[number])
                allocations.extend(added)
                children.extend(nodes)
            else:
                children.append(leaf(segment, {}, segment.loops))
        return Node(self.nest.indices, tuple(allocations), tuple(children))

    def _vectors(self, segment: Segment, index: stripe.Index) -> tuple[list[stripe.Refinement], list[Node]]:
        """Return the lanes' accumulators, and nodes that set, fill and merge them, and take what fills no vector."""
        lanes = sch.vector_lanes(self.options.vector_bytes, sch.widest_itemsize(self.nest), self.options.max_lanes)
        unroll = min(self.options.unroll, max(1, index.range // lanes))
        width = lanes * unroll
        steps, left = divmod(index.range, width)
        step = sch.index(self.names.fresh(f"{index.name}_step"), steps)
        vector = sch.index(self.names.fresh(f"{index.name}_vector"), unroll, stripe.Binding.UNROLL)
        lane = sch.index(self.names.fresh(f"{index.name}_lane"), lanes, stripe.Binding.LANE)
        others = sch.present(i for i in segment.loops if i.name != index.name)
        if others and _may_repeat(segment):
            return [], [self._rows(segment, index, others, min(lanes, sch.power_of_two_below(index.range)))]
        inner = sch.part(vector, lanes) + sch.part(lane)
        accumulators = {u: self._lanes_of(u, width, inner) for u in segment.uses if u.merges}
        wide = {u: use for u, (_, use) in accumulators.items()}
        moved = attrs.evolve(segment, uses=tuple(wide.get(u, u) for u in segment.uses))
        nodes = [self._set(use, sch.present((vector, lane))) for use in wide.values()]
        nodes.append(_run(moved, {index.name: sch.part(step, width) + inner}, (*others, step), (vector, lane)))
        if left >= lanes:
            more = attrs.evolve(vector, name=self.names.fresh(vector.name), range=left // lanes)
            value = sch.part(more, lanes) + sch.part(lane) + steps * width
            fewer = tuple(_at_vector(u, more, lane) if u in wide.values() else u for u in moved.uses)
            nodes.append(_run(attrs.evolve(moved, uses=fewer), {index.name: value}, others, (more, lane)))
        nodes.extend(self._rest(segment, index, others, left % lanes))
        for narrow, use in wide.items():
            nodes.extend(self._merge(narrow, use, vector, lane))
        return [allocation for allocation, _ in accumulators.values()], nodes

    def _rows(self, segment: Segment, index: stripe.Index, others: tuple[stripe.Index, ...], lanes: int) -> Node:
        """Return a node that stores row after row; the last vector of a row may overlap the one before it."""
        vectors, left = divmod(index.range, lanes)
        vector = sch.index(self.names.fresh(f"{index.name}_vector"), vectors)
        if vectors <= self.options.unroll:
            vector = vector.bound(stripe.Binding.UNROLL)
        lane = sch.index(self.names.fresh(f"{index.name}_lane"), lanes, stripe.Binding.LANE)
        runs = [_run(segment, {index.name: sch.part(vector, lanes) + sch.part(lane)}, (), sch.present((vector, lane)))]
        if left:
            runs.append(_run(segment, {index.name: sch.part(lane) + (index.range - lanes)}, (), (lane,)))
        return Node(others, children=tuple(runs), tags=segment.tags)

    def _rest(
        self, segment: Segment, index: stripe.Index, others: tuple[stripe.Index, ...], left: int
    ) -> Iterator[Node]:
        """Yield nodes for the last ``left`` elements, by ever shorter vectors, whose lanes merge at once."""
        while left:
            lanes = sch.power_of_two_below(left)
            lane = sch.index(self.names.fresh(f"{index.name}_lane"), lanes, stripe.Binding.LANE)
            yield _run(segment, {index.name: sch.part(lane) + (index.range - left)}, others, (lane,))
            left -= lanes

    def _lanes_of(self, use: Use, width: int, inner: Affine) -> tuple[stripe.Refinement, Use]:
        held = stripe.allocation(self.names.fresh(f"{use.root}_lanes"), use.dtype, (width,), sch.REGISTER)
        return held, attrs.evolve(use, root=held.name, access=(inner,), strides=(1,), sizes=())

    def _set(self, use: Use, tile: tuple[stripe.Index, ...]) -> Node:
        """Set every lane to the identity."""
        constant = identity_of(use, "identity")
        plain = attrs.evolve(use, aggregation=None, direction=stripe.Direction.OUT)
        return Node(tile, statements=(constant, stripe.Store("identity", use.name)), uses=(plain,))

    def _merge(self, narrow: Use, use: Use, vector: stripe.Index, lane: stripe.Index) -> Iterator[Node]:
        """Yield the merge of all vectors into the first, and of its lanes into the accumulator that the kernel had."""
        name = self.names.fresh("lanes")
        source = attrs.evolve(use, name=name, direction=stripe.Direction.IN, aggregation=None)
        if vector.range > 1:
            others = attrs.evolve(vector, name=self.names.fresh(vector.name), range=vector.range - 1)
            place = (sch.part(others, lane.range) + sch.part(lane) + lane.range,)
            first = attrs.evolve(use, access=(sch.part(lane),))
            yield _handing_on(attrs.evolve(source, access=place), first, (others, lane))
        yield _handing_on(attrs.evolve(source, access=(sch.part(lane),)), narrow, (lane,))


def _may_repeat(segment: Segment) -> bool:
    """Return whether a segment only stores, whatever it did before, so that it may store some elements twice."""
    written = {use.root for use in segment.uses if use.direction.writes}
    reads = (use.root for use in segment.uses if not use.direction.writes)
    return written.isdisjoint(reads) and not any(use.merges for use in segment.uses)


def _handing_on(source: Use, target: Use, indices: tuple[stripe.Index, ...]) -> Node:
    """Return a block that stores each element of ``source`` through ``target``."""
    statements = (stripe.Load(source.name, "lane"), stripe.Store("lane", target.name))
    return Node(sch.present(indices), statements=statements, uses=(source, target))


def _run(
    segment: Segment, values: dict[str, Affine], loops: tuple[stripe.Index, ...], tile: tuple[stripe.Index, ...]
) -> Node:
    """Return ``loops`` around the points of ``tile``, with the constraints between them."""
    body = leaf(segment, values, sch.present(tile))
    if not sch.present(loops) and not body.constraints:
        return body
    inside = attrs.evolve(body, constraints=())
    return Node(sch.present(loops), children=(inside,), constraints=body.constraints, tags=segment.tags)


def _at_vector(use: Use, vector: stripe.Index, lane: stripe.Index) -> Use:
    """Return the use of an accumulator at another number of vectors."""
    return attrs.evolve(use, access=(sch.part(vector, lane.range) + sch.part(lane),))
