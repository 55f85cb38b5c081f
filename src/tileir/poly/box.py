"""The tightest box around the integer points of a system of constraints.

Ordinary systems never need the simplex algorithm: limits follow by interval propagation, and each is proved exact by a
witness, an integer point that reaches it. Only if no witness is found at once, integer programming decides. Indices
that no row links are treated separately, so the cost grows with the number of rows.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from tileir.core.nodes import attrs
from tileir.poly.constraint import Row, Span, System, Terms
from tileir.poly.simplex import Budget, Optimum, minimise

_ROUNDS = 12  # propagation that converges slowly is left to the integer programs


@attrs.frozen
class Bounded:
    """Least and greatest value of each index, and the rows that the box alone does not imply."""

    box: Mapping[str, tuple[int, int]]
    rows: tuple[Row, ...]


def enclose(given: System) -> Bounded | None:
    """Return the box of the integer points, or None if there are none.

    Each limit is reached by a point, unless an integer program exceeded its budget: then the limit is that of a
    relaxation, which is still sound.

    Raises:
        ValueError: The system does not confine every index.
    """
    box = dict(given.box)
    rows = propagate(box, given.rows)
    if rows is None:
        return None
    budget = Budget()
    for names, linked in _components(rows):
        if not _sharpen(box, names, linked, budget):
            return None
    exact = {name: (low, high) for name, (low, high) in box.items() if low is not None and high is not None}
    if len(exact) != len(box):
        raise ValueError("the constraints do not confine every index")
    return Bounded(exact, tuple(row for row in rows if not implied(row, box)))


def feasible(given: System) -> bool | None:
    """Return whether the system has an integer point; None if an integer program exceeded its budget.

    Raises:
        ValueError: The system does not confine every index.
    """
    box = dict(given.box)
    rows = propagate(box, given.rows)
    if rows is None:
        return False
    answer: bool | None = True
    budget = Budget()
    for names, linked in _components(rows):
        part = {name: box[name] for name in names}
        if _dive(dict(part), linked, 0) is not None:
            continue
        optimum = _minimum(linked[0].terms, linked, part, budget)
        if optimum is None:
            return False
        if optimum.point is None:
            answer = None
    return answer


def propagate(box: dict[str, Span], rows: Sequence[Row]) -> tuple[Row, ...] | None:
    """Narrow ``box`` in place by each row in turn, for a bounded number of rounds.

    Return the rows that the box does not imply; None if the system is found to be empty.
    """
    if any(low is not None and high is not None and low > high for low, high in box.values()):
        return None
    live = tuple(rows)
    for _ in range(_ROUNDS):
        kept = []
        changed = False
        for row in live:
            effect = _narrow(box, row)
            if effect is _Effect.EMPTY:
                return None
            if effect is not _Effect.IMPLIED:
                kept.append(row)
                changed = changed or effect is _Effect.NARROWED
        live = tuple(kept)
        if not changed:
            break
    return live


class _Effect(enum.Enum):
    """Effect of one row on a box."""

    EMPTY = "no point is left"
    IMPLIED = "every point of the box satisfies the row"
    SAME = "nothing"
    NARROWED = "some span became smaller"


def _narrow(box: dict[str, Span], row: Row) -> _Effect:
    """Narrow the spans of a row's indices by the greatest contributions of the others."""
    least, open_least, greatest, open_greatest = _extent(row, box)
    low, high = row.low, row.high
    low_holds = low is None or (open_least == 0 and least >= low)
    high_holds = high is None or (open_greatest == 0 and greatest <= high)
    if low_holds and high_holds:
        return _Effect.IMPLIED
    if (low is not None and open_greatest == 0 and greatest < low) or (
        high is not None and open_least == 0 and least > high
    ):
        return _Effect.EMPTY
    effect = _Effect.SAME
    for name, coefficient in row.terms:
        old = box[name]
        first, last = old if coefficient > 0 else (old[1], old[0])  # where the term is least and greatest
        # The term is at most high - (least of the others), and at least low - (greatest of the others).
        upper = lower = None
        if not high_holds and high is not None and open_least == (first is None):
            upper = high - least + (0 if first is None else coefficient * first)
        if not low_holds and low is not None and open_greatest == (last is None):
            lower = low - greatest + (0 if last is None else coefficient * last)
        new = _clipped(old, coefficient, lower, upper)
        if new != old:
            if new[0] is not None and new[1] is not None and new[0] > new[1]:
                return _Effect.EMPTY
            box[name] = new
            effect = _Effect.NARROWED
            least, open_least, greatest, open_greatest = _extent(row, box)
    return effect


def _extent(row: Row, box: Mapping[str, Span]) -> tuple[int, int, int, int]:
    """Return the least and the greatest sum of a row's bounded terms, each with the count of unbounded ones."""
    least = greatest = open_least = open_greatest = 0
    for name, coefficient in row.terms:
        low, high = box[name]
        if coefficient < 0:
            low, high = high, low
        if low is None:
            open_least += 1
        else:
            least += coefficient * low
        if high is None:
            open_greatest += 1
        else:
            greatest += coefficient * high
    return least, open_least, greatest, open_greatest


def _clipped(span: Span, coefficient: int, lower: int | None, upper: int | None) -> Span:
    """Intersect a span with ``lower <= coefficient · index <= upper``."""
    low, high = span
    if coefficient < 0:
        coefficient, lower, upper = -coefficient, (None if upper is None else -upper), None if lower is None else -lower
    if lower is not None:
        least = -(-lower // coefficient)
        low = least if low is None else max(low, least)
    if upper is not None:
        greatest = upper // coefficient
        high = greatest if high is None else min(high, greatest)
    return low, high


def implied(row: Row, box: Mapping[str, Span]) -> bool:
    """Return whether every point of the box satisfies the row."""
    least, open_least, greatest, open_greatest = _extent(row, box)
    return (row.low is None or (open_least == 0 and least >= row.low)) and (
        row.high is None or (open_greatest == 0 and greatest <= row.high)
    )


def _components(rows: Sequence[Row]) -> list[tuple[tuple[str, ...], tuple[Row, ...]]]:
    """Split rows into groups that share no index, each with its indices in order of appearance."""
    group: dict[str, int] = {}
    names: dict[int, list[str]] = {}
    for number, row in enumerate(rows):
        own = [name for name, _ in row.terms]
        touched = dict.fromkeys(group[name] for name in own if name in group)
        joined = [n for g in touched for n in names.pop(g)] + [name for name in own if name not in group]
        names[number] = joined
        group.update(dict.fromkeys(joined, number))
    members: dict[int, list[Row]] = {number: [] for number in names}
    for row in rows:
        members[group[row.terms[0][0]]].append(row)
    return [(tuple(own), tuple(members[number])) for number, own in names.items()]


def _sharpen(box: dict[str, Span], names: Sequence[str], rows: Sequence[Row], budget: Budget) -> bool:
    """Make the spans of one component exact in place; False if it has no integer point."""
    witnesses: list[Mapping[str, int]] = []
    for end, sign in ((0, 1), (1, -1)):
        for name in names:
            limit = box[name][end]
            if limit is not None:
                if any(point[name] == limit for point in witnesses):
                    continue
                point = _dive({n: box[n] for n in names} | {name: (limit, limit)}, rows, end)
                if point is not None:
                    witnesses.append(point)
                    continue
            optimum = _minimum(((name, sign),), rows, {n: box[n] for n in names}, budget)
            if optimum is None:
                return False
            low, high = box[name]
            box[name] = (optimum.value, high) if end == 0 else (low, -optimum.value)
            if optimum.point is not None:
                witnesses.append(dict(optimum.point))
    return True


def _minimum(objective: Terms, rows: Sequence[Row], box: Mapping[str, Span], budget: Budget) -> Optimum | None:
    """Solve one integer program out of a shared budget."""
    share = budget.share()
    optimum = minimise(objective, rows, box, share)
    budget.left += max(0, share.left)
    return optimum


def _dive(box: dict[str, Span], rows: Sequence[Row], end: int) -> Mapping[str, int] | None:
    """Look for an integer point by fixing one index after the other, if possible at ``end`` of its span.

    None if that fails; ``box`` is changed.
    """
    live = propagate(box, rows)
    for name in tuple(box):
        if not live:
            break
        live = _fix(box, live, name, end)
    point = {name: span[end] for name, span in box.items()}
    found = {name: value for name, value in point.items() if value is not None}
    return found if live is not None and not live and len(found) == len(point) else None


def _fix(box: dict[str, Span], rows: Sequence[Row], name: str, end: int) -> tuple[Row, ...] | None:
    """Set an index to one end of its span in place; return the remaining rows, or None if neither end will do."""
    for value in dict.fromkeys((box[name][end], box[name][1 - end])):
        if value is not None:
            trial = box | {name: (value, value)}
            rest = propagate(trial, rows)
            if rest is not None:
                box.update(trial)
                return rest
    return None
