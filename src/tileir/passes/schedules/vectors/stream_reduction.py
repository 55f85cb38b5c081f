"""Reductions over rows of memory: a stretch of sums stays in a cache while rows stream past it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.passes.base import at_least
from tileir.passes.kernels import (
    against_parallel,
    against_plain_places,
    against_reading,
    against_scalars,
    reduction_nest,
    schedule as sch,
)
from tileir.passes.schedules.strategy import Strategy
from tileir.schedule import Nest, Refused, Tail, accepted, product, refused, refusing, rule_out
from tileir.schedule.application import Candidate, Rearrangement
from tileir.schedule.steps.loops import Bind, Jam, Reorder, Split
from tileir.stripe import ir as stripe


@attrs.frozen
class StreamReduction(Strategy):
    """Schedule reductions across contiguous memory, whose sums stay in a cache.

    A register tile of these reductions would read a short piece of each row, each in another page. Instead, each group
    takes a stretch of at least a page, adds a few rows to it at a time, and keeps the sums in an array. Longer
    stretches are better, since hardware prefetching restarts in every row.

    Attributes:
        vector_bytes: Width of a vector register in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        stretch_bytes: Sufficient size of a stretch of sums in bytes; about a page.
        cache_bytes: Cache that holds a stretch of sums and the rows that are added at a time, in bytes; if it is large
            enough, stretches exceed a page.
        unroll: Number of rows that are added between loading and storing a sum.
        threads: Number of groups that run in parallel; stretches shrink, down to a quarter of a page, to reach it.
    """

    name: ClassVar[str] = "stream_reduction"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    stretch_bytes: int = attrs.field(default=4096, validator=at_least(1))
    cache_bytes: int = attrs.field(default=0, validator=at_least(0))
    unroll: int = attrs.field(default=8, validator=at_least(1))
    threads: int = attrs.field(default=1, validator=at_least(1))

    def candidates(self, kernel: stripe.Block) -> Iterator[Candidate | Refused]:
        """Yield stretches that keep all threads busy, as long as possible."""
        nest = accepted(reduction_nest(kernel))
        rule_out(against_reading(nest))
        lanes = sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)
        vector = accepted(self._vector(nest))
        rule_out(against_parallel(nest))
        size = sch.widest_itemsize(nest)
        page, held = self.stretch_bytes // size, self.cache_bytes // (self.unroll + 1) // size
        least, most = -(-page // 4), max(page, held)
        equal = {lanes * -(-vector.range // (lanes * count)) for count in range(1, vector.range // least + 1)}
        widths = sorted(width for width in equal if least <= width <= min(most, vector.range))
        if not widths:
            rule_out(refused("TR602", index=vector.name, range=vector.range, lanes=lanes, least=least, most=most))
        shared = [w for w in widths if -(-vector.range // w) >= self.threads]
        others = product(i.range for i in nest.indices if i is not vector)

        def busiest(width: int) -> tuple[int, int]:
            """Return the load of the busiest thread, and how short stretches are; an overlapping one runs alone."""
            whole, left = divmod(vector.range, width)
            turns = -(-others * whole // self.threads) + (-(-others // self.threads) if left else 0)
            return turns * width, -width

        width = min(shared, key=busiest) if shared else ([w for w in widths if w <= page] or widths)[-1]
        steps = self._steps(nest, vector.name, lanes, width)
        yield Candidate.of(nest, steps, index=vector.name, width=width, lanes=lanes)

    @refusing
    def _vector(self, nest: Nest) -> stripe.Index | Refused:
        """Return the index along rows; refused for other reductions."""
        if constrained := sch.constrained_indices(nest):
            return refused("TR306", index=min(constrained))
        rule_out(against_scalars(nest) or against_plain_places(nest))
        rows = [u for s in nest.segments if s.loops for u in sch.read_uses(nest) if u in s.uses]
        loops = [i.name for s in nest.segments for i in s.loops]
        for index in nest.indices:
            along = [u for u in rows if u.stride(index.name)]
            contiguous = all(u.stride(index.name) == 1 for u in (*sch.written_uses(nest), *along))
            plain = all(u.stride(index.name) in (0, 1) for u in sch.read_uses(nest))
            if not contiguous or not plain or not along:
                continue
            # Rows that another index does not move are read again for each of its values: a register tile is better.
            reused = any(i is not index and not any(u.stride(i.name) for u in along) for i in nest.indices)
            far = all(abs(u.stride(name)) * u.dtype.itemsize >= self.stretch_bytes for u in along for name in loops)
            if far and not reused:
                return index
        return refused("TR601")

    def _steps(self, nest: Nest, vector: str, lanes: int, width: int) -> tuple[Rearrangement, ...]:
        """Yield steps for stretches of a row, the last perhaps overlapping, to which a few rows are added at a time."""
        names = nest.taken_names()
        panel, stretch, step, lane = (names.fresh(f"{vector}_{what}") for what in ("panel", "in", "vector", "lane"))
        others = [index.name for index in nest.indices if index.name != vector]
        grid = (*others[-2:], panel)
        last = {segment.loops[-1].name: segment.loops[-1].range for segment in nest.segments if segment.loops}
        parts = {name: (names.fresh(f"{name}_block"), names.fresh(f"{name}_row")) for name in last}
        return (
            Split(vector, width, (panel, stretch), Tail.SHIFT),
            Split(stretch, lanes, (step, lane), Tail.EVEN),
            Reorder((*grid, *others[:-2], step, lane)),
            Jam((step, lane)),
            *(Split(name, self._rows(size), parts[name], Tail.EVEN) for name, size in last.items()),
            *(Reorder((block, step, row, lane)) for block, row in parts.values()),
            Bind(tuple(row for _, row in parts.values()), stripe.Binding.UNROLL),
            Bind(lane, stripe.Binding.LANE),
            Bind(grid, stripe.Binding.GRID),
        )

    def _rows(self, size: int) -> int:
        return next(n for n in range(min(self.unroll, size), 0, -1) if size % n == 0)
