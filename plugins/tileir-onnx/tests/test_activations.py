"""Activations beside their formulas in f64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nodes import Array, check, run

FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
X = np.random.default_rng(0).normal(0, 2, (4, 5))

erf = np.vectorize(math.erf)
FORMULAS: list[tuple[str, int, dict[str, Any], Callable[[Array], Array]]] = [
    ("Elu", 22, {"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * np.expm1(x))),
    ("Elu", 6, {}, lambda x: np.where(x > 0, x, np.expm1(x))),
    ("Selu", 22, {}, lambda x: 1.05070102214813232 * np.where(x > 0, x, 1.67326319217681884 * np.expm1(x))),
    ("Selu", 6, {"alpha": 2.0, "gamma": 3.0}, lambda x: 3 * np.where(x > 0, x, 2 * np.expm1(x))),
    ("Selu", 1, {}, lambda x: 1.0507 * np.where(x > 0, x, 1.6732 * np.expm1(x))),
    ("Celu", 28, {"alpha": 2.0}, lambda x: np.maximum(x, 0) + np.minimum(0, 2 * np.expm1(x / 2))),
    ("Gelu", 20, {}, lambda x: x * (1 + erf(x / math.sqrt(2))) / 2),
    (
        "Gelu",
        20,
        {"approximate": "tanh"},
        lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    ),
    ("Mish", 22, {}, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    ("HardSigmoid", 22, {}, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    ("HardSigmoid", 6, {"alpha": 0.5, "beta": 0.25}, lambda x: np.clip(0.5 * x + 0.25, 0, 1)),
    ("HardSwish", 22, {}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("LeakyRelu", 16, {"alpha": 0.25}, lambda x: np.where(x < 0, 0.25 * x, x)),
    ("Shrink", 9, {"lambd": 1.0, "bias": 0.5}, lambda x: np.where(x < -1, x + 0.5, np.where(x > 1, x - 0.5, 0))),
    ("Softplus", 22, {}, lambda x: np.log1p(np.exp(x))),
    ("Softsign", 22, {}, lambda x: x / (1 + abs(x))),
    ("ThresholdedRelu", 22, {"alpha": 0.5}, lambda x: np.where(x > 0.5, x, 0)),
    ("Swish", 24, {"alpha": 2.0}, lambda x: x / (1 + np.exp(-2 * x))),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("op", "opset", "attributes", "formula"), FORMULAS, ids=lambda each: str(each)[:12])
def test_activations(
    op: str, opset: int, attributes: dict[str, Any], formula: Callable[[Array], Array], dtype: np.dtype[Any]
) -> None:
    for x in (X.astype(dtype), X[0, 0].astype(dtype), X[:0].astype(dtype)):
        wanted = np.asarray(formula(x.astype(np.float64)) if x.size else x).astype(dtype)
        check(run(op, x, opset=opset, **attributes), wanted)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (4, 1), (4, 5)])
def test_slopes_are_broadcast(shape: tuple[int, ...]) -> None:
    x, slope = X.astype(np.float32), np.full(shape, 0.25, np.float32)
    check(run("PRelu", x, slope, opset=16), np.where(x < 0, x * slope, x))


def test_slopes_of_channels_before_opset_7() -> None:
    x, slope = X.astype(np.float32), np.arange(5, dtype=np.float32)
    check(run("PRelu", x, slope, opset=6), np.where(x < 0, x * slope, x))


def test_gated_swish() -> None:
    x, y = X.astype(np.float32), X[::-1].astype(np.float32)
    check(run("SwiGLU", x, y, opset=28), (X / (1 + np.exp(-X)) * X[::-1]).astype(np.float32))
