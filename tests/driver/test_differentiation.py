"""Derivatives as functions and of arrays: what is accepted, what comes back, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import tileir
from tileir.core.errors import ArgumentError, TileError
from tileir.tile.ir import Assignment, Call
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.verifier import verify

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT: Final = """function (A[M, K], B[K, N], I) -> (C, S) {
    C[i, j : M, N] = +(A[i, k] * B[k, j]);
    S = gather(C, I);
}"""
RNG: Final = np.random.default_rng(3)
A: Final = RNG.normal(size=(2, 3))
B: Final = RNG.normal(size=(3, 4))
I: Final = np.array([1, 0, 1], np.int32)  # noqa: E741  the name of the input


def codes(call: Callable[[], object]) -> list[str]:
    with pytest.raises(TileError) as caught:
        call()
    return [d.code for d in caught.value.diagnostics]


def test_a_function_gives_a_function_for_all_shapes() -> None:
    made = tileir.gradient(TEXT, wrt=["A", "B"], of="C")
    assert tileir.gradient(tileir.parse(TEXT), ("A", "B"), ["C"]) == made
    assert [output.name for output in made.outputs] == ["DA", "DB"]
    for rows in (2, 5):
        a = RNG.normal(size=(rows, 3))
        da, db = tileir.evaluate(made, (a, B, I))
        assert da == pytest.approx(np.ones((rows, 4)) @ B.T)
        assert db == pytest.approx(a.T @ np.ones((rows, 4)))


def test_arguments_write_it_out() -> None:
    made = tileir.gradient(TEXT, arguments=(A, B, I))
    assert [output.name for output in made.outputs] == ["DA", "DB"]  # I is no float
    calls = {s.value.function for s in made.statements if isinstance(s, Assignment) and isinstance(s.value, Call)}
    assert not calls & {"gradient", "element"}
    found = tileir.evaluate(made, (A, B, I))
    expected = tileir.evaluate(tileir.gradient(TEXT, ["A", "B"]), (A, B, I))
    assert all(np.array_equal(left, right) for left, right in zip(found, expected, strict=True))


def test_a_typed_function_gives_a_typed_function() -> None:
    graph = infer(tileir.parse(TEXT), {"A": _type(A), "B": _type(B), "I": _type(I)})
    made = tileir.gradient(graph, of="C")
    verify(made)
    assert (made.inputs, made.outputs) == (graph.inputs, ("DA", "DB"))
    found = interpret(made, {"A": A, "B": B, "I": I})
    assert found["DA"] == pytest.approx(np.ones((2, 4)) @ B.T)
    assert codes(lambda: tileir.gradient(graph, "I")) == ["TIL321"]


def _type(array: np.ndarray[Any, Any]) -> tileir.TensorType:
    return tileir.TensorType(tileir.DType("f64" if array.dtype.kind == "f" else "i32"), array.shape)


def test_vjp_runs() -> None:
    cotangent = RNG.normal(size=(2, 4))
    found = tileir.vjp(TEXT, (A, B, I), {"C": cotangent})
    assert list(found) == ["A", "B"]
    assert found["A"] == pytest.approx(cotangent @ B.T)
    assert found["B"] == pytest.approx(A.T @ cotangent)
    both = tileir.vjp(TEXT, {"B": B, "A": A, "I": I}, (cotangent, np.ones((3, 4))), wrt="A")
    counts = np.array([[1.0], [2.0]])
    assert both["A"] == pytest.approx((cotangent + counts) @ B.T)


def test_jvp_runs() -> None:
    tangent = RNG.normal(size=(2, 3))
    found = tileir.jvp(TEXT, (A, B, I), {"A": tangent})
    assert list(found) == ["C", "S"]
    assert found["C"] == pytest.approx(tangent @ B)
    assert found["S"] == pytest.approx((tangent @ B)[I])
    found = tileir.jvp(TEXT, (A, B, I), (tangent, np.ones((3, 4))), of="C")
    assert found["C"] == pytest.approx(tangent @ B + A @ np.ones((3, 4)))


def test_ties_can_be_split() -> None:
    text = "function (X) -> (Y) { Y[] = >(X[i]); }"
    x, one = np.array([1.0, 2.0, 2.0]), np.array(1.0)
    assert tileir.vjp(text, x, one)["X"].tolist() == [0, 1, 1]
    assert tileir.vjp(text, x, one, ties="even")["X"].tolist() == [0, 0.5, 0.5]
    assert tileir.jvp(text, x, np.array([5.0, 1.0, 2.0]), ties="even")["Y"] == 1.5
    even = tileir.gradient(text, ties="even")
    assert tileir.evaluate(even, x).tolist() == [0, 0.5, 0.5]
    graph = tileir.gradient(infer(tileir.parse(text), {"X": _type(x)}), ties="even")
    assert interpret(graph, {"X": x})["DX"].tolist() == [0, 0.5, 0.5]


def test_unknown_names_are_refused() -> None:
    assert codes(lambda: tileir.gradient(TEXT, "Q")) == ["TIL710"]
    assert codes(lambda: tileir.gradient(TEXT, ["A", "A", "Z"], of="A")) == ["TIL710"] * 2
    assert codes(lambda: tileir.gradient(TEXT, of=["C", "X"], arguments=(A, B, I))) == ["TIL710"]
    assert codes(lambda: tileir.gradient(TEXT, [])) == ["TIL710"]
    assert codes(lambda: tileir.vjp(TEXT, (A, B, I), {"D": A})) == ["TIL710"]
    assert codes(lambda: tileir.vjp(TEXT, (A, B, I), (A, B, I))) == ["TIL705"]
    assert codes(lambda: tileir.jvp(TEXT, (A, B, I), {"A": A}, of="A")) == ["TIL710"]
    with pytest.raises(ArgumentError, match="did you mean Weights"):
        tileir.gradient("function (Weights) -> (Y) { Y = Weights * Weights; }", "Weigths")


def test_outputs_that_are_inputs_keep_their_names() -> None:
    text = "function (X, Z) -> (X, Y) { Y = X * Z; }"
    z = np.array([2.0, 3.0])
    made = tileir.gradient(text, "X", "X", arguments=(z, z))
    assert tileir.evaluate(made, (z, z)).tolist() == [1, 1]
    found = tileir.evaluate(tileir.gradient(text, "X", ["Y", "X"], arguments=(z, z)), (z, z))
    assert found.tolist() == [3, 4]


def test_indices_are_left_out_and_other_integers_underlined() -> None:
    da, db = tileir.evaluate(tileir.gradient(TEXT, of="C"), (A, B, I))
    assert (da.shape, db.shape) == (A.shape, B.shape)
    weighed = "function (X, N) -> (Y) { Y = X * N; }"
    with pytest.raises(TileError) as caught:
        tileir.evaluate(tileir.gradient(weighed), (A[0], I))
    assert [(d.code, d.underlined) for d in caught.value.diagnostics] == [("TIL321", "N")]
    rounded = "function (X) -> (Y, Z) { Y = X * X; Z = as_i32(X); }"
    with pytest.raises(TileError, match="'Z' is i32"):
        tileir.evaluate(tileir.gradient(rounded), (A,))


def test_wrong_kinds_are_refused() -> None:
    assert codes(lambda: tileir.gradient(3)) == ["TIL707"]  # type: ignore[call-overload]
    assert codes(lambda: tileir.gradient(TEXT, ties="some")) == ["TIL707"]  # type: ignore[call-overload]
    assert codes(lambda: tileir.vjp(TEXT, (A, B, I), 3)) == ["TIL707"]
    for names in (3, [3], [["A"]], b"A"):
        assert codes(lambda names=names: tileir.gradient(TEXT, names)) == ["TIL707"]  # type: ignore[misc]
        assert codes(lambda names=names: tileir.jvp(TEXT, (A, B, I), (A,), of=names)) == ["TIL707"]  # type: ignore[misc]
    with pytest.raises(ArgumentError, match="pass the cotangents as a mapping"):
        tileir.vjp(TEXT, (A, B, I), 1.0)
    with pytest.raises(ArgumentError, match="no input is a float"):
        tileir.gradient("function (X) -> (Y) { Y = X; }", arguments=(I,))
    assert codes(lambda: tileir.vjp(TEXT, (A, B, I), {"C": A})) == ["TIL322"]
    assert codes(lambda: tileir.vjp(TEXT, (A, B, I), {"C": np.array(1.0)}, wrt="I")) == ["TIL321"]
    assert codes(lambda: tileir.vjp(TEXT, (A, B), {"C": A})) == ["TIL705"]
