"""Gradients that the program gives itself, and marks that stop or keep."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.ops import Op
from tileir.tile import builder_functions as tf
from tileir.tile.builder import FunctionBuilder, Tensor
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Contraction, Elementwise, Function, TensorType
from tileir.typed.simplify.preparation import prepared
from tileir.typed.verifier import verify
from tileir_testing.values import Array

DTYPES = {"float64": DType.F64, "float32": DType.F32, "int32": DType.I32}
X = np.array([-1.75, -0.5, 0.25, 1.5])
W = np.array([2.0, -1.0, 0.5, 3.0])


def typed(text: str, **values: Array) -> Function:
    types = {name: TensorType(DTYPES[array.dtype.name], array.shape) for name, array in values.items()}
    function = infer(parse(text), types)
    verify(function)
    return function


def run(text: str, **values: Array) -> dict[str, Array]:
    """Return what the function gives, as it stands and prepared."""
    function = typed(text, **values)
    after = prepared(function)
    verify(after)
    given, again = interpret(function, values), interpret(after, values)
    for name, array in given.items():
        np.testing.assert_array_equal(again[name], array)
    return given


def derivative(body: str, **values: Array) -> Array:
    """Return the gradient of O by X."""
    return run(f"function ({', '.join(values)}) -> (D) {{ {body} D = gradient(O, X); }}", **values)["D"]


def test_straight_through_rounding() -> None:
    body = "R = round(X * W); Q = override_gradient(R, X, upstream(R) * W); O = Q * Q;"
    np.testing.assert_allclose(derivative(body, X=X, W=W), 2 * np.rint(X * W) * W)
    assert np.all(derivative("O = round(X * W);", X=X, W=W) == 0)


def test_clipping_of_what_arrives() -> None:
    body = "Y = exp(X); C = override_gradient(Y, Y, max(min(upstream(Y), 1), -1)); O = C * C * W;"
    np.testing.assert_allclose(derivative(body, X=X, W=W), np.clip(2 * np.exp(X) * W, -1, 1) * np.exp(X))


def test_what_arrives_from_several_uses_is_added_up_before() -> None:
    body = "C = override_gradient(X, X, min(upstream(X), 1)); O = C * 0.75 + C * 0.5;"
    np.testing.assert_allclose(derivative(body, X=X), np.ones(4))


def test_equal_overrides_stay_apart() -> None:
    text = "C{0} = override_gradient(X, X, min(upstream(X), 1));"
    body = f"{text.format(1)} {text.format(2)} O = C1 * 0.75 + C2 * 0.5;"
    np.testing.assert_allclose(derivative(body, X=X), np.full(4, 1.25))


def test_scaled_and_reversed_gradients() -> None:
    np.testing.assert_allclose(derivative("S = override_gradient(X, X, 3 * upstream(X)); O = S * S;", X=X), 6 * X)
    np.testing.assert_allclose(derivative("O = exp(reverse_grad(X, 2));", X=X), -2 * np.exp(X))
    np.testing.assert_allclose(derivative("O = exp(reverse_grad(X, W));", X=X, W=W), -W * np.exp(X))


def test_nothing_goes_through_a_stop() -> None:
    np.testing.assert_array_equal(derivative("O = stop_gradient(exp(X));", X=X), np.zeros(4))
    np.testing.assert_allclose(derivative("O = X * stop_gradient(X);", X=X), X)
    text = "function (X) -> (D) { S = exp(X) * 2; D = gradient(override_gradient(S) * X, X); }"
    np.testing.assert_allclose(run(text, X=X)["D"], 2 * np.exp(X))


def test_a_tensor_that_no_pair_names_gets_nothing() -> None:
    text = """function (X, W) -> (D, E) {
      P = X * W; Q = override_gradient(P, X, upstream(P) * 7); G = gradient(Q, X, W);
      D = element(G, 0); E = element(G, 1);
    }"""
    given = run(text, X=X, W=W)
    np.testing.assert_array_equal(given["D"], np.full(4, 7.0))
    np.testing.assert_array_equal(given["E"], np.zeros(4))


def test_gradients_need_no_upstream_and_may_be_scalars() -> None:
    np.testing.assert_array_equal(derivative("O = override_gradient(exp(X), X, 5) * W;", X=X, W=W), np.full(4, 5.0))
    body = "S = X * 2; T[] = +(W[i]); O = override_gradient(S, X, T);"
    np.testing.assert_allclose(derivative(body, X=X, W=W), np.full(4, W.sum()))


def test_templates_of_contractions() -> None:
    """A softmax whose gradient is given: y * (g - sum(g * y))."""
    text = """function (X[N], W) -> (Y, D, E) {{
      P = exp(X);
      S[] = +(P[i]);
      Z = P / S;
      G = upstream(Z);
      T = G * Z;
      R[] = +(T[i]);
      Y = {};
      D = gradient(Y * W, X);
      E = vjp(Y, 2.0, X);
    }}"""
    own = run(text.format("override_gradient(Z, X, Z * (G - R))"), X=X, W=W)
    plain = run(text.format("Z"), X=X, W=W)
    np.testing.assert_allclose(own["Y"], plain["Y"])
    np.testing.assert_allclose(own["D"], plain["D"], atol=1e-15)
    np.testing.assert_allclose(own["E"], plain["E"], atol=1e-15)


def test_one_template_serves_all_its_pairs() -> None:
    text = """function (X, W) -> (D, E) {
      P = X * W; H = sin(upstream(P)); Q = override_gradient(P, X, H * W, W, H * X);
      G = gradient(Q * Q, X, W); D = element(G, 0); E = element(G, 1);
    }"""
    function = typed(text, X=X, W=W)
    sines = [o for o in function.operations if isinstance(o, Elementwise) and o.op is Op.SIN]
    assert len(sines) == 2, "one in the template, and one that runs"
    given = run(text, X=X, W=W)
    np.testing.assert_allclose(given["D"], np.sin(2 * X * W) * W)
    np.testing.assert_allclose(given["E"], np.sin(2 * X * W) * X)


def test_overrides_in_templates() -> None:
    """The incoming gradient is squared; in its own gradient, the square counts as a product by a constant."""
    body = """
      Y = X * 3;
      U = upstream(Y);
      S = U * U;
      V = upstream(S);
      T = override_gradient(S, U, V * W);
      Z = override_gradient(Y, X, T);
      O = {};
    """
    np.testing.assert_allclose(derivative(body.format("Z * Z"), X=X, W=W), (2 * 3 * X) ** 2)
    text = f"function (X, W) -> (H) {{ {body.format('Z * Z * Z')} D = gradient(O, X); H = gradient(D, X); }}"
    # D = (3 Z²)², whose gradient by 3 Z² counts as W; Z gets 6 Z times that, and X the square of what Z gets.
    np.testing.assert_allclose(run(text, X=X, W=W)["H"], (6 * 3 * X * W) ** 2)


def test_second_order_goes_through_the_gradient_that_was_given() -> None:
    text = """function (X, W) -> (H) {
      Y = tanh(X);
      Z = override_gradient(Y, X, upstream(Y) * exp(X * W));
      D = gradient(Z * X, X);
      H = gradient(D, X);
    }"""
    # D = Z + X e^(XW); the first has the given gradient.
    expected = np.exp(X * W) + np.exp(X * W) + X * W * np.exp(X * W)
    np.testing.assert_allclose(run(text, X=X, W=W)["H"], expected)


def test_gradients_are_cast_and_broadcast_to_their_tensor() -> None:
    narrow = X.astype(np.float32)
    given = derivative("Y = as_f64(X); O = override_gradient(Y, X, upstream(Y) * 2);", X=narrow)
    assert given.dtype == np.float32
    np.testing.assert_array_equal(given, np.full(4, 2, np.float32))
    matrix = np.ones((3, 4))
    np.testing.assert_array_equal(derivative("S = X * 2; O = override_gradient(S, X, W);", X=matrix, W=W), matrix * W)


def test_a_scalar_that_arrives_is_spread_only_where_a_template_needs_it() -> None:
    text = "function (X, W) -> (D) { Y = X * W; O = override_gradient(Y, X, upstream(Y) * W); D = gradient(O, X); }"
    after = prepared(typed(text, X=X, W=W))
    assert not any(isinstance(operation, Contraction) for operation in after.operations)
    assert len(after.operations) == 1


@pytest.mark.parametrize(("p", "t"), [((4,), (4,)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 1), (1, 4)), ((), (4,))])
def test_binary_crossentropy(p: tuple[int, ...], t: tuple[int, ...]) -> None:
    generator = np.random.default_rng(3)
    values = {"P": generator.uniform(0.1, 0.9, p), "T": generator.uniform(0, 1, t), "U": generator.uniform(1, 2, ())}
    text = """function (P, T, U) -> (D, E) {{
      G = gradient({}, P, T); D = element(G, 0); E = element(G, 1);
    }}"""
    given = run(text.format("builtin_binary_crossentropy(P, T, 4.0) * U"), **values)
    plain = run(text.format("(-T * log(P) - (1 - T) * log(1 - P)) / 4.0 * U"), **values)
    np.testing.assert_allclose(given["D"], plain["D"])
    np.testing.assert_allclose(given["E"], plain["E"])


def test_labels_that_are_integers_get_no_gradient() -> None:
    body = "O = builtin_binary_crossentropy(as_like(0.5, X) + X * 0.1, L, 1);"
    p, labels = 0.5 + X * 0.1, np.array([0, 1, 1, 0], np.int32)
    np.testing.assert_allclose(derivative(body, X=X, L=labels), (-labels / p + (1 - labels) / (1 - p)) * 0.1)


def test_forward_mode_takes_the_transpose() -> None:
    text = """function (X, W, T) -> (J, K) {
      P = round(X * W);
      U = upstream(P);
      Q = override_gradient(P, X, U * W + reshape(reshape(U, 2, 2), 4), W, U * X);
      J = jvp(Q * Q, X, T);
      K = jvp(stop_gradient(X) * X, X, T);
    }"""
    given = run(text, X=X, W=W, T=W + 1)
    np.testing.assert_allclose(given["J"], 2 * np.rint(X * W) * (W + 1) * (W + 1))
    np.testing.assert_allclose(given["K"], X * (W + 1))


@pytest.mark.parametrize("gradient", ["max(min(upstream(Y), 1), -1)", "upstream(Y) * upstream(Y)"])
def test_forward_mode_needs_linear_gradients(gradient: str) -> None:
    text = f"function (X) -> (J) {{ Y = exp(X); Q = override_gradient(Y, X, {gradient}); J = jvp(Q, X, X); }}"
    with pytest.raises(TileError) as caught:
        infer(parse(text), {"X": TensorType(DType.F32, (3,))})
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.underlined) == ("TIL325", f"override_gradient(Y, X, {gradient})")


FAULTS = [
    ("O = override_gradient(X, X);", "TIL328", "X"),
    ("O = override_gradient(X * 2, X, 1, W);", "TIL328", "W"),
    ("O = override_gradient(X * 2, 3, X);", "TIL321", "3"),
    ("O = override_gradient(X * 2, I, X);", "TIL321", "I"),
    ("O = override_gradient(X * 2, X, M);", "TIL329", "M"),
    ("S[] = +(X[i]); O = override_gradient(X * 2, S, upstream(X));", "TIL329", "upstream(X)"),
    ("O = builtin_binary_crossentropy(X, W, M);", "TIL329", "M"),
    ("O = upstream(X);", "TIL326", "upstream(X)"),
    ("O = override_gradient(exp(X), X, upstream(exp(X)));", "TIL326", "upstream(exp(X))"),
    ("Y = exp(X); U = upstream(Y); O = override_gradient(Y, X, U) + U;", "TIL326", "upstream(Y)"),
    ("O = stop_gradient(tuple(X, W));", "TIL309", "tuple(X, W)"),
]


@pytest.mark.parametrize(("body", "code", "text"), FAULTS)
def test_faults(body: str, code: str, text: str) -> None:
    shapes = {"X": (4,), "W": (4,), "M": (2, 4), "I": (4,)}
    types = {name: TensorType(DType.I32 if name == "I" else DType.F32, shape) for name, shape in shapes.items()}
    with pytest.raises(TileError) as caught:
        infer(parse(f"function (X, W, M, I) -> (O) {{ {body} }}"), types)
    assert [(d.code, d.underlined) for d in caught.value.diagnostics] == [(code, text)]


def test_marks_on_what_has_no_gradient_are_nothing() -> None:
    text = """function (I) -> (A, B, C) {
      A = reverse_grad(I, 2); B = stop_gradient(I); C = checkpoint(I) + stop_gradient(2);
    }"""
    integers = np.array([1, 2], np.int32)
    given = run(text, I=integers)
    np.testing.assert_array_equal(given["A"], integers)
    np.testing.assert_array_equal(given["C"], integers + 2)


def test_the_builder_says_the_same() -> None:
    f = FunctionBuilder()
    x, w = f.input("X", "N"), f.input("W", "N")
    r = f.let("R", tf.round(x * w))
    q = tf.override_gradient(r, (x, tf.upstream(r) * w), (w, 0.0))
    assert q.dims == x.dims
    gradient = tf.gradient(tf.checkpoint(q) * tf.stop_gradient(q), x)
    assert isinstance(gradient, Tensor)
    function = f.build(D=gradient)
    assert to_text(function) == (
        "function (X[N], W[N]) -> (D) {\n"
        "  R = round(X * W);\n"
        "  T = override_gradient(R, X, upstream(R) * W, W, 0.0);\n"
        "  D = gradient(checkpoint(T) * stop_gradient(T), X);\n"
        "}\n"
    )
    given = interpret(infer(function, {n: TensorType(DType.F64, (4,)) for n in "XW"}), {"X": X, "W": W})
    np.testing.assert_allclose(given["D"], np.rint(X * W) * W)
