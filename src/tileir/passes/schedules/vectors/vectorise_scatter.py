"""Vector lanes and a grid for scatters: merges into, or stores to, data-dependent places, such as histograms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import attrs

from tileir.passes.base import at_least
from tileir.passes.kernels import elementwise_nest, schedule as sch
from tileir.passes.schedules.strategy import Strategy
from tileir.passes.schedules.vectors.shared_loads import Vectors
from tileir.schedule import (
    Known,
    Nest,
    Refused,
    Replaced,
    Tail,
    Tree,
    Use,
    accepted,
    chosen_by_data,
    refused,
    refusing,
    with_loops_replaced,
)
from tileir.schedule.application import Candidate, Rearrangement
from tileir.schedule.steps.loops import Bind, Reorder, Split
from tileir.stripe import ir as stripe


@attrs.frozen
class VectoriseScatter(Strategy):
    """Vectorise scatters: compute updates and indices in vectors, and merge them one by one.

    Lanes run along the rows of the target. Updates that replace elements, or parts of a row if there is no other
    parallelism, form a grid. If rows are too short, lanes run along updates: places and values are computed as vectors,
    and then merged one after the other, since lanes may collide. Each group of a grid preserves the order of replacing
    updates.

    Attributes:
        vector_bytes: Width of a vector register in bytes.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        part_bytes: Minimum size of a part of a row in bytes: the granularity of memory.
        threads: Number of parts of a row, unless they are too small.
    """

    name: ClassVar[str] = "vectorise_scatter"
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    part_bytes: int = attrs.field(default=128, validator=at_least(1))
    threads: int = attrs.field(default=1, validator=at_least(1))

    def candidates(self, kernel: stripe.Block) -> Iterator[Candidate | Refused]:
        """Yield lanes along a row, or along updates; for ordered updates, groups with disjoint elements."""
        ordered = frozenset(index.name for index in kernel.indices if index.serial)
        free = tuple(attrs.evolve(index, serial=False) for index in kernel.indices)
        nest = accepted(elementwise_nest(attrs.evolve(kernel, indices=free) if ordered else kernel))
        (segment,) = nest.segments
        written = [use for use in sch.written_uses(nest) if use.name in chosen_by_data(segment.statements)]
        if ordered:
            yield self._in_order(nest, ordered) if written else refused("TR103")
        else:
            yield self._in_any_order(nest, written)

    @refusing
    def _in_any_order(self, nest: Nest, written: Sequence[Use]) -> Candidate | Refused:
        """Return lanes along a row, and a grid, or lanes along updates."""
        along = accepted(self._along(nest)) if written else None
        if along is None or not (any(use.merges for use in written) or self._stores_rows(nest, along)):
            return refused("TR664")
        lanes = self._lanes(nest, along)
        steps = self._steps(nest, along, lanes, sch.parallel_indices(nest))
        return Candidate.of(nest, steps, index=along.name, lanes=lanes)

    def _in_order(self, nest: Nest, ordered: frozenset[str]) -> Candidate | Refused:
        """Return lanes along a row, and groups that store to disjoint elements, in order."""
        apart = [i for i in sch.indices_apart(nest, sch.written_uses(nest)) if i.range > 1]
        if not apart:
            return refused("TR103")
        along = self._along(nest)
        row = None if isinstance(along, Refused) or along.name in ordered else along
        lanes = 1 if row is None else self._lanes(nest, row)
        steps = (*self._steps(nest, row, lanes, apart), _SequentialLoops(ordered))
        return Candidate.of(nest, steps, index="" if row is None else row.name, lanes=lanes)

    def _lanes(self, nest: Nest, along: stripe.Index) -> int:
        most = sch.vector_lanes(self.vector_bytes, sch.widest_itemsize(nest), self.max_lanes)
        return min(most, sch.power_of_two_below(along.range))

    def _stores_rows(self, nest: Nest, along: stripe.Index) -> bool:
        """Return whether lanes along an index are columns of rows selected by updates.

        Stores along updates, or at a place common to all points, have lanes like any other kernel.
        """
        (segment,) = nest.segments
        moves = [index.name for index in nest.indices if sch.scatters(segment, index.name)]
        return bool(moves) and along.name not in moves

    def _along(self, nest: Nest) -> stripe.Index | Refused:
        """Return the index of the lanes: that of a row, or the innermost of updates with contiguous reads."""
        (segment,) = nest.segments
        constrained = sch.constrained_indices(nest)
        free = [i for i in nest.indices if i.name not in constrained and i.range >= _LEAST]
        written = sch.written_uses(nest)
        rows = [i for i in free if not sch.scatters(segment, i.name) and all(u.stride(i.name) == 1 for u in written)]
        plain = [use for use in written if not use.merges]
        updates = [
            i
            for i in reversed(free)
            if sch.scatters(segment, i.name)
            and all(use.stride(i.name) == 1 for use in plain)
            and all(use.stride(i.name) in (0, 1) for use in (*sch.read_uses(nest), *written))
        ]
        if not rows and not updates:
            return refused("TR302", outputs=len(written))
        return (rows or updates)[0]

    def _steps(
        self, nest: Nest, along: stripe.Index | None, lanes: int, parallel: Iterable[stripe.Index]
    ) -> Iterator[Rearrangement]:
        """Yield steps for lanes, and for a grid of the parallel indices."""
        grid = [i.name for i in parallel if i is not along and i.range > 1][:_AXES]
        loops = [i.name for i in nest.indices if i is not along and i.name not in grid]
        if along is None:
            yield Reorder((*grid, *loops))
            yield from (Bind(index, stripe.Binding.GRID) for index in grid)
            return
        names, name = nest.taken_names(), along.name
        (segment,) = nest.segments
        part, size = name, along.range
        if not grid and not sch.scatters(segment, name):
            size = self._part(along, lanes, sch.widest_itemsize(nest))
            chunk, part = (names.fresh(f"{name}_{what}") for what in ("chunk", "part"))
            yield Split(name, size, (chunk, part), Tail.EVEN)
            grid = [chunk]
        yield Reorder((*grid, *loops, part))
        yield from (Bind(index, stripe.Binding.GRID) for index in grid)
        vectors, left = divmod(size, lanes)
        runs = [(vectors, lanes), (left, 1)] if left else [(vectors, lanes)]
        yield from Vectors(name, lanes, names, nest.sources).steps(part, runs)

    def _part(self, row: stripe.Index, lanes: int, itemsize: int) -> int:
        """Return the elements of a part of a row: whole vectors, in parts of equal size."""
        least = max(lanes, self.part_bytes // itemsize, -(-row.range // self.threads))
        return next(
            (size for size in range(least, row.range) if row.range % size == 0 and size % lanes == 0), row.range
        )


@attrs.frozen
class _SequentialLoops:
    """Step that runs the iterations of all loops outside the grid in order."""

    name: ClassVar[str] = "in order"
    loops: frozenset[str]

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002
        """Return the tree with loops in order."""
        found = tree
        for loop in tree.loops():
            if loop.name in self.loops and loop.binding is None:
                found = accepted(
                    with_loops_replaced(found, loop.name, lambda each, _: Replaced((attrs.evolve(each, carried=True),)))
                )
        return found


_LEAST = 4
"""Minimum values of an index for which lanes pay."""

_AXES = 2
"""Maximum axes of the grid."""
