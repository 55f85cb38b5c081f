"""Python functions that are traced: containers, sizes, caches, leaks, and what they cost."""

from __future__ import annotations

import collections
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.driver.tracing import functions
from tileir.driver.tracing.trace import traced

X = np.linspace(-1, 2, 12, dtype="f4").reshape(3, 4)
W = np.linspace(0.5, -0.5, 8, dtype="f4").reshape(4, 2)


@dataclass
class Layer:
    weight: Any
    bias: Any


@tileir.jit
def decorated(x: Any) -> Any:
    return x * 5


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_a_function_of_arrays() -> None:
    np.testing.assert_allclose(tileir.jit(softmax)(X), softmax(X), rtol=1e-6)


def test_names_of_parameters_are_names_of_inputs_and_results() -> None:
    def layer(x: Any, weight: Any) -> Any:
        return {"hidden": np.tanh(x @ weight), "sum": x.sum()}

    text = tileir.to_text(tileir.jit(layer).trace(X, W))
    assert text.startswith("function (X: f32[N, M], Weight: f32[K, L]) -> (Hidden, Sum) {")
    assert tileir.parse(text) == tileir.jit(layer).trace(X, W)


def test_nested_containers_are_arguments_and_results() -> None:
    def network(layers: list[Layer], x: Any) -> Any:
        for each in layers:
            x = x @ each.weight + each.bias
        return Layer(x, (x.sum(), None, [x * 2]))

    layers = [Layer(W, np.ones(2, "f4")), Layer(W.T, np.zeros(4, "f4"))]
    found, wanted = tileir.jit(network)(layers, X), network(layers, X)
    assert isinstance(found, Layer)
    assert found.bias[1] is None
    np.testing.assert_allclose(found.weight, wanted.weight, rtol=1e-5)
    np.testing.assert_allclose(found.bias[2][0], wanted.bias[2][0], rtol=1e-5)


def test_arguments_by_name_by_default_and_in_groups() -> None:
    def f(x: Any, *rest: Any, scale: float = 2.0, **others: Any) -> Any:
        return x * scale + sum(rest) + others.get("shift", 0)

    jitted = tileir.jit(f)
    np.testing.assert_allclose(jitted(X), f(X), rtol=1e-6)
    np.testing.assert_allclose(jitted(X, X, X, scale=0.5, shift=X), f(X, X, X, scale=0.5, shift=X), rtol=1e-6)


def test_static_arguments_are_values() -> None:
    calls: list[int] = []

    def power(x: Any, n: int) -> Any:
        calls.append(n)
        return x**n if n else x

    jitted = tileir.jit(power, static="n")
    for n in (2, 3, 2, 0):
        np.testing.assert_allclose(jitted(X, n), power(X, n), rtol=1e-5)
    assert calls.count(2) == 3  # once traced, twice by this test
    with pytest.raises(tileir.ArgumentError, match="static"):
        jitted(X, [2])  # type: ignore[arg-type]


def test_sizes_that_python_asks_for_are_part_of_the_trace() -> None:
    traces: list[int] = []

    def rows(x: Any) -> Any:
        traces.append(1)
        return sum(x[i] * i for i in range(x.shape[0])) if x.shape[1] == 4 else x.sum(0)

    jitted = tileir.jit(rows)
    for x in (X, X + 1, X[:2], X[:, :3], np.tile(X, (1, 3))):
        np.testing.assert_allclose(jitted(x), rows(x), rtol=1e-5)
    assert len(traces) - 5 == 4  # not again for X + 1; two numbers of columns that are not 4 are two traces


def test_shapes_that_nobody_asks_for_are_traced_once() -> None:
    traces: list[int] = []

    def double(x: Any) -> Any:
        traces.append(1)
        return x * 2 / x.shape[0]

    jitted = tileir.jit(double)
    for x in (X, X[:2], X[:, :1]):
        np.testing.assert_allclose(jitted(x), x * 2 / x.shape[0], rtol=1e-6)
    assert traces == [1]


def test_equal_closures_share_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[Any] = []

    def counted(*given: Any) -> Any:
        traces.append(traced(*given))
        return traces[-1]

    monkeypatch.setattr(functions, "traced", counted)

    def scaled(factor: float, shift: np.ndarray[Any, Any]) -> Any:
        def f(x: Any) -> Any:
            return x * factor + shift

        return tileir.jit(f)

    for factor, shift in ((2.0, W[:, 0]), (2.0, W[:, 0].copy()), (3.0, W[:, 0]), (2.0, W[:, 1])):
        np.testing.assert_allclose(scaled(factor, shift)(X), X * factor + shift, rtol=1e-6)
    assert len(traces) == 3


def test_arrays_that_are_changed_while_a_function_is_traced_are_read_when_they_are_used() -> None:
    def f(x: Any) -> Any:
        table = np.zeros(4, "f4")
        first = x + table
        table[0] = 5
        return first, x + table

    first, second = tileir.jit(f)(X)
    np.testing.assert_allclose(first, X)
    np.testing.assert_allclose(second, X + np.array([5, 0, 0, 0], "f4"))


def test_a_tensor_that_leaks_names_both_places() -> None:
    kept: list[Any] = []

    def leaky(x: Any) -> Any:
        kept.append(x * 3)
        return x + 1

    tileir.jit(leaky)(X)
    with pytest.raises(tileir.TileError, match="leaky") as caught:
        kept[0] + 1
    assert "x + 1" in str(caught.value)
    with pytest.raises(tileir.TileError, match="leaky"):
        tileir.jit(lambda x: x + kept[0])(X)


def test_functions_call_functions() -> None:
    inner = tileir.jit(softmax)
    np.testing.assert_allclose(tileir.jit(lambda x: inner(x) * 2)(X), softmax(X) * 2, rtol=1e-6)


def test_a_declared_function_is_a_program() -> None:
    @tileir.function
    def scaled(x: "f32[N, 4]", s: "f32[4]") -> Any:  # type: ignore[name-defined]  # noqa: F821, UP037
        return x * s

    assert tileir.to_text(scaled) == "function (X: f32[N, 4], S: f32[4]) -> (Y) {\n  Y = X * S;\n}\n"
    compiled = tileir.compile(scaled, [X, X[0]])
    np.testing.assert_allclose(compiled(X, X[0]), X * X[0], rtol=1e-6)
    assert tileir.warnings_of(scaled) == ()
    with pytest.raises(tileir.ArgumentError, match="declared as f32"):
        scaled(X, X)
    with pytest.raises(tileir.ArgumentError, match="nothing says"):
        tileir.to_text(tileir.function(softmax))
    with pytest.raises(tileir.ArgumentError, match="no parameter 'z'"):
        tileir.function(z="f32[N]")(softmax)


def test_what_is_no_tensor_is_told_how_to_pass() -> None:
    with pytest.raises(tileir.ArgumentError, match="static="):
        tileir.jit(softmax)("text")
    with pytest.raises(tileir.TileError, match="returns tensors"):
        tileir.jit(lambda _: "text")(X)
    with pytest.raises(tileir.TileError, match="returns no tensor"):
        tileir.jit(lambda _: None)(X)
    with pytest.raises(tileir.ArgumentError, match="missing"):
        tileir.jit(softmax)()  # type: ignore[call-arg]


def test_errors_of_python_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError):
        tileir.jit(lambda x: x * (1 // 0))(X)


def test_a_jitted_function_is_pickled() -> None:
    np.testing.assert_allclose(pickle.loads(pickle.dumps(tileir.jit(softmax)))(X), softmax(X), rtol=1e-6)


def test_results_of_one_call_are_not_those_of_another() -> None:
    jitted = tileir.jit(lambda x: x * 2)
    first = jitted(X)
    second = jitted(X + 1)
    np.testing.assert_allclose(first, X * 2)
    np.testing.assert_allclose(second, X * 2 + 2)
    np.testing.assert_allclose(jitted(X.astype("f8")), X.astype("f8") * 2)
    np.testing.assert_allclose(jitted(3.0), 6.0)


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    x = np.ones(3, "f4")
    decorated(x)
    again = pickle.loads(pickle.dumps(decorated))
    np.testing.assert_array_equal(again(x), decorated(x))


def test_sizes_are_keys_like_the_integers_that_they_are() -> None:
    def chosen(x: Any) -> Any:
        assert x.shape[0] in {3, 4}
        return x * {3: 2.0, 4: 5.0}[x.shape[0]] * {x.shape: 1.0}[x.shape]

    compiled = tileir.jit(chosen)
    for size in (3, 4):
        np.testing.assert_array_equal(compiled(np.ones((size, 2), "f4")), chosen(np.ones((size, 2), "f4")))


def test_dictionaries_of_other_classes_are_arguments() -> None:
    x = np.arange(3, dtype="f4")
    for kind in (collections.OrderedDict, collections.Counter, lambda pairs: collections.defaultdict(list, pairs)):
        found = tileir.jit(lambda d: {"sum": d["a"] + d["b"], "all": d})(kind({"b": x, "a": x * 2}))
        np.testing.assert_array_equal(found["sum"], x * 3)
        assert type(found["all"]) is type(kind({}))


def test_static_names_are_those_of_parameters() -> None:
    with pytest.raises(tileir.TileError, match="has no parameter 'n'; known are x"):
        tileir.jit(lambda x: x, static="n")


def test_tensors_show_what_is_known_of_them() -> None:
    shown: list[str] = []

    def show(x: Any) -> Any:
        shown.extend((repr(x), f"{x.T}", repr(x.shape), str(x.nbytes == 24)))
        return x

    tileir.evaluate(show, [np.ones((2, 3), "f4")])
    assert shown == ["Tensor(f32[N, M])", "Tensor(f32[M, N])", "(Dim(N), Dim(M))", "True"]
