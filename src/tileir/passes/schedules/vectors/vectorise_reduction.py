"""Vectorisation of inner loops, such as those over a row, with separate accumulators for lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import ClassVar, Final

from tileir.core import NameScope, attrs
from tileir.passes.base import at_least
from tileir.passes.kernels import reduction_nest, schedule as sch
from tileir.passes.regions.interior import span_inside
from tileir.passes.schedules.strategy import Strategy
from tileir.passes.schedules.vectors.pipelining import beside, pipelined, with_shared_reads
from tileir.schedule import (
    Fact,
    Nest,
    Refused,
    Segment,
    Tail,
    Use,
    accepted,
    product,
    refused,
    refusing,
    strongest,
    with_loops_called,
)
from tileir.schedule.application import Candidate, Rearrangement
from tileir.schedule.steps.loops import Bind, Cut, Reorder, Specialise, Split
from tileir.schedule.steps.memory import RFactor
from tileir.stripe import ir as stripe


@attrs.frozen
class VectoriseReduction(Strategy):
    """Vectorise reductions along contiguous memory, with several accumulators to hide the latency of additions.

    A loop may reduce, store elements, or both.

    Attributes:
        vector_bytes: Width of a vector register in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        unroll: Accumulator vectors of a reduction.
        rows: Number of rows that are interleaved, one loop behind each other, in kernels with several loops.
        registers: Number of vector registers: they limit the rows of a matrix-vector product that share loads of the
            vector.
        threads: Number of groups that run in parallel; sharing rows must not reduce the groups below it.
    """

    name: ClassVar[str] = "vectorise_reduction"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    unroll: int = attrs.field(default=4, validator=at_least(1))
    rows: int = attrs.field(default=1, validator=at_least(1))
    registers: int = attrs.field(default=1, validator=at_least(1))
    threads: int = attrs.field(default=1, validator=at_least(1))

    def candidates(self, kernel: stripe.Block) -> Iterator[Candidate | Refused]:
        """Yield vectors along the loops with contiguous elements, with rows that share loads."""
        parts = [accepted(self._vectorised(nest)) for nest in self._parts(accepted(reduction_nest(kernel)))]
        yield Candidate(tuple((nest, steps) for nest, steps, _ in parts), parts[0][2])

    def _parts(self, nest: Nest) -> Iterator[Nest]:
        """Yield nests for all points of a nest: for rows computed together, and for the remaining rows."""
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
        """Return the number of rows that share loads; 1 if they are short, or if registers do not hold their sums."""
        points = product(i.range for i in nest.indices)
        steps = max(i.range for s in nest.segments for i in s.loops) // (self._lanes(nest) * self.unroll)
        most = (self.registers - 1) // self.unroll - 1  # beside the sums of each row, the shared vectors
        choices = (n for n in (4, 2) if n <= most and points >= 2 * n * self.threads)
        return 1 if steps < _LEAST_STEPS else next(choices, 1)

    @refusing
    def _vectorised(self, nest: Nest) -> tuple[Nest, list[Rearrangement], tuple[Fact, ...]] | Refused:
        """Return a nest with distinct loop names, and steps that vectorise loops where possible."""
        names, lanes = nest.taken_names(), self._lanes(nest)
        segments, taken = [], set[str]()
        for segment in nest.segments:
            own = [i.name for i in segment.loops]
            segments.append(with_loops_called(segment, {name: names.fresh(name) for name in own if name in taken}))
            taken.update(own)
        nest = attrs.evolve(nest, segments=tuple(segments))
        found = [self._inside(nest, segment, lanes) for segment in segments if segment.loops]
        chosen = [each for each in found if not isinstance(each, Refused)]
        if not chosen:
            return strongest([why for why in found if isinstance(why, Refused)])
        bound: dict[stripe.Binding, list[str]] = {stripe.Binding.UNROLL: [], stripe.Binding.LANE: []}
        steps = [step for each in chosen for step in self._steps(*each, lanes, names, *bound.values())]
        steps += [Bind(tuple(loops), binding) for binding, loops in bound.items() if loops]
        return nest, steps, (("loops", len(found)), ("vectorised", len(chosen)), ("lanes", lanes))

    def _steps(
        self,
        segment: Segment,
        index: stripe.Index,
        size: int,
        lanes: int,
        names: NameScope,
        unrolled: list[str],
        wide: list[str],
    ) -> Iterator[Rearrangement]:
        """Yield steps that vectorise ``size`` values of an index, and record the loops to unroll or to use as lanes."""
        along, others = index.name, tuple(i.name for i in segment.loops if i is not index)
        part, step, vector, lane = (names.fresh(f"{along}_{what}") for what in ("part", "step", "vector", "lane"))
        if others:
            yield Reorder((along, *others))
        if size < index.range:
            before, along, after = (names.fresh(along) for _ in range(3))
            yield Specialise(index.name, (before, along, after))
        if others and _may_repeat(segment):  # the last vector of a row may overlap the one before it
            lanes = min(lanes, sch.power_of_two_below(size))
            unrolled += [vector] * (size // lanes <= self.unroll)
            wide.append(lane)
            yield Reorder((*others, along))
            yield Split(along, lanes, (vector, lane), Tail.SHIFT)
            return
        width = lanes * min(self.unroll, size // lanes)
        if rest := [1 << bit for bit in reversed(range(lanes.bit_length())) if size % lanes & 1 << bit]:
            *ends, _ = accumulate((size // lanes * lanes, *rest))
            cut, (along, *short) = along, [names.fresh(along) for _ in (0, *rest)]
            yield Cut(cut, tuple(ends), (along, *short))
            yield from (Reorder((*others, each)) for each in short)
            wide += short
        yield Split(along, width, (step, part), Tail.PEEL)
        if others:
            yield Reorder((*others, step, part))
        for root in dict.fromkeys(use.root for use in segment.uses if use.merges):
            own = names.fresh(f"{root}_lanes")
            first, each = (names.fresh(f"{own}_{what}") for what in ("vector", "lane"))
            yield RFactor(root, part, own, through=(lanes,) * (width > lanes), around=(*others, step)[0])
            wide.append(f"{own}_merge")
            if width == lanes:
                wide.append(f"{own}_start")
                continue
            yield Split(f"{own}_start", lanes, (first, each), Tail.EVEN)
            unrolled += (first, f"{own}_more_0")
            wide += (each, f"{own}_left_0")
        if width == lanes:
            wide.append(part)
            return
        yield Split(part, lanes, (vector, lane), Tail.EVEN)
        wide.append(lane)
        unrolled.append(vector)

    def _inside(self, nest: Nest, segment: Segment, lanes: int) -> tuple[Segment, stripe.Index, int] | Refused:
        """Return the index of a loop to vectorise, and the number of its unconstrained values."""
        index = _index(nest, segment, lanes)
        if not isinstance(index, Refused):
            return segment, index, index.range
        inner = _index(nest, attrs.evolve(segment, constraints=()), lanes) if segment.constraints else index
        if isinstance(inner, Refused):
            return index
        low, high = span_inside(nest, segment, inner)
        written = {use.merges for use in segment.uses if use.direction.writes}
        few = high - low < max(_least(segment, lanes), inner.range // 2)
        return index if few or len(written) > 1 else (segment, inner, high - low)

    def _lanes(self, nest: Nest) -> int:
        return sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)


_LEAST_STEPS: Final = 8
"""Minimum steps of a row; shorter rows are fully unrolled, with shared elements always in registers."""

_MOST_APART: Final = 4
"""Maximum distance of lanes, in elements, for loading whole vectors and shuffling them."""

_LEAST_LANES: Final = 4
"""Minimum lanes of vectors for that."""


def _least(segment: Segment, lanes: int) -> int:
    """Return the minimum elements of a loop: a whole vector, unless rows are stored one after another."""
    rows = len(segment.loops) > 1 and _may_repeat(segment)
    return min(lanes, _LEAST_LANES) if rows else lanes


def _index(nest: Nest, segment: Segment, lanes: int) -> stripe.Index | Refused:
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
    near = _near(segment, reads, plain, 1)
    if not near and lanes >= _LEAST_LANES and len(plain) == len(writes):
        near = _near(segment, reads, plain, _MOST_APART)
    straight = [i for i in near if i.name not in constrained and not sch.gathers(segment, i.name)]
    least = _least(segment, lanes)
    candidates = [i for i in straight if i.range >= least]
    if candidates:
        return max(candidates, key=lambda i: i.range)
    if straight or not near:
        index = max(straight or segment.loops, key=lambda i: i.range, default=None)
        facts = () if index is None else (("index", index.name), ("range", index.range), ("lanes", lanes))
        return Refused("TR301" if straight else "TR312", facts)
    index = max(near, key=lambda i: i.range)
    return refused("TR306" if index.name in constrained else "TR202", index=index.name)


def _near(segment: Segment, reads: Sequence[Use], plain: Sequence[Use], apart: int) -> list[stripe.Index]:
    """Return the loops along which stores are contiguous, and reads at most ``apart`` elements apart."""
    return [
        i
        for i in segment.loops
        if any(u.stride(i.name) == 1 for u in (*reads, *plain))
        and all(0 <= u.stride(i.name) <= apart for u in reads)
        and all(u.stride(i.name) == 1 for u in plain)
    ]


def _may_repeat(segment: Segment) -> bool:
    """Return whether a segment only stores results independent of stored elements, so that it may store some twice."""
    written = {use.root for use in segment.uses if use.direction.writes}
    reads = (use.root for use in segment.uses if not use.direction.writes)
    return written.isdisjoint(reads) and not any(use.merges for use in segment.uses)
