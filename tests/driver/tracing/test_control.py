"""Loops and choices of Python functions, beside Python's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir

X = np.linspace(-1, 2, 12, dtype="f4").reshape(3, 4)
W = np.array([0.5, -1.0, 0.25, 2.0], "f4")


def test_scans_carry_containers_and_read_tensors_around() -> None:
    def cell(x: Any, w: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            new = {"h": np.tanh(state["h"] * w + row), "n": state["n"] + 1}
            return new, (new["h"].sum(), row * x.shape[0])

        return tileir.scan(step, {"h": np.zeros(4, "f4"), "n": np.int32(0)}, x)

    final, (sums, rows) = tileir.jit(cell)(X, W)
    h, wanted = np.zeros(4, "f4"), []
    for row in X:
        h = np.tanh(h * W + row)
        wanted.append(h.sum())
    np.testing.assert_allclose(final["h"], h, rtol=1e-5)
    assert final["n"] == 3
    np.testing.assert_allclose(sums, wanted, rtol=1e-5)
    np.testing.assert_allclose(rows, X * 3, rtol=1e-6)


def test_scans_of_a_number_of_steps_in_reverse_and_inside_one_another() -> None:
    def f(x: Any) -> Any:
        def outer(total: Any, row: Any) -> Any:
            inner, _ = tileir.scan(lambda c, y: (c * 0.5 + y + x[0, 0], None), np.float32(1.0), row, reverse=True)
            return total + inner, inner

        return tileir.scan(outer, np.float32(0), x)

    total, parts = tileir.jit(f)(X)
    wanted = []
    for row in X:
        c = np.float32(1)
        for y in row[::-1]:
            c = c * np.float32(0.5) + y + X[0, 0]
        wanted.append(c)
    np.testing.assert_allclose(parts, wanted, rtol=1e-5)
    np.testing.assert_allclose(total, sum(wanted), rtol=1e-5)
    doubled, _ = tileir.jit(lambda x: tileir.scan(lambda c, _: (c * 2, None), x, length=5))(X)
    np.testing.assert_allclose(doubled, X * 32)


def test_steps_ask_for_sizes_of_arrays() -> None:
    def step(c: Any, row: Any) -> Any:
        return c + sum(row[n] for n in range(row.shape[0])) * len(X), row[: row.shape[0] // 2]

    total, halves = tileir.jit(lambda x: tileir.scan(step, np.float32(0), x))(X)
    np.testing.assert_allclose(total, X.sum() * 3, rtol=1e-5)
    np.testing.assert_allclose(halves, X[:, :2])


def test_steps_that_return_something_else_are_refused() -> None:
    with pytest.raises(tileir.TileError, match="two values"):
        tileir.jit(lambda x: tileir.scan(lambda c, _: c, x[0], x))(X)
    with pytest.raises(tileir.TileError, match="another structure"):
        tileir.jit(lambda x: tileir.scan(lambda c, y: ((c, c), y), x[0], x))(X)
    with pytest.raises(tileir.TileError, match=r"tileir\.jit traces"):
        tileir.scan(lambda c, y: (c, y), 0.0, [1.0])


def test_choices_of_tensors_and_of_python() -> None:
    def f(x: Any) -> Any:
        return tileir.cond(x.sum() > 0, lambda a: {"y": a * 2}, lambda a: {"y": -a}, x)

    np.testing.assert_allclose(tileir.jit(f)(X)["y"], X * 2)
    np.testing.assert_allclose(tileir.jit(f)(-X)["y"], X)
    np.testing.assert_allclose(tileir.jit(lambda x: tileir.cond(True, lambda: x, lambda: x * 2))(X), X)
    with pytest.raises(tileir.TileError, match="one structure"):
        tileir.jit(lambda x: tileir.cond(x.sum() > 0, lambda: x, lambda: (x, x)))(X)


def test_choices_do_not_broadcast() -> None:
    def f(x: Any, y: Any) -> Any:
        return tileir.cond(x.sum() > 0, lambda: x, lambda: y)

    for other in (X[0], X[:1], X[:0], np.float32(1)):
        with pytest.raises(tileir.TileError, match="return shapes") as fault:
            tileir.jit(f)(X, other)
        assert f"[3, 4] and {list(np.shape(other))}" in str(fault.value)
    np.testing.assert_array_equal(tileir.jit(f)(X, -X), X)
    np.testing.assert_array_equal(
        tileir.jit(lambda x: tileir.cond(x.sum() < 0, lambda: x, lambda: 2))(X), np.full((3, 4), 2)
    )
    program = tileir.function(f, x="f32[N, 4]", y="f32[M, 4]").trace()
    np.testing.assert_array_equal(tileir.jit(program)(X, X), X)
    with pytest.raises(tileir.TileError, match=r"shape \[2, 4\], where \[3, 4\]"):
        tileir.jit(program)(X, X[:2])
    with pytest.raises(tileir.TileError, match="a scalar, and this one has 2 axes"):
        tileir.jit(lambda x: tileir.cond(x > 0, lambda: x, lambda: -x))(X)


def test_loops_that_run_while_something_holds() -> None:
    def newton(a: Any, tolerance: Any) -> Any:
        def better(state: Any) -> Any:
            return {"x": 0.5 * (state["x"] + a / state["x"]), "n": state["n"] + 1}

        def far(state: Any) -> Any:
            return np.max(np.abs(state["x"] * state["x"] - a)) > tolerance

        return tileir.while_loop(far, better, {"x": np.ones(4), "n": np.int32(0)})

    a = np.array([1.0, 2.0, 9.0, 100.0])
    found = tileir.jit(newton)(a, 1e-9)
    np.testing.assert_allclose(found["x"], np.sqrt(a), rtol=1e-9)
    x, steps = np.ones(4), 0
    while np.max(np.abs(x * x - a)) > 1e-9:
        x, steps = 0.5 * (x + a / x), steps + 1
    assert found["n"] == steps
    with pytest.raises(tileir.TileError, match="TIL333"):
        tileir.gradient(lambda a: newton(a, 1e-9)["x"].sum())(a)


def test_a_step_that_returns_a_tensor_from_around() -> None:
    final, rows = tileir.jit(lambda x, w: tileir.scan(lambda c, row: (w, c + row), w, x))(X, W)
    np.testing.assert_allclose(final, W)
    np.testing.assert_allclose(rows, X + W, rtol=1e-6)
