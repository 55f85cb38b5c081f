"""Contracts of optimisers beside their formulas: dtypes, corrections of the first steps, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import tileir
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable


def adam(w: Any, g: Any, m: Any, v: Any, step: Any, rate: Any) -> Any:
    f = tileir.FunctionBuilder()
    tensors = [f.input(name, "N") for name in "WGMV"]
    results = ops.adam(tensors[0], tensors[1], tensors[2], tensors[3], f.scalar("S"), lr=f.scalar("R"))
    return tileir.evaluate(f.build(**dict(zip(("A", "B", "C"), results, strict=True))), [w, g, m, v, step, rate])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("step", [np.int32(1), np.int64(1), np.float32(1), np.float64(1)])
def test_parameters_and_state_keep_their_dtypes(dtype: Any, step: Any) -> None:
    w = np.ones(3, dtype)
    zeros = np.zeros(3, np.float32)
    new, m, v = adam(w, np.full(3, 0.5, dtype), zeros, zeros, step, np.float64(0.25))
    assert (new.dtype, m.dtype, v.dtype) == (w.dtype, np.float32, np.float32)
    np.testing.assert_allclose(new.astype(np.float64), 0.75, rtol=1e-7)


@pytest.mark.parametrize("step", [1, 2, 10, 1000, 100_000])
def test_corrections_are_precise_in_single_precision(step: int) -> None:
    """``1 - 0.999`` itself is off by 3e-5 there, as 0.999 is rounded."""
    f = tileir.FunctionBuilder()
    n, v = np.float32(0.3), np.float32(0.7)
    tensors = [f.scalar(name) for name in "WGMVS"]
    new, first, second = ops.adam(*tensors, lr=1, eps=0)
    found, m, s = tileir.evaluate(f.build(A=new, B=first, C=second), [np.float32(0), n, n, v, np.int32(step)])
    wanted = -(float(m) / (1 - 0.9**step)) / np.sqrt(float(s) / (1 - 0.999**step))
    assert abs(found / wanted - 1) < 1e-6


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda x: ops.adam(x, x, x, x, x, beta1=1), "beta1 is in [0, 1), not 1"),
        (lambda x: ops.lamb(x, x, x, x, x, beta2=-0.5), "beta2 is in [0, 1), not -0.5"),
        (lambda _: ops.clip_by_global_norm([], 1), "there are no gradients to clip"),
        (lambda x: ops.cosine_decay(x, lr=1, steps=0), "a number of steps is positive, not 0"),
    ],
)
def test_mistakes(attempt: Callable[..., object], message: str) -> None:
    with pytest.raises(tileir.TileError) as caught:
        attempt(tileir.FunctionBuilder().scalar("X"))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("TIL217", message)


def test_a_beta_may_be_zero_or_a_tensor() -> None:
    f = tileir.FunctionBuilder()
    w, g, m, v, s, b = (f.scalar(name) for name in "WGMVSB")
    found = tileir.evaluate(
        f.build(
            A=ops.adam(w, g, m, v, s, beta1=0, beta2=0, eps=0, lr=0.5)[0],
            C=ops.adam(w, g, m, v, s, beta1=b, beta2=b, lr=0.5)[0],
            D=ops.adam(w, g, m, v, s, beta1=0.75, beta2=0.75, lr=0.5)[0],
        ),
        [np.float32(x) for x in (3, 2, 0.5, 0.25, 4, 0.75)],
    )
    assert found[0] == 2.5
    np.testing.assert_allclose(found[1], found[2], rtol=1e-6)


def test_zero_gradients_are_clipped_with_finite_derivatives() -> None:
    f = tileir.FunctionBuilder()
    function = f.build(O=ops.clip_by_norm(f.input("G", "N"), 1.0))
    for value in (0.0, 1e-200):  # of which the square is 0
        arriving = np.array([1.0, -2.0, 0.5])
        found = tileir.vjp(function, {"G": np.full(3, value)}, {"O": arriving}, wrt=["G"])["G"]
        np.testing.assert_array_equal(np.asarray(found), arriving)
