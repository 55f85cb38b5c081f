"""Loops of any number of launches, as graphs of some steps that are launched again and again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from strategies.card_driver import without_a_card


def there(array: np.ndarray[Any, Any], context: tileir.Context) -> tileir.DeviceArray:
    return tileir.to_device(array, context=context)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", [1, 2, 3, 512, 513, 1024, 1537])
def test_loops_of_any_length_are_graphs_of_some_steps(steps: int) -> None:
    text = """function (H0[N], Xs[T, N]) -> (H, Ys) {
      S = scan(H0; Xs) function (H[N], X[N]) -> (H2, Y) { H2 = H * 3 + X; Y = H2 * 2; };
      H = element(S, 0); Ys = element(S, 1);
    }"""
    rng = np.random.default_rng(steps)
    sequences = rng.integers(-5, 5, (2, steps, 4)).astype(np.int32)
    with without_a_card() as (driver, context):
        loop, kept = tileir.jit(text, context=context), []
        start = there(np.ones(4, np.int32), context)
        for x in (*sequences, *sequences):
            driver.calls.clear()
            kept.append(loop(start, there(x, context)))
            counts = {name: driver.calls.count(f"cu{name}") for name in ("LaunchKernel", "GraphLaunch")}
            if steps > 1023:
                assert counts == {"LaunchKernel": 0, "GraphLaunch": 1 + steps // 512}
            assert sum(counts.values()) <= 2 + 513
        for (last, put_out), x in zip(kept, (*sequences, *sequences), strict=True):
            h = np.ones(4, np.int32)
            for step in range(steps):
                h = h * np.int32(3) + x[step]  # wraps
                np.testing.assert_array_equal(put_out.numpy()[step], h * 2)
            np.testing.assert_array_equal(last.numpy(), h)


@pytest.mark.sampled(0)
def test_loops_of_loops_are_graphs() -> None:
    """A step of the outer loop is longer than a graph of steps."""
    text = """function (H0[N]) -> (H) {
      H = scan(H0; ) 6 times function (H[N]) -> (H2) {
        G = scan(H; ) 700 times function (G[N]) -> (G2) { G2 = G * 3 + 1; };
        H2 = G + 1;
      };
    }"""
    with without_a_card() as (driver, context):
        loop, start = tileir.jit(text, context=context), there(np.arange(4, dtype=np.int64), context)
        driver.calls.clear()
        found = loop(start)
        assert driver.calls.count("cuLaunchKernel") == 0
        assert [driver.calls.count(f"cuGraph{name}") for name in ("Instantiate", "Launch")] == [6, 16]
        wanted = np.arange(4, dtype=np.int64)
        for _ in range(6):
            for _ in range(700):
                wanted = wanted * 3 + 1
            wanted = wanted + 1
        np.testing.assert_array_equal(found.numpy(), wanted)
