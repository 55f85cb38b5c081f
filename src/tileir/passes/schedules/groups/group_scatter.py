"""Updates of small tables by groups of threads, each first in a private table in local memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from tileir.core import attrs
from tileir.passes.base import at_least
from tileir.passes.kernels import schedule as sch, unscheduled_elementwise
from tileir.passes.schedules.strategy import Strategy
from tileir.schedule import Nest, Refused, Tail, accepted, atomic_names, product, refused, rule_out
from tileir.schedule.application import Candidate, Rearrangement
from tileir.schedule.steps.legality import word
from tileir.schedule.steps.loops import Bind, Reorder, Split
from tileir.schedule.steps.memory import Accumulate, Level
from tileir.stripe import ir as stripe


@attrs.frozen
class GroupScatter(Strategy):
    """Aggregate scatters to small tables in local memory before global updates.

    Neighbouring threads take neighbouring updates or, for updates of rows, neighbouring elements of a row.

    Attributes:
        threads: Threads in a group.
        groups: Number of groups that keeps the device busy.
        table_bytes: Maximum size of a group's table in bytes.
        updates: Minimum number of updates of a group for each element of its table.
        vector_bytes: Width of a thread's memory accesses in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
    """

    name: ClassVar[str] = "group_scatter"
    threads: int = attrs.field(default=256, validator=at_least(1))
    groups: int = attrs.field(default=1, validator=at_least(1))
    table_bytes: int = attrs.field(default=16384, validator=at_least(0))
    updates: int = attrs.field(default=4, validator=at_least(1))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))

    def candidates(self, kernel: stripe.Block) -> Iterator[Candidate | Refused]:
        """Yield a table for each group, if groups have enough updates."""
        nest = accepted(unscheduled_elementwise(kernel))
        (segment,) = nest.segments
        written = sch.written_uses(nest)
        if len(written) != 1 or written[0].name not in atomic_names(segment.statements):
            rule_out(refused("TR664"))
        (table,) = written
        bounds = [affine.bounds(kernel.ranges) for affine in table.access]
        reach = [int(high - low) + size for (low, high), size in zip(bounds, table.sizes, strict=True)]
        elements = product(reach)
        moved = [i for i in nest.indices if sch.scatters(segment, i.name) and not table.stride(i.name)]
        updates = product(i.range for i in nest.indices)
        size = elements * table.dtype.itemsize
        groups = min(self.groups, updates // (self.updates * elements))
        if not moved or size > self.table_bytes or groups < 2:
            rule_out(refused("TR693", bytes=size, most=self.table_bytes, updates=updates))
        yield Candidate.of(nest, self._steps(nest, moved[-1], table.root, reach, groups))

    def _steps(
        self, nest: Nest, along: stripe.Index, root: str, reach: Sequence[int], groups: int
    ) -> Iterator[Rearrangement]:
        """Yield steps that divide updates ``along`` an index, and all others, among groups and their threads."""
        names, name = nest.taken_names(), along.name
        others = [i for i in nest.indices if i is not along]
        wide = next((i for i in reversed(others) if not sch.scatters(nest.segments[0], i.name)), None)
        beside = 1 if wide is None else min(self.threads, wide.range)
        threads = self.threads // beside
        lanes = self._lanes(nest, along) if wide is None else 1
        group, part, step, thread, lane, vector = (names.fresh(f"{name}_{what}") for what in _PARTS)
        run = -(-along.range // (lanes * groups))
        yield Split(name, lanes, (vector, lane), Tail.EVEN)
        yield Split(vector, run + -run % threads, (group, part))
        yield Split(part, threads, (step, thread))
        outer = [i.name for i in others if i is not wide]
        inside: list[str] = []
        if wide is not None:
            far, near = names.fresh(f"{wide.name}_far"), names.fresh(f"{wide.name}_thread")
            yield Split(wide.name, beside, (far, near))
            outer.append(far)
            inside.append(near)
        yield Reorder((group, thread, *inside, step, *outer, lane))
        yield Bind(group, stripe.Binding.GRID)
        yield Accumulate(root, group, into := names.fresh(f"{word(root)}_table"), Level.LOCAL)
        for each in (thread, *inside):
            yield Bind(each, stripe.Binding.THREAD)
        if lanes > 1:
            yield Bind(lane, stripe.Binding.LANE)
        yield from self._shared(into, reach)

    def _shared(self, into: str, reach: Sequence[int]) -> Iterator[Rearrangement]:
        """Yield steps that divide the loops that clear and merge a table among threads."""
        threads = self.threads
        for axis in reversed(range(len(reach))):
            size = min(threads, reach[axis])
            threads //= size
            yield Split(f"{into}_{axis}", size, (f"{into}_{axis}_far", f"{into}_{axis}_near"))
        yield Reorder(tuple(f"{into}_{axis}_{end}" for end in ("near", "far") for axis in range(len(reach))))
        yield from (Bind(f"{into}_{axis}_near", stripe.Binding.THREAD) for axis in range(len(reach)))

    def _lanes(self, nest: Nest, along: stripe.Index) -> int:
        indirect = sch.indirect_names(nest.segments[0])
        read = [use for use in sch.read_uses(nest) if use.name not in indirect]
        widest = max((use.dtype.itemsize for use in read), default=self.vector_bytes)
        lanes = sch.aligned_lanes(read, along.name, sch.vector_lanes(self.vector_bytes, widest, self.max_lanes))
        return 1 if along.name in sch.constrained_indices(nest) or along.range % lanes else lanes


_PARTS: Final = ("group", "part", "step", "thread", "lane", "vector")
