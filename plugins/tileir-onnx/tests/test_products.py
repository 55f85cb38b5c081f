"""Products of matrices beside NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nodes import check, run

RNG = np.random.default_rng(0)
DTYPES = [np.dtype(each) for each in (np.float32, np.float64, np.float16, np.int32, np.uint64, ml_dtypes.bfloat16)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_keep_their_dtype(dtype: np.dtype[Any]) -> None:
    for left, right in (((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (3,))):
        x, y = RNG.integers(0, 4, left).astype(dtype), RNG.integers(0, 4, right).astype(dtype)
        check(run("MatMul", x, y, opset=13), np.asarray(x.astype(np.float64) @ y.astype(np.float64)).astype(dtype))
    x, y = RNG.integers(0, 4, (2, 3)).astype(dtype), RNG.integers(0, 4, (4, 3)).astype(dtype)
    wanted = x.astype(np.float64) @ y.T.astype(np.float64)
    check(run("Gemm", x, y, opset=13, transB=1), wanted.astype(dtype))
    check(run("Gemm", x, y, np.ones(4, dtype), opset=13, transB=1, alpha=2.0), (2 * wanted + 1).astype(dtype))
    check(run("Einsum", x, y, opset=28, equation="ik, jk -> ij"), wanted.astype(dtype))


def test_sums_of_products() -> None:
    x, y = RNG.normal(size=(3, 2)).astype(np.float32), RNG.normal(size=(3, 4)).astype(np.float32)
    c = RNG.normal(size=(2, 1)).astype(np.float32)
    wanted = 0.5 * x.T.astype(np.float64) @ y + 0.25 * c
    check(run("Gemm", x, y, c, transA=1, alpha=0.5, beta=0.25), wanted.astype(np.float32))
    check(run("Gemm", x, y, c, opset=6, broadcast=1, transA=1, alpha=0.5, beta=0.25), wanted.astype(np.float32))
    check(run("Gemm", x[:0], y[:0], opset=13, transA=1), np.zeros((2, 4), np.float32))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 4, 4), (1, 1), (0, 2, 2)])
def test_determinants(shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape).astype(np.float32)
    check(run("Det", x), np.asarray(np.linalg.det(x.astype(np.float64))).astype(np.float32), rtol=1e-4)
