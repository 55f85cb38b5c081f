from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import pytest
from hypothesis import given, strategies as st

from strategies.poly import NAMES, affines, bindings, rationals
from tileir.poly.affine import Affine, Rational, exact, total

Binary: TypeAlias = Callable[[Affine | Rational, Affine | Rational], Affine]

i, j, x = (Affine.index(name) for name in "ijx")


def is_canonical(affine: Affine) -> bool:
    """Say whether equal expressions have equal nodes."""
    names = [name for name, _ in affine.terms]
    values = [affine.offset, *(c for _, c in affine.terms)]
    exactly = all(type(v) is int or (isinstance(v, Fraction) and v.denominator > 1) for v in values)
    return names == sorted(set(names)) and all(c != 0 for _, c in affine.terms) and exactly


@pytest.mark.parametrize("op", [operator.add, operator.sub])
@given(a=affines(), b=affines(), k=st.integers(-9, 9), point=bindings())
def test_sums_agree_with_numbers_both_ways_round(
    op: Binary, a: Affine, b: Affine, k: int, point: dict[str, int]
) -> None:
    number: Callable[[Rational, Rational], Rational] = op  # type: ignore[assignment]
    assert op(a, k).evaluate(point) == number(a.evaluate(point), k)
    assert op(k, a).evaluate(point) == number(k, a.evaluate(point))
    assert op(a, b).evaluate(point) == number(a.evaluate(point), b.evaluate(point))
    assert is_canonical(op(a, k))
    assert is_canonical(op(k, a))
    assert is_canonical(op(a, b))


@given(a=affines(), factor=rationals(), point=bindings())
def test_products_agree_with_numbers_both_ways_round(a: Affine, factor: Rational, point: dict[str, int]) -> None:
    assert (a * factor).evaluate(point) == (factor * a).evaluate(point) == a.evaluate(point) * factor
    assert is_canonical(a * factor)
    if factor != 0:
        assert (a / factor) * factor == a
        assert is_canonical(a / factor)


@given(a=affines(), point=bindings())
def test_negation_agrees_with_numbers(a: Affine, point: dict[str, int]) -> None:
    assert (-a).evaluate(point) == -a.evaluate(point)
    assert a - a == Affine()


@given(a=affines(), replacements=st.dictionaries(st.sampled_from(NAMES), affines() | rationals()), point=bindings())
def test_substitution_is_composition(
    a: Affine, replacements: dict[str, Affine | Rational], point: dict[str, int]
) -> None:
    values: dict[str, Rational] = dict(point)
    values.update({n: r.evaluate(point) if isinstance(r, Affine) else r for n, r in replacements.items()})
    assert a.substitute(replacements).evaluate(point) == a.offset + sum(c * values[n] for n, c in a.terms)
    assert is_canonical(a.substitute(replacements))


def test_substitution_of_nothing_returns_the_expression_itself() -> None:
    assert i.substitute({"j": 3}) is i
    assert i.rename({"j": "k"}) is i


@given(a=affines(), point=bindings())
def test_renaming_two_indices_to_one_adds_them(a: Affine, point: dict[str, int]) -> None:
    assert a.rename({"j": "i"}).evaluate(point) == a.evaluate({**point, "j": point["i"]})


@given(a=affines(), extents=st.fixed_dictionaries({name: st.integers(1, 4) for name in NAMES}), data=st.data())
def test_bounds_hold_and_are_reached(a: Affine, extents: dict[str, int], data: st.DataObject) -> None:
    low, high = a.bounds(extents)
    point = {name: data.draw(st.integers(0, extent - 1)) for name, extent in extents.items()}
    assert low <= a.evaluate(point) <= high
    lowest = {name: 0 if a.coefficient(name) >= 0 else extents[name] - 1 for name in NAMES}
    highest = {name: extents[name] - 1 - value for name, value in lowest.items()}
    assert (a.evaluate(lowest), a.evaluate(highest)) == (low, high)


@pytest.mark.parametrize(
    ("affine", "text"),
    [
        (4 - i + 3 * x, "4 - i + 3*x"),
        ((4 - i + x) / 3, "4/3 - 1/3*i + 1/3*x"),
        (-i, "-i"),
        (-2 * i + j, "-2*i + j"),
        (Affine(), "0"),
        (Affine.constant(Fraction(-1, 2)), "-1/2"),
        (i - i + 7, "7"),
    ],
)
def test_text_has_the_constant_first_and_indices_in_order(affine: Affine, text: str) -> None:
    assert str(affine) == text


@given(terms=st.dictionaries(st.sampled_from(NAMES), rationals()), offset=rationals())
def test_any_coefficients_have_a_canonical_form(terms: dict[str, Rational], offset: Rational) -> None:
    affine = Affine.of(terms, offset)
    assert is_canonical(affine)
    assert affine.coefficients() == {name: c for name, c in terms.items() if c != 0}
    assert all(affine.coefficient(name) == terms.get(name, 0) for name in NAMES)
    assert affine.indices == tuple(affine.coefficients())
    assert affine.is_constant == (not affine.terms)
    whole = all(exact(c).denominator == 1 for c in terms.values())
    assert affine.is_integral == (whole and exact(offset).denominator == 1)
    assert affine.is_never_integral == (whole and exact(offset).denominator != 1)


@given(parts=st.lists(affines()), point=bindings())
def test_total_is_the_sum(parts: list[Affine], point: dict[str, int]) -> None:
    assert total(parts).evaluate(point) == sum(part.evaluate(point) for part in parts)
