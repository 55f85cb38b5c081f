"""Derivatives of running maxima, minima and products, which do not visit all pairs of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.derivatives import gradients, pulled, pushed, types_of
from strategies.effort import examples
from tileir.core.dtype import DType
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Contraction, TensorType

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

LENGTH = 70
FORMS = {
    "O[i : N] = >(A[i - k]), k < N": ("max", False, 0),
    "O[i : N] = >(A[k]), i - k < N": ("max", False, 0),
    "O[i : N] = <(A[i + k]), k < N": ("min", True, 0),
    "O[i : N] = >(A[k]), k - i < N": ("max", True, 0),
    "O[i : N] = >(A[i - k - 1]), k < N": ("max", False, 1),
    "O[i : N] = <(A[k]), k - i - 3 < N": ("min", True, 3),
}
"""Aggregation, whether from the end, and how many elements each result leaves out."""


def expected(
    values: NDArray[Any], arriving: NDArray[Any], *, greatest: bool, backward: bool, even: bool, gap: int = 0
) -> NDArray[Any]:
    """Return the derivative by the definition, which looks at all pairs."""
    if backward:
        flipped = expected(values[::-1], arriving[::-1], greatest=greatest, backward=False, even=even, gap=gap)
        return flipped[::-1]
    found = np.zeros_like(arriving)
    for place in range(gap, len(values)):
        before = values[: place + 1 - gap]
        ties = before == (before.max() if greatest else before.min())
        found[: place + 1 - gap] += ties * arriving[place] / (max(1, ties.sum()) if even else 1)
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("even", [False, True])
@examples(20)
@given(st.integers(0, 99), st.sampled_from((3, 1000)))
def test_agrees_with_the_definition(form: str, even: bool, seed: int, most: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, most, LENGTH).astype(np.float64)
    arriving = random.uniform(-1, 1, LENGTH)
    text = f"function (A[N]) -> (O) {{ {form}; }}"
    kind, backward, gap = FORMS[form]
    right = expected(values, arriving, greatest=kind == "max", backward=backward, even=even, gap=gap)
    found = gradients(text, {"A": values}, ["A"], {"O": arriving}, even_ties=even)["A"]
    np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)
    ahead = pushed(infer(parse(text), types_of({"A": values})), ["O"], types_of({"A": arriving}), even_ties=even)
    moved = interpret(ahead, {"A": values, "v_A": arriving})["d_O"]
    weights = random.uniform(1, 2, LENGTH)
    back = expected(values, weights, greatest=kind == "max", backward=backward, even=even, gap=gap)
    np.testing.assert_allclose(weights @ moved, back @ arriving, rtol=1e-9, atol=1e-12)


def test_runs_along_any_axis_of_combined_values() -> None:
    text = "function (A[M, N, L], W[N]) -> (O) { O[m, i, l : M, N, L] = >(A[m, k, l] * W[k]), i - k < N; }"
    random = np.random.default_rng(0)
    inputs = {"A": random.uniform(0, 1, (2, LENGTH, 3)), "W": random.uniform(1, 2, LENGTH)}
    arriving = random.uniform(1, 2, (2, LENGTH, 3))
    found = gradients(text, inputs, ["A"], {"O": arriving})["A"]
    for m in range(2):
        for ell in range(3):
            values = inputs["A"][m, :, ell] * inputs["W"]
            right = expected(values, arriving[m, :, ell], greatest=True, backward=False, even=False)
            np.testing.assert_allclose(found[m, :, ell], right * inputs["W"], rtol=1e-12)


def test_after_nan_nothing_arrives() -> None:
    values = np.arange(float(LENGTH))
    values[5] = np.nan
    found = gradients("function (A[N]) -> (O) { O[i : N] = >(A[i - k]), k < N; }", {"A": values}, ["A"])["A"]
    np.testing.assert_array_equal(found, [1.0] * 5 + [0.0] * (LENGTH - 5))


@pytest.mark.parametrize("form", [*FORMS, "O[i : N] = >(A[k] * A[k]), i - k < N"])
def test_work_is_far_less_than_quadratic(form: str) -> None:
    size = 4096
    function = infer(parse(f"function (A[N]) -> (O) {{ {form}; }}"), {"A": TensorType(DType.F32, (size,))})
    backward = pulled(function, ["A"], {"O": TensorType(DType.F32, (size,))})
    forms = [o for o in backward.operations if isinstance(o, Contraction) and o.combination.value == "cond"]
    assert len(forms) == 4  # factors of 8 from 1 to 4096
    assert all(o.constraints[0].bound <= 8 for o in forms)


@pytest.mark.parametrize(
    "form",
    [
        "O[i : N] = >(A[i - k]), k < 30",
        "O[i : N] = >(A[i - 2*k]), k < N",
        "O[i : N] = >(A[k]), i - k < N, i < 50",
        "O[i : N] = >(A[k]), i + k < N",
    ],
)
def test_other_windows_use_the_rule_for_all_maxima(form: str) -> None:
    text = f"function (A[N]) -> (O) {{ {form}; }}"
    values = np.random.default_rng(0).permutation(LENGTH).astype(np.float64)
    found = gradients(text, {"A": values}, ["A"])["A"]
    step = 1e-3
    function = infer(parse(text), types_of({"A": values}))
    way = np.random.default_rng(1).uniform(-1, 1, LENGTH)
    ahead, back = (interpret(function, {"A": values + sign * step * way})["O"].sum() for sign in (1, -1))
    np.testing.assert_allclose((ahead - back) / (2 * step), found @ way, rtol=1e-9)


PRODUCTS = {
    "O[i : N] = *(A[i - k]), k < N": (False, 0),
    "O[i : N] = *(A[k]), k - i < N": (True, 0),
    "O[i : N] = *(A[k] + B[k]), i - k < N": (False, 0),
    "O[i : N] = *(A[k]), i - k - 1 < N": (False, 1),
    "O[i : N] = *(A[i + k + 2]), k < N": (True, 2),
}


@pytest.mark.sampled(11)
@pytest.mark.parametrize("form", PRODUCTS)
@pytest.mark.parametrize("zeros", [(), (3,), (3, 30)])
def test_running_products_are_exact_where_factors_are_zero(form: str, zeros: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    factors = random.uniform(0.9, 1.1, LENGTH)
    factors[list(zeros)] = 0
    inputs = {"A": factors}
    if "B" in form:
        inputs = {"A": factors - 1.0, "B": np.ones(LENGTH)}
    arriving = random.uniform(-1, 1, LENGTH)
    text = f"function ({', '.join(inputs)}) -> (O) {{ {form}; }}".replace("(A", "(A[N]", 1)
    found = gradients(text, inputs, ["A"], {"O": arriving})["A"]
    backward, gap = PRODUCTS[form]
    ordered, weights = (factors[::-1], arriving[::-1]) if backward else (factors, arriving)
    right = [
        sum(weights[i] * np.prod(np.delete(ordered[: i + 1 - gap], a)) for i in range(a + gap, LENGTH))
        for a in range(LENGTH)
    ]
    np.testing.assert_allclose(found, right[::-1] if backward else right, rtol=1e-11, atol=1e-12)
    ahead = pushed(infer(parse(text), types_of(inputs)), ["O"], types_of({"A": arriving}))
    way = random.uniform(-1, 1, LENGTH)
    moved = interpret(ahead, {**inputs, "v_A": way})["d_O"]
    np.testing.assert_allclose(arriving @ moved, found @ way, rtol=1e-9)


def test_second_derivatives_of_running_products_know_zeros() -> None:
    text = """
    function (A[N], V[N]) -> (H) {
        O[i : N] = *(A[k]), i - k < N;
        G = gradient(O, A);
        H = vjp(G, V, A);
    }"""
    random = np.random.default_rng(0)
    values = random.uniform(0.9, 1.1, LENGTH)
    values[[3, 9]] = 0
    way = random.uniform(-1, 1, LENGTH)
    arrays = {"A": values, "V": way}
    found = interpret(infer(parse(text), types_of(arrays)), arrays)["H"]

    def slope(at: NDArray[Any]) -> NDArray[Any]:
        return gradients("function (A[N]) -> (O) { O[i : N] = *(A[k]), i - k < N; }", {"A": at}, ["A"])["A"]

    step = 1e-6
    np.testing.assert_allclose(found, (slope(values + step * way) - slope(values - step * way)) / (2 * step), atol=1e-7)


def test_running_products_take_no_quadratic_memory() -> None:
    size = 4096
    function = infer(
        parse("function (A[N]) -> (O) { O[i : N] = *(A[i - k]), k < N; }"), {"A": TensorType(DType.F32, (size,))}
    )
    backward = pulled(function, ["A"], {"O": TensorType(DType.F32, (size,))})
    assert all(operation.shape in ((), (size,)) for operation in backward.operations)
