"""Functions of one example computed for several, beside loops of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir

X = np.linspace(-1, 2, 24, dtype="f4").reshape(2, 3, 4)
W = np.linspace(0.5, -0.5, 8, dtype="f4").reshape(4, 2)


def layer(x: Any, w: Any) -> Any:
    return {"y": np.tanh(x @ w), "m": x.max(axis=0)}


def test_examples_that_share_an_argument() -> None:
    found = tileir.vmap(layer, (0, None))(X, W)
    np.testing.assert_allclose(found["y"], np.stack([layer(x, W)["y"] for x in X]), rtol=1e-5)
    np.testing.assert_allclose(found["m"], X.max(axis=1))


def test_examples_along_other_axes() -> None:
    found = tileir.vmap(lambda x: x.cumsum(0), 1, 1)(X)
    np.testing.assert_allclose(found, np.stack([X[:, n].cumsum(0) for n in range(3)], axis=1), rtol=1e-5)


def test_functions_that_read_tensors_around_and_maps_of_maps() -> None:
    def f(x: Any, w: Any) -> Any:
        return tileir.vmap(lambda row: tileir.vmap(lambda column: (row * column).sum() + x[0, 0])(w.T))(x)

    np.testing.assert_allclose(tileir.jit(f)(X[0], W), X[0] @ W + X[0, 0, 0], rtol=1e-5)


def test_gradients_of_each_example() -> None:
    each = tileir.vmap(tileir.gradient(lambda w, x: (np.tanh(x @ w) ** 2).sum()), (None, 0))
    found = each(W.astype("f8"), X.astype("f8"))
    for slopes, x in zip(found, X.astype("f8"), strict=True):
        y = np.tanh(x @ W)
        np.testing.assert_allclose(slopes, x.T @ (2 * y * (1 - y**2)), rtol=1e-6)


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(tileir.TileError, match="axis 5"):
        tileir.vmap(lambda x: x, 5)(X)
    with pytest.raises(tileir.ArgumentError, match="2 axes"):
        tileir.vmap(lambda x: x, (0, 0))(X)
