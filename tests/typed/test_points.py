"""Candidate points against the definition, read aloud: try every integer point of a box that is large enough."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from strategies.effort import examples
from tileir.poly.affine import Affine
from tileir.typed import interpreter
from tileir.typed.interpreter import valid_points
from tileir_testing.programs.case import Array

INDICES = ("i", "j")
SCALE = 6
REACH = 120  # two independent polynomials of these coefficients confine the indices to less
GRID = dict(zip(INDICES, np.mgrid[-REACH : REACH + 1, -REACH : REACH + 1], strict=True))


def polynomials() -> st.SearchStrategy[Affine]:
    coefficients = st.sampled_from([0, 0, 1, 1, -1, 2, 3, Fraction(1, 2), Fraction(-2, 3)])
    offsets = st.sampled_from([0, 0, 1, -2, 3, Fraction(1, 2)])
    return st.builds(lambda a, b, c: Affine.of({"i": a, "j": b}, c), coefficients, coefficients, offsets)


def elements(
    accesses: list[list[Affine]], shapes: list[list[int]], constraints: list[tuple[Affine, int]]
) -> list[tuple[int, ...]]:
    """Return the elements that each valid point of the grid accesses, sorted."""

    def values(polynomial: Affine) -> Array:
        scaled = polynomial * SCALE
        return sum(
            (int(scaled.coefficient(n)) * GRID[n] for n in INDICES), np.full(GRID["i"].shape, int(scaled.offset))
        )

    def counts(number: Array, bound: int) -> Array:
        return np.asarray((number % SCALE == 0) & (number >= 0) & (number < SCALE * bound))

    valid = np.ones(GRID["i"].shape, np.bool_)
    for polynomial, bound in constraints:
        valid &= counts(values(polynomial), bound)
    columns = []
    for access, shape in zip(accesses, shapes, strict=True):
        place = np.zeros(GRID["i"].shape, np.int64)
        for polynomial, size in zip(access, shape, strict=True):
            number = values(polynomial)
            valid &= counts(number, size)
            place = place * size + number // SCALE
        columns.append(place)
    return sorted(zip(*(column[valid].tolist() for column in columns), strict=True))


@examples(200)
@given(st.data())
def test_all_valid_points_are_found_once(data: st.DataObject) -> None:
    ranks = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))
    accesses = [[data.draw(polynomials()) for _ in range(rank)] for rank in ranks]
    shapes = [[data.draw(st.integers(1, 4)) for _ in access] for access in accesses]
    constraints = data.draw(st.lists(st.tuples(polynomials(), st.integers(1, 4)), max_size=2))
    every = [p for access in accesses for p in access] + [p for p, _ in constraints]
    used = {index for p in every for index in p.indices}
    assume(used == set(INDICES))
    try:
        chunks = list(valid_points(accesses, shapes, constraints))
    except ValueError:
        assume(False)
    rows = [row for chunk in chunks for row in zip(*(column.tolist() for column in chunk), strict=True)]
    assert sorted(rows) == elements(accesses, shapes, constraints)


def test_large_numbers_are_exact() -> None:
    huge = 1 << 70
    accesses = [[Affine.of({"i": 1})], [Affine.of({"i": huge}, -huge)]]
    ((out, read),) = valid_points(accesses, [[4], [1]])
    assert (out.tolist(), read.tolist()) == ([1], [0])


def test_an_index_without_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="no bounds"):
        list(valid_points([[Affine.index("i") + Affine.index("j")]], [[4]]))


def test_chunks_do_not_lose_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_CHUNK", 7)
    i, j = Affine.index("i"), Affine.index("j")
    chunks = list(valid_points([[i, j], [j, i]], [[5, 6], [6, 5]]))
    assert sum(len(out) for out, _ in chunks) == 30
    assert sorted(int(n) for out, _ in chunks for n in out) == list(range(30))


def test_no_indices_give_one_point() -> None:
    ((out, read),) = valid_points([[], [Affine.constant(2)]], [[], [4]])
    assert (out.tolist(), read.tolist()) == ([0], [2])
    (nothing,) = valid_points([[], [Affine.constant(4)]], [[], [4]])
    assert [column.tolist() for column in nothing] == [[], []]


@pytest.mark.parametrize("rank", [16, 17, 33, 64])
def test_any_number_of_indices(rank: int) -> None:
    """Two tensors of so many axes and two elements have twice as many indices, and four points."""
    accesses = [[Affine.of({f"{stem}{axis}": 1}, 0) for axis in range(rank)] for stem in "ij"]
    shape = [2, *[1] * (rank - 1)]
    (found,) = valid_points(accesses, [shape, shape])
    assert sorted(zip(*(column.tolist() for column in found), strict=True)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
