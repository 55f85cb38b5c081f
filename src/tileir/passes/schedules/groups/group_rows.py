"""Kernels that go over rows several times, over groups of threads: each thread keeps its part of a row in registers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.passes.base import at_least, map_kernels
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.forms import against_parallel, against_plain_places, unscheduled_reduction
from tileir.passes.schedules.groups.group_reduction import power_of_two_from
from tileir.passes.schedules.groups.rows import ELEMENT, Plan, Row, build, row_of
from tileir.schedule.nest import Nest, Segment, emit, product
from tileir.schedule.remarks import Done, Refused, refused
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@attrs.frozen
class GroupRows:
    """Schedule kernels that fusion has made of reductions and maps over the same rows.

    Neighbouring threads take neighbouring vectors of a row, and short rows share a group. What a kernel computes for
    each element of a row, and what it reads more than once, stays in the registers of one thread; what threads have
    found alone goes through local memory, in two steps, and every thread goes on with the result.

    Attributes:
        threads: Threads of a group, unless a single row needs more.
        most_threads: Most threads of a row.
        width: How many neighbouring threads have their accesses to memory joined.
        vector_bytes: Width of the accesses to memory of one thread.
        max_lanes: Most lanes of a vector; 0 for as many as fit.
        local_bytes: Memory that the threads of a group share.
        register_bytes: Bytes of rows that a thread keeps in registers.
        vectors: How many vectors of a row a thread takes at least, where rows are long enough.
        groups: So many groups keep the device busy.

    """

    name: ClassVar[str] = "group_rows"
    threads: int = attrs.field(default=256, validator=at_least(1))
    most_threads: int = attrs.field(default=256, validator=at_least(1))
    width: int = attrs.field(default=32, validator=at_least(1))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    local_bytes: int = attrs.field(default=32 * 1024, validator=at_least(0))
    register_bytes: int = attrs.field(default=256, validator=at_least(0))
    vectors: int = attrs.field(default=4, validator=at_least(1))
    groups: int = attrs.field(default=1, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with such kernels scheduled."""
        return map_kernels(program, self._kernel)

    def _kernel(self, kernel: stripe.Block) -> Done | Refused:
        nest = unscheduled_reduction(kernel)
        if isinstance(nest, Refused):
            return nest
        if (why := _against_rows(nest) or _across_threads(nest) or against_parallel(nest)) is not None:
            return why
        plan = self._plan(nest)
        if isinstance(plan, Refused):
            return plan
        facts = (("threads", plan.threads), ("rows", plan.beside), ("lanes", plan.lanes), ("kept", len(plan.rows)))
        return Done((emit(build(nest, plan), kernel),), facts)

    def _plan(self, nest: Nest) -> Plan | Refused:
        """Choose threads, lanes, and where rows are kept; refused where local memory does not suffice."""
        loops = {number: _loop(segment) for number, segment in enumerate(nest.segments) if segment.loops}
        lanes = self._lanes(nest, loops)
        vectors = max(loop.range for loop in loops.values()) // lanes
        wanted = max(power_of_two_from(-(-vectors // self.vectors)), min(self.width, power_of_two_from(vectors)))
        threads = min(sch.power_of_two_below(self.most_threads), wanted)
        rows = self._rows(nest, loops, threads, lanes)
        outputs = product(i.range for i in nest.indices)
        column = max(nest.indices, key=lambda i: i.range, default=None)
        many = min(self.threads // threads, max(1, outputs // self.groups), column.range if column else 1)
        beside = sch.power_of_two_below(max(1, many))
        held = {row.root for row in rows}
        shared = [r for r in nest.allocations if r.shape.elements > 1 and r.name not in held]
        local = sum(r.shape.elements * r.shape.dtype.itemsize for r in shared)
        local += sum(2 * threads * u.dtype.itemsize for s in nest.segments for u in s.uses if s.loops and u.merges)
        while beside > 1 and beside * local > self.local_bytes:
            beside //= 2
        if beside * local > self.local_bytes:
            return refused("TR406", bytes=beside * local, local_bytes=self.local_bytes)
        return Plan(column, threads, beside, lanes, loops, rows)

    def _lanes(self, nest: Nest, loops: Mapping[int, stripe.Index]) -> int:
        """Return the most lanes with which all vectors of all rows are whole and aligned."""
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_access(nest), self.max_lanes)
        local = {r.name for r in nest.allocations}
        constrained = sch.constrained_indices(nest)
        for number, loop in loops.items():
            segment = nest.segments[number]
            if loop.name in constrained:
                return 1
            outside = tuple(u for u in segment.uses if u.root not in local)
            lanes = sch.aligned_lanes(outside, loop.name, min(lanes, sch.power_of_two_below(loop.range)))
            while loop.range % lanes:
                lanes //= 2
            if any(u.root in local and u.stride(loop.name) not in (0, 1) for u in segment.uses):
                return 1
        return lanes

    def _rows(self, nest: Nest, loops: Mapping[int, stripe.Index], threads: int, lanes: int) -> tuple[Row, ...]:
        """Return what threads keep in registers: first what would need local memory, then what is read again.

        The more threads a group has, the fewer registers each of them has beside those of a row.
        """
        found: list[Row] = []
        left = self.register_bytes
        most = left * self.most_threads // (2 * threads)
        for row in (*_computed_rows(nest, loops), *_rows_read_again(nest, loops)):
            size = -(-row.range // (threads * lanes)) * lanes * row.dtype.itemsize
            if size <= min(left, most):
                left -= size
                found.append(row)
        return tuple(found)


def _across_threads(nest: Nest) -> Refused | None:
    """Return which memory of the caller a thread may read or overwrite that another one of its group writes."""
    written = Counter(root for s in nest.segments for root in {u.root for u in s.uses if u.direction.writes})
    again = {use.root for use in sch.read_uses(nest)} | {root for root, segments in written.items() if segments > 1}
    back = {use.root for use in sch.written_uses(nest)} & again
    rows: dict[str, set[Row | None]] = {}
    for segment in nest.segments:
        alone = len(segment.loops) == 1 and not segment.constraints
        for use in segment.uses:
            if use.root in back:
                rows.setdefault(use.root, set()).add(row_of(use, segment.loops[0]) if alone else None)
    found = next((root for root, seen in rows.items() if None in seen or len(seen) > 1), None)
    return None if found is None else refused("TR411", memory=found)


def _loop(segment: Segment) -> stripe.Index:
    """Return the index of a segment that threads share: the one along which most uses are contiguous."""
    near = {i.name: sum(u.stride(i.name) in (0, 1) for u in segment.uses) for i in segment.loops}
    return max(segment.loops, key=lambda i: (near[i.name], i.range))


def _computed_rows(nest: Nest, loops: Mapping[int, stripe.Index]) -> Iterator[Row]:
    """Yield the allocations whose every element is written and read by the same thread."""
    for allocation in nest.allocations:
        if allocation.shape.elements == 1:
            continue
        seen = {
            None if number not in loops or len(segment.loops) > 1 else row_of(use, loops[number])
            for number, segment in enumerate(nest.segments)
            for use in segment.uses
            if use.root == allocation.name
        }
        row = seen.pop() if len(seen) == 1 else None
        if row is not None and sum(access.indices == (ELEMENT,) for access in row.access) == 1:
            yield row


def _rows_read_again(nest: Nest, loops: Mapping[int, stripe.Index]) -> Iterator[Row]:
    """Yield what several loops read from memory of the caller that the kernel does not write."""
    local = {r.name for r in nest.allocations}
    written = {u.root for u in nest.uses if u.direction.writes}
    times: Counter[Row] = Counter()
    for number, loop in loops.items():
        segment = nest.segments[number]
        if len(segment.loops) == 1 and not segment.constraints:
            reads = (u for u in segment.uses if u.root not in local | written and u.stride(loop.name))
            times.update(dict.fromkeys(row_of(use, loop) for use in reads).keys())
    return (row for row, count in times.items() if count > 1)


def _against_rows(nest: Nest) -> Refused | None:
    """Return what keeps a nest from having several loops, or one that stores elements, that threads can share."""
    loops = [segment for segment in nest.segments if segment.loops]
    storing = any(u.direction.writes and not u.merges for s in loops for u in s.uses)
    if len(loops) < 2 and not storing:
        return refused("TR407")
    if (why := against_plain_places(nest)) is not None:
        return why
    scalars = frozenset(r.name for r in nest.allocations if r.shape.elements == 1)
    found = (_against_sharing(segment, scalars) for segment in nest.segments)
    return next((why for why in found if why is not None), None)


def _against_sharing(segment: Segment, scalars: frozenset[str]) -> Refused | None:
    """Return what keeps threads from sharing a segment, given the accumulators of the kernel."""
    for use in segment.uses if segment.loops else ():
        if use.merges and use.root not in scalars:
            return refused("TR408", memory=use.root)
        if use.direction.writes and not use.merges and use.root in scalars:
            return refused("TR409", memory=use.root)
    loads = (s.source for s in segment.statements if isinstance(s, stripe.Load))
    merged = next((segment.use(name).root for name in loads if segment.use(name).merges), None)
    return None if merged is None else refused("TR410", memory=merged)
