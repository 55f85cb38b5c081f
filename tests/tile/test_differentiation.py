"""Tile functions of derivatives: names, texts, and what stays as it was."""

from __future__ import annotations

from tileir.tile.checks.verifier import verify
from tileir.tile.differentiation import gradient, jvp, vjp
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text

PRODUCT = parse("function (A[M, K], B[K, N]) -> (C, D) { C[i, j : M, N] = +(A[i, k] * B[k, j]); D = C * C; }")


def statements(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()[3:-1]]


def test_gradient_appends_a_call() -> None:
    made = gradient(PRODUCT, ["A"], ["D"], even_ties=False)
    verify(made.function)
    text = to_text(made.function)
    assert text.splitlines()[0] == "function (A[M, K], B[K, N]) -> (DA) {"
    assert statements(text) == ["DA = gradient(D, A);"]
    assert (made.seeds, made.function.statements[:2]) == ((), PRODUCT.statements)
    assert parse(text) == made.function


def test_several_derivatives_are_a_tuple() -> None:
    made = gradient(PRODUCT, ["B", "A"], ["C", "D"], even_ties=True)
    assert statements(to_text(made.function)) == [
        "[[ties(even)]] Derivatives = gradient(tuple(C, D), B, A);",
        "DB = element(Derivatives, 0);",
        "DA = element(Derivatives, 1);",
    ]


def test_cotangents_and_tangents_are_inputs() -> None:
    made = vjp(PRODUCT, ["A"], ["C", "D"], even_ties=False)
    assert made.seeds == ("DC", "DD")
    assert statements(to_text(made.function)) == ["DA = vjp(tuple(C, D), tuple(DC, DD), A);"]
    made = jvp(PRODUCT, ["A"], ["D"], even_ties=False)
    assert made.seeds == ("DA",)
    assert to_text(made.function).splitlines()[0] == "function (A[M, K], B[K, N], DA) -> (DD) {"
    assert statements(to_text(made.function)) == ["DD = jvp(D, A, DA);"]


def test_names_are_new() -> None:
    function = parse("function (X, Derivatives[DX]) -> (DY, Y) { DY = X; Y = X * Derivatives; }")
    made = gradient(function, ["X", "Derivatives"], ["Y"], even_ties=False)
    verify(made.function)
    assert [output.name for output in made.function.outputs] == ["DX_0", "DDerivatives"]
