"""Running sums, products, maxima and minima in linear time, instead of one reduction per element."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tileir.core import Aggregation, NameScope, Op, attrs
from tileir.passes.algorithms.scans import Part, ScanKernels
from tileir.passes.analysis.accesses import address
from tileir.passes.analysis.running_aggregates import RunningAggregate, running
from tileir.passes.base import at_least
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.replacement import Outcome, Replacement, ReplacingPass
from tileir.poly.affine import Affine
from tileir.schedule import product, refused
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.passes.schedules.groups.scan import GroupPlan


@attrs.frozen
class Scan(ReplacingPass):
    """Turn contractions over intervals that grow by one term (running sums and the like) into scans.

    ``O[i] = +(X[k])`` over ``k <= i``, and all forms that :func:`~tileir.passes.analysis.running_aggregates.running`
    recognises, becomes a kernel over the other indices of the output. Each of its points visits the terms in order, in
    a block whose index is tagged ``serial``, and keeps an accumulator. If terms and outputs are contiguous, a vector of
    them is loaded at a time and scanned in log2 steps (Hillis and Steele 1986); if they are contiguous along another
    index, that index is vectorised.

    A long scan with few independent neighbours is split into parts (Blelloch, "Prefix sums and their applications",
    1990): one kernel reduces each part, and a part's scan starts from the total of all earlier parts. This reassociates
    sums.

    Attributes:
        reqs: Tags that a kernel must carry.
        least: Minimum number of outputs along the running index.
        vector_bytes: Width of a vector register in bytes; 0 keeps kernels scalar.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        shuffles: Whether the target can permute lanes in registers; if not, contiguous scans stay scalar.
        threads: Threads in a group, which scan contiguous terms together; 1 for none.
        each: Neighbouring terms that a thread takes at a time; doubled for scans that still fill a group.
        local_bytes: Local memory of a group, in bytes.
        stretch_bytes: Maximum bytes of accumulators if lanes run across the scan; about a page.
        parts: Number of parts that should run in parallel; 1 for no split.
        part_terms: Minimum number of terms of a part.
    """

    name: ClassVar[str] = "scan"
    reqs: tuple[str, ...] = ()
    least: int = attrs.field(default=16, validator=at_least(2))
    vector_bytes: int = attrs.field(default=0, validator=at_least(0))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    shuffles: bool = True
    threads: int = attrs.field(default=1, validator=at_least(1))
    each: int = attrs.field(default=8, validator=at_least(1))
    local_bytes: int = attrs.field(default=0, validator=at_least(0))
    stretch_bytes: int = attrs.field(default=4096, validator=at_least(1))
    parts: int = attrs.field(default=1, validator=at_least(1))
    part_terms: int = attrs.field(default=64 * 1024, validator=at_least(1))

    def _kernel(self, kernel: stripe.Block, names: NameScope) -> Outcome:
        """Return the kernels of a scan; refused for other or short kernels."""
        found = running(kernel)
        if found is None:
            return refused("TR630" if _adds_what_stays(kernel) else "TR628")
        if found.steps < self.least:
            return refused("TR629", steps=found.steps, least=self.least)
        blocks, temporaries = self._kernels(kernel, found, names)
        return Replacement(tuple(blocks), tuple(temporaries))

    def _kernels(
        self, kernel: stripe.Block, found: RunningAggregate, names: NameScope
    ) -> tuple[list[stripe.Block], list[stripe.Refinement]]:
        """Return the kernels of one scan, and their temporaries."""
        plan = self._plan(kernel, found)
        if plan is not None:
            from tileir.passes.schedules.groups.scan import GroupScanKernels  # processors have no groups

            group = GroupScanKernels(kernel, found, plan)
            return self._in_parts(group, group.together, self._parts(found, plan.terms, 1), names)
        builder = ScanKernels(kernel, found)
        across = self._across(kernel, found)
        if across is not None:
            index, lanes, width = across
            return builder.across(index, lanes, width), []
        lanes = self._lanes(kernel) if self.shuffles and self._is_contiguous(kernel, found) else 1
        parts = self._parts(found, lanes, self.threads)
        return self._in_parts(builder, lambda part: builder.along(part, lanes), parts, names)

    def _in_parts(
        self,
        builder: ScanKernels,
        kernel_of: Callable[[Part], stripe.Block],
        parts: tuple[int, int],
        names: NameScope,
    ) -> tuple[list[stripe.Block], list[stripe.Refinement]]:
        """Return the kernels of a scan that is split into a number of parts of equal length, and a rest."""
        (count, length), found = parts, builder.found
        if count < 2:
            return [kernel_of(Part(0, found.steps))], []
        reduced, temporary = builder.totals(names.fresh(f"{found.output.source}_parts"), count, length)
        blocks = [reduced, kernel_of(Part(0, length, count, temporary))]
        if count * length < found.steps:
            blocks.append(kernel_of(Part(count * length, found.steps - count * length, 1, temporary, count)))
        return blocks, [temporary]

    def _plan(self, kernel: stripe.Block, found: RunningAggregate) -> GroupPlan | None:
        """Return how the threads of a group share a scan; None if its terms are too few or not contiguous."""
        if self.threads < 2 * self.each or not self._is_contiguous(kernel, found):
            return None
        from tileir.passes.schedules.groups.scan import GroupPlan  # processors have no groups

        wanted = sch.power_of_two_below(max(1, found.steps // self.each))
        threads = min(sch.power_of_two_below(self.threads), max(wanted, _LEAST_THREADS))
        each, itemsize = sch.power_of_two_below(self.each), found.output.shape.dtype.itemsize
        plans = (GroupPlan(threads, 2 * each), GroupPlan(threads, each))  # larger tiles wait less often
        fitting = (
            plan for plan in plans if threads >= 2 * plan.each and plan.local_bytes(itemsize) <= self.local_bytes
        )
        plan = next((plan for plan in fitting if plan.each == each or found.steps >= plan.terms), None)
        return plan if found.steps >= threads else None

    def _lanes(self, kernel: stripe.Block) -> int:
        widest = max(sch.computing_itemsize(r.shape.dtype) for r in kernel.refinements)
        return sch.vector_lanes(self.vector_bytes, widest, self.max_lanes)

    def _is_contiguous(self, kernel: stripe.Block, found: RunningAggregate) -> bool:
        """Return whether outputs, and terms unless constant, are contiguous from step to step."""
        moves = [(r, _stride(found, r)) for r in kernel.refinements]
        return all(abs(move) == 1 or (move == 0 and r is not found.output) for r, move in moves)

    def _across(self, kernel: stripe.Block, found: RunningAggregate) -> tuple[stripe.Index, int, int] | None:
        """Return an index for lanes across the scan, their number, and the width of a stretch of them."""
        lanes = self._lanes(kernel)
        if lanes == 1 or self._is_contiguous(kernel, found):
            return None
        for index in found.others:
            moves = [(r, int(address(r).coefficient(index.name))) for r in kernel.refinements]
            fits = all(move == 1 or (move == 0 and r is not found.output) for r, move in moves)
            if fits and index.range >= lanes:
                most = max(lanes, self.stretch_bytes // found.output.shape.dtype.itemsize)
                # Stretches are short enough for all threads to have some.
                others = product(i.range for i in found.others) // index.range
                most = min(most, max(lanes, index.range * others // self.parts))
                widths = range(lanes, min(most, index.range) + 1, lanes)
                return index, lanes, max((w for w in widths if index.range % w == 0), default=widths[-1])
        return None

    def _parts(self, found: RunningAggregate, unit: int, together: int) -> tuple[int, int]:
        """Return the number of parts, and the terms of each, a multiple of ``unit``.

        ``together`` scans that run side by side count as one, and share the terms of a part.
        """
        beside = max(1, product(i.range for i in found.others) // together)
        count = min(-(-self.parts // beside), found.steps * together // self.part_terms)
        length = found.steps // max(1, count) // unit * unit
        if beside >= self.parts or found.before or count < 2 or not length:
            return 1, found.steps
        return count, length


_LEAST_THREADS = 32
"""Minimum threads, since those that run in lock-step are idle otherwise."""


def _stride(found: RunningAggregate, refinement: stripe.Refinement) -> int:
    """Return the elements by which a view moves from one step to the next."""
    first, second = (address(refinement).substitute(found.at_step(Affine.constant(step))) for step in (0, 1))
    return int((second - first).offset)


def _adds_what_stays(kernel: stripe.Block) -> bool:
    """Return whether a kernel sums, up to a moving end, terms of a moving part plus a constant one.

    Earlier stages split these sums if the accumulator's dtype is wide enough.
    """
    merged = [r for r in kernel.refinements if r.aggregation is Aggregation.SUM]
    if len(merged) != 1 or not merged[0].shape.dtype.is_float:
        return False
    written = {name for access in merged[0].access for name in access.indices}
    reduced = {i.name for i in kernel.indices} - written
    if not any(reduced & set(c.indices) and written & set(c.indices) for c in kernel.constraints):
        return False
    moves = {r.name: any(reduced & set(a.indices) for a in r.access) for r in kernel.refinements}
    loaded = {s.into: moves[s.source] for s in kernel.statements if isinstance(s, stripe.Load)}
    sums = [s for s in kernel.statements if isinstance(s, stripe.Intrinsic) and s.op is Op.ADD]
    return any([loaded.get(name) for name in each.inputs] in ([True, False], [False, True]) for each in sums)
