"""Points under constraints, against counting one by one."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings, strategies as st

from tileir_performance.cost import points
from tileir_performance.cost.points import Constraint, Count, count_points


def by_hand(ranges: dict[int, int], constraints: list[Constraint]) -> int:
    found = 0
    for values in product(*(range(size) for size in ranges.values())):
        at = dict(zip(ranges, values, strict=True))
        found += all(c.offset + sum(k * at[i] for i, k in c.terms) >= 0 for c in constraints)
    return found


@st.composite
def systems(draw: st.DrawFn) -> tuple[dict[int, int], list[Constraint]]:
    ranges = {number: draw(st.integers(1, 5)) for number in range(draw(st.integers(0, 4)))}
    constraints = []
    for _ in range(draw(st.integers(0, 3))):
        terms = tuple((i, k) for i in ranges if (k := draw(st.integers(-2, 2))))
        constraints.append(Constraint(terms, draw(st.integers(-4, 6))))
    return ranges, constraints


@settings(max_examples=200)
@given(systems())
def test_count_is_that_of_the_definition(system: tuple[dict[int, int], list[Constraint]]) -> None:
    ranges, constraints = system
    assert count_points(ranges, constraints) == Count(by_hand(ranges, constraints))


@settings(max_examples=100)
@given(systems())
def test_bound_holds_where_enumerating_takes_too_long(system: tuple[dict[int, int], list[Constraint]]) -> None:
    ranges, constraints = system
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(points, "MOST_STEPS", 0)
        found = count_points(ranges, constraints)
    exact = by_hand(ranges, constraints)
    assert found.points == exact if found.exact else found.points >= exact


def test_triangles_of_any_size_are_counted() -> None:
    triangle = Constraint(((0, 1), (1, -1)), 0)
    assert count_points({0: 1 << 16, 1: 1 << 16, 2: 7}, [triangle]) == Count(7 * (1 << 15) * ((1 << 16) + 1))


def test_constraints_that_never_hold_leave_nothing() -> None:
    assert count_points({0: 1 << 40}, [Constraint(((0, 1),), -(1 << 40))]) == Count(0)
