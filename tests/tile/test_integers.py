"""Inputs that can only be integers."""

from __future__ import annotations

import pytest

from tileir.tile.checks.integers import integers
from tileir.tile.text.parser import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("function (A, I) -> (Y) { Y = gather(A, I); }", {"I"}),
        ("function (U, I, L) -> (Y) { Y = scatter(U, I, L); }", {"I"}),
        ("function (S) -> (Y) { Y = prng_value(prng_step(S, 3)); }", {"S"}),
        ("function (A, I, J, K) -> (Y) { R = I < K ? I + 2 * J : I; Y = gather(A, reshape(R, 4)); }", {"I", "J"}),
        ("function (A, X) -> (Y) { R = as_i32(X); Y = gather(A, R); }", set()),
        ("function (A, I, J) -> (Y) { Y = gather(A, gather(I, J)) * J; }", {"I", "J"}),
        ("function (A, I[N]) -> (Y) { M[] = >(I[i]); Y = gather(A, M); }", {"I"}),
        ("function (A, I[N], J[N]) -> (Y) { M[] = +(I[i] == I[i] ? J[i]); Y = gather(A, M); }", {"J"}),
        (
            "function (A, Is, E) -> (Y) { Y = scan(A; Is; E) function (A, I, E) -> (C) { C = A * gather(E, I); }; }",
            {"Is"},
        ),
        ("function (A[N], S, K) -> (Y) { P = S / 2; Y[i : P] = +(A[i]); Z = A * K; }", {"S"}),
    ],
)
def test_indices_and_states_are_integers(text: str, expected: set[str]) -> None:
    assert integers(parse(text)) == expected
