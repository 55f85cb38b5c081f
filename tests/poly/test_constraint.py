from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.poly import affines, rationals
from tileir.poly.affine import Affine, Rational
from tileir.poly.constraint import RangeConstraint, Row, gather, intersect, merge, narrowed, normalised, system

i, j, x = (Affine.index(name) for name in "ijx")


def holds(constraint: RangeConstraint, value: Rational) -> bool:
    """Say whether a constraint over ``i`` alone holds for a rational value of it."""
    result = constraint.polynomial.offset + constraint.polynomial.coefficient("i") * value
    return Fraction(result).denominator == 1 and 0 <= result < constraint.bound


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        # An even and a third, opposed: only one value of 2i + j is left.
        ((2 * i + j + 1, 8), (-4 * i - 2 * j - 2, 2), (-1 - 2 * i - j, 1)),
        ((i, 10), (i, 7), (i, 7)),
        ((i, 10), (i - 3, 10), (i - 3, 7)),
        ((i / 2, 10), (i / 3, 10), (i / 6, 4)),
        ((i / 2, 10), (i / 2 + Fraction(1, 2), 10), None),
        ((i / 2, 10), ((i - 3) / 3, 10), ((i - 6) / 6, 3)),
        ((i, 10), (-i + 20, 5), None),
        ((i, 10), (9 - i, 10), (9 - i, 10)),
        ((i, 0), (i, 3), None),
        # Without knowledge of the indices, 2i is an integer at halves too; i + 1/3 never agrees.
        ((2 * i, 9), (2 * i, 4), (2 * i, 4)),
        ((i, 9), (i + Fraction(1, 3), 9), None),
    ],
)
def test_parallel_constraints_intersect_exactly(
    first: tuple[Affine, int], second: tuple[Affine, int], merged: tuple[Affine, int] | None
) -> None:
    found = intersect(RangeConstraint(*first), RangeConstraint(*second))
    assert found == (None if merged is None else RangeConstraint(*merged))


one_index = st.builds(
    lambda c, o, n: RangeConstraint(Affine.of({"i": c}, o), n),
    rationals().filter(bool),
    rationals(),
    st.integers(0, 8),
)


@examples(200)
@given(first=one_index, second=one_index)
def test_intersection_holds_exactly_where_both_do(first: RangeConstraint, second: RangeConstraint) -> None:
    both = intersect(first, second)
    for numerator in range(-12 * 36, 12 * 36):
        value = Fraction(numerator, 12)
        assert (both is not None and holds(both, value)) == (holds(first, value) and holds(second, value))


def test_merge_folds_groups_and_drops_constants() -> None:
    merged = merge(
        [
            RangeConstraint(Affine.constant(3), 4),
            RangeConstraint(i + 2 * j, 10),
            RangeConstraint(i, 5),
            RangeConstraint(-2 * i - 4 * j + 9, 8),
            RangeConstraint(i / 2, 5),
        ]
    )
    assert merged == (RangeConstraint(4 - i - 2 * j, 4), RangeConstraint(i / 2, 3))


@pytest.mark.parametrize(
    "constraint",
    [
        RangeConstraint(Affine.constant(4), 4),
        RangeConstraint(Affine.constant(-1), 4),
        RangeConstraint(Affine.constant(Fraction(1, 2)), 4),
        RangeConstraint(i, 0),
    ],
)
def test_merge_of_a_false_constraint_is_empty(constraint: RangeConstraint) -> None:
    assert merge([RangeConstraint(j, 3), constraint]) is None


def test_gathering_puts_the_user_first_and_then_the_tensors_in_order() -> None:
    gathered = gather([[i, j], [i + j]], [[3, 4], [5]], [(x / 2, 6)])
    assert [str(c) for c in gathered] == ["0 <= 1/2*x < 6", "0 <= i < 3", "0 <= j < 4", "0 <= i + j < 5"]


@given(
    terms=affines(denominators=(1,)).filter(lambda a: not a.is_constant),
    low=st.integers(-9, 9),
    extent=st.integers(0, 9),
)
def test_normal_rows_mean_the_same_over_integers(terms: Affine, low: int, extent: int) -> None:
    reduced, (least, greatest) = normalised(terms.terms, low, low + extent)  # type: ignore[arg-type]
    assert least is not None
    assert greatest is not None
    assert reduced[0][1] > 0
    for values in product(range(-3, 4), repeat=3):
        point = dict(zip("ijk", values, strict=True))
        value = Affine(terms.terms).evaluate(point)
        assert (low <= value <= low + extent) == (least <= Affine(reduced).evaluate(point) <= greatest)


def test_system_intersects_parallel_rows_and_rounds_inwards() -> None:
    # x + 1 <= 4 and -3x <= 2, as the opposed pair of the reference.
    found = system("x", [(3 - x, None), (3 * x + 2, None)])
    assert found is not None
    assert found.box == {"x": (0, 3)}
    found = system("ij", [(i, 7), (2 * i + 4 * j + 1, 8), (5 - i - 2 * j, 5)])
    assert found is not None
    assert found.box == {"i": (0, 6), "j": (None, None)}
    assert found.rows == (Row((("i", 1), ("j", 2)), 1, 3),)


@pytest.mark.parametrize(
    "constraints",
    [
        [(i, 0)],
        [(i, 3), (i - 5, 3)],
        [(2 * i - 1, 1)],
        [(Affine.constant(-1), None)],
        [(Affine.constant(3), 3)],
        [(i + j, 3), (-i - j - 1, 3)],
        [(2 * i + 2 * j - 1, 1)],
    ],
)
def test_system_sees_contradictions_of_one_direction(constraints: list[tuple[Affine, int | None]]) -> None:
    assert system("ij", constraints) is None


def test_system_starts_from_a_box() -> None:
    found = system("i", [(i - 2, 9)], {"i": (0, 5), "j": (1, 1)})
    assert found is not None
    assert found.box == {"i": (2, 5), "j": (1, 1)}


def test_narrowing_treats_none_as_no_limit() -> None:
    assert narrowed((None, 4), (2, None)) == (2, 4)
    assert narrowed((1, 9), (0, 5)) == (1, 5)
    assert narrowed((None, None), (None, None)) == (None, None)
