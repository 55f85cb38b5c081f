"""Rows of a register tile that constraints may exclude: runs of rows with equal tests have a block each.

At the edge of an image some steps of a reduction leave out the first or the last rows of a tile. All other rows never
fail a test, so that their multiply-adds are free of branches, and one kernel serves interior and edges. Unrolled steps
are distinguished in the same way: here they count as rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product as combinations

from tileir.core import NameScope, attrs
from tileir.passes.kernels.schedule import constrained_indices, part, present, reads_of
from tileir.passes.schedules.registers.cost import Limits, Tiling, choose
from tileir.passes.schedules.registers.steps import left_out
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Node, Refused, Segment, leaf, product
from tileir.stripe.ir import Index


def has_edges(nest: Nest) -> bool:
    """Return whether constraints cut outer indices of a nest."""
    return not constrained_indices(nest).isdisjoint(index.name for index in nest.indices)


def bears_edges(nest: Nest, plan: Tiling, limits: Limits, percent: int) -> bool:
    """Return whether one kernel for a nest with edges is about as fast as several would be.

    These are one for the unconstrained points, and others whose points take half as long again. If lanes share no
    factor, as in depthwise convolutions, loads bound a step. Unrolled consecutive steps share them, and steps with
    tests are seldom unrolled. One kernel must not cost more at all if most rows of its tiles have tests, or if it has
    no rows: few multiply-adds then share the loads of a step.

    Args:
        nest: A kernel that reduces.
        plan: Its tiling as one kernel.
        limits: The facts about the processor.
        percent: Maximum extra cost of one kernel.
    """
    reads = (use for segment in nest.segments for use in reads_of(nest, segment) if segment.loops)
    if all(use.stride(plan.vector.name) for use in reads):
        return False
    cut: dict[str, list[int]] = {}
    for segment in nest.segments:
        for constraint in segment.constraints:
            for name, rows in left_out(constraint, nest, segment):
                ends = cut.setdefault(name, [0, 0])
                ends[rows < 0] = max(ends[rows < 0], abs(rows))
    indices = tuple(attrs.evolve(i, range=i.range - sum(cut.get(i.name, ()))) for i in nest.indices)
    if any(index.range < 1 for index in indices):
        return True
    segments = tuple(attrs.evolve(segment, constraints=()) for segment in nest.segments)
    inside = choose(attrs.evolve(nest, indices=indices, segments=segments), limits, {}, overlaps=False)
    if isinstance(inside, Refused):
        return False
    tested = any(rows.height < 2 * sum(cut.get(rows.index.name, ())) for rows in plan.rows)
    if tested or (inside.rows and not plan.rows):
        percent = 0
    points, free = (product(i.range for i in each) for each in (nest.indices, indices))
    return 100 * plan.cost <= (100 + percent) * inside.cost * (1.5 * points - 0.5 * free) / free


@attrs.frozen
class Edges:
    """The constraints of a reduction over one kind of tile.

    Attributes:
        rows: Indices of the rows of a tile.
        tests: The constraints that differ between rows.
        failing: Constraints of ``tests`` that may fail, for each row index and each of its values.
    """

    rows: tuple[Index, ...]
    tests: tuple[Affine, ...]
    failing: tuple[tuple[frozenset[Affine], ...], ...]

    @classmethod
    def of(
        cls, segment: Segment, places: Mapping[str, Affine], rows: tuple[Index, ...], ranges: Mapping[str, int]
    ) -> Edges:
        """Return the edges of a segment, whose indices have the values ``places`` over ``ranges``."""
        names = {row.name for row in rows}
        moved = {c: c.substitute(places) for c in segment.constraints}
        tests = tuple(c for c, place in moved.items() if not names.isdisjoint(place.indices))
        failing = tuple(
            tuple(
                frozenset(c for c in tests if moved[c].substitute({row.name: value}).bounds(ranges)[0] < 0)
                for value in range(row.range)
            )
            for row in rows
        )
        return cls(rows, tests, failing)

    def blocks(
        self, segment: Segment, values: Mapping[str, Affine], indices: tuple[Index, ...], names: NameScope
    ) -> Iterator[Node]:
        """Yield the blocks of one step over all rows of a tile, those without tests first.

        ``values`` has the indices of the segment in terms of the loops; ``indices`` are those of a tile except its
        rows; ``names`` holds all names of the kernel.
        """
        pieces = combinations(*(tuple(self._runs(place)) for place in range(len(self.rows))))
        for piece in sorted(pieces, key=lambda piece: len(self._needed(piece))):
            loops = [run.index(names) for run in piece]
            shift = {run.row.name: part(loop) + run.first for run, loop in zip(piece, loops, strict=True)}
            mapping = {**{name: value.substitute(shift) for name, value in values.items()}, **shift}
            needed = self._needed(piece)
            tested = attrs.evolve(segment, constraints=tuple(c for c in self.tests if c in needed))
            yield leaf(tested, mapping, (*present(loops), *indices))

    def _needed(self, piece: Sequence[_Run]) -> frozenset[Affine]:
        """Return the tests that may fail in runs of several row indices.

        A test belongs to all runs of an index that it ignores.
        """
        return frozenset(self.tests).intersection(*(run.tests for run in piece))

    def _runs(self, place: int) -> Iterator[_Run]:
        """Yield the runs of adjacent rows with equal tests."""
        row, failing = self.rows[place], self.failing[place]
        for tests, values in groupby(range(row.range), key=failing.__getitem__):
            first, *others = values
            yield _Run(row, first, 1 + len(others), tests)


@attrs.frozen(repr=False)
class _Run:
    """The rows ``first`` to ``first + count - 1``, of which ``tests`` may fail."""

    row: Index
    first: int
    count: int
    tests: frozenset[Affine]

    def index(self, names: NameScope) -> Index:
        """Return the loop over these rows: an index has one range in a kernel, so runs need distinct names."""
        whole = self.count == self.row.range
        return attrs.evolve(self.row, name=self.row.name if whole else names.fresh(self.row.name), range=self.count)
