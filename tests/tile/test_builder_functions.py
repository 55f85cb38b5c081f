"""Functions of the builder that are more than a call: derivatives, of one value and of several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir import ops
from tileir.core.errors import TileError
from tileir.tile import builder_functions as tf
from tileir.tile.builder import FunctionBuilder


def body(function: tileir.Function) -> list[str]:
    return [line.strip() for line in tileir.to_text(function).splitlines()[1:-1]]


def test_one_gradient_is_a_tensor_with_the_sizes_of_what_it_is_by() -> None:
    f = FunctionBuilder()
    x = f.input("X", "N", "M")
    gradient = tf.gradient(tf.tanh(x), x)
    assert gradient.dims == x.dims
    assert body(f.build(G=gradient)) == ["G = gradient(tanh(X), X);"]


def test_several_gradients_are_a_tuple() -> None:
    f = FunctionBuilder()
    x, w = f.input("X", "N", "M"), f.input("W", "M")
    found = tf.gradient(f.let("Y", x * w), x, w)
    dx, dw = found
    assert (dx.dims, dw.dims) == (x.dims, w.dims)
    function = f.build(DX=dx, DW=dw)
    assert body(function) == ["Y = X * W;", "T = gradient(Y, X, W);", "DX = element(T, 0);", "DW = element(T, 1);"]
    dx_value, dw_value = tileir.evaluate(function, (np.ones((2, 3)), np.full(3, 2.0)))
    assert (dx_value.tolist(), dw_value.tolist()) == ([[2.0] * 3] * 2, [2.0] * 3)


def test_several_results_go_together() -> None:
    f = FunctionBuilder()
    x = f.input("X", "N")
    y, z = f.let("Y", x * x), f.let("Z", tf.sin(x))
    assert body(f.build(G=tf.gradient((y, z), x)))[-1] == "G = gradient(tuple(Y, Z), X);"


def test_cotangents_are_tensors_or_numbers() -> None:
    f = FunctionBuilder()
    x, d = f.input("X", "N"), f.input("D", "N")
    y, z = f.let("Y", x * x), f.let("Z", tf.sin(x))
    pulled = tf.vjp([y, z], [d, 2.0], x)
    assert pulled.dims == x.dims
    function = f.build(G=pulled)
    assert body(function)[-1] == "G = vjp(tuple(Y, Z), tuple(D, 2.0), X);"
    found = tileir.evaluate(function, (np.zeros(2), np.ones(2)))
    assert found.tolist() == [2.0, 2.0]


def test_a_training_step_is_one_program() -> None:
    f = FunctionBuilder()
    x, w, rate = f.input("X", "B", "N"), f.input("W", "N"), f.scalar("Rate")
    (rows, _), (b, n) = x.dims, f.indices("b n")
    y = f.tensor("Y", rows)
    y[b] += x[b, n] * w[n]
    slope = tf.gradient((y - 1.0) * (y - 1.0), w)
    step = f.build(Next=w - rate * slope)
    found = tileir.evaluate(step, (np.eye(2), np.zeros(2), np.array(0.25)))
    assert found.tolist() == [0.5, 0.5]


def test_dtypes_of_coordinates_are_known_where_sizes_are() -> None:
    f = FunctionBuilder()
    x, wide = f.input("X", 4, 3, dtype="f32"), f.input("W", 2**31 + 1, dtype="bool")
    known = (tf.index(x, 1), tf.index(x, -1), tf.argsort(x, 0), tf.index(wide, 0))
    assert [each.dtype.value for each in known] == ["i32", "i32", "i32", "i64"]
    _, places = ops.max_pool(f.input("P", 1, 2, 4, 4, dtype="f16"), 2, return_indices=True)
    assert places.dtype.value == "i32"
    with pytest.raises(TileError, match="TIL215"):
        _ = tf.index(f.input("Y", "N"), 0).dtype


def test_dtypes_of_choices_among_truth_values_and_numbers_are_those_of_the_compiled_program() -> None:
    f = FunctionBuilder()
    x, v = f.input("X", 3, dtype="bool"), f.input("V", 3, dtype="bool")
    chosen = {"A": ops.where(x, v, 1), "B": ops.where(x, v, x), "C": ops.clip(v, 0, 1), "D": ops.heaviside(x, v)}
    found = [each.dtype for each in chosen.values()]
    executable = tileir.compile(f.build(**chosen), ["bool[3]", "bool[3]"], device="llvm")
    assert found == [each.dtype for each in executable.result_types.values()]
    assert [each.value for each in found] == ["i32", "bool", "i32", "i32"]


def test_dtypes_of_derivatives_are_known_while_building() -> None:
    """As inference has them: those of what they are taken by, f32 where that has 8 bits."""
    f = FunctionBuilder()
    x, w, small = f.input("X", "N", dtype="f64"), f.input("W", "N", dtype="f16"), f.input("S", "N", dtype="f8e5m2")
    y = x * w + tf.cast(small, "f64")
    by_several = tf.gradient(y, x, w, small)
    pulled, moved = tf.vjp([y, w * 2], [1.0, 2.0], w), tf.jvp([y, w * 2], [w], [w])
    one = tf.jvp(w * 2, w, w)
    function = f.build(A=by_several[0], B=by_several[1], C=by_several[2], D=pulled, E=moved[0], F=moved[1], G=one)
    found = [each.dtype.value for each in (*by_several, pulled, *moved, one)]
    executable = tileir.compile(function, ["f64[2]", "f16[2]", "f8e5m2[2]"], device="llvm")
    assert found == [each.dtype.value for each in executable.result_types.values()]
    assert found == ["f64", "f16", "f32", "f16", "f64", "f16", "f16"]


@pytest.mark.parametrize("wrong", [(), None, np.ones(2)])
def test_what_is_neither_a_tensor_nor_several_is_refused(wrong: Any) -> None:
    f = FunctionBuilder()
    x = f.input("X", "N")
    with pytest.raises(TileError, match="pass a tensor, or several in a tuple"):
        tf.gradient(wrong, x)
    with pytest.raises(TileError, match="pass a tensor, or several in a tuple"):
        tf.vjp(x, wrong, x)
    with pytest.raises(TileError, match="pass a tensor, or several in a tuple"):
        tf.jvp(x, x, wrong)
