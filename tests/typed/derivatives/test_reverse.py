"""Reverse sweeps as a whole: what is emitted, how work is shared, and how much there is."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.ops import Aggregation, Combination
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Contraction, Function, TensorType
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.verifier import verify


def typed(text: str, **shapes: tuple[int, ...]) -> Function:
    function = infer(parse(text), {name: TensorType(DType.F64, shape) for name, shape in shapes.items()})
    verify(function)
    return simplify(function)


def test_gradient_of_a_product_of_matrices_is_the_two_contractions() -> None:
    text = """
    function (A[M, K], B[K, N], D[M, N]) -> (DA, DB) {
        C[i, j : M, N] = +(A[i, k] * B[k, j]);
        G = vjp(C, D, A, B);
        DA = element(G, 0);
        DB = element(G, 1);
    }"""
    function = typed(text, A=(2, 3), B=(3, 4), D=(2, 4))
    assert len(function.operations) == 2
    for operation in function.operations:
        assert isinstance(operation, Contraction)
        assert (operation.aggregation, operation.combination) == (Aggregation.SUM, Combination.MUL)


def errors(text: str, **arrays: np.ndarray[Any, Any]) -> list[tuple[str, str]]:
    with pytest.raises(TileError) as caught:
        tileir.evaluate(text, arrays)
    return [(d.code, d.underlined) for d in caught.value.diagnostics]


X: Final = np.array([1.0, -2.0, 3.0])
N: Final = np.array([1, 2, 3], np.int32)


def test_results_have_dtype_and_shape_of_what_they_are_gradients_of() -> None:
    text = """function (X, S, U) -> (A, B, C, D) {
        Y = X * S; G = gradient(Y, X, S, U, Y);
        A = element(G, 0); B = element(G, 1); C = element(G, 2); D = element(G, 3);
    }"""
    found = tileir.evaluate(text, (X, np.array(2.0), np.ones((2, 1), np.float32)))
    assert [(value.dtype.name, value.shape) for value in found] == [
        ("float64", (3,)), ("float64", ()), ("float32", (2, 1)), ("float64", (3,)),
    ]  # fmt: skip
    assert [value.tolist() for value in found] == [[2, 2, 2], 2, [[0], [0]], [1, 1, 1]]


def test_tuples_are_differentiated_together() -> None:
    text = "function (X, S) -> (D) { A = X * S; B = sin(S); D = vjp(tuple(A, B, A), tuple(X, 2, 1), S); }"
    found = tileir.evaluate(text, (X, np.array(0.5)))
    assert float(found) == pytest.approx(14 + 2 * math.cos(0.5) + 2)


def test_tuples_may_hold_tuples() -> None:
    text = """function (X, S) -> (D, V, J, K) {
        Y = tuple(X * S, tuple(sin(S), tuple(S * S)));
        D = gradient(Y, S);
        V = vjp(Y, tuple(tuple(X, 2), 1), S);
        T = jvp(Y, tuple(S, tuple(X)), tuple(1, 0));
        J = element(T, 0);
        K = element(element(element(T, 1), 1), 0);
    }"""
    found = [value.tolist() for value in tileir.evaluate(text, (X, np.array(0.5)))]
    assert found[:2] == [pytest.approx(2 + math.cos(0.5) + 1), pytest.approx(14 + 2 * math.cos(0.5) + 1)]
    assert found[2:] == [X.tolist(), 1.0]
    parts = "function (X, N) -> (D) { Y = tuple(X, tuple(X, N)); D = gradient(Y, X); }"
    with pytest.raises(TileError, match="part 2 of 'Y' is i32"):
        tileir.evaluate(parts, (X, N))


def test_constants_depend_on_nothing() -> None:
    text = "function (X) -> (D, E) { C = 2.0; D = gradient(tuple(C, X), X); E = vjp(as_f64(1), 3.0, X); }"
    assert [value.tolist() for value in tileir.evaluate(text, X)] == [[1, 1, 1], [0, 0, 0]]
    assert errors("function (X) -> (D) { C = 2.0; D = gradient(X, C); }", X=X) == [("TIL321", "C")]
    assert errors("function (X) -> (D) { D = gradient(2, X); }", X=X) == [("TIL321", "2")]


def test_cotangents_broadcast() -> None:
    text = "function (X, T) -> (D) { D = vjp(X * X, T, X); }"
    assert tileir.evaluate(text, (X, np.array(0.5))).tolist() == [1.0, -2.0, 3.0]


def test_gradients_can_be_used_and_differentiated() -> None:
    text = "function (X) -> (U, H) { Y = X * X * X; G = gradient(Y, X); U = X - 0.1 * G; H = gradient(G * X, X); }"
    step, second = tileir.evaluate(text, X)
    assert step == pytest.approx(X - 0.3 * X * X)
    assert second == pytest.approx(9 * X * X)


def test_third_derivatives() -> None:
    text = "function (X) -> (D) { D = gradient(gradient(gradient(sin(X), X), X), X); }"
    assert tileir.evaluate(text, X) == pytest.approx(-np.cos(X))


def test_gradients_of_the_same_values_share_their_work() -> None:
    layers = 20
    body = "".join(f"Y{k + 1} = tanh(Y{k} * W{k}); " for k in range(layers))
    weights = ", ".join(f"W{k}" for k in range(layers))
    outputs = ", ".join(f"D{k}" for k in range(layers))

    def count(gradients: str) -> int:
        text = f"function (Y0, {weights}) -> ({outputs}) {{ {body} {gradients} }}"
        shapes = dict.fromkeys(("Y0", *weights.split(", ")), (3,))
        return len(typed(text, **shapes).operations)

    apart = "".join(f"D{k} = gradient(Y{layers}, W{k}); " for k in reversed(range(layers)))
    together = f"G = gradient(Y{layers}, {weights}); " + "".join(f"D{k} = element(G, {k}); " for k in range(layers))
    assert count(apart) == count(together) < 8 * layers


@pytest.mark.sampled(0)
def test_ten_thousand_statements_are_no_problem() -> None:
    count = 10_000
    body = "".join(f"Y{k + 1} = Y{k} * X + Y{k}; " for k in range(count))
    text = f"function (X) -> (D) {{ Y0 = X; {body} D = gradient(Y{count}, X); }}"
    graph = infer(parse(text), {"X": TensorType(DType.F32, ())})
    assert len(graph.operations) < 8 * count


def test_what_is_not_a_float_is_underlined() -> None:
    assert errors("function (N, X) -> (D) { D = gradient(X, N); }", N=N, X=X) == [("TIL321", "N")]
    assert errors("function (N, X) -> (D) { Y = N + 1; D = gradient(Y, X); }", N=N, X=X) == [("TIL321", "Y")]
    assert errors("function (N, X) -> (D) { D = vjp(X < 1, X, X); }", N=N, X=X) == [("TIL321", "X < 1")]
    assert errors("function (X[K]) -> (D) { D = gradient(X, K); }", X=X) == [("TIL321", "K")]
    assert errors("function (X) -> (D) { D = gradient(X, tuple(X, X)); }", X=X) == [("TIL309", "tuple(X, X)")]


def test_cotangents_that_do_not_fit_are_underlined() -> None:
    text = "function (X, T) -> (D) {{ D = vjp({0}, {1}, X); }}"
    wide, narrow = np.ones(4), np.ones(3, np.float32)
    assert errors(text.format("X", "T"), X=X, T=wide) == [("TIL322", "T")]
    assert errors(text.format("X", "T"), X=X, T=narrow) == [("TIL322", "T")]
    assert errors(text.format("X", "T * T"), X=X, T=np.ones((2, 3))) == [("TIL322", "T * T")]
    [(code, _)] = errors(text.format("tuple(X, X)", "T"), X=X, T=X)
    assert code == "TIL322"


def test_ties_are_all_or_even() -> None:
    text = "function (X) -> (D) {{ [[ties({0})]] D = gradient(abs(X), X); }}"
    zero = np.zeros(1)
    assert tileir.evaluate(text.format("all"), zero).tolist() == [1]
    assert tileir.evaluate(text.format("even"), zero).tolist() == [0]
    assert errors(text.format("some"), X=zero) == [("TIL323", "[[ties(some)]]")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("body", ["tanh(X)", "1 / X", "sqrt(X)", "X * X + sin(exp(X))", "cos(X * X) * tanh(X)"])
def test_gradients_of_gradients_share_what_they_repeat(body: str) -> None:
    """Each level of reverse mode doubles the work at most, or little more; unshared it would be three times as much."""
    levels = range(6, 10)
    sizes = []
    for level in levels:
        steps = " ".join(f"Y{k + 1} = gradient(Y{k}, X);" for k in range(level))
        text = f"function (X) -> (Y{level}) {{ Y0 = {body}; {steps} }}"
        sizes.append(len(infer(parse(text), {"X": TensorType(DType.F64, (3,))}).operations))
    assert all(after <= 2.4 * before for before, after in pairwise(sizes)), sizes


@pytest.mark.parametrize(
    "steps",
    [
        "P = gradient(sin(X), X); Q = gradient(Z, X);",
        "Q = gradient(Z, X); P = gradient(sin(X), X);",
        "T = gradient(sin(X) + W, X, W); P = element(T, 0); Q = gradient(Z, X);",
        "Q = gradient(Z, X); P = jvp(sin(X), X, 1.0);",
    ],
)
def test_what_derivatives_share_is_nothing_that_the_program_refers_to(steps: str) -> None:
    """Q = cos(X) + 1 and P = cos(X) are written apart, so Q does not depend on P."""
    text = f"function (X, W) -> (P, Q, G) {{ Z = sin(X) + X; {steps} G = gradient(Q, P); }}"
    inner, outer, between = tileir.evaluate(text, {"X": X, "W": X})
    np.testing.assert_allclose(inner, np.cos(X))
    np.testing.assert_allclose(outer, np.cos(X) + 1)
    np.testing.assert_array_equal(between, 0 * X)
