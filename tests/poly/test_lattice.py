from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import assume, given, strategies as st

from strategies.effort import examples
from strategies.poly import rationals
from tileir.poly.affine import Rational
from tileir.poly.lattice import dual, free_columns, hermite, independent, integral_points, inverse, kernel, meet

IntegerMatrix = list[list[int]]
Matrix = list[list[Rational]]


def matrices(rows: int, columns: int) -> st.SearchStrategy[IntegerMatrix]:
    row = st.lists(st.integers(-9, 9), min_size=columns, max_size=columns)
    return st.lists(row, min_size=rows, max_size=rows)


def rational_matrices(size: int) -> st.SearchStrategy[Matrix]:
    row = st.lists(rationals(), min_size=size, max_size=size)
    return st.lists(row, min_size=size, max_size=size)


def matmul(a: object, b: object) -> list[list[Rational]]:
    left, right = [list(r) for r in a], [list(r) for r in b]  # type: ignore[attr-defined]
    return [
        [sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*right, strict=True)] for row in left
    ]


def determinant(matrix: list[list[int]]) -> int:
    if not matrix:
        return 1
    return sum(
        (-1) ** k * x * determinant([[*row[:k], *row[k + 1 :]] for row in matrix[1:]]) for k, x in enumerate(matrix[0])
    )


@examples(100)
@given(matrix=st.tuples(st.integers(1, 5), st.integers(1, 4)).flatmap(lambda shape: matrices(*shape)))
def test_hermite_normal_form_is_the_canonical_echelon_form(matrix: IntegerMatrix) -> None:
    result = hermite(matrix)
    assert matmul(result.transform, matrix) == [list(row) for row in result.form]
    assert abs(determinant([list(row) for row in result.transform])) == 1
    for r, row in enumerate(result.form):
        if r < len(result.pivots):
            pivot = result.pivots[r]
            assert row[pivot] > 0
            assert not any(row[:pivot])
            assert all(0 <= above[pivot] < row[pivot] for above in result.form[:r])
        else:
            assert not any(row)
    assert list(result.pivots) == sorted(set(result.pivots))
    assert not any(any(row) for row in matmul(result.relations, matrix))


@pytest.mark.parametrize(
    ("matrix", "form"),
    [
        ([[2, 4], [3, 6]], [[1, 2], [0, 0]]),
        ([[5, 0], [0, 3]], [[5, 0], [0, 3]]),
        ([[1, 1], [2, 0]], [[1, 1], [0, 2]]),
        ([[2, 3, 6, 2], [5, 6, 1, 6], [8, 3, 1, 1]], [[1, 0, 50, -11], [0, 3, 28, -2], [0, 0, 61, -13]]),
        (
            [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [2, 3, 4, 5], [7, -8, 9, 6]],
            [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
        ),
    ],
)
def test_hermite_examples(matrix: IntegerMatrix, form: IntegerMatrix) -> None:
    assert [list(row) for row in hermite(matrix).form] == form


@given(matrix=matrices(2, 4))
def test_kernel_holds_every_small_vector_that_the_matrix_annihilates(matrix: IntegerMatrix) -> None:
    basis = kernel(matrix, 4)
    assert all(not any(row) for row in matmul(matrix, list(zip(*basis, strict=True))))
    lattice = hermite([list(row) for row in basis]).basis if basis else ()
    for vector in product(range(-2, 3), repeat=4):
        if not any(sum(x * y for x, y in zip(row, vector, strict=True)) for row in matrix):
            grown = hermite([*(list(row) for row in basis), list(vector)]).basis
            assert grown == lattice


def test_kernel_of_nothing() -> None:
    assert kernel([], 0) == ()
    assert kernel([], 2) == ((1, 0), (0, 1))


def test_kernels_of_one_column() -> None:
    assert kernel([[0], [0]], 1) == ((1,),)
    assert kernel([[0], [2]], 1) == ()


@given(matrix=st.integers(1, 4).flatmap(rational_matrices))
def test_inverse_times_matrix_is_one(matrix: Matrix) -> None:
    found = inverse(matrix)
    assert (found is None) == (len(independent(matrix, len(matrix))) < len(matrix))
    if found is not None:
        assert matmul(found, matrix) == [[int(i == k) for k in range(len(matrix))] for i in range(len(matrix))]


def test_inverse_examples() -> None:
    assert inverse([[1, 2], [2, 4]]) is None
    assert inverse([[2, 1], [0, 1]]) == ((Fraction(1, 2), Fraction(-1, 2)), (0, 1))
    assert inverse([]) == ()


@given(matrix=rational_matrices(3), wanted=st.integers(0, 3))
def test_independent_rows_are_the_first_that_are(matrix: Matrix, wanted: int) -> None:
    chosen = independent(matrix, wanted)
    assert len(chosen) <= wanted
    for stop in range(len(matrix) + 1):
        earlier = [k for k in chosen if k < stop]
        if len(chosen) == wanted and stop > max(chosen, default=-1) + 1:
            break
        scaled = [[int(x * 6) for x in row] for row in matrix[:stop]]
        assert len(earlier) == (len(hermite(scaled).pivots) if scaled else 0)


def test_free_columns_are_those_that_the_rows_leave_open() -> None:
    assert free_columns([[1, 0], [1, 1]], 2) == ()
    assert free_columns([[1, 0, 0], [0, 1, -1]], 3) == (2,)
    assert free_columns([], 2) == (0, 1)


@examples(60)
@given(matrix=rational_matrices(2), point=st.tuples(rationals(6), rationals(6)))
def test_dual_holds_the_vectors_with_integral_products(matrix: Matrix, point: tuple[Rational, Rational]) -> None:
    assume(len(independent(matrix, 2)) == 2)
    basis = dual(matrix)
    coordinates = inverse([list(column) for column in zip(*basis, strict=True)])
    assert coordinates is not None
    inside = all(sum(x * y for x, y in zip(row, point, strict=True)).denominator == 1 for row in coordinates)
    integral = all(sum(x * y for x, y in zip(row, point, strict=True)).denominator == 1 for row in matrix)
    assert inside == integral


def test_dual_needs_full_column_rank() -> None:
    with pytest.raises(ValueError, match="full column rank"):
        dual([[1, 1]])


@examples(100)
@given(rows=st.lists(st.tuples(rationals(), rationals()), max_size=3), data=st.data())
def test_integral_points_are_a_coset_in_triangular_form(
    rows: list[tuple[Rational, Rational]], data: st.DataObject
) -> None:
    matrix = [(1, 0), (0, 1), *rows]
    offsets = [0, 0, *(data.draw(rationals()) for _ in rows)]
    wanted = {
        v
        for v in product(range(-12, 13), repeat=2)
        if all((r[0] * v[0] + r[1] * v[1] + o).denominator == 1 for r, o in zip(matrix, offsets, strict=True))
    }
    coset = integral_points(matrix, offsets)
    assert (coset is None) == (not wanted)
    if coset is not None:
        (a, b), (zero, d) = coset.basis
        assert zero == 0
        found = {
            (int(coset.origin[0] + p * a), int(coset.origin[1] + p * b + q * d))
            for p in range(-30, 31)
            for q in range(-60, 61)
        }
        assert {v for v in found if max(map(abs, v)) <= 12} == wanted
        assert coset.periods[1] == 1
        assert (coset.periods[0] * b) % d == 0
        assert all((m * b) % d != 0 for m in range(1, coset.periods[0]))


@given(a=st.integers(-20, 20), m=st.integers(1, 12), b=st.integers(-20, 20), n=st.integers(1, 12))
def test_progressions_meet_where_both_hold(a: int, m: int, b: int, n: int) -> None:
    common = [x for x in range(m * n) if (x - a) % m == 0 and (x - b) % n == 0]
    met = meet(a, m, b, n)
    assert (met is None) == (not common)
    if met is not None:
        assert met[0] == common[0]
        assert list(range(met[0], m * n, met[1])) == common
