"""Derivatives of casts, reshapes, gathers and scatters."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir_testing.gradients import check_gradients

RNG: Final = np.random.default_rng(5)
ROWS: Final = RNG.normal(size=(4, 3))
INDICES: Final = np.array([[3, 0], [0, 9], [-2, 1]], np.int32)  # some twice, some clamped


def test_reshapes() -> None:
    check_gradients("function (X) -> (Y) { Y = reshape(X * X, 2, 6); }", ROWS, order=2)
    check_gradients("function (X, W) -> (Y) { Y = sin(reshape(X, 3, 4)) * W; }", (ROWS, np.arange(4.0)), order=2)
    check_gradients("function (X) -> (Y) { Y = reshape(X, 1, 1); }", np.array(0.5))


def test_gathers() -> None:
    check_gradients("function (X, I) -> (Y) { Y = gather(X * X, I); }", (ROWS, INDICES), order=2)
    check_gradients("function (X, I, W) -> (Y) { Y = gather(X, I) * W; }", (ROWS, INDICES, ROWS[:1]), order=2)


def test_scatters() -> None:
    updates = RNG.normal(size=(3, 2, 3))
    text = "function (U, I, L) -> (Y) { S = scatter(U * U, I, L); Y = S * L; }"
    check_gradients(text, (updates, INDICES, ROWS), order=2)
    check_gradients("function (U, I, L) -> (Y) { Y = simple_reduce(scatter(U, I, L), 1); }", (updates, INDICES, ROWS))
    check_gradients("function (U, I, L) -> (Y) { Y = exp(scatter(U, I, L)); }", (np.ones(()), np.int32(2), ROWS))


def test_casts_give_gradients_their_own_dtype_back() -> None:
    text = "function (X, W) -> (DX, DW) { Y = X * W; G = gradient(Y, X, W); DX = element(G, 0); DW = element(G, 1); }"
    x, w = np.array([1.5, 2.5], np.float32), np.array([0.5, 4.0], np.float64)
    found = tileir.evaluate(text, (x, w))
    assert [value.dtype for value in found] == [np.float32, np.float64]
    assert [list(value) for value in found] == [[0.5, 4.0], [1.5, 2.5]]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_broadcasts_of_narrow_floats_are_summed_in_wider_ones(dtype: str) -> None:
    """A count of elements does not fit f16, but what arrives times it may."""
    count = 2**17
    text = f"function (X) -> (D) {{ Y[i : {count}] = =(X[]); Z = Y * X; D = gradient(Z * {2.0**-16}, X); }}"
    x = np.array(1.0, DType(dtype).numpy)
    assert float(tileir.evaluate(text, (x,))) == 4.0


@pytest.mark.parametrize(
    "value", ["as_f32(as_i32(X))", "as_f32(X < 1)", "as_f32(as_i32(X) & 3)", "as_f64(index(X, 0))"]
)
def test_nothing_goes_through_integers(value: str) -> None:
    text = f"function (X) -> (D) {{ D = gradient({value}, X); }}"
    assert list(tileir.evaluate(text, np.array([0.5, 1.5]))) == [0.0, 0.0]


def test_random_numbers_do_not_depend_on_the_state() -> None:
    text = "function (S, X) -> (D) { R = prng_step(S, 3); V = prng_value(R); D = gradient(V * X, X) - V; }"
    assert not np.any(tileir.evaluate(text, (np.arange(4, dtype=np.uint32), np.ones(3, np.float32))))


def test_tensors_without_elements() -> None:
    empty = np.zeros((0, 3))
    text = "function (X, S) -> (D, E) { Y = X * S; G = gradient(Y, X, S); D = element(G, 0); E = element(G, 1); }"
    d, e = tileir.evaluate(text, (empty, np.array(2.0)))
    assert (d.shape, e.shape, float(e)) == ((0, 3), (), 0.0)
