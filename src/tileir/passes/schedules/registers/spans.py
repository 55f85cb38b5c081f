"""Reductions bounded by the place of the output, as on one side of a diagonal, or in a band along it.

With ``t <= s`` for an output row s and a step t, no tile of rows s0 to s1 needs the steps beyond s1, and those up to s0
need no test. So the loop over t is split: one loop over the steps that all rows of a tile take, without tests, and for
each constraint one over the steps that only some rows take. Their bounds are affine in the place of the tile, so that
one kernel serves all tiles, and steps that no row takes are never executed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from tileir.core import NameScope, attrs
from tileir.poly.affine import Affine
from tileir.schedule.nest import Segment
from tileir.stripe.ir import Binding, Index

_LEAST_STEPS: Final = 32
"""Minimum steps of a loop for which bounds pay: steps that only some rows of a tile take are about as many as these
rows, and a window has fewer.
"""


_MOST_EDGE_STEPS: Final = 16
"""Maximum steps of an edge, which are unrolled so that their tests are decided at compile time."""


@attrs.frozen
class Span:
    """A part of a reduction over one tile.

    Attributes:
        bounds: Affines in the loops that are >= 0 at steps that belong to it.
        segment: The reduction, with the constraints that some row of the tile may violate there.
        edge: Its steps, if they are unrolled and counted from the place of the tile.
    """

    bounds: tuple[Affine, ...]
    segment: Segment
    edge: Edge | None = None

    @property
    def place(self) -> dict[str, Affine]:
        """The steps of an edge, by the name of the loop, in terms of the loops."""
        return {} if self.edge is None else {self.edge.loop: self.edge.first + Affine.index(self.edge.steps.name)}

    def loops(self, serial: Sequence[Index]) -> tuple[Index, ...]:
        """Return the loops of this part in place of all."""
        edge = self.edge
        return tuple(serial) if edge is None else tuple(edge.steps if i.name == edge.loop else i for i in serial)

    def tests(self, constraints: Sequence[Affine], ranges: Mapping[str, int]) -> tuple[Affine, ...]:
        """Return constraints in terms of these loops, without those that always hold over ``ranges``."""
        if self.edge is None:
            return tuple(constraints)
        known = {**ranges, self.edge.steps.name: self.edge.steps.range}
        moved = [constraint.substitute(self.place) for constraint in constraints]
        return tuple(c for c in moved if not known.keys() >= set(c.indices) or c.bounds(known)[0] < 0)


@attrs.frozen
class Edge:
    """The steps that only some rows of a tile take, unrolled: ``steps`` counts them from ``first`` on."""

    loop: str
    steps: Index
    first: Affine


@attrs.frozen
class Spans:
    """A loop of a reduction over one tile of rows, with the constraints that separate its spans.

    Attributes:
        segment: The reduction.
        loop: The loop that constraints bound.
        rows: The indices over the rows of a tile.
        places: Constraints that differ between rows, with their values in terms of the loops.
    """

    segment: Segment
    loop: Index
    rows: tuple[Index, ...]
    places: Mapping[Affine, Affine]
    names: NameScope

    @classmethod
    def of(
        cls,
        segment: Segment,
        values: Mapping[str, Affine],
        rows: tuple[Index, ...],
        serial: Sequence[Index],
        names: NameScope,
    ) -> Spans | None:
        """Return the spans of a segment, whose indices have these values; None if one loop runs all steps.

        ``serial`` are its loops that are not unrolled, and ``names`` holds all names of the kernel.
        """
        name, constraints = bounding(segment)
        loop = next((loop for loop in serial if loop.name == name), None)
        own = {row.name for row in rows}
        places = {c: c.substitute(values) for c in constraints}
        cut = {c: place for c, place in places.items() if not own.isdisjoint(place.indices)}
        return cls(segment, loop, rows, cut, names) if loop is not None and cut else None

    def __iter__(self) -> Iterator[Span]:
        """Yield the edges, and then the steps that all rows take; spans are disjoint."""
        cut = tuple(self.places)
        for number, failing in enumerate(cut):
            before, behind = cut[:number], cut[number + 1 :]
            some = tuple(self._end(c, least=False) for c in (failing, *behind))
            bounds = (*(self._end(c, least=True) for c in before), *some, -self._end(failing, least=True) - 1)
            yield self._edge(failing, bounds, self._without(before))
        yield Span(tuple(self._end(c, least=True) for c in cut), self._without(cut))

    def _edge(self, failing: Affine, bounds: tuple[Affine, ...], segment: Segment) -> Span:
        """Return the steps that only some rows take because of one constraint."""
        least, most = self._end(failing, least=True), self._end(failing, least=False)
        count = int((most - least).offset)
        if count > _MOST_EDGE_STEPS:
            return Span(bounds, segment)
        steps = attrs.evolve(
            self.loop, name=self.names.fresh(f"{self.loop.name}_edge"), range=count, binding=Binding.UNROLL
        )
        there = {self.loop.name: 0}
        ends_early = failing.coefficient(self.loop.name) < 0
        first = least.substitute(there) + 1 if ends_early else -most.substitute(there)
        step = Affine.index(self.loop.name)
        return Span((*bounds, step, self.loop.range - 1 - step), segment, Edge(self.loop.name, steps, first))

    def _without(self, constraints: Collection[Affine]) -> Segment:
        kept = tuple(c for c in self.segment.constraints if c not in constraints)
        return attrs.evolve(self.segment, constraints=kept)

    def _end(self, constraint: Affine, *, least: bool) -> Affine:
        """Return the minimum (``least``) or maximum of a constraint among the rows of a tile."""
        place = self.places[constraint]
        ends = {row.name: 0 if (place.coefficient(row.name) > 0) is least else row.range - 1 for row in self.rows}
        return place.substitute(ends)


def bounding(segment: Segment) -> tuple[str, tuple[Affine, ...]]:
    """Return the longest loop that constraints bound by outer indices, and these; an empty name if there is none."""
    loops = {loop.name: loop for loop in segment.loops if loop.range >= _LEAST_STEPS}
    inner = {loop.name for loop in segment.loops}
    found: dict[str, list[Affine]] = {}
    for constraint in segment.constraints:
        (name, *others) = inner.intersection(constraint.indices) or ("",)
        outer = any(index not in inner for index in constraint.indices)
        if not others and outer and name in loops and abs(constraint.coefficient(name)) == 1:
            found.setdefault(name, []).append(constraint)
    if not found:
        return "", ()
    longest = max(found, key=lambda name: loops[name].range)
    return longest, tuple(found[longest])
