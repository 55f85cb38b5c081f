"""Elementary functions where sums may be taken in another order and results approximated: still close to exact ones."""

from __future__ import annotations

import numpy as np
import pytest

import tileir

FUNCTIONS = (
    "pow(X, Y)", "pow(2.0, X)", "pow(X, 1.5)", "pow(X, 7.3)", "pow(X, 3)", "exp(X)", "log(X)", "tanh(X)", "sin(X * 50)",
    "cos(X * 50)", "tan(X)", "asin(X / 3)", "acos(X / 3)", "atan(X)", "sinh(X)", "cosh(X)", "erf(X)", "sigmoid(X)",
    "sqrt(X)", "rsqrt(X)", "mod(X, Y)", "round(X)", "floor(X)", "trunc(X)",
)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_stay_close(function: str, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.1, 2.0, 67).astype(dtype) for _ in range(2))
    text = f"function (X[N], Y[N]) -> (O, Z) {{ O = {function}; Z = Y; }}"
    found, _ = tileir.jit(text, "llvm", options=tileir.Options(fast_math=True))(x, y)
    wanted, _ = tileir.evaluate(text, [x, y])
    bound = 64 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=bound, atol=bound)
