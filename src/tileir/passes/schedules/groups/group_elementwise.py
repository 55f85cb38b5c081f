"""Elementwise kernels over groups of threads, each with whole vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from tileir.core import NameScope, attrs
from tileir.passes.base import at_least
from tileir.passes.fusion.inline import CHEAP
from tileir.passes.kernels import against_parallel, merged, schedule as sch, unscheduled_elementwise
from tileir.passes.schedules.strategy import Strategy
from tileir.poly.affine import Affine
from tileir.schedule import (
    Known,
    Loop,
    Nest,
    Refused,
    Replaced,
    Tree,
    accepted,
    map_leaves,
    refused,
    rule_out,
    with_loops_replaced,
)
from tileir.schedule.application import Candidate, Rearrangement
from tileir.schedule.steps.loops import Bind, Reorder, Split
from tileir.stripe import ir as stripe


@attrs.frozen
class GroupElementwise(Strategy):
    """Schedule elementwise kernels: a grid of groups, coalesced threads, and vectors.

    Neighbouring threads take neighbouring vectors, so that accesses of a group are coalesced. If rows are short, the
    threads of a group take several rows.

    Attributes:
        threads: Threads in a group.
        vector_bytes: Width of a thread's memory accesses in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        vectors: Vectors of a thread; 0 for the number that gives four loads at a time.
        groups: Number of groups that keeps the device busy; threads take fewer vectors to reach it.
        single: Whether a thread takes only one vector of a large tensor in kernels that do little more than copy, and
            an equal number of bytes in narrow vectors.
    """

    name: ClassVar[str] = "group_elementwise"
    threads: int = attrs.field(default=256, validator=at_least(1))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    vectors: int = attrs.field(default=0, validator=at_least(0))
    groups: int = attrs.field(default=1, validator=at_least(1))
    single: bool = False

    def candidates(self, kernel: stripe.Block) -> Iterator[Candidate | Refused]:
        """Yield threads along the index with the most contiguous accesses."""
        nest = accepted(unscheduled_elementwise(kernel))
        rule_out(against_parallel(nest))
        nest = merged(nest)
        yield Candidate.of(nest, self._steps(nest, accepted(_contiguous(nest))))

    def _steps(self, nest: Nest, index: stripe.Index) -> Iterator[Rearrangement]:
        """Yield steps that divide rows, and the elements of each along ``index``, among groups and their threads."""
        lanes, others = self._lanes(nest, index), [each for each in nest.indices if each is not index]
        vectors = index.range // lanes
        columns = min(vectors, _columns(nest, others, self.threads))
        yield Reorder(tuple(each.name for each in (*others, index)))
        names = nest.taken_names()
        rows = {each.name: names.fresh(f"{each.name}_thread") for each in others}
        threads, groups = self.threads // columns, 1
        for other in reversed(others):
            size = min(other.range, threads)
            threads //= size
            groups *= -(-other.range // size)
            yield Split(other.name, size, (other.name, rows[other.name]))
        each = -(-vectors // columns)
        wanted = self.vectors or max(1, 4 // max(1, len(sch.read_uses(nest))))
        if self.single and not self.vectors and each * groups >= _MANY * self.groups and _copies(nest, index):
            wanted = min(wanted, max(1, self.vector_bytes // (lanes * sch.widest_access(nest))))
        count = min(max(1, min(wanted, each * groups // self.groups)), each)
        row = _Row(index.name, names.fresh(f"{index.name}_group"), names.fresh(f"{index.name}_thread"))
        yield attrs.evolve(row, groups=-(-each // count), threads=columns, vectors=count, lanes=lanes)
        yield Reorder((*rows, row.group, *rows.values(), row.thread))
        yield from (Bind(name, stripe.Binding.GRID) for name in rows)
        yield from (Bind(name, stripe.Binding.THREAD) for name in rows.values())

    def _lanes(self, nest: Nest, index: stripe.Index) -> int:
        if index.name in sch.constrained_indices(nest):
            return 1
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_access(nest), self.max_lanes)
        indirect = sch.indirect_names(nest.segments[0])
        direct = (use for use in nest.uses if use.name not in indirect)
        return sch.aligned_lanes(direct, index.name, min(lanes, sch.power_of_two_below(index.range)))


def _contiguous(nest: Nest) -> stripe.Index | Refused:
    """Return the index for adjacent threads: it moves results by one element, and most inputs by one or none.

    If there is none, an index along which the places of results are data-dependent.
    """
    written, reads, (segment,) = sch.written_uses(nest), sch.read_uses(nest), nest.segments
    candidates = [i for i in nest.indices if i.range > 1 and all(u.stride(i.name) == 1 for u in written)]
    if not candidates:
        candidates = [i for i in nest.indices if i.range > 1 and sch.scatters(segment, i.name)]
    if not candidates:
        return refused("TR302", outputs=len(written))
    return max(candidates, key=lambda i: (sum(u.stride(i.name) in (0, 1) for u in reads), i.range))


def _copies(nest: Nest, index: stripe.Index) -> bool:
    """Return whether a kernel applies cheap operations to one tensor, reading each element once."""
    (segment,), reads = nest.segments, sch.read_uses(nest)
    moved = [i for i in nest.indices if i.range > 1]
    once = len(reads) == 1 and reads[0].stride(index.name) == 1 and all(reads[0].stride(i.name) for i in moved)
    operations = (s.op for s in segment.statements if isinstance(s, stripe.Intrinsic))
    return once and not segment.constraints and CHEAP.issuperset(operations)


def _columns(nest: Nest, others: Sequence[stripe.Index], threads: int) -> int:
    """Return the number of adjacent threads along a row: all, unless inputs are contiguous across rows."""
    crossed = any(use.stride(other.name) == 1 for use in sch.read_uses(nest) for other in others)
    return min(threads, _CROSSED) if crossed else threads


_MANY = 8
"""Multiple of the groups that keep a device busy, so that others run while some wait, and reads and writes mix."""

_CROSSED = 32
"""Adjacent threads if an input is transposed: a group then uses whole cache lines of it."""


@attrs.frozen(repr=False)
class _Row:
    """Step that divides a contiguous loop among groups, their threads, and vectors of each thread.

    Only the last group tests for the end; its threads take the remaining elements, one each if possible.
    """

    name: ClassVar[str] = "row"
    loop: str
    group: str
    thread: str
    groups: int = 1
    threads: int = 1
    vectors: int = 1
    lanes: int = 1

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002  # all steps are called alike
        """Return the tree with the loop divided."""
        names = tree.names()
        return with_loops_replaced(tree, self.loop, lambda loop, _: Replaced((self._shared(loop, names),)))

    def _shared(self, loop: Loop, names: NameScope) -> Loop:
        step, lane, rest = (names.fresh(f"{loop.name}_{what}") for what in ("vector", "lane", "rest"))
        vectors, left = divmod(loop.size, self.lanes)
        number = Affine.of({self.group: self.vectors * self.threads, step: self.threads, self.thread: 1})
        place, end = number * self.lanes + Affine.index(lane), vectors - 1 - number
        full = vectors // (self.threads * self.vectors)
        whole = full - 1 - Affine.index(self.group)
        apart = self.vectors > 1 and 0 < full < self.groups
        runs = ((whole,), (-whole - 1, end)) if apart else ((end,) if full < self.groups else (),)
        items = [map_leaves(loop.body, {loop.name: place}, *tests) for tests in runs]
        parts = [Loop(lane, self.lanes, body, stripe.Binding.LANE) for body in items]
        parts = [Loop(step, self.vectors, (part,), stripe.Binding.UNROLL) for part in parts]
        if left:
            # With fewer threads, the first one takes all.
            own, each = (self.thread, 1) if self.threads >= left else (rest, left)
            tests = (Affine.of({self.group: 1}, 1 - self.groups), left // each - 1 - Affine.index(self.thread))
            body = map_leaves(loop.body, {loop.name: Affine.index(own) + (loop.size - left)}, *tests)
            parts.append(Loop(rest, each, body))
        team = Loop(self.thread, self.threads, tuple(parts), stripe.Binding.THREAD)
        return Loop(self.group, self.groups, (team,), stripe.Binding.GRID)
