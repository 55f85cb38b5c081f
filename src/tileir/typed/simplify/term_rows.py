"""The terms of an aggregation in rows, and the conditions for padding.

The terms of ``O[i] = +(A[i - 2·k])`` are two rows, one of the even positions of A and one of the odd ones. If A has an
odd number of elements, one row is longer: both get its length, and a condition excludes the padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.poly.box import feasible
from tileir.poly.constraint import system
from tileir.poly.coverage import eliminated


@attrs.frozen
class Points:
    """The points of a contraction, as in :class:`tileir.poly.bounds.Domain`, possibly in other indices.

    Attributes:
        ranges: The range of each index, from 0 on.
        accesses: Integral polynomials, those of the output first.
        constraints: Integral polynomials that must be >= 0.
    """

    ranges: Mapping[str, int]
    accesses: tuple[tuple[Affine, ...], ...]
    constraints: tuple[Affine, ...]

    def substituted(
        self, values: Mapping[str, Affine], ranges: Mapping[str, int], within: Iterable[Affine] = ()
    ) -> Points:
        """Return the same points in other indices, which have these ranges; ``within`` must be >= 0, too."""
        accesses = tuple(tuple(p.substitute(values) for p in access) for access in self.accesses)
        constraints = (*(c.substitute(values) for c in self.constraints), *within)
        return Points(ranges, accesses, constraints)


@attrs.frozen
class Rows:
    """The points of an aggregation, and its terms in rows.

    Attributes:
        points: The points. None of their conditions has only ``term`` and held indices.
        term: The index that counts terms.
        held: Other indices that terms depend on, in the order of the operands' axes: each value of them is a row.
        padding: Affines that are >= 0 for actual terms; empty if there is no padding.
    """

    points: Points
    term: str
    held: tuple[str, ...]
    padding: tuple[Affine, ...]

    @property
    def extent(self) -> int:
        """Number of terms of a row."""
        return self.points.ranges[self.term]

    @property
    def count(self) -> int:
        """Number of rows."""
        return prod(self.points.ranges[name] for name in self.held)

    @property
    def moving(self) -> tuple[Affine, ...]:
        """Affines that are >= 0 for the terms of an element, beside the padding."""
        return tuple(c for c in self.points.constraints if self.term in c.indices)

    def nonempty(self) -> tuple[Affine, ...] | None:
        """Return affines that are >= 0 exactly where an element has terms; None if they are not easy to find."""
        return eliminated(self.term, self.extent, (*self.padding, *self.moving), self.points.ranges)

    def longer(self, before: int, after: int) -> Rows:
        """Return rows that are padded by ``before`` and ``after`` terms."""
        index = Affine.index(self.term)
        values = {self.term: index - before}
        padding = tuple(c.substitute(values) for c in (*self.padding, index, self.extent - 1 - index))
        ranges = {**self.points.ranges, self.term: before + self.extent + after}
        return attrs.evolve(self, points=self.points.substituted(values, ranges), padding=padding)


def rows_of(points: Points, term: str, held: tuple[str, ...], sizes: Sequence[Sequence[int]]) -> Rows | None:
    """Return the terms of points in the shortest rows, without implied conditions.

    Args:
        points: The points.
        term: The index that counts terms.
        held: All other indices of operands.
        sizes: The extents of operands.

    Returns:
        None if there are no points.
    """
    known = {term, *held}
    axes = [axis for pair in zip(points.accesses[1:], sizes, strict=True) for axis in zip(*pair, strict=True)]
    bounds = [end for p, extent in axes if term in p.indices for end in (p, extent - 1 - p)]
    own = [c for c in points.constraints if term in c.indices and set(c.indices) <= known]
    inside = tuple(dict.fromkeys((*own, *bounds)))
    first, last = 0, points.ranges[term] - 1
    for limit in inside:
        factor = int(limit.coefficient(term))
        most = int((limit - Affine.index(term) * factor).bounds(points.ranges)[1])
        if factor > 0:
            first = max(first, -(most // factor))
        else:
            last = min(last, most // -factor)
    if last < first:
        return None
    ranges = {**points.ranges, term: last - first + 1}
    values = {term: Affine.index(term) + first}
    others = tuple(c for c in points.constraints if c not in own)
    moved = attrs.evolve(points, constraints=others).substituted(values, ranges)
    padding = tuple(c for c in (c.substitute(values) for c in inside) if c.bounds(ranges)[0] < 0)
    return _without_implied(Rows(moved, term, held, padding))


def _without_implied(rows: Rows) -> Rows:
    """Return rows without ends that follow from the other conditions."""
    left = list(rows.points.constraints)
    for end in rows.moving:
        others = [c for c in left if c is not end]
        if _implied(end, (*others, *rows.padding), rows.points.ranges):
            left = others
    return attrs.evolve(rows, points=attrs.evolve(rows.points, constraints=tuple(left)))


def _implied(condition: Affine, others: Iterable[Affine], ranges: Mapping[str, int]) -> bool:
    """Return whether a condition follows from others."""
    if condition.bounds(ranges)[0] >= 0:
        return True
    limits = [(Affine.index(name), extent) for name, extent in ranges.items()]
    given = system(ranges, [*limits, *((other, None) for other in others), (-1 - condition, None)])
    return given is None or feasible(given) is False
