"""Checks of a text: faults, statements, and inputs with initial types."""

from __future__ import annotations

import pytest

import tileir
from tileir.driver.calls.arguments import tensor_types
from tileir.typed.inference.inference import infer
from tileir_studio.design.checking import checked
from tileir_testing.programs.catalog import CASES

TEXTS = {case.text: case.name for case in CASES}


def guesses(text: str) -> dict[str, str]:
    found = checked(text)
    assert found.faults == ()
    return {each.name: each.guess for each in found.inputs}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "function (A[M, K], B[K, N], C[N]) -> (D) { P[i, j : M, N] = +(A[i, k] * B[k, j]); D = P + C; }",
            {"A": "f32[256, 256]", "B": "f32[256, 256]", "C": "f32[256]"},
        ),
        (
            "function (I[N, H, W, C], K[A, B, C, D]) -> (O) "
            "{ O[n, y, x, d : N, H - A + 1, W - B + 1, D] = +(I[n, y + a, x + b, c] * K[a, b, c, d]); }",
            {"I": "f32[16, 16, 16, 16]", "K": "f32[16, 16, 16, 16]"},
        ),
        (
            "function (I[X, Y], K[A, B]) -> (O) "
            "{ O[x, y : X - 2 * (A - 1), Y - 3 * (B - 1)] = +(I[x + 2 * i, y + 3 * j] * K[i, j]); }",
            {"I": "f32[256, 256]", "K": "f32[3, 3]"},
        ),
        ("function (A, B) -> (C) { C = A * B; }", {"A": "f32[256, 256]", "B": "f32[256, 256]"}),
        ("function (A[N], S) -> (C) { C = A * S; }", {"A": "f32[4096]", "S": "f32[]"}),
        ("function (A) -> (S) { S[] = +(A[i, j]); }", {"A": "f32[256, 256]"}),
        ("function (D, I) -> (O) { O = gather(D, I); }", {"D": "f32[256, 256]", "I": "i32[256, 256]"}),
        ("function (A[N], K) -> (B) { B[i : N / K] = +(A[K * i]); }", {"A": "f32[4096]", "K": "1"}),
    ],
)
def test_inputs_have_types_to_begin_with(text: str, expected: dict[str, str]) -> None:
    assert guesses(text) == expected


@pytest.mark.sampled(0)
def test_most_programs_compile_with_the_types_they_begin_with() -> None:
    fitting = 0
    for text in TEXTS:
        values = {name: int(guess) if guess.isdecimal() else guess for name, guess in guesses(text).items()}
        function = tileir.parse(text)
        try:
            infer(function, tensor_types(function, values))
        except tileir.TileError:
            continue
        fitting += 1
    assert fitting >= 0.8 * len(TEXTS)


def test_statements_have_their_places() -> None:
    text = "function (A[N]) -> (C) { B = A * 2.0;\n // half\n C = B / 4.0; }"
    assert [text[start:stop] for start, stop in checked(text).statements] == ["B = A * 2.0", "C = B / 4.0"]


def test_all_faults_come_at_once() -> None:
    text = "function (A[N]) -> (C) { B = foo(A);\n C = D; }"
    faults = checked(text).faults
    assert [(fault.code, text[fault.start : fault.stop], fault.line, fault.column) for fault in faults] == [
        ("TIL206", "foo(A)", 1, 30),
        ("TIL201", "D", 2, 6),
    ]
