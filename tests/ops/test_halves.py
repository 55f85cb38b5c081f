"""Floats of 16 bits are rounded once: sums, squares, scores and options do not overflow or vanish in an operation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import pytest

import tileir
from strategies.operations import Case, run
from tileir import ops
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from collections.abc import Callable

HALF: Final = np.float16
MANY: Final = 65_520  # ones of f16 add up to infinity
_ZEROS: Final = np.zeros((1, MANY), HALF)


@pytest.mark.parametrize(
    ("build", "arrays", "wanted"),
    [
        (ops.softmax, [_ZEROS], 1 / MANY),
        (tf.softmax, [_ZEROS], 1 / MANY),
        (ops.log_softmax, [_ZEROS], -math.log(MANY)),
        (tf.logsoftmax, [_ZEROS], -math.log(MANY)),
        (ops.logsumexp, [_ZEROS], math.log(MANY)),
        (ops.cross_entropy, [_ZEROS, np.zeros(1, np.int32)], math.log(MANY)),
        (ops.mse_loss, [_ZEROS + HALF(200), _ZEROS], 40000),
        (
            ops.scaled_dot_product_attention,
            [np.zeros((1, 1, 2), HALF), np.zeros((1, MANY, 2), HALF), np.ones((1, MANY, 1), HALF)],
            1,
        ),
    ],
)
def test_sums_of_many_elements_are_finite(build: Callable[..., Any], arrays: list[Any], wanted: float) -> None:
    found = run(build, *arrays)
    assert found.dtype == HALF
    assert abs(float(found.ravel()[0]) - wanted) <= abs(np.spacing(HALF(wanted)))


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"bias": True}])
def test_scores_may_be_greater_than_halves(options: dict[str, bool]) -> None:
    query = np.full((1, 2, 128), 23, HALF)
    key = np.stack([np.full((1, 128), 23), np.full((1, 128), 22)], 1).astype(HALF)
    bias = [np.zeros((2, 2), HALF)] if options.pop("bias", False) else []

    def attention(q: Any, k: Any, v: Any, *more: Any) -> Any:
        return ops.scaled_dot_product_attention(
            q, k, v, bias=more[0] if more else None, causal=options.get("causal", False)
        )

    found = run(attention, query, key, np.array([[[1], [2]]], HALF), *bias)
    np.testing.assert_array_equal(found.ravel(), [1, 1])


_STEPS: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    "adam": (4, lambda w, g, m, v: ops.adam(w, g, m, v, 1, lr=0.1)),
    "adamw": (4, lambda w, g, m, v: ops.adamw(w, g, m, v, 1, lr=0.1)),
    "lamb": (4, lambda w, g, m, v: ops.lamb(w, g, m, v, 1, lr=0.1)),
    "rmsprop": (3, lambda w, g, s: ops.rmsprop(w, g, s, lr=0.1)),
    "rmsprop_centred": (5, lambda w, g, s, mean, m: ops.rmsprop(w, g, s, mean=mean, m=m, lr=0.1)),
    "adagrad": (3, lambda w, g, s: ops.adagrad(w, g, s, lr=0.1)),
    "momentum": (3, lambda w, g, m: ops.momentum(w, g, m, lr=0.1, weight_decay=0.1, nesterov=True)),
    "lars": (3, lambda w, g, m: ops.lars(w, g, m, lr=0.1, weight_decay=0.1)),
    "sgd": (2, lambda w, g: ops.sgd(w, g, lr=0.1, weight_decay=0.1)),
}


@pytest.mark.parametrize("dtype", [HALF, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", _STEPS)
def test_steps_are_those_of_doubles_rounded_once(name: str, dtype: Any) -> None:
    count, step = _STEPS[name]
    gradient = np.array([0, 1e-7, -1e-4, 0.1, -1, 100], dtype)
    arrays = [np.linspace(-1, 1, 6).astype(dtype), gradient, *[np.zeros(6, dtype)] * (count - 2)]
    found = run(step, *arrays)
    exact = run(step, *(array.astype(np.float64) for array in arrays))
    results, wanted = (each if isinstance(each, tuple) else (each,) for each in (found, exact))
    for result, right in zip(results, wanted, strict=True):
        assert result.dtype == dtype
        one = np.abs(np.spacing(right.astype(dtype)).astype(np.float64))
        terms = 1e-5 if dtype != HALF else 1e-6  # the parameter may cancel with its step
        assert (np.abs(result.astype(np.float64) - right) <= one + terms).all()


@pytest.mark.parametrize("name", ["adam", "rmsprop", "adagrad"])
def test_no_gradient_is_no_step(name: str) -> None:
    count, step = _STEPS[name]
    zero = np.zeros(1, HALF)
    assert run(step, np.ones(1, HALF), zero, *[zero] * (count - 2))[0] == 1


@pytest.mark.parametrize("dtype", [HALF, np.float32, ml_dtypes.bfloat16, np.float64])
def test_gelu_has_a_slope_far_out(dtype: Any) -> None:
    limit = float(ml_dtypes.finfo(dtype).max) / 4  # type: ignore[no-untyped-call]
    points = np.array([256, -256, 1e4, limit, -limit], dtype)
    builder = tileir.FunctionBuilder()
    x = builder.input("X", "N")
    function = builder.build(Y=tf.gradient(ops.gelu(x, approximate="tanh"), x))
    for found in (tileir.evaluate(function, points), tileir.jit(function)(points)):
        np.testing.assert_array_equal(np.asarray(found).astype(np.float64), [1, 0, 1, 1, 0])


@pytest.mark.parametrize("dtype", [HALF, np.float32, np.float64])
def test_sinc_of_whole_numbers_is_zero(dtype: Any) -> None:
    points = np.array([21000, 21000.5, -3, 1, 60000], dtype)
    found = run(ops.sinc, points).astype(np.float64)
    exact = np.where(points == np.round(points), 0, np.sin(np.pi * (points.astype(np.float64) % 2)))
    np.testing.assert_allclose(found, exact / (np.pi * points.astype(np.float64)), rtol=1e-3, atol=1e-7)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [HALF, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "chain", [(ops.rad2deg, ops.deg2rad), (ops.gelu, ops.silu), (ops.softplus, ops.mish, ops.gelu)]
)
def test_operations_of_a_chain_are_each_rounded(chain: tuple[Callable[..., Any], ...], dtype: Any) -> None:
    values = np.linspace(-8, 8, 4099).astype(dtype)

    def whole(x: Any) -> Any:
        for operation in chain:
            x = operation(x)
        return x

    def compiled(build: Callable[..., Any]) -> Any:
        return tileir.jit(Case("", build, {"X": values}, build).function())

    apart = values
    for operation in chain:
        apart = np.asarray(compiled(operation)(apart))
    np.testing.assert_array_equal(np.asarray(compiled(whole)(values)), apart)
    np.testing.assert_array_equal(run(whole, values[:64]).astype(np.float32), _rounded(chain, values[:64]))


def _rounded(chain: tuple[Callable[..., Any], ...], values: Any) -> Any:
    """Return what a chain gives by interpretation, one operation after the other."""
    for operation in chain:
        values = run(operation, values)
    return values.astype(np.float32)


def test_sums_for_a_bias_are_not_rounded_before_it() -> None:
    x, w, b = np.full((1, 2), 32768, HALF), np.ones((1, 2), HALF), np.array([-32768], HALF)
    assert run(ops.linear, x, w, b) == 32768
    assert run(lambda x, w, b: ops.gemm(x, w, b, alpha=0.25, transpose_y=True), x, w, b) == -16384
    image, kernel = np.full((1, 2, 1), 32768, HALF), np.ones((1, 2, 1), HALF)
    assert run(ops.conv, image, kernel, b) == 32768


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8])
def test_integers_stay_integers(dtype: Any) -> None:
    x, w, b = np.full((1, 2), 3, dtype), np.full((1, 2), 5, dtype), np.array([7], dtype)
    for build, wanted in (
        (ops.linear, 37),
        (lambda x, w, b: ops.gemm(x, w, b, alpha=2, transpose_y=True), 67),
        (lambda x, w, b: ops.floor_divide(w, x) + b, 8),
        (lambda x, w, b: ops.relu(x, alpha=2, threshold=4) + b * 0 + w * 0, -2 if dtype != np.uint8 else 254),
    ):
        found = run(build, x, w, b)
        assert found.dtype == dtype
        assert found.ravel()[0] == wanted
