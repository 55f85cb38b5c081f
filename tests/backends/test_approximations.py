"""Elementary functions where sums may be taken in another order and results approximated: still close to exact ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from tileir import ops
from tileir.tile.builder import FunctionBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.ops.shared.foundation import Tensor

FAST = tileir.Options(fast_math=True)

FUNCTIONS = (
    "pow(X, Y)", "pow(2.0, X)", "pow(X, 1.5)", "pow(X, 7.3)", "pow(X, 3)", "exp(X)", "log(X)", "tanh(X)", "sin(X * 50)",
    "cos(X * 50)", "tan(X)", "asin(X / 3)", "acos(X / 3)", "atan(X)", "sinh(X)", "cosh(X)", "erf(X)", "sigmoid(X)",
    "sqrt(X)", "rsqrt(X)", "mod(X, Y)", "round(X)", "floor(X)", "trunc(X)",
)  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_stay_close(function: str, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.1, 2.0, 67).astype(dtype) for _ in range(2))
    text = f"function (X[N], Y[N]) -> (O, Z) {{ O = {function}; Z = Y; }}"
    found, _ = tileir.jit(text, "llvm", options=FAST)(x, y)
    wanted, _ = tileir.evaluate(text, [x, y])
    bound = 64 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=bound, atol=bound)


NEAR_ZERO = (
    ops.log1p, ops.expm1, ops.asinh, ops.atanh, ops.tanh, ops.sin, ops.erf, ops.atan, ops.sinc, ops.softplus,
    ops.log_sigmoid, ops.mish, ops.gelu, ops.silu,
    lambda x: ops.log1p(ops.square(x)), lambda x: ops.softplus(ops.log(abs(x))),
    lambda x: ops.logaddexp(ops.log(abs(x)), 0.0),
)  # fmt: skip
"""Functions, some of which keep their digits near 0 because 1 + x was rounded."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", NEAR_ZERO)
def test_functions_keep_their_digits_near_zero(function: Callable[[Tensor], Tensor], dtype: type[np.floating]) -> None:
    sizes = np.geomspace(1e-15, 0.5, 67)
    x = np.concatenate([sizes, -sizes]).astype(dtype)
    builder = FunctionBuilder()
    program = builder.build(O=function(builder.input("X", "N")))
    found = tileir.jit(program, "llvm", options=FAST)(X=x)
    wanted = tileir.evaluate(program, {"X": x})
    np.testing.assert_allclose(found, wanted, rtol=64 * float(np.finfo(dtype).eps), atol=0)


def test_functions_keep_their_digits_where_the_argument_is_negative_and_large() -> None:
    x = np.linspace(-60.0, -10.0, 51)
    builder = FunctionBuilder()
    program = builder.build(O=ops.softplus(builder.input("X", "N")))
    found = tileir.jit(program, "llvm", options=FAST)(X=x)
    np.testing.assert_allclose(found, np.log1p(np.exp(x)), rtol=1e-14, atol=0)


def test_powers_in_f64_keep_their_digits_where_logarithms_are_large() -> None:
    base = np.geomspace(1e-300, 1e300, 67)
    found = tileir.jit("function (X[N]) -> (O) { O = pow(X, X * 0 + 1); }", "llvm", options=FAST)(base)
    np.testing.assert_allclose(found, base, rtol=1e-15, atol=0)


def test_sums_may_keep_what_they_lost() -> None:
    text = "function (X[N], Y[N]) -> (S, E) { S = X + Y; E = X - S + Y; }"
    x, y = np.array([1.0, 3.0, 1e16]), np.array([1e-20, 1e-17, 1.0])
    for found, wanted in zip(tileir.jit(text, "llvm", options=FAST)(x, y), tileir.evaluate(text, [x, y]), strict=True):
        np.testing.assert_array_equal(found, wanted)
