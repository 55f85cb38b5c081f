"""Derivatives of Python functions, beside formulas and finite differences in f64."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest

import tileir

X = np.linspace(-1, 2, 12).reshape(3, 4)
W = np.array([0.5, -1.0, 0.25, 2.0])


def loss(p: Any, x: Any) -> Any:
    return np.mean(np.tanh(x @ p["w"] + p["b"]) ** 2)


def slope(function: Any, at: np.ndarray[Any, Any], step: float = 1e-6) -> np.ndarray[Any, Any]:
    found = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        moved = [at.copy(), at.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        found[place] = (function(moved[0]) - function(moved[1])) / (2 * step)
    return found


def test_value_and_gradients_of_containers() -> None:
    p = {"w": W, "b": np.float64(0.3)}
    value, gradients = tileir.value_and_grad(loss)(p, X)
    np.testing.assert_allclose(value, loss(p, X))
    np.testing.assert_allclose(gradients["w"], slope(lambda w: loss({**p, "w": w}, X), W), rtol=1e-6)
    np.testing.assert_allclose(gradients["b"], slope(lambda b: loss({**p, "b": b}, X), np.array(0.3)), rtol=1e-6)


def test_gradients_by_several_arguments_with_something_else() -> None:
    def f(a: Any, b: Any) -> Any:
        return (a * b).sum(), a + b

    (value, aux), (da, db) = tileir.value_and_grad(f, (0, 1), has_aux=True)(X, X + 1)
    np.testing.assert_allclose(value, (X * (X + 1)).sum())
    np.testing.assert_allclose(aux, 2 * X + 1)
    np.testing.assert_allclose(da, X + 1)
    np.testing.assert_allclose(db, X)


def test_gradients_of_gradients_and_inside_functions() -> None:
    second = tileir.gradient(lambda x: tileir.gradient(lambda y: (y**3).sum())(x).sum())
    np.testing.assert_allclose(second(W), 6 * W)

    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * tileir.gradient(lambda v: loss({"w": v, "b": 0.0}, x))(w)

    wanted = W - 0.1 * slope(lambda w: loss({"w": w, "b": 0.0}, X), W)
    np.testing.assert_allclose(tileir.jit(step)(W, X), wanted, rtol=1e-6)


def test_what_a_function_closes_over_is_constant() -> None:
    def f(x: Any) -> Any:
        z = x * 2
        return tileir.gradient(lambda y: (y * z).sum())(x)

    np.testing.assert_allclose(tileir.jit(f)(W), 2 * W)


def test_cotangents_and_tangents() -> None:
    def f(a: Any, b: Any) -> Any:
        return {"p": a @ b, "s": np.sin(a)}

    u, v = X, X.T.copy()
    seeds = {"p": np.ones((3, 3)), "s": np.full((3, 4), 2.0)}
    da, db = tileir.vjp(f, (u, v), seeds)
    np.testing.assert_allclose(da, seeds["p"] @ v.T + 2 * np.cos(u))
    np.testing.assert_allclose(db, u.T @ seeds["p"])
    value, moved = tileir.jvp(f, (u, v), (np.ones_like(u), np.zeros_like(v)))
    np.testing.assert_allclose(value["p"], u @ v)
    np.testing.assert_allclose(moved["p"], np.ones_like(u) @ v)
    np.testing.assert_allclose(moved["s"], np.cos(u))


def test_what_cannot_be_differentiated_is_refused() -> None:
    with pytest.raises(tileir.TileError, match="rank 0"):
        tileir.gradient(lambda x: x * 2)(X)
    with pytest.raises(tileir.TileError, match="TIL321"):
        tileir.gradient(lambda i: (i * 1.5).sum())(np.arange(3))
    with pytest.raises(tileir.ArgumentError, match="positional"):
        tileir.gradient(lambda x: x.sum(), argnums=3)(X)


def test_arguments_to_differentiate_by_are_numbers() -> None:
    def f(x: Any, y: Any) -> Any:
        return (x * y * y).sum()

    x, y = np.arange(3, dtype="f4"), np.ones(3, "f4") * 2
    np.testing.assert_array_equal(tileir.gradient(f, 1)(x, y), 2 * x * y)
    np.testing.assert_array_equal(tileir.gradient(f, (1, 0))(x, y), (2 * x * y, y * y))
    gradient: Any = tileir.gradient
    for wrong in (functools.partial(gradient, f, "y"), functools.partial(gradient, f, of="Y")):
        with pytest.raises(tileir.TileError, match="argnums"):
            wrong()


def test_copies_of_tensors_are_these() -> None:
    x = np.arange(3, dtype="f4")
    found = tileir.jit(lambda p: copy.deepcopy(p)["a"] + copy.copy(p["a"]))({"a": x})
    np.testing.assert_array_equal(found, 2 * x)
