# ruff: noqa: ARG005  the arguments are there to be ignored
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from tileir.core.errors import TileError
from tileir.tile import builder_functions as tf
from tileir.tile.builder import FunctionBuilder
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor


def test_a_step_is_recorded_as_a_function_of_its_own() -> None:
    builder = FunctionBuilder()
    xs, h0, w = builder.input("Xs", "T", "N"), builder.input("H0", "N"), builder.scalar("W")
    h, ys = tf.scan(lambda h, x, w: (h * w + x, h - x), [h0], [xs], [w], reverse=True)
    assert [repr(dim) for dim in (*h.dims, *ys.dims)] == ["Dim(N)", "Dim(T)", "Dim(N)"]
    function = builder.build(H=h, Ys=ys)
    assert to_text(function) == (
        "function (Xs[T, N], H0[N], W[]) -> (H, Ys) {\n"
        "  T_0 = scan(H0; Xs; W) reverse function (H[N], X[N], W[]) -> (T, T_0) {\n"
        "    T = H * W + X;\n"
        "    T_0 = H - X;\n"
        "  };\n"
        "  H = element(T_0, 0);\n"
        "  Ys = element(T_0, 1);\n"
        "}\n"
    )
    assert parse(to_text(function)) == function


def test_dtypes_of_what_steps_put_out() -> None:
    builder = FunctionBuilder()
    xs, h0 = builder.input("Xs", "T", "N", dtype="f64"), builder.input("H0", "N", dtype="f16")
    h, less, wide = tf.scan(lambda h, x: (h * 2, h < 1, x + 1), [h0], [xs])
    assert [each.dtype.value for each in (h, less, wide)] == ["f16", "bool", "f64"]
    (only,) = tf.scan(lambda x: x > 0, [], [xs])
    assert only.dtype.value == "bool"
    _, open_dtype = tf.scan(lambda h, x: (h, x), [h0], [builder.input("Y", "T", "N")])
    with pytest.raises(TileError, match="TIL215"):
        _ = open_dtype.dtype


def test_numbers_and_functions_may_be_passed() -> None:
    step = parse("function (A[N], K) -> (B) { B = A * K; }")
    builder = FunctionBuilder()
    a = builder.input("A", "N")
    (result,) = tf.scan(step, [a], constants=[0.5], count=3)
    (same,) = tf.scan(lambda a, k: a * k, [a], constants=[0.5], count=builder.input("Count", "C").dims[0])
    function = builder.build(R=result, S=same)
    found = tileir.evaluate(function, {"A": np.ones(2, np.float32), "Count": np.zeros(3, np.float32)})
    for array in found:
        np.testing.assert_array_equal(array, np.full(2, 0.125, np.float32))


def test_steps_see_sizes_as_dimensions_of_their_own() -> None:
    seen: list[str] = []

    def step(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        seen.extend(repr(dim) for tensor in (a, b, c) for dim in tensor.dims)
        return a

    builder = FunctionBuilder()
    a, b = builder.input("A", "N", "M"), builder.input("B", "T", "N")
    c = tf.reshape(a, a.dims[0] * a.dims[1])
    (result,) = tf.scan(step, [a], [b], [c])
    assert seen[:3] == ["Dim(N)", "Dim(M)", "Dim(N)"]
    assert result.rank == 2
    builder.build(R=result)


def test_a_tensor_without_sizes_has_none_inside() -> None:
    builder = FunctionBuilder()
    a, b = builder.input("A"), builder.input("B", "T", "N")
    carried, stacked = tf.scan(lambda a, b: (a, a + b), [a], [b])
    with pytest.raises(TileError, match="TIL209"):
        _ = stacked.dims
    builder.build(C=carried, S=stacked)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda x, y, s: tf.scan(lambda a: a, [x]), "TIL218"),
        (lambda x, y, s: tf.scan(lambda a: a * y, [x], count=3), "TIL216"),
        (lambda x, y, s: tf.scan(lambda a: y * a, [x], count=3), "TIL216"),
        (lambda x, y, s: tf.scan(lambda a: y, [x], count=3), "TIL216"),
        (lambda x, y, s: tf.scan(lambda a: (), [x], count=3), "TIL218"),
        (lambda x, y, s: tf.scan(lambda a: 3, [x], count=3), "TIL215"),  # type: ignore[arg-type,return-value]
        (lambda x, y, s: tf.scan(lambda a, b: a, [x], [s]), "TIL218"),
        (lambda x, y, s: tf.scan(parse("function (A) -> (A2) { A2 = A; }"), [x], [y]), "TIL218"),
        (lambda x, y, s: tf.scan(lambda a: a, ["x"], count=3), "TIL215"),  # type: ignore[list-item]
        (lambda x, y, s: tf.scan(lambda a: a, [x], count="3"), "TIL215"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_told_at_the_users_line(wrong: Callable[..., object], code: str) -> None:
    builder = FunctionBuilder()
    x, y, s = builder.input("X", "N"), builder.input("Y", "N"), builder.scalar("S")
    with pytest.raises(TileError) as caught:
        wrong(x, y, s)
    assert [d.code for d in caught.value.diagnostics] == [code]
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    assert diagnostic.span.source.name == __file__


def test_large_sizes_of_what_a_step_puts_out_are_known() -> None:
    f = tileir.FunctionBuilder()
    x, state = f.input("X", "T", "G"), f.input("H", "N")
    others = [f.input(f"P{number}", f"N{number}") for number in range(20)]

    def step(state: Tensor, _: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
        for other in others:
            state = state + other
        return state, state

    _, outputs = tf.scan(step, [state], [x], others)
    steps, width = outputs.dims
    function = f.build(Y=tf.reshape(outputs, width, steps))
    arrays = [np.zeros((3, 5)), np.ones(4), *[np.full(1 if number % 2 else 4, 2.0) for number in range(20)]]
    expected = np.repeat([41.0, 81.0, 121.0], 4).reshape(4, 3)
    np.testing.assert_array_equal(tileir.evaluate(function, arrays), expected)
