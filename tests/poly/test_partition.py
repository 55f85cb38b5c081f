from __future__ import annotations

from math import prod

import pytest
from hypothesis import given

from strategies.poly import Problem, problems
from strategies.polyhedra import domain_points, elements
from tileir.poly.affine import Affine, Rational
from tileir.poly.bounds import Domain, solve
from tileir.poly.partition import partition

j, y = (Affine.index(name) for name in "jy")


def box(domain: Domain) -> int:
    return prod(size for _, size in domain.ranges)


def reached(domain: Domain) -> list[tuple[tuple[Rational, ...], ...]]:
    """Return for each point which elements it reaches."""
    return [elements(domain.accesses, point) for point in domain_points(domain)]


def transposed(stride: int, window: int, results: int = 20) -> Domain:
    """Return the points of the gradient of a strided convolution by its image."""
    domain = solve([[stride * y + j], [j], [y]], [[stride * results], [window], [results]])
    assert domain is not None
    return domain


@given(problems())
def test_parts_have_the_points_of_the_whole_and_write_different_elements(problem: Problem) -> None:
    domain = solve(problem.accesses, problem.sizes, problem.constraints)
    if domain is None:
        return
    parts = [reached(part) for part in partition(domain)]
    assert sorted(point for part in parts for point in part) == sorted(reached(domain))
    written = [{point[0] for point in part} for part in parts]
    assert sum(map(len, written)) == len(set().union(*written))


def test_each_residue_has_the_steps_that_it_needs() -> None:
    domain = transposed(2, 3)
    assert [len(domain.ranges), len(domain.constraints)] == [3, 2]
    even, odd = partition(domain)
    assert sorted((box(even), box(odd))) == [20, 40]


@pytest.mark.parametrize(("stride", "window"), [(2, 2), (2, 4), (3, 3), (1, 5), (20, 7)])
def test_domains_without_useless_points_stay_whole(stride: int, window: int) -> None:
    domain = transposed(stride, window)
    assert partition(domain) == (domain,)
