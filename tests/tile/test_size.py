"""The function ``size``: how long a tensor is, known when the program is compiled whatever the tensor is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir import FunctionBuilder, compile as compile_program, evaluate, gradient, parse, to_text, vmap
from tileir.core.errors import TileError
from tileir.tile import builder_functions as tf
from tileir.tile.checks.integers import sizing_inputs


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("L = size(A, 0); C[i : L] = =(B[i]);", [0, 1]),
        ("C[i : size(A, -1) - 1] = =(B[i]);", [0, 1]),
        ("C[i : size(B, 0)] = =(B[i]), i < size(A * 2 + A, 1) - 1;", [0, 1, 0, 0]),
        ("C = reshape(A, size(A, 1), size(A, 0));", [[0, 1], [2, 3], [4, 5]]),
        ("C = B * size(gather(A, as_i32(B)), 0);", [0, 4, 8, 12]),
        ("Half = size(B, 0) / 2; C[i : Half] = =(B[i + Half]);", [2, 3]),
        ("S = scan(; B) function (X) -> (Y) { Y = X + 1; }; C[i : size(S, 0) - 2] = =(S[i]);", [1, 2]),
    ],
)
def test_sizes_are_constants(body: str, expected: Any) -> None:
    function = parse(f"function (A, B) -> (C) {{ {body} }}")
    assert parse(to_text(function)) == function
    found = evaluate(function, [np.arange(6.0).reshape(2, 3), np.arange(4.0)])
    np.testing.assert_array_equal(found, expected)


def test_a_tensor_whose_size_is_asked_for_is_no_integer_for_sizes() -> None:
    function = parse("function (A, K) -> (C) { L = size(A, K); C[i : L] = =(A[i]); }")
    assert sizing_inputs(function) == {"K"}


@pytest.mark.parametrize(
    ("text", "code", "underlined"),
    [
        ("function (A) -> (C) { C[i : size(A)] = =(A[i]); }", "TIL207", "size(A)"),
        ("function (A[N]) -> (C) { C = A + size(A, A); }", "TIL204", "A"),
        ("function (A[N]) -> (C) { B = exp(A); C[i : size(A, 0) + B] = =(A[i]); }", "TIL204", "B"),
        ("function (A) -> (C) { C[i : size(Q, 0)] = =(A[i]); }", "TIL201", "Q"),
        ("function (A) -> (C) { C[i : size(A, 2)] = =(A[i]); }", "TIL314", "2"),
    ],
)
def test_rules(text: str, code: str, underlined: str) -> None:
    with pytest.raises(TileError) as caught:
        compile_program(text, ["f32[4]"])
    assert [(fault.code, fault.underlined) for fault in caught.value.diagnostics] == [(code, underlined)]


@pytest.mark.parametrize("axes", [(0, None), (1, 0), (None, 1)])
def test_examples_are_not_counted(axes: tuple[int | None, int | None]) -> None:
    function = parse(
        "function (A[N, M], B[K]) -> (C) { L = size(A + 1, -1); C[i, j : L, size(B * 2, 0)] = =(A[i, i]); }"
    )
    a, b = np.arange(6.0).reshape(2, 3)[:, :2], np.arange(4.0)
    one = evaluate(function, [a, b])
    several = [x if axis is None else np.stack([x] * 3, axis) for x, axis in zip((a, b), axes, strict=True)]
    np.testing.assert_array_equal(evaluate(vmap(function, list(axes)), several), np.stack([one] * 3))


def test_programs_with_sizes_are_differentiated() -> None:
    text = "function (A) -> (L) { B = A * A; N = size(B, 0); M[] = +(B[i]), i < N - 1; L = M / N; }"
    np.testing.assert_allclose(evaluate(gradient(text), [np.array([1.0, 2.0, 4.0])]), [2 / 3, 4 / 3, 0])


def test_builders_ask_for_sizes() -> None:
    f = FunctionBuilder()
    function = f.build(Y=tf.reshape(f.input("A"), 6) * tf.size(f.input("B"), 0))
    np.testing.assert_array_equal(evaluate(function, [np.ones((2, 3)), np.ones(4)]), np.full(6, 4.0))


def test_functions_are_called_with_tensors_whose_sizes_nobody_declared() -> None:
    text = """
    function centred(X[N]) -> (Y) { S[] = +(X[i]); Y = X - S / N; }
    function product(X[N, M], Y[M]) -> (Z) { Z[i : N] = +(X[i, j] * Y[j]); }
    function (A, B) -> (C) {
      Rows = scan(; A) function (Row) -> (Out) { Out = centred(Row * 2); };
      C = centred(product(Rows, B));
    }
    """
    a, b = np.arange(6.0).reshape(2, 3) ** 2, np.array([1.0, 2.0, 4.0])
    rows = 2 * a - (2 * a).mean(1, keepdims=True)
    np.testing.assert_allclose(evaluate(text, [a, b]), rows @ b - (rows @ b).mean())
    for wrong, code in (([a, b[:2]], "TIL312"), ([a, a.T], "TIL317"), ([b, b], "TIL314")):
        with pytest.raises(TileError) as caught:
            evaluate(text, wrong)
        assert caught.value.diagnostics[0].code == code
