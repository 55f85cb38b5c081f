"""Kernels with several passes over rows, over groups of threads: each thread keeps its part of a row in registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from tileir.core.nodes import attrs
from tileir.passes.base import KernelPass, at_least
from tileir.passes.kernels import (
    against_parallel,
    against_varying_places,
    schedule as sch,
    unscheduled_reduction,
    with_joined_rows,
)
from tileir.passes.schedules.groups.group_reduction import power_of_two_from
from tileir.passes.schedules.groups.rows import ELEMENT, Kept, Plan, Row, build, row_of
from tileir.poly.affine import Affine
from tileir.schedule import Done, Nest, Refused, Segment, Use, accepted, emit, product, refused, refusing, rule_out
from tileir.stripe import ir as stripe

_SECTOR: Final = 32
"""Sector size of memory transactions on cards in bytes."""

_REGISTER: Final = 4
"""Bytes of a register, which even a narrower element occupies; a quarter of all are for other data."""

_MOST_NARROW: Final = 32
"""Maximum narrow elements of a longer row per thread: compilers may keep their widened values instead."""

_RESERVED: Final = 1024
"""Bytes of local memory that cards reserve for each group."""

_EACH: Final = 8
"""Multiple of ``vectors`` elements per thread, one by one, of adjacent rows."""


_WINDOW: Final = 64
"""Maximum terms of a window for one thread: neighbours share loads."""

_SHARED: Final = 16
"""Loop length beyond which a longer loop is no better to share among threads."""

_MEET_ONCE: Final = 16
"""Largest group whose threads synchronise only after merging partial results; larger groups do before it, too."""


@attrs.frozen
class GroupRows(KernelPass):
    """Schedule fused reductions and maps over rows, such as softmax, with rows in registers or local memory.

    Neighbouring threads take neighbouring vectors of a row, and short rows share a group. If rows lie side by side in
    memory, like columns, neighbouring threads take neighbouring rows, and several threads share a row. Values that a
    kernel computes for each element of a row, or reads repeatedly, stay in the registers of one thread; long rows spill
    a part to local memory. Partial results of threads are exchanged through local memory in two steps, and every thread
    continues with the total.

    Attributes:
        threads: Threads in a group, unless a single row needs more.
        most_threads: Maximum number of threads of a row.
        width: Number of neighbouring threads whose memory accesses are coalesced.
        vector_bytes: Width of a thread's memory accesses in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        local_bytes: Local memory of a group, in bytes.
        register_bytes: Maximum bytes of rows that a thread keeps in registers.
        vectors: Minimum number of vectors of a row for each thread, if rows are long enough; fewer if it keeps wider
            elements.
        groups: Number of groups that keeps the device busy.
        alone: Maximum number of groups for which each has a processor to itself, and keeps as much of long rows as
            fits, first in registers, then in local memory.
        near_bytes: Bytes that a group rereads above which it is treated likewise, since they exceed caches.
        together: Number of groups that share a processor instead of a single one with ``most_threads``, if their rows
            still fit: one computes while others wait for memory.
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
    alone: int = attrs.field(default=0, validator=at_least(0))
    near_bytes: int = attrs.field(default=1 << 62, validator=at_least(0))
    together: int = attrs.field(default=1, validator=at_least(1))

    @refusing
    def _kernel(self, kernel: stripe.Block) -> Done | Refused:
        nest = with_joined_rows(accepted(unscheduled_reduction(kernel)))
        rule_out(_against_rows(nest) or _across_threads(nest) or against_parallel(nest) or _of_windows(nest))
        plan = self._shared(nest, accepted(self._plan(nest)))
        rule_out(_without_barrier(nest, meeting=plan.threads > _MEET_ONCE))
        facts = (("threads", plan.threads), ("rows", plan.beside), ("lanes", plan.lanes), ("kept", len(plan.rows)))
        return Done((emit(build(nest, plan), kernel),), facts)

    def _shared(self, nest: Nest, plan: Plan) -> Plan:
        """Return a plan for groups that share a processor, or for single groups if that is as fast.

        Rows that fill all registers keep memory busy, and single narrow elements waste most of them.
        """
        size, groups = sch.widest_access(nest), product(i.range for i in nest.indices) // plan.beside
        longest = max(loop.range for loop in plan.loops.values()) * size
        full = size < _REGISTER if plan.across else 2 * longest >= self.register_bytes * self.most_threads
        small = not 1 < self.together <= self.most_threads <= plan.threads * plan.beside
        if full or small or groups <= self.alone:
            return plan
        part = attrs.evolve(
            self,
            most_threads=self.most_threads // self.together,
            local_bytes=max(0, self.local_bytes // self.together - _RESERVED),
            register_bytes=self.register_bytes // (1 if plan.lanes == 1 else 2),
            alone=1 << 62,
        )
        several = part._plan(nest)
        if isinstance(several, Refused) or several.beside < plan.beside or not _keeps_all(nest, several):
            return plan
        return several

    def _plan(self, nest: Nest) -> Plan | Refused:
        """Choose threads, lanes, and the memory of rows; refused if local memory does not suffice."""
        loops = {number: _loop(segment) for number, segment in enumerate(nest.segments) if segment.loops}
        if (side := _side_by_side(nest)) is not None:
            return self._across(nest, loops, side)
        lanes = self._lanes(nest, loops)
        vectors = max(loop.range for loop in loops.values()) // lanes
        stretches = max(product(i.range for i in nest.segments[n].loops) // loop.range for n, loop in loops.items())
        each = -(-self._each(nest, loops, lanes) // stretches)
        wanted = max(power_of_two_from(-(-vectors // each)), min(self.width, power_of_two_from(vectors)))
        threads = min(sch.power_of_two_below(self.most_threads), wanted)
        rows = self._rows(nest, loops, threads, lanes, 1)
        outputs = product(i.range for i in nest.indices)
        column = max(nest.indices, key=lambda i: i.range, default=None)
        many = min(self.threads // threads, max(1, outputs // self.groups), column.range if column else 1)
        beside = sch.power_of_two_below(max(1, many))
        return self._within_local_memory(nest, Plan(column, threads, beside, lanes, loops, rows))

    def _each(self, nest: Nest, loops: Mapping[int, stripe.Index], lanes: int) -> int:
        """Return the minimum vectors of a row per thread, fewer if it keeps wider elements.

        Registers then equal those for rows of wide elements, as long as groups still share a processor. Threads with
        coalesced accesses take short rows as they are.
        """
        width, longest = sch.widest_access(nest), max(loop.range for loop in loops.values())
        wide = max((row.dtype.itemsize for row in _computed_rows(nest, loops)), default=width)
        each = max(1, self.vectors * width // max(wide, width))
        short, long = self.vectors * lanes * self.width, each * lanes * self.most_threads // 2
        return each if lanes > 1 and short < longest <= long else self.vectors

    def _across(self, nest: Nest, loops: Mapping[int, stripe.Index], column: stripe.Index) -> Plan | Refused:
        """Plan for rows that are adjacent along ``column``: groups take as few of them as keep accesses whole."""
        outputs = product(i.range for i in nest.indices)
        most = sch.power_of_two_below(self.most_threads)
        whole = min(most, max(1, _SECTOR // sch.widest_access(nest)))
        longest = max(loop.range for loop in loops.values())
        terms = max(product(i.range for i in nest.segments[number].loops) for number in loops)
        shared = min(longest, -(-terms // (_EACH * self.vectors)))
        wanted = min(most, power_of_two_from(shared))
        beside = min(power_of_two_from(column.range), max(whole, min(most, self.width), self.threads // wanted))
        while beside > whole and outputs // beside < self.groups:
            beside //= 2
        threads = min(max(1, most // beside), wanted)
        rows = self._rows(nest, loops, threads, 1, beside)
        return self._within_local_memory(nest, Plan(column, threads, beside, 1, loops, rows, across=True))

    def _within_local_memory(self, nest: Nest, plan: Plan) -> Plan | Refused:
        """Return a plan with as many adjacent rows as fit local memory; refused if not even one fits.

        The rest of local memory keeps what exceeds the registers.
        """
        held, beside = {each.row.root for each in plan.rows}, plan.beside
        shared = [r for r in nest.allocations if r.shape.elements > 1 and r.name not in held]
        missing = {each: -(-each.row.range // (plan.threads * plan.lanes)) - each.registers for each in plan.rows}
        sizes = {each: plan.threads * plan.lanes * each.row.dtype.itemsize for each in plan.rows}
        own = [each for each in plan.rows if any(each.row.root == r.name for r in nest.allocations)]
        local = sum(r.shape.elements * r.shape.dtype.itemsize for r in shared)
        local += sum(missing[each] * sizes[each] for each in own)
        merged = (u for s in nest.segments for u in s.uses if s.loops and u.merges)
        local += sum(2 * plan.threads * use.dtype.itemsize for use in merged)
        while beside > 1 and beside * local > self.local_bytes:
            beside //= 2
        if beside * local > self.local_bytes:
            return refused("TR406", bytes=beside * local, local_bytes=self.local_bytes)
        rows, left = [], self.local_bytes - beside * local
        for each in plan.rows:
            near = missing[each]
            if each not in own:
                near = min(near, left // (beside * sizes[each])) if self._keeps_parts(nest, each.row, beside) else 0
                left -= near * beside * sizes[each]
            rows.append(attrs.evolve(each, local=near))
        return attrs.evolve(plan, beside=beside, rows=tuple(each for each in rows if each.registers or each.local))

    def _lanes(self, nest: Nest, loops: Mapping[int, stripe.Index]) -> int:
        """Return the most lanes with which all vectors of all rows are whole and aligned."""
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_access(nest), self.max_lanes)
        constrained = sch.constrained_indices(nest)
        for number, loop in loops.items():
            segment = nest.segments[number]
            if loop.name in constrained or sch.indirect_names(segment):
                return 1
            outside = tuple(u for u in segment.uses if u.root not in nest.local)
            lanes = sch.aligned_lanes(outside, loop.name, min(lanes, sch.power_of_two_below(loop.range)))
            while loop.range % lanes:
                lanes //= 2
            if any(u.root in nest.local and u.stride(loop.name) not in (0, 1) for u in segment.uses):
                return 1
        return lanes

    def _rows(
        self, nest: Nest, loops: Mapping[int, stripe.Index], threads: int, lanes: int, beside: int
    ) -> tuple[Kept, ...]:
        """Return the rows to keep in registers: first those that need local memory otherwise, then reread rows.

        The more threads a group has, the fewer registers each has beside those of rows.
        """
        found: list[Kept] = []
        left = self.register_bytes
        most = left * self.most_threads // (2 * threads * beside)
        computed, again = tuple(_computed_rows(nest, loops)), tuple(_rows_read_again(nest, loops))
        replaced = _replaced(nest, loops, computed, again)
        for row in (*computed, *(row for row in again if row not in replaced.values())):
            vectors = -(-row.range // (threads * lanes))
            fitting = min(vectors, min(left, most) // (lanes * row.dtype.itemsize), 3 * most // (2 * _REGISTER))
            if fitting < vectors and row not in computed and row.dtype.itemsize < _REGISTER:
                fitting = min(fitting, max(1, _MOST_NARROW // lanes))
            if row in computed and fitting < vectors:  # vectors need further registers for computed values
                fitting = min(fitting, most // (_REGISTER if lanes == 1 else 2 * lanes * row.dtype.itemsize))
            if fitting == vectors or row in computed or self._keeps_parts(nest, row, beside):
                left -= fitting * lanes * row.dtype.itemsize
                found.append(Kept(row, fitting, before=replaced.get(row)))
        return tuple(found)

    def _keeps_parts(self, nest: Nest, row: Row, beside: int) -> bool:
        """Return whether groups keep as much as they can of a reread row, rather than be small.

        A group with a row for itself keeps narrow elements, of which its caches hold more.
        """
        groups, nbytes = product(i.range for i in nest.indices) // beside, row.range * row.dtype.itemsize * beside
        narrow = row.dtype.itemsize < _REGISTER and beside == 1
        return narrow or groups <= self.alone or nbytes > self.near_bytes


def _side_by_side(nest: Nest) -> stripe.Index | None:
    """Return the output index along which most accesses in loops are contiguous; None if they are along loops."""
    votes: Counter[str] = Counter()
    for segment in nest.segments:
        for use in segment.uses:
            moving = [i for i in (*nest.indices, *segment.loops) if i.range > 1 and use.stride(i.name)]
            near = next((i for i in moving if use.stride(i.name) == 1), None)
            if near is not None and use.root not in nest.local and any(i in moving for i in segment.loops):
                votes[near.name] += product(i.range for i in moving)
    most = max(votes, key=votes.__getitem__, default=None)
    return next((i for i in nest.indices if i.name == most), None)


def _across_threads(nest: Nest) -> Refused | None:
    """Refuse caller's memory that a thread may access after another thread of its group has written it."""
    written = Counter(root for s in nest.segments for root in {u.root for u in s.uses if u.direction.writes})
    again = {use.root for use in sch.read_uses(nest)} | {root for root, segments in written.items() if segments > 1}
    back = {use.root for use in sch.written_uses(nest)} & again
    rows: dict[str, set[_Walk | None]] = {}
    for segment in nest.segments:
        chosen = sch.indirect_names(segment)
        for use in segment.uses:
            if use.root in back:
                known = segment.loops and use.name not in chosen
                rows.setdefault(use.root, set()).add(_Walk.of(use, segment) if known else None)
    found = next((root for root, seen in rows.items() if None in seen or len(seen) > 1), None)
    return None if found is None else refused("TR411", memory=found)


def _of_windows(nest: Nest) -> Refused | None:
    """Refuse loops over short overlapping rows, as in windows: a thread has all of one, beside the next."""
    for segment in nest.segments:
        terms = product(i.range for i in segment.loops)
        for use in segment.uses if 1 < terms <= _WINDOW else ():
            for loop in segment.loops:
                step, reach = use.stride(loop.name), use.stride(loop.name) * loop.range
                if step > 0 and any(0 < use.stride(i.name) < reach for i in nest.indices if i.range > loop.range):
                    return refused("TR404", index=loop.name, range=loop.range)
    return None


def _without_barrier(nest: Nest, *, meeting: bool) -> Refused | None:
    """Refuse caller's memory that a segment accesses after another has written it, without a barrier in between.

    Threads synchronise where they merge their partial results, if they are ``meeting`` there.
    """
    written: set[str] = set()
    for segment in nest.segments:
        found = next((use.root for use in segment.uses if use.root in written), None)
        if found is not None:
            return refused("TR411", memory=found)
        written |= {u.root for u in segment.uses if segment.loops and u.direction.writes and u.root not in nest.local}
        if meeting and any(use.merges for use in segment.uses if segment.loops):
            written.clear()
    return None


@attrs.frozen
class _Walk:
    """A walk along a row: segments with equal walks access each element in one thread.

    Attributes:
        row: Index of the loop that threads share; other indices have numbers.
        ranges: Ranges of the loops that each thread runs completely.
        constraints: Constraints on points.
    """

    row: Row
    ranges: tuple[int, ...]
    constraints: tuple[Affine, ...]

    @classmethod
    def of(cls, use: Use, segment: Segment) -> _Walk:
        """Return the walk of a use in a segment with loops."""
        loop = _loop(segment)
        others = [i for i in segment.loops if i is not loop]
        numbers = {i.name: Affine.index(f"%{number}") for number, i in enumerate(others)}
        shared = {**numbers, loop.name: Affine.index(ELEMENT)}
        constraints = tuple(each.substitute(shared) for each in segment.constraints)
        return cls(row_of(use.substitute(numbers), loop), tuple(i.range for i in others), constraints)


def _loop(segment: Segment) -> stripe.Index:
    """Return the index of a segment that threads share: among long loops, that with most contiguous uses."""
    near = {i.name: sum(u.stride(i.name) in (0, 1) for u in segment.uses) for i in segment.loops}
    return max(segment.loops, key=lambda i: (min(i.range, _SHARED), near[i.name], i.range))


def _computed_rows(nest: Nest, loops: Mapping[int, stripe.Index]) -> Iterator[Row]:
    """Yield the allocations whose every element is written and read by one thread."""
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
    """Yield the caller's rows that several loops read, and the kernel does not write."""
    written = {u.root for u in nest.uses if u.direction.writes}
    times: Counter[Row] = Counter()
    for number, loop in loops.items():
        segment = nest.segments[number]
        if len(segment.loops) == 1 and not segment.constraints:
            others = nest.local | written | {segment.use(name).root for name in sch.indirect_names(segment)}
            reads = (u for u in segment.uses if u.root not in others and u.stride(loop.name))
            times.update(dict.fromkeys(row_of(use, loop) for use in reads).keys())
    return (row for row, count in times.items() if count > 1)


def _replaced(
    nest: Nest, loops: Mapping[int, stripe.Index], computed: Iterable[Row], again: Iterable[Row]
) -> dict[Row, Row]:
    """Return, for computed rows, a reread row whose place each may take.

    It has equally many elements of one dtype, and its last read is before the computed elements are stored.
    """
    loaded: dict[Row, tuple[int, int]] = {}
    stored: dict[Row, tuple[int, int]] = {}
    for number, loop in loops.items():
        segment = nest.segments[number]
        rows = {use.name: row_of(use, loop) for use in segment.uses}
        for place, statement in enumerate(segment.statements):
            loaded.update((rows[name], (number, place)) for name in stripe.views_read(statement))
            for name in stripe.views_written(statement):
                stored.setdefault(rows[name], (number, place))
    found: dict[Row, Row] = {}
    for row in computed:
        alike = (r for r in again if (r.range, r.dtype) == (row.range, row.dtype) and r not in found.values())
        before = next((r for r in alike if row in stored and loaded[r] < stored[row]), None)
        if before is not None:
            found[row] = before
    return found


def _keeps_all(nest: Nest, plan: Plan) -> bool:
    """Return whether threads keep all of each computed or reread row."""
    whole = {each for each in plan.rows if each.row.range <= (each.registers + each.local) * plan.threads * plan.lanes}
    kept = {row for each in whole for row in (each.row, each.before)}
    return kept.issuperset((*_computed_rows(nest, plan.loops), *_rows_read_again(nest, plan.loops)))


@refusing
def _against_rows(nest: Nest) -> Refused | None:
    """Return why a nest does not have several loops, or one that stores elements, that threads can share."""
    storing = any(u.direction.writes and not u.merges for s in nest.reductions for u in s.uses)
    if len(nest.reductions) < 2 and not storing:
        return refused("TR407")
    rule_out(against_varying_places(nest, gathers=True))
    scalars = frozenset(r.name for r in nest.allocations if r.shape.elements == 1)
    found = (_against_sharing(segment, scalars) for segment in nest.segments)
    return next((why for why in found if why is not None), None)


def _against_sharing(segment: Segment, scalars: frozenset[str]) -> Refused | None:
    """Return why threads cannot share a segment, given the accumulators of the kernel."""
    for use in segment.uses if segment.loops else ():
        if use.merges and use.root not in scalars:
            return refused("TR408", memory=use.root)
        if use.direction.writes and not use.merges and use.root in scalars:
            return refused("TR409", memory=use.root)
    loads = (s.source for s in segment.statements if isinstance(s, stripe.Load))
    merged = next((segment.use(name).root for name in loads if segment.use(name).merges), None)
    return None if merged is None else refused("TR410", memory=merged)
