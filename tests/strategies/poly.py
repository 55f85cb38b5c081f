"""Affine expressions, small contraction index problems and integer systems."""

from __future__ import annotations

from fractions import Fraction

import attrs
from hypothesis import strategies as st

from tileir.poly.affine import Affine, Rational

NAMES = ("i", "j", "k")


def rationals(limit: int = 4, denominators: tuple[int, ...] = (1, 1, 1, 2, 3)) -> st.SearchStrategy[Rational]:
    """Small rationals, integers most of the time."""
    return st.builds(Fraction, st.integers(-limit, limit), st.sampled_from(denominators))


@st.composite
def affines(
    draw: st.DrawFn, names: tuple[str, ...] = NAMES, limit: int = 4, denominators: tuple[int, ...] = (1, 1, 1, 2, 3)
) -> Affine:
    """Affine expressions over ``names``; some indices are left out."""
    used = [name for name in names if draw(st.booleans())]
    values = rationals(limit, denominators)
    return Affine.of({name: draw(values) for name in used}, draw(values))


def bindings(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[dict[str, int]]:
    """A value for every index."""
    return st.fixed_dictionaries({name: st.integers(-20, 20) for name in names})


@attrs.frozen
class Problem:
    """The arguments of ``solve``."""

    accesses: tuple[tuple[Affine, ...], ...]
    sizes: tuple[tuple[int, ...], ...]
    constraints: tuple[tuple[Affine, int], ...]


@st.composite
def problems(draw: st.DrawFn, largest: int = 6, denominators: tuple[int, ...] = (1, 1, 1, 2, 3)) -> Problem:
    """Index problems in which every index is confined: random accesses, and one more for each, or a constraint."""
    names = NAMES[: draw(st.integers(1, 3))]
    polynomials = affines(names, 3, denominators)
    size = st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, largest)
    output = tuple(draw(st.lists(polynomials, max_size=2)))
    first = tuple(draw(st.lists(polynomials, max_size=2)))
    bounding = [_bounding(draw, name, names) for name in names]
    second = tuple(polynomial for polynomial in bounding if draw(st.integers(0, 3)) > 0)
    accesses = (output, first, second)
    sizes = tuple(tuple(draw(size) for _ in access) for access in accesses)
    limited = affines(names, 3, denominators if draw(st.integers(0, 3)) == 0 else (1,))
    constraints = draw(st.lists(st.tuples(limited, st.integers(1, largest)), max_size=2))
    constraints += [(polynomial, draw(size)) for polynomial in bounding if polynomial not in second]
    return Problem(accesses, sizes, tuple(c for c in constraints if not c[0].is_constant))


def _bounding(draw: st.DrawFn, name: str, names: tuple[str, ...]) -> Affine:
    """Draw an access in which ``name`` takes part after those that come before it in ``names``."""
    earlier = names[: names.index(name)]
    terms: dict[str, Rational] = {other: draw(st.integers(-1, 1)) for other in earlier}
    factors: tuple[Rational, ...] = (1, 1, -1, 2, Fraction(1, 2))
    terms[name] = draw(st.sampled_from(factors))
    return Affine.of(terms, draw(st.integers(-2, 2)))
