from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.poly import Problem, problems
from tileir.poly.affine import Affine
from tileir.poly.bounds import is_fancy, rewrite
from tileir.poly.constraint import RangeConstraint, gather

i, j, k, x = (Affine.index(name) for name in "ijkx")


@pytest.mark.parametrize(
    ("output", "fancy"),
    [([], False), ([i, j], False), ([2 * i + 3], False), ([i, i], False), ([i + j], True), ([i, i - j + 1], True)],
)
def test_an_output_is_fancy_when_it_mixes_indices(output: list[Affine], fancy: bool) -> None:
    assert is_fancy(output) is fancy


def test_output_polynomials_become_indices() -> None:
    accesses = [[x + i, j], [x, j], [i]]
    reduced = rewrite("ijx", accesses, gather(accesses, [[9, 5], [7, 5], [3]], []), change_basis=True)
    assert reduced is not None
    assert reduced.names == ("v0", "v1", "v2")
    v0, v1, v2 = (Affine.index(name) for name in reduced.names)
    assert reduced.accesses == ((v0, v1), (v0 - v2, v1), (v2,))


def test_offsets_belong_to_the_new_index() -> None:
    accesses = [[x + i - 1], [x], [i]]
    reduced = rewrite("ix", accesses, gather(accesses, [[9], [9], [3]], []), change_basis=True)
    assert reduced is not None
    assert reduced.accesses[0] == (Affine.index("v0"),)


def test_fractions_split_an_index_into_residue_and_steps() -> None:
    accesses = [[i], [(i - k) / 2], [k]]
    reduced = rewrite("ik", accesses, gather(accesses, [[8], [4], [3]], []), change_basis=False)
    assert reduced is not None
    assert reduced.names == ("i_0", "i_1", "k_0")
    residue, step, k_0 = (Affine.index(name) for name in reduced.names)
    assert reduced.accesses == ((residue + 2 * step,), (step - k_0,), (residue + 2 * k_0,))
    assert RangeConstraint(residue, 2) in reduced.constraints


def test_an_index_apart_is_not_split() -> None:
    accesses = [[i, j], [i / 2, j]]
    reduced = rewrite("ij", accesses, gather(accesses, [[8, 4], [4, 4]], []), change_basis=False)
    assert reduced is not None
    assert reduced.accesses[0] == (2 * Affine.index("i_0"), Affine.index("j_0"))


@pytest.mark.parametrize(
    "accesses", [[[i], [i + Fraction(1, 2)]], [[i / 2], [(i + 1) / 2]], [[i], [i / 2], [i / 4 + Fraction(1, 4)]]]
)
def test_without_a_common_integral_point_there_is_nothing(accesses: list[list[Affine]]) -> None:
    sizes = [[20]] * len(accesses)
    assert rewrite("i", accesses, gather(accesses, sizes, []), change_basis=False) is None


@examples(100)
@given(problem=problems(largest=5))
def test_rewritten_points_are_integral_in_original_terms(problem: Problem) -> None:
    gathered = gather(problem.accesses, problem.sizes, problem.constraints)
    names = sorted({i for constraint in gathered for i in constraint.polynomial.indices})  # some stand in them alone
    reduced = rewrite(names, problem.accesses, gathered, change_basis=is_fancy(problem.accesses[0]))
    if reduced is None:
        return
    moved = [p for access in reduced.accesses for p in access] + [c.polynomial for c in reduced.constraints]
    assert all(p.is_integral for p in moved)
    assert len(reduced.names) <= 2 * len(names)


def test_every_pair_of_residue_and_step_is_one_point() -> None:
    accesses = [[i], [i / 3 + j / 6], [j]]
    reduced = rewrite("ij", accesses, gather(accesses, [[12], [9], [12]], []), change_basis=False)
    assert reduced is not None
    periods = {c.polynomial.indices[0]: c.bound for c in reduced.constraints if c.polynomial.offset == 0}
    found = []
    for values in product(range(-6, 13), repeat=len(reduced.names)):
        point = dict(zip(reduced.names, values, strict=True))
        if all(0 <= c.polynomial.evaluate(point) < c.bound for c in reduced.constraints):
            found.append((reduced.accesses[0][0].evaluate(point), reduced.accesses[2][0].evaluate(point)))
    wanted = [(a, b) for a, b in product(range(12), repeat=2) if (2 * a + b) % 6 == 0 and 2 * a + b < 54]
    assert sorted(found) == wanted
    assert periods


def test_indices_without_bounds_are_a_defect_of_the_caller() -> None:
    with pytest.raises(ValueError, match="do not determine every index"):
        rewrite("ij", [[i + j]], gather([[i + j]], [[4]], []), change_basis=True)
