"""Gradients of loops beside finite differences of loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given

import tileir
from strategies.derivatives import pulled, types_of
from strategies.effort import examples
from strategies.loops import arguments, assert_same, functions, unrolled
from tileir.tile.text.parser import parse
from tileir.typed.dataflow import definitions
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function, Scan, TensorType
from tileir.typed.simplify.preparation import prepared
from tileir.typed.verifier import verify
from tileir_testing.gradients import check_gradients

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

RNG = np.random.default_rng(0)
LSTM = """function (H0[B, N], C0[B, N], Xs[T, B, I], W[I, K], U[N, K], V[K]) -> (Ys, HT, CT) {
  S = scan(H0, C0; Xs; W, U, V) DIRECTION function (H[B, N], C[B, N], X[B, I], W[I, K], U[N, K], V[K]) -> (H2, C2, Y) {
    A[b, k : B, K] = +(X[b, i] * W[i, k]);
    Z[b, k : B, K] = +(H[b, n] * U[n, k]);
    G = A + Z + V;
    F[b, n : B, N] = =(G[b, n]);
    J[b, n : B, N] = =(G[b, n + N]);
    C2 = sigmoid(F) * C + J;
    H2 = tanh(C2);
    Y = H2 * 2;
  };
  HT = element(S, 0);
  CT = element(S, 1);
  Ys = element(S, 2);
}"""


def lstm(steps: int) -> dict[str, NDArray[Any]]:
    shapes = {"H0": (2, 2), "C0": (2, 2), "Xs": (steps, 2, 3), "W": (3, 4), "U": (2, 4), "V": (4,)}
    return {name: RNG.standard_normal(shape) for name, shape in shapes.items()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("direction", "of"), [("", "Ys"), ("reverse", "HT"), ("reverse", ("Ys", "CT"))])
def test_recurrent_cells(direction: str, of: str | tuple[str, ...]) -> None:
    check_gradients(LSTM.replace("DIRECTION", direction), lstm(2), of=of, elements=2)


NESTED = """function (A[N], Xs[T, U, N], W[N]) -> (H) {
  H = scan(A; Xs; W) function (A[N], X[U, N], W[N]) -> (B) {
    B = scan(A; X; W) reverse function (A[N], X[N], W[N]) -> (B) { B = sin(A * W) + X; };
  };
}"""


@pytest.mark.parametrize("order", [1, 2])
def test_loops_in_loops(order: int) -> None:
    arrays = {"A": RNG.standard_normal(2), "Xs": RNG.standard_normal((2, 2, 2)), "W": np.ones(2) / 2}
    check_gradients(NESTED, arrays, order=order, elements=3)


SHARED = """function (A[N], Xs[T, N]) -> (Ys, Zs) {
  S = scan(A; Xs, Xs; A) function (H[N], X[N], Z[N], A[N]) -> (H2, Y, K) {
    I = index(X, 0);
    H2 = H * X + A * as_f64(I);
    Y = Z;
    K = 1.5 * H;
  };
  Ys = element(S, 1);
  Zs = element(S, 2);
}"""


@pytest.mark.parametrize("of", ["Ys", "Zs", ("Ys", "Zs")])
def test_one_tensor_may_be_passed_in_several_places(of: str | tuple[str, ...]) -> None:
    check_gradients(SHARED, {"A": RNG.standard_normal(3), "Xs": RNG.standard_normal((4, 3))}, of=of)


COUNTED = """function (X[N]) -> (S) {
  Zero = 0;
  R = scan(X, Zero; ; X) 3 times function (X[N], K, W[N]) -> (Y, L) { L = K + 1; Y = X * W + as_f64(K); };
  S = element(R, 0);
}"""


def test_carries_that_are_integers_are_kept_and_have_no_gradient() -> None:
    check_gradients(COUNTED, {"X": RNG.standard_normal(3)})


@pytest.mark.parametrize("steps", [0, 1])
def test_loops_of_no_step_and_of_one(steps: int) -> None:
    arrays = {"A": np.array([1.0, 2.0]), "Xs": np.full((steps, 2), 3.0)}
    text = """function (A[N], Xs[T, N]) -> (DA, DX) {
      H = scan(A; Xs) function (H[N], X[N]) -> (H2) { H2 = H * X; };
      G = gradient(H, A, Xs);
      DA = element(G, 0);
      DX = element(G, 1);
    }"""
    found = interpret(infer(parse(text), types_of(arrays)), arrays)
    np.testing.assert_array_equal(found["DA"], [3.0, 3.0] if steps else [1.0, 1.0])
    np.testing.assert_array_equal(found["DX"], [[1.0, 2.0]] if steps else np.zeros((0, 2)))


def test_third_derivatives_and_products_of_gradients() -> None:
    text = """function (X) -> (D1, D2, D3, P) {
      Y = scan(X) 2 times function (H) -> (H2) { H2 = H * H; };
      D1 = gradient(Y, X);
      D2 = gradient(D1, X);
      D3 = gradient(D2, X);
      P = gradient(D1 * gradient(Y * Y, X), X);
    }"""
    found = tileir.evaluate(text, (np.array(2.0),))  # of x^4, and of 4x^3 times 8x^7
    assert [float(value) for value in found] == [32, 48, 48, 320 * 2**9]


def test_gradients_of_all_results_are_one_loop() -> None:
    text = LSTM.replace("DIRECTION", "").replace("(Ys, HT, CT) {", "(D) {", 1)
    text = text[:-1] + "D = gradient(tuple(Ys, HT, CT), W);\n}"
    function = prepared(infer(parse(text), types_of(lstm(4))))
    bodies = {operation.body for operation in function.operations if isinstance(operation, Scan)}
    assert len(bodies) == 2


def test_forward_mode_agrees_with_reverse_mode() -> None:
    arrays = lstm(3)
    text = LSTM.replace("DIRECTION", "")
    tangent, cotangent = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 2, 2))
    moved = tileir.jvp(text, arrays, {"W": tangent}, of="Ys")
    pulled = tileir.vjp(text, arrays, {"Ys": cotangent}, wrt="W")
    np.testing.assert_allclose(
        np.sum(next(iter(moved.values())) * cotangent), np.sum(next(iter(pulled.values())) * tangent), rtol=1e-10
    )


def test_steps_may_hold_overrides_and_checkpoints() -> None:
    text = """function (A[N], Xs[T, N]) -> (D, E) {
      H = scan(A; Xs) function (H[N], X[N]) -> (K) { K = checkpoint(sin(H)) * stop_gradient(X) + X; };
      G = gradient(H, A, Xs);
      D = element(G, 0);
      E = element(G, 1);
    }"""
    arrays = {"A": RNG.standard_normal(2), "Xs": RNG.standard_normal((3, 2))}
    found = tileir.evaluate(text, arrays)
    da, a, kept = np.ones(2), arrays["A"], []
    for x in arrays["Xs"]:
        kept.append(a)
        a = np.sin(a) * x + x
    dx = np.zeros((3, 2))
    for t in (2, 1, 0):
        dx[t], da = da, da * np.cos(kept[t]) * arrays["Xs"][t]
    np.testing.assert_allclose(found[0], da, rtol=1e-12)
    np.testing.assert_allclose(found[1], dx, rtol=1e-12)


@examples(20)
@given(functions())
def test_gradients_are_those_of_the_steps_one_after_the_other(function: Function) -> None:
    of = [value.name for value in function.operations if value.name in function.outputs and value.dtype.is_float]
    wrt = [value.name for value in function.inputs if value.dtype.is_float]
    assume(of and wrt)
    plain = unrolled(function)
    verify(plain)
    assert_same(interpret(plain, arguments(function)), interpret(function, arguments(function)))
    given, types = arguments(function), {name: definitions(function)[name] for name in of}
    cotangents = {name: TensorType(value.dtype, value.shape) for name, value in types.items()}
    weights = {f"w_{name}": np.ones(kind.shape, np.float32) for name, kind in cotangents.items()}
    loops, steps = (prepared(pulled(each, wrt, cotangents)) for each in (function, plain))
    assert_same(interpret(loops, {**given, **weights}), interpret(steps, {**given, **weights}))
