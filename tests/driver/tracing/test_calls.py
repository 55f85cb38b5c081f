"""Python functions that call others: signatures hold there, faults name the call, equal calls are one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir import TileError

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


@tileir.function(x="f32[N, 3]", y="f32[N, M]")
def joined(x: Any, y: Any) -> Any:
    return x.sum(1) + y.sum(1)


@tileir.function(values="f32[3]")
def totals(values: Any, *, scale: float = 1.0) -> Any:
    return {name: value.sum() * scale for name, value in values.items()}


def test_functions_are_called_with_what_they_declare() -> None:
    def outer(a: Any, b: Any) -> Any:
        return joined(2 * a, b) - joined(a, np.ones((2, 1), np.float32))

    expected = 2 * ROWS.sum(1) + ROWS.sum(1) - ROWS.sum(1) - 1
    np.testing.assert_allclose(tileir.jit(outer)(ROWS, ROWS), expected)


def test_containers_and_keywords_pass_through() -> None:
    def outer(a: Any) -> Any:
        return totals({"first": a[0], "second": a[1]}, scale=2.0)

    found = tileir.jit(outer)(ROWS)
    assert {name: float(value) for name, value in found.items()} == {"first": 6.0, "second": 24.0}


@pytest.mark.parametrize(
    ("x", "y", "code", "words"),
    [
        (ROWS[0], ROWS, "TIL305", "x has 2 axes, but is given a tensor with 1"),
        (ROWS.astype(np.float64), ROWS, "TIL317", "f64, where f32 is declared"),
        (ROWS[:, :2], ROWS, "TIL317", "has shape [2, 2], where [2, 3] is declared"),
        (ROWS, np.concatenate([ROWS, ROWS]), "TIL312", "both must match"),
    ],
)
def test_what_a_function_declares_is_checked_where_it_is_called(x: Any, y: Any, code: str, words: str) -> None:
    def outer(a: Any, b: Any) -> Any:
        return joined(a, b)

    with pytest.raises(TileError) as caught:
        tileir.jit(outer)(x, y)
    fault = caught.value.diagnostics[0]
    assert (fault.code, fault.underlined) == (code, "joined(a, b)")
    assert words in fault.message


def test_sizes_of_one_name_are_equal_while_a_function_is_built() -> None:
    f = tileir.FunctionBuilder()
    a, b = f.input("A", "K", 3, dtype="f32"), f.input("B", "L", "M", dtype="f32")
    function = f.build(Y=joined(a, b))
    assert tileir.evaluate(function, [ROWS, ROWS]).shape == (2,)
    with pytest.raises(TileError) as caught:
        tileir.evaluate(function, [ROWS, ROWS[:1]])
    assert caught.value.diagnostics[0].code == "TIL312"


@tileir.function
def shifted(x: Any, y: Any) -> Any:
    return x + y


def test_faults_in_a_function_name_the_call() -> None:
    def outer(a: Any, b: Any) -> Any:
        return shifted(a, b) * 2

    with pytest.raises(TileError) as caught:
        tileir.jit(outer)(np.ones(2), np.ones(3))
    fault = caught.value.diagnostics[0]
    assert (fault.code, fault.underlined) == ("TIL301", "x + y")
    (call,) = fault.trail
    assert call.startswith("called at ")
    assert call.endswith(": shifted(a, b)")


@tileir.function
def endless(x: Any) -> Any:
    return endless(x + 1)


@tileir.function(static="times")
def repeated(x: Any, times: int) -> Any:
    return x if times == 0 else repeated(x * 2, times - 1)


def test_recursion_ends_by_values_of_python_or_is_refused() -> None:
    np.testing.assert_array_equal(repeated(np.ones(2), 5), [32, 32])
    with pytest.raises(TileError) as caught:
        tileir.jit(endless)(np.ones(2))
    assert caught.value.diagnostics[0].code == "TIL229"
    assert "endless() was traced until Python's stack was full" in str(caught.value)
    np.testing.assert_array_equal(shifted(np.ones(2), np.ones(2)), [2, 2])


@tileir.function
def layer(x: Any, w: Any, c: Any) -> Any:
    return np.tanh(x @ w + c)


LAYER = """function layer(X[B, N], W[N, N], C[N]) -> (Y) {
  P[b, m : B, N] = +(X[b, n] * W[n, m]);
  Y = tanh(P + C);
}
"""


def net(x: Any, weights: Any, biases: Any) -> Any:
    for w, c in zip(weights, biases, strict=True):
        x = layer(x, w, c)
    return x


@pytest.mark.parametrize("written", [False, True])
def test_equal_calls_are_one_kernel(written: bool) -> None:
    """Fifty calls launch fifty works of three kernels: first, last and those between differ in what they read."""
    count = 50
    inputs = ", ".join(f"W{k}[N, N], C{k}[N]" for k in range(count))
    calls = "".join(f"  X{k + 1} = layer(X{k}, W{k}, C{k});\n" for k in range(count))
    text = f"{LAYER}function (X0[B, N], {inputs}) -> (X{count}) {{\n{calls}}}\n"
    each = ["f32[16, 32]", *["f32[32, 32]", "f32[32]"] * count]
    x, weights, biases = np.ones((16, 32), np.float32), np.ones((32, 32), np.float32), np.ones(32, np.float32)
    made = tileir.compile(text, each) if written else tileir.compile(net, (x, [weights] * count, [biases] * count))
    assert len(made.sem.works) == count
    assert len(made.sem.kernels) <= 3


def test_lambdas_vmap_gradients_and_scans_call_functions() -> None:
    texts = tileir.parse("function (X[N]) -> (Y) { M[] = >(X[i]); E = exp(X - M); S[] = +(E[i]); Y = E / S; }")

    def loss(x: Any, w: Any) -> Any:
        _, rows = tileir.scan(lambda carry, row: (shifted(carry, row), texts(row) * w), np.zeros(3, np.float32), x)
        return rows.sum()

    value, by_w = tileir.jit(tileir.value_and_grad(loss, 1))(ROWS, np.float32(2))
    np.testing.assert_allclose([value, by_w], [4, 2], rtol=1e-6)
    mapped = tileir.jit(tileir.vmap(lambda row: texts(row) + shifted(row, 1)))
    e = np.exp(ROWS - ROWS.max(1, keepdims=True))
    np.testing.assert_allclose(mapped(ROWS), e / e.sum(1, keepdims=True) + ROWS + 1, rtol=1e-5)


def test_gradients_know_no_other_way_to_an_argument() -> None:
    """Captured values of a function are constants, even if one is the argument itself."""
    a = np.array([1.0, 3.0])

    def total(x: Any, z: Any) -> Any:
        return (x * z).sum()

    def closed(x: Any) -> Any:
        return tileir.value_and_grad(lambda y: total(y, x))(x)[1]

    def passed(x: Any) -> Any:
        return tileir.value_and_grad(total)(x, x * x)[1]

    def moved(x: Any) -> Any:
        return tileir.jvp(lambda y: y * x, (x,), (x * 0 + 1,))[1]

    def pulled(x: Any) -> Any:
        return tileir.vjp(lambda y: (y * x).sum(), (x,), 1.0)[0]

    for function, expected in ((closed, a), (passed, a * a), (moved, a), (pulled, a)):
        np.testing.assert_allclose(tileir.jit(function)(a), expected)
    program = tileir.parse("function (X[N], Z[N]) -> (D) { Y[] = +(X[i] * Z[i]); D = gradient(Y, X); }")
    np.testing.assert_allclose(tileir.jit(lambda x: program(x, x * x))(a), a * a)


@pytest.mark.parametrize("builtin", [int, max, range])
def test_builtins_without_a_signature_get_tensors(builtin: Any) -> None:
    for call in (tileir.jit(builtin), tileir.gradient(builtin)):
        with pytest.raises(TileError) as fault:
            call(ROWS)
        assert "error[TIL215]" in str(fault.value)
    with pytest.raises(TileError):
        tileir.compile(builtin)
