from __future__ import annotations

from collections import Counter

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strategies.poly import Problem, problems
from strategies.polyhedra import between, domain_points, elements, points_of, set_of, valid_points
from tileir.poly.bounds import solve


@settings(max_examples=200, deadline=None)
@given(problem=problems(), reduce=st.booleans())
def test_domain_holds_each_valid_point_exactly_once(problem: Problem, reduce: bool) -> None:
    names, points = valid_points(problem)
    domain = solve(problem.accesses, problem.sizes, problem.constraints, reduce)
    wanted = Counter(elements(problem.accesses, point) for point in points_of(names, points))
    found = Counter() if domain is None else Counter(elements(domain.accesses, p) for p in domain_points(domain))
    assert found == wanted
    assert (domain is None) == points.is_empty()


@settings(max_examples=100, deadline=None)
@given(problem=problems(largest=40))
def test_ranges_are_tight_and_constraints_bind(problem: Problem) -> None:
    domain = solve(problem.accesses, problem.sizes, problem.constraints)
    assume(domain is not None)
    assert domain is not None
    names = [name for name, _ in domain.ranges]
    box = {name: set_of(names, [f"0 <= {n} < {r}" for n, r in domain.ranges]) for name in names}
    for name, extent in domain.ranges:
        assert extent >= 2
        points = box[name]
        for constraint in domain.constraints:
            assert constraint.bounds(dict(domain.ranges))[0] < 0
            points = points & set_of(names, [between(constraint, 10**9, integral=True)])
        for end in (0, extent - 1):
            assert not (points & set_of(names, [f"{name} = {end}"])).is_empty()
