"""Decisions of :mod:`tileir_performance.warnings.accesses`, beside the enumeration of all points."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from strategies.poly import NAMES, Problem, affines, problems
from tileir.poly.affine import Affine
from tileir_performance.warnings.accesses import Axis, axes_of, culprits, is_empty, left, mismatches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

i, j, k = (Affine.index(name) for name in "ijk")


@st.composite
def boxed(draw: st.DrawFn) -> Problem:
    """Contractions with random accesses, in which every index stands alone in at least one axis."""
    names = NAMES[: draw(st.integers(1, 3))]
    size = st.integers(1, 5)
    alone = tuple(Affine.index(name) for name in names)
    more = st.lists(affines(names, 3), max_size=2).map(tuple)
    accesses = (draw(more), alone, draw(more))
    sizes = tuple(tuple(draw(size) for _ in access) for access in accesses)
    limits = draw(st.lists(st.tuples(affines(names, 3, (1, 1, 2)), size), max_size=2))
    return Problem(accesses, sizes, tuple(limit for limit in limits if not limit[0].is_constant))


def holds(polynomial: Affine, size: int, point: dict[str, int]) -> bool:
    value = polynomial.evaluate(point)
    return isinstance(value, int) and 0 <= value < size


def points(problem: Problem, axes: Iterable[Axis]) -> Iterator[dict[str, int]]:
    """All points that are inside of ``axes`` and satisfy the constraints; indices are in [-8, 8)."""
    axes = tuple(axes)
    names = sorted({name for access in problem.accesses for p in access for name in p.indices})
    for values in product(range(-8, 8), repeat=len(names)):
        point = dict(zip(names, values, strict=True))
        if all(holds(axis.polynomial, axis.size, point) for axis in axes) and all(
            holds(p, bound, point) for p, bound in problem.constraints
        ):
            yield point


def leaves(axis: Axis, point: dict[str, int]) -> bool:
    value = axis.polynomial.evaluate(point)
    return isinstance(value, int) and not 0 <= value < axis.size


@given(boxed())
def test_emptiness_and_who_makes_it_are_those_of_the_enumeration(problem: Problem) -> None:
    axes = axes_of(problem.accesses, problem.sizes)
    inside = any(points(problem, axes))
    assert is_empty(axes, problem.constraints) is not inside
    if inside:
        return
    found = culprits(axes, problem.constraints)
    for axis in axes:
        alone = {each.index for each in axes if each is not axis}
        if alone.issuperset(axis.polynomial.indices):
            others = [each for each in axes if each is not axis]
            assert (axis in found) is any(points(problem, others))


@given(boxed())
def test_axes_that_are_left_are_those_of_the_enumeration(problem: Problem) -> None:
    axes = axes_of(problem.accesses, problem.sizes)
    alone = [axis for axis in axes if axis.index is not None]
    found = left(axes, problem.constraints)
    assert not any(axis in found for axis in alone)
    ranges = list(points(problem, alone))
    for axis in axes:
        if axis.index is None:
            assert (axis in found) is any(leaves(axis, point) for point in ranges)


@given(problems())
def test_all_systems_are_decided_without_a_failure(problem: Problem) -> None:
    axes = axes_of(problem.accesses, problem.sizes)
    for axis in (*left(axes, problem.constraints), *culprits(axes, problem.constraints)):
        assert axis in axes
    is_empty(axes, problem.constraints)


def test_an_index_that_never_stands_alone_is_defined_by_the_axes_that_it_stands_in() -> None:
    axes = axes_of([[i], [i + j]], [[3], [5]])
    assert left(axes) == ()
    axes = axes_of([[i], [i + j - 1], [j]], [[3], [3], [3]])
    assert [axis.access for axis in left(axes)] == [1]


def test_mismatches_name_the_narrowest_axis() -> None:
    axes = axes_of([[i], [i, k], [k]], [[4], [4, 3], [5]])
    (found,) = mismatches(axes)
    assert (found.index, found.narrow.access, found.wide.access) == ("k", 1, 2)
    assert mismatches(axes, [(k, 3)]) == ()
    assert mismatches(axes_of([[i]], [[4]])) == ()
