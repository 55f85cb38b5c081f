"""Number of points of a box that satisfy linear constraints.

Indices without common constraints are counted separately, and their numbers multiplied. Among joined indices the one
with the largest range is solved for, and the points of all others are enumerated: exact for any constraints, at a cost
of one step per enumerated point. Beyond :data:`MOST_STEPS` the bound is the box left by each constraint alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final, TypeAlias

import numpy as np

from tileir.core.nodes import attrs

Terms: TypeAlias = tuple[tuple[int, int], ...]
"""(index, coefficient) pairs; indices are numbers."""

MOST_STEPS: Final = 1 << 18


@attrs.frozen
class Constraint:
    """``offset + Σ coefficient·index >= 0``."""

    terms: Terms
    offset: int


@attrs.frozen
class Count:
    """A number of points, and whether it is exact or an upper bound."""

    points: int
    exact: bool = True


def count_points(ranges: Mapping[int, int], constraints: Iterable[Constraint]) -> Count:
    """Return the number of points of ``0 <= index < range`` that satisfy all constraints."""
    kept = []
    for constraint in constraints:
        low, high = _bounds(constraint, ranges)
        if high < 0:
            return Count(0)
        if low < 0:
            kept.append(constraint)
    points, exact = 1, True
    joined: set[int] = set()
    for indices, group in _components(kept):
        found = _count_joined({i: ranges[i] for i in indices}, group)
        points, exact = points * found.points, exact and found.exact
        joined.update(indices)
    points *= prod(size for index, size in ranges.items() if index not in joined)
    return Count(points, exact or points == 0)


def _bounds(constraint: Constraint, ranges: Mapping[int, int]) -> tuple[int, int]:
    low = high = constraint.offset
    for index, coefficient in constraint.terms:
        reach = coefficient * (ranges[index] - 1)
        low, high = low + min(0, reach), high + max(0, reach)
    return low, high


def _components(constraints: Sequence[Constraint]) -> list[tuple[list[int], list[Constraint]]]:
    """Return groups of constraints that share no index with each other, with their indices."""
    groups: list[tuple[list[int], list[Constraint]]] = []
    for constraint in constraints:
        indices = dict.fromkeys(index for index, _ in constraint.terms)
        members = [constraint]
        apart = []
        for other, theirs in groups:
            if any(index in indices for index in other):
                indices.update(dict.fromkeys(other))
                members.extend(theirs)
            else:
                apart.append((other, theirs))
        groups = [*apart, (list(indices), members)]
    return groups


def _count_joined(ranges: Mapping[int, int], constraints: Sequence[Constraint]) -> Count:
    solved = max(ranges, key=lambda index: (ranges[index], index))
    others = [index for index in ranges if index != solved]
    steps = prod([ranges[index] for index in others])
    if steps > MOST_STEPS:
        return Count(_bound(ranges, constraints), exact=False)
    low = np.zeros(steps, np.int64)
    high = np.full(steps, ranges[solved] - 1, np.int64)
    values, rest = {}, np.arange(steps, dtype=np.int64)
    for index in others:
        rest, values[index] = np.divmod(rest, ranges[index])
    for constraint in constraints:
        total = np.full(steps, constraint.offset, np.int64)
        slope = 0
        for index, coefficient in constraint.terms:
            if index == solved:
                slope = coefficient
            else:
                total += coefficient * values[index]
        if slope > 0:
            np.maximum(low, -(total // slope), out=low)
        elif slope < 0:
            np.minimum(high, total // -slope, out=high)
        else:
            high[total < 0] = -1
    return Count(int(np.maximum(high - low + 1, 0).sum()))


def _bound(ranges: Mapping[int, int], constraints: Sequence[Constraint]) -> int:
    """Return the size of the box that remains after each constraint alone has cut each index."""
    low, high = dict.fromkeys(ranges, 0), {index: size - 1 for index, size in ranges.items()}
    for constraint in constraints:
        for index, coefficient in constraint.terms:
            others = [(other, factor) for other, factor in constraint.terms if other != index]
            most = constraint.offset + sum([max(factor * low[other], factor * high[other]) for other, factor in others])
            if coefficient > 0:
                low[index] = max(low[index], -(most // coefficient))
            else:
                high[index] = min(high[index], most // -coefficient)
    return prod([max(0, high[index] - low[index] + 1) for index in ranges])
