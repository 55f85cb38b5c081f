"""Derivatives of and through types of storage: they are f32, and those of the same program on f32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tileir
from tileir.core.errors import TileError

VALUES = np.random.default_rng(8).normal(size=(4, 5)).astype(ml_dtypes.float8_e4m3fn)
BODIES = (
    "L[] = +(A[i, k]);",
    "L[] = +(A[i, k] * A[i, k]);",
    "L[] = >(A[i, k]);",
    "P[i : M] = *(A[i, k]); L[] = +(P[i]);",
    "T = A > 0 ? A : 0.5; L[] = +(T[i, j] * T[i, j]);",
    "T = gather(A, index(A, 0)); L[] = +(T[i, j, k] * T[i, j, k]);",
    "T[j, i : K, M] = =(A[i, j]); L[] = +(T[i, j] * T[i, j]);",
    "T[i, j : M, K] = =(A[i, j]), i < 2 default A; L[] = +(T[i, j] * T[i, j]);",
    "T = reshape(A, K, M) * 0.3; L[] = +(T[i, j]);",
    "T[i, j : M, K] = >(A[i, k]), j - k < K; L[] = +(T[i, j]);",
    "T[i, j : M, K] = *(A[i, k]), j - k < K; L[] = +(T[i, j]);",
    "L[] = +(A[i, j] == A[i, j] ? A[i, j]);",
    "T = relu(checkpoint(A)) - stop_gradient(A) * A; L[] = +(T[i, j]);",
    "T = reverse_grad(A, 0.5) * 2; L[] = +(T[i, j]);",
    "T = override_gradient(A, A, upstream(A) * 3); L[] = +(T[i, j] * T[i, j]);",
)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("derivative", ["gradient(L, A)", "jvp(L, A, as_f32(A))", "vjp(L, 2.0, A)"])
def test_derivatives_are_those_of_f32(body: str, derivative: str) -> None:
    text = f"function (A[M, K]) -> (D) {{ {body} D = {derivative}; }}"
    found, wanted = (tileir.evaluate(text, [array]) for array in (VALUES, VALUES.astype(np.float32)))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_cast_hands_on_what_arrives_without_rounding_it() -> None:
    text = "function (X[N], W[N]) -> (D) { Q = as_f8e4m3fn(X); Y[] = +(Q[i] * W[i]); D = gradient(Y, X); }"
    weights = np.array([1e4, 1.0001, -3e-5], np.float32)
    assert tileir.evaluate(text, [np.array([1.0, 2.0, 3.0], np.float32), weights]).tolist() == weights.tolist()


def test_cotangents_of_a_type_of_storage_are_f32() -> None:
    text = "function (X, D) -> (G) { Y = X > 0 ? X : 0.5; G = vjp(Y, D, X); }"
    with pytest.raises(TileError, match="takes f32; cast it"):
        tileir.evaluate(text, [VALUES, VALUES])
    assert tileir.evaluate(text, [VALUES, np.ones((4, 5), np.float32)]).dtype == np.float32
