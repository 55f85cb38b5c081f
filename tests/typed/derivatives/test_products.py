"""Derivatives of products against finite differences, and where factors are zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.derivatives import Problem, accept, assert_gradients, gradients, problems
from strategies.effort import examples

ROWS = "function (A[N, M]) -> (O) { O[i : N] = *(A[i, j]); }"


def others(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[list[float]]:
    """Return for each element the product of the others of its row."""
    return [[float(np.prod(np.delete(row, k))) for k in range(len(row))] for row in values]


@examples(60)
@given(problems("*"))
def test_products_agree_with_finite_differences(problem: Problem) -> None:
    accept(problem)
    assert_gradients(problem.text, problem.inputs, problem.wrt, problem.cotangents)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=3))
def test_products_with_zeros_are_exact(rows: list[list[int]]) -> None:
    values = np.array(rows, np.float64)
    found = gradients(ROWS, {"A": values}, ["A"])
    np.testing.assert_allclose(found["A"], others(values), rtol=1e-15)


@given(st.lists(st.integers(-2, 2), min_size=3, max_size=3), st.lists(st.integers(-2, 2), min_size=3, max_size=3))
def test_products_of_combined_values_with_zeros_are_exact(left: list[int], right: list[int]) -> None:
    text = "function (A[N], B[N]) -> (O) { O[] = *(A[i] + B[i]); }"
    inputs = {"A": np.array(left, np.float64), "B": np.array(right, np.float64)}
    found = gradients(text, inputs, ["A", "B"])
    expected = others((inputs["A"] + inputs["B"])[None])[0]
    np.testing.assert_allclose(found["A"], expected, rtol=1e-15)
    np.testing.assert_allclose(found["B"], expected, rtol=1e-15)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_one_zero_gets_the_product_of_the_others(zero: float) -> None:
    found = gradients(ROWS, {"A": np.array([[2.0, zero, 5.0]])}, ["A"])
    np.testing.assert_array_equal(found["A"], [[0, 10, 0]])


def test_an_element_that_is_read_several_times() -> None:
    text = "function (A[N]) -> (O) { O[] = *(A[i + k]), k < 2; }"  # A0 · A1² · A2² · A3, less the ends
    inputs = {"A": np.array([2.0, 3.0, 5.0])}
    assert_gradients(text, inputs, ["A"], {"O": np.array(1.0)})


def test_narrow_floats_are_multiplied_in_f32() -> None:
    found = gradients(ROWS, {"A": np.array([[1000.0, 1000.0, 0.001]], np.float16)}, ["A"])
    np.testing.assert_allclose(found["A"].astype(float), [[1.0, 1.0, np.inf]], rtol=2e-3)


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=4))
def test_second_derivatives_with_zeros_are_exact(values: list[int]) -> None:
    text = "function (A[N]) -> (H) { O[] = *(A[i]); G = gradient(O, A); H = gradient(G, A); }"
    places = range(len(values))
    expected = [
        sum(float(np.prod([values[k] for k in places if k not in (i, j)])) for i in places if i != j) for j in places
    ]
    np.testing.assert_array_equal(tileir.evaluate(text, {"A": np.array(values, np.float64)}), expected)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "text",
    [
        "function (A[N, M]) -> (O) { O[i : N] = *(A[i, j]); }",
        "function (A[N, M]) -> (O) { O[j : M] = *(A[i, j]); }",
        "function (A[N, M]) -> (O) { O[] = *(A[i, j]); }",
        "function (A[N, M]) -> (O) { O[i + j : N + M - 1] = *(A[i, j]); }",
        "function (A[N, N]) -> (O) { O[i, i : N, N] = *(A[i, j]); }",
        "function (A[N, M]) -> (O) { O[i : N] = *(A[i, j]), i + j < 3; }",
        "function (A[N, M]) -> (O) { O[i, k : N, 2] = *(A[i, j + k]), j < 2; }",
        "function (A[N, M]) -> (O) { O[i : N] = *(A[i, k] + A[j, k]); }",
    ],
)
def test_gradients_of_gradients_agree_with_finite_differences(text: str) -> None:
    """Zeros are among the factors, so that nothing may be divided by one."""
    twice = text.replace("-> (O)", "-> (G)").replace("; }", "; P = gradient(O * O, A); G = gradient(P * P, A); }")
    once = text.replace("-> (O)", "-> (L)").replace("; }", "; P = gradient(O * O, A); L = P * P; }")
    values = np.array([[0.0, 1.5, -1.0], [0.5, 2.0, 0.0], [1.0, -0.5, 0.25]])
    found, step = tileir.evaluate(twice, {"A": values}), 1e-5
    for place in np.ndindex(values.shape):
        moved = [values.copy(), values.copy()]
        moved[0][place] -= step
        moved[1][place] += step
        low, high = (float(np.sum(tileir.evaluate(once, {"A": v}))) for v in moved)
        np.testing.assert_allclose(found[place], (high - low) / (2 * step), rtol=1e-4, atol=1e-4)
