"""Derivatives of maxima and minima against finite differences, and with ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from strategies.derivatives import Problem, accept, assert_gradients, gradients, problems
from strategies.effort import examples

ROWS = "function (A[N, M]) -> (O) { O[i : N] = >(A[i, j]); }"
TIED = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [5.0, 4.0, 0.0]])
ARRIVING = np.array([6.0, 12.0, 18.0])


@examples(60)
@given(problems("><"))
def test_extrema_agree_with_finite_differences(problem: Problem) -> None:
    accept(problem)
    assert_gradients(problem.text, problem.inputs, problem.wrt, problem.cotangents)


def test_ties_get_all_of_it() -> None:
    found = gradients(ROWS, {"A": TIED}, ["A"], {"O": ARRIVING})
    np.testing.assert_array_equal(found["A"], [[0, 6, 6], [12, 12, 12], [18, 0, 0]])


def test_ties_get_even_shares() -> None:
    found = gradients(ROWS, {"A": TIED}, ["A"], {"O": ARRIVING}, even_ties=True)
    np.testing.assert_array_equal(found["A"], [[0, 3, 3], [4, 4, 4], [18, 0, 0]])


@pytest.mark.parametrize(("even", "share"), [(False, 6.0), (True, 3.0)])
def test_ties_of_combined_values(even: bool, share: float) -> None:
    text = "function (A[N], B[N]) -> (O) { O[] = >(A[i] * B[i]); }"
    inputs = {"A": np.array([1.0, 2.0, 4.0]), "B": np.array([1.0, 4.0, 2.0])}
    found = gradients(text, inputs, ["A", "B"], {"O": np.array(6.0)}, even_ties=even)
    np.testing.assert_array_equal(found["A"], [0, share * 4, share * 2])
    np.testing.assert_array_equal(found["B"], [0, share * 2, share * 4])


def test_an_element_does_not_tie_with_itself() -> None:
    text = "function (A[N]) -> (O) { O[] = >(A[i + k]), k < 2; }"
    found = gradients(text, {"A": np.array([1.0, 3.0, 2.0])}, ["A"], {"O": np.array(6.0)})
    np.testing.assert_array_equal(found["A"], [0, 6, 0])


@pytest.mark.parametrize("even", [False, True])
def test_nothing_arrives_where_the_result_is_nan(even: bool) -> None:
    values = np.array([[1.0, np.nan], [np.inf, 1.0], [-np.inf, -np.inf]])
    found = gradients(ROWS, {"A": values}, ["A"], {"O": np.full(3, 2.0)}, even_ties=even)
    share = 1.0 if even else 2.0
    np.testing.assert_array_equal(found["A"], [[0, 0], [2, 0], [share, share]])


def test_narrow_floats_tie_after_rounding() -> None:
    text = "function (A[N], B[N]) -> (O) { O[] = >(A[i] * B[i]); }"
    inputs = {"A": np.array([1.001, 3.003], np.float16), "B": np.array([1.007, 2.005], np.float16)}
    found = gradients(text, inputs, ["A", "B"], {"O": np.array(1.0, np.float16)})
    np.testing.assert_array_equal(found["A"], np.array([0, inputs["B"][1]]))
    np.testing.assert_array_equal(found["B"], np.array([0, inputs["A"][1]]))
