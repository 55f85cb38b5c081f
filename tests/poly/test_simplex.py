from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.poly import NAMES, affines
from tileir.poly.affine import Affine
from tileir.poly.constraint import Row, Span, System, Terms, system
from tileir.poly.simplex import Budget, Optimum, minimise

x, y = Affine.index("x"), Affine.index("y")


def optimum(objective: Affine, given_system: System | None) -> Optimum | None:
    """Minimise over a system that may be known to be empty."""
    if given_system is None:
        return None
    return minimise(objective.terms, given_system.rows, given_system.box)  # type: ignore[arg-type]


@examples(200)
@given(
    objective=affines(denominators=(1,)),
    rows=st.lists(st.tuples(affines(denominators=(1,)), st.none() | st.integers(1, 8)), max_size=4),
    box=st.fixed_dictionaries({name: st.tuples(st.integers(-3, 0), st.integers(0, 4)) for name in NAMES}),
)
def test_minimum_is_that_of_brute_force(
    objective: Affine, rows: list[tuple[Affine, int | None]], box: dict[str, tuple[int, int]]
) -> None:
    objective = objective - objective.offset
    values = []
    for point in product(*(range(low, high + 1) for low, high in box.values())):
        binding = dict(zip(box, point, strict=True))
        if all(p.evaluate(binding) >= 0 and (n is None or p.evaluate(binding) < n) for p, n in rows):
            values.append(objective.evaluate(binding))
    spans: dict[str, Span] = dict(box)
    found = optimum(objective, system(NAMES, rows, spans))
    assert (None if found is None else found.value) == min(values, default=None)
    if found is not None:
        assert found.point is not None
        binding = dict(found.point)
        assert objective.evaluate(binding) == found.value
        assert all(p.evaluate(binding) >= 0 and (n is None or p.evaluate(binding) < n) for p, n in rows)
        assert all(low <= binding[name] <= high for name, (low, high) in box.items())


@pytest.mark.parametrize("seed", range(80))
def test_programs_whose_relaxations_have_fractional_vertices(seed: int) -> None:
    random = Random(seed)
    box: dict[str, Span] = {name: (random.randint(-3, 0), random.randint(3, 6)) for name in NAMES}
    rows = []
    for _ in range(random.randint(1, 2)):
        low = random.randint(-5, 12)
        terms = tuple((name, random.choice((-7, -5, -4, -3, 2, 3, 4, 6))) for name in NAMES)
        rows.append(Row(terms, low, low + random.choice((0, 0, 1, 2))))
    objective = tuple((name, random.choice((-5, -2, 1, 3, 7))) for name in NAMES)
    values = []
    for point in product(*(range(low or 0, (high or 0) + 1) for low, high in box.values())):
        binding = dict(zip(NAMES, point, strict=True))
        sums = [sum(c * binding[name] for name, c in row.terms) for row in rows]
        if all((row.low or 0) <= value <= (row.high or 0) for row, value in zip(rows, sums, strict=True)):
            values.append(sum(c * binding[name] for name, c in objective))
    found = minimise(objective, rows, box)
    assert (None if found is None else found.value) == min(values, default=None)
    assert found is None or found.point is not None


def test_a_program_in_two_dimensions() -> None:
    found = optimum(-3 * x + 2 * y, system("xy", [(x, 3), (y + 2, 9), (x + y + 1, 6)]))
    assert found == Optimum(-10, (("x", 2), ("y", -2)))


def test_rows_alone_may_confine_the_indices() -> None:
    rows: list[tuple[Affine, int | None]] = [(x + y, 10), (x - y + 3, 5)]
    found = optimum(x, system("xy", rows))
    assert found is not None
    assert found.value == -1
    least = optimum(-y, system("xy", rows))
    assert least is not None
    assert least.value == -6


def test_fractional_vertices_are_cut_off() -> None:
    # 2x + 2y = 3 has rational solutions only; normalisation is bypassed on purpose.
    row = Row((("x", 2), ("y", 2)), 3, 3)
    assert minimise((("x", 1),), [row], {"x": (0, 5), "y": (0, 5)}) is None


def test_the_budget_ends_a_search_with_a_bound() -> None:
    row = Row((("x", 2), ("y", 2)), 3, 3)
    box: dict[str, Span] = {"x": (0, 10**6), "y": (-(10**6), 10**6)}
    assert minimise((("x", 1),), [row], box, Budget(200)) == Optimum(0, None)


@pytest.mark.parametrize("objective", [(), (("x", 1),), (("x", -1), ("y", 3))])
def test_empty_spans_have_no_minimum(objective: Terms) -> None:
    assert minimise(objective, [], {"x": (1, 0), "y": (0, 0)}) is None
    assert minimise(objective, [Row((("x", 1), ("y", 1)), 3, 2)], {"x": (0, 9), "y": (0, 9)}) is None


def test_open_indices_are_refused() -> None:
    with pytest.raises(ValueError, match="do not confine"):
        minimise((("x", 1),), [], {"x": (0, None)})


def test_large_numbers_stay_exact() -> None:
    big = 10**30
    rows: list[tuple[Affine, int | None]] = [(x, big), (y, big), (7 * x - 3 * y - 1, None)]
    assert optimum(x - 2 * y, system("xy", rows)) is not None
    found = optimum(-x - y, system("xy", [(x, big), (y, big), (3 * x + 7 * y, big)]))
    assert found is not None
    assert found.value == -((big - 1) // 3)


def test_a_share_leaves_the_rest_of_a_budget() -> None:
    budget = Budget(100)
    assert (budget.share().left, budget.left) == (25, 75)
    assert (budget.share().left, budget.left) == (18, 57)
