"""Windows of rank one: what they become means the same, and takes fewer products."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import event, given, strategies as st

from strategies.effort import examples
from tileir import bind
from tileir.core.array_value import ArrayValue
from tileir.core.dtype import DType
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import ArrayConstant, Contraction, Function, TensorType
from tileir.typed.simplify import preparation
from tileir.typed.simplify.preparation import MOST_ELEMENTS, factorised, factors_of
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.verifier import verify

Array = npt.NDArray[Any]

WINDOW = "function (I[H, W], K[M, N]) -> (O) { O[y, x : H - M + 1, W - N + 1] = +(I[y + i, x + j] * K[i, j]); }"
SAME = "function (I[H, W], K[M, N]) -> (O) { O[y, x : H, W] = +(I[y + i - M / 2, x + j - N / 2] * K[i, j]); }"
TURNED = "function (I[H, W], K[M, N]) -> (O) { O[x, y : W, H] = +(K[i, j] * I[y + j - 1, 2 * x - i]); }"
FAR = "function (I[H, W], K[M, N]) -> (O) { O[y, x : H, W] = +(I[y + 3 * i, x + 2 * j] * K[i, j]), x + j < 5; }"
PRODUCTS = {"window": WINDOW, "same": SAME, "turned": TURNED, "far": FAR}


def function_of(text: str, weights: Array, **shapes: tuple[int, ...]) -> Function:
    dtype = DType.of(weights.dtype)
    assert dtype is not None
    return simplify(infer(bind(text, K=weights), {name: TensorType(dtype, shape) for name, shape in shapes.items()}))


def result(function: Function, picture: Array) -> Array:
    (array,) = interpret(function, {"I": picture}).values()
    return np.asarray(array)


def sums_of(function: Function) -> list[Contraction]:
    return [operation for operation in function.operations if isinstance(operation, Contraction)]


def always(function: Function) -> Function:
    with mock.patch.object(preparation, "INTERMEDIATE", -1000):
        return factorised(function)


WHOLE = st.lists(st.integers(-9, 9), min_size=2, max_size=6).filter(any)


@given(left=WHOLE, right=WHOLE, form=st.sampled_from(sorted(PRODUCTS)), dtype=st.sampled_from(["f4", "f8", "i4", "i8"]))
@examples(100)
def test_products_mean_the_same(left: list[int], right: list[int], form: str, dtype: str) -> None:
    weights = np.outer(left, right).astype(dtype)
    function = function_of(PRODUCTS[form], weights, I=(11, 12))
    after = always(function)
    verify(after)
    assert len(sums_of(after)) == 2
    picture = np.random.default_rng(0).integers(-99, 99, (11, 12)).astype(dtype)
    np.testing.assert_array_equal(
        result(function, picture), result(after, picture)
    )  # no sum of whole numbers is rounded


@given(seed=st.integers(0, 1000), rows=st.integers(2, 7), columns=st.integers(2, 7), double=st.booleans())
@examples(100)
def test_rounded_products_are_found(seed: int, rows: int, columns: int, double: bool) -> None:
    rng = np.random.default_rng(seed)
    dtype = np.float64 if double else np.float32
    factors: list[Array] = [rng.standard_normal(shape).astype(dtype) for shape in ((rows, 1), (1, columns))]
    weights: Array = np.multiply(*factors)
    pair = factors_of(ArrayValue.of(weights), [0])
    assert pair is not None
    product: Array = pair[0].numpy()[:, None] * pair[1].numpy()
    assert (abs(product - weights) <= 4 * np.finfo(dtype).eps * abs(weights)).all()
    weights[rng.integers(rows), rng.integers(columns)] *= dtype(1) + 16 * np.finfo(dtype).eps
    event("still a product" if factors_of(ArrayValue.of(weights), [0]) is not None else "no product")
    weights[0, 0] += abs(weights).max() * dtype(1e-3)
    assert factors_of(ArrayValue.of(weights), [0]) is None


@pytest.mark.parametrize(
    "weights",
    [
        np.zeros((3, 3), np.float32),
        np.full((3, 3), np.inf, np.float32),
        np.array([[1, np.nan], [1, 1]], np.float32),
        np.eye(3, dtype=np.float32),
        np.eye(3, dtype=np.int32),
        np.zeros((3, 3), np.int32),
        np.ones((3, 3), np.float16),
        np.ones((3, 3), np.uint8),
        np.ones((MOST_ELEMENTS + 1, 1), np.float32),
        np.ones((0, 3), np.float32),
    ],
)
def test_what_is_no_product(weights: Array) -> None:
    assert factors_of(ArrayValue.of(weights), [0]) is None


def test_small_windows_stay() -> None:
    sobel = np.outer([1, 2, 1], [-1, 0, 1]).astype(np.float32)
    function = function_of(WINDOW, sobel, I=(64, 64))
    assert factorised(function) is function
    blur = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype(np.float32)
    after = factorised(function_of(WINDOW, blur, I=(64, 64)))
    assert [operation.shape for operation in sums_of(after)] == [(60, 64), (60, 60)]
    assert len([operation for operation in after.operations if isinstance(operation, ArrayConstant)]) == 3


def test_three_axes_are_taken_apart_one_by_one() -> None:
    text = """function (I[D, H, W], K[L, M, N]) -> (O) {
        O[z, y, x : D - L + 1, H - M + 1, W - N + 1] = +(I[z + k, y + i, x + j] * K[k, i, j]);
    }"""
    line = np.array([1, 4, 6, 4, 1], np.float32)
    weights = line[:, None, None] * line[:, None] * line
    function = function_of(text, weights, I=(16, 18, 20))
    after = factorised(function)
    assert len(sums_of(after)) == 3
    picture = np.random.default_rng(0).integers(-9, 9, (16, 18, 20)).astype(np.float32)
    np.testing.assert_array_equal(result(function, picture), result(after, picture))


def test_other_forms_stay() -> None:
    weights = np.ones((5, 5), np.float32)
    for text in (
        WINDOW.replace("= +(", "= >("),
        WINDOW.replace("* K", "+ K"),
        WINDOW.replace("K[i, j]", "K[i, i]"),
        WINDOW.replace("x + j", "x + i + j"),
        "function (I[H, W], K[M, N]) -> (O) { O[y, j : H, N] = +(I[y, i] * K[i, j]); }",
        WINDOW.replace("K[i, j])", "K[i, j]), i + j < 4"),
    ):
        function = function_of(text, weights, I=(30, 30))
        assert always(function) is function, text


def test_bodies_of_loops_and_labels() -> None:
    text = """function (I[H, W], K[M, N]) -> (O) {
        O = scan (I; ; K) 2 times function (A[P, Q], L[R, S]) -> (B) {
            [[pid(blur)]] B[y, x : P, Q] = +(A[y + i - 2, x + j - 2] * L[i, j]);
        };
    }"""
    inner = function_of(SAME.replace("O[y", "[[pid(blur)]] O[y"), np.ones((5, 5), np.float32), I=(9, 9))
    assert {label for _, label in factorised(inner).labels} == {"blur"}
    assert len(factorised(inner).labels) == len(inner.labels) + 3
    function = function_of(text, np.ones((5, 5), np.float32), I=(9, 9))
    picture = np.random.default_rng(0).integers(-9, 9, (9, 9)).astype(np.float32)
    np.testing.assert_array_equal(result(function, picture), result(factorised(function), picture))
