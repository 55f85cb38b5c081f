from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.poly import Problem, affines, problems
from strategies.polyhedra import domain_points, elements
from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain, solve
from tileir.poly.coverage import always_hit, boxes_cover, covers, eliminated, filled_box, injective

if TYPE_CHECKING:
    from collections.abc import Sequence

i, j, k, n, x, y = (Affine.index(name) for name in "ijknxy")


def covered(output: Sequence[Affine], sizes: Sequence[int], *inputs: tuple[Affine, int]) -> bool:
    """Say whether the contraction that reads one vector for each input provably writes all its output."""
    domain = solve([output, *([p] for p, _ in inputs)], [sizes, *([size] for _, size in inputs)])
    assert domain is not None
    return covers(domain, sizes)


@pytest.mark.parametrize(
    ("output", "sizes", "inputs"),
    [
        ([i, j], [4, 5], [(i, 4), (j, 5), (k, 6)]),
        ([], [], [(k, 6)]),
        ([n * 3 + k], [30], [(n, 10), (k, 3)]),
        ([x], [100], [(x + k - 1, 100), (k, 3)]),
        ([x], [100], [(2 * x + 3 * k - 1, 199), (k, 3)]),
        ([2 * x + i], [100], [(x, 50), (i, 4)]),
        ([2 * x + i - 1], [112], [(x, 56), (i, 3)]),
        ([4 - i], [5], [(i, 5)]),
        ([i], [10], [(i / 2 + k / 2, 6), (k, 5)]),
        ([i], [9], [(i - k, 9)]),
    ],
)
def test_complete_outputs_are_proved(output: list[Affine], sizes: list[int], inputs: list[tuple[Affine, int]]) -> None:
    assert covered(output, sizes, *inputs)


@pytest.mark.parametrize(
    ("output", "sizes", "inputs"),
    [
        ([2 * i], [10], [(i, 5)]),
        ([i], [10], [(i, 9)]),
        ([i + 1], [10], [(i, 9)]),
        ([i, i], [4, 4], [(i, 4)]),
        ([i], [6], [((i - 1) / 2, 3)]),
        ([2 * x + i], [100], [(x, 49), (i, 3)]),
    ],
)
def test_incomplete_outputs_are_seen(output: list[Affine], sizes: list[int], inputs: list[tuple[Affine, int]]) -> None:
    assert not covered(output, sizes, *inputs)


@examples(100)
@given(problem=problems(largest=4))
def test_coverage_is_never_claimed_wrongly(problem: Problem) -> None:
    domain = solve(problem.accesses, problem.sizes, problem.constraints)
    if domain is None:
        return
    written = {elements(domain.accesses, point)[0] for point in domain_points(domain)}
    complete = written == set(product(*(range(size) for size in problem.sizes[0])))
    assert covers(domain, problem.sizes[0]) <= complete


@examples(100)
@given(problem=problems(largest=4))
def test_boxes_are_what_is_written(problem: Problem) -> None:
    domain = solve(problem.accesses, problem.sizes, problem.constraints)
    if domain is None:
        return
    box = filled_box(domain)
    written = {elements(domain.accesses, point)[0] for point in domain_points(domain)}
    assert box is None or written == set(product(*(range(low, high + 1) for low, high in box)))


def test_boxes_are_seen_where_axes_have_indices_of_their_own() -> None:
    domain = solve([[i + 1, 4 - j], [i, j, k]], [[5, 6], [2, 3, 4]])
    assert domain is not None
    assert filled_box(domain) == ((1, 2), (2, 4))


def test_axes_that_share_an_index_are_covered_where_each_point_has_an_element_of_its_own() -> None:
    domain = Domain((("i", 4), ("j", 1)), ((i + j, j),), ())
    assert covers(domain, (4, 1))
    assert not covers(domain, (5, 1))
    assert not covers(Domain((("i", 2), ("j", 2)), ((i + j, i + j),), ()), (2, 2))


@pytest.mark.parametrize("output", [[2 * i], [i + j], [i, i], [i, 3 * j]])
def test_other_outputs_are_no_boxes(output: list[Affine]) -> None:
    assert filled_box(Domain((("i", 3), ("j", 4)), (tuple(output),), ())) is None


@pytest.mark.parametrize(
    ("given", "hit"), [([], False), ([i - 3], True), ([i - 5], True), ([i - 2], False), ([j - 9], False), ([-i], False)]
)
def test_points_that_do_not_count_need_not_be_hit(given: list[Affine], hit: bool) -> None:
    domain = Domain((("i", 10), ("j", 10)), (), (i - 3,))
    assert always_hit(domain, "ij", given) is hit


@given(
    boxes=st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=2), max_size=4),
    sizes=st.just((4, 2)),
)
def test_boxes_cover_what_they_hold(boxes: list[list[tuple[int, int]]], sizes: tuple[int, int]) -> None:
    inside = [tuple((min(b), min(max(b), size - 1)) for b, size in zip(box, sizes, strict=True)) for box in boxes]
    proper = [box for box in inside if all(low <= high for low, high in box)]
    held = {point for box in proper for point in product(*(range(low, high + 1) for low, high in box))}
    assert boxes_cover(proper, sizes) <= (held == set(product(*map(range, sizes))))


def test_boxes_side_by_side_cover() -> None:
    assert boxes_cover([((0, 3), (1, 1)), ((0, 3), (0, 0))], (4, 2))
    assert not boxes_cover([((0, 3), (1, 1))], (4, 2))
    assert not boxes_cover([], (4, 2))


@examples(100)
@given(problem=problems(largest=4), data=st.data())
def test_always_hit_is_never_claimed_wrongly(problem: Problem, data: st.DataObject) -> None:
    domain = solve(problem.accesses, problem.sizes, problem.constraints)
    if domain is None:
        return
    names = [name for name, _ in domain.ranges if data.draw(st.booleans())]
    hit = {tuple(point[name] for name in names) for point in domain_points(domain)}
    ranges = dict(domain.ranges)
    assert always_hit(domain, names) <= (hit == set(product(*(range(ranges[name]) for name in names))))


@examples(100)
@given(
    polynomials=st.lists(affines(denominators=(1,)), max_size=2),
    extents=st.lists(st.integers(1, 5), min_size=3, max_size=3),
    constraints=st.lists(affines(denominators=(1,)), max_size=2),
)
def test_injectivity_is_exact(polynomials: list[Affine], extents: list[int], constraints: list[Affine]) -> None:
    ranges = dict(zip("ijk", extents, strict=True))
    points = list(domain_points(Domain(tuple(ranges.items()), (), tuple(constraints))))
    images = {elements([polynomials], point) for point in points}
    assert injective(polynomials, ranges, constraints) == (len(images) == len(points))


@pytest.mark.parametrize(
    ("polynomials", "ranges", "expected"),
    [
        ([3 * n + k], {"n": 10**6, "k": 3}, True),
        ([3 * n + k], {"n": 10**6, "k": 4}, False),
        ([j, i], {"i": 1000, "j": 1000}, True),
        ([i], {"i": 4, "k": 2}, False),
        ([i], {"i": 4, "k": 1}, True),
        ([i + j, i - j], {"i": 1000, "j": 1000}, True),
        ([i + j], {"i": 2, "j": 2}, False),
        ([1000 * i + j], {"i": 1000, "j": 1000}, True),
        ([1000 * i + j], {"i": 1000, "j": 1001}, False),
        ([], {}, True),
    ],
)
def test_injectivity_of_large_ranges(polynomials: list[Affine], ranges: dict[str, int], expected: bool) -> None:
    assert injective(polynomials, ranges) is expected


def test_constraints_can_make_a_map_injective() -> None:
    assert injective([i], {"i": 100, "k": 100}, [i - k, k - i])
    assert not injective([i], {"i": 100, "k": 100}, [i - k, k - i + 1])


@examples(300)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2), st.integers(-9, 9)), min_size=1, max_size=4),
    st.integers(1, 7),
    st.integers(1, 7),
)
def test_what_is_left_without_an_index_holds_where_it_has_a_value(
    rows: list[tuple[int, int, int]], terms: int, places: int
) -> None:
    constraints = [k * factor + i * move + offset for factor, move, offset in rows]
    left = eliminated("k", terms, constraints, {"k": terms, "i": places})
    if left is None:
        assert sum(abs(factor) > 1 for factor, _, _ in rows) > 1
        return
    for place in range(places):
        points = [{"k": term, "i": place} for term in range(terms)]
        some = any(all(c.evaluate(point) >= 0 for c in constraints) for point in points)
        assert all(c.evaluate({"i": place}) >= 0 for c in left) == some
