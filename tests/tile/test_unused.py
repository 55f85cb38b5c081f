"""Warnings that hold for all shapes."""

from __future__ import annotations

import pytest

import tileir
from tileir import FunctionBuilder, ops


def told(text: str) -> list[tuple[str, str]]:
    return [(warning.code, warning.underlined) for warning in tileir.parse(text).warnings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("function (A, B) -> (C) { C = A; }", [("TIL231", "B")]),
        ("function (A) -> (C) { B = A + 1; D = B * 2; C = A; }", [("TIL232", "B"), ("TIL232", "D")]),
        ("function (A) -> (C) { [[allow(TIL232)]] B = A + 1; C = A; }", []),
        ("function (A) -> (C) { [[alow(TIL232)]] C = A; }", [("TIL234", "[[alow(TIL232)]]")]),
        ("function (A) -> (C) { [[allow(TIL999)]] C = A; }", [("TIL234", "[[allow(TIL999)]]")]),
        ("function (A) -> (C) { [[pid(x)]] [[finite]] C = A; }", []),
        ("function (A) -> (C) { constant K = 3.0; C = A; }", [("TIL232", "K")]),
        ("function (A[N], L[M]) -> (C) { C[i : M] = =(A[i]); }", []),
        ("function (A[N], L[N]) -> (C) { C[i : N] = =(A[i]); }", [("TIL231", "L[N]")]),
        ("function (A[N], D) -> (C) { C[i : N] = =(A[i]) default D; }", []),
        ("function (A[N]) -> (C) { B = match(N, 3); C = A; }", []),
        ("function (A[N]) -> (C) { B = assert_small(N < 9); C = A; }", []),
        ("function (A[M, N]) -> (C) { C[i : M] = +(A[i + j - j, j]); }", [("TIL233", "j")]),
        ("function (A[M, N]) -> (C) { C[i : M] = +(A[i + 0 * j, j]); }", [("TIL233", "j")]),
        ("function (A[M, N]) -> (C) { C[i : M] = +(A[i + N * j - M * j, j]); }", []),
        ("function (A[M, N]) -> (C) { C[i : M] = +(A[i, (2 * j - j) / 1]); }", []),
    ],
)
def test_what_is_told(text: str, expected: list[tuple[str, str]]) -> None:
    assert told(text) == expected


def test_carries_of_a_scan_are_needed_whether_its_step_reads_them_or_not() -> None:
    step = "function (A, X, K) -> (B) { B = X; U = X; }"
    text = f"function (A, X, K) -> (O) {{ O = scan(A; X; K) {step}; }}"
    assert told(text) == [("TIL231", "K"), ("TIL232", "U")]


def test_a_warning_says_so() -> None:
    (warning,) = tileir.parse("function (A, B) -> (C) { C = A; }", "f.tile").warnings
    assert warning.severity == "warning"
    assert warning.render().startswith("f.tile:1:14: warning[TIL231]: no result depends on input 'B'")


def test_what_is_built_in_python_underlines_the_expression() -> None:
    f = FunctionBuilder()
    a = f.input("A", "N")
    f.input("B")
    ops.softmax(a, axis=0)
    warnings = f.build(C=a + 1).warnings
    assert [(warning.code, warning.underlined) for warning in warnings] == [("TIL231", 'f.input("B")')]
