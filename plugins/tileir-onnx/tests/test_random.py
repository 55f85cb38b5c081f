"""Random operators: shapes and dtypes, moments, and that a seed decides about the numbers."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from nodes import run

LIKE = np.zeros((50, 40), np.float32)


def test_uniform_numbers() -> None:
    x = run("RandomUniform", shape=[60, 50], low=2.0, high=4.0, seed=1.5)
    assert (x.dtype, x.shape) == (np.float32, (60, 50))
    assert x.min() >= 2
    assert x.max() < 4
    assert abs(x.mean() - 3) < 0.05
    np.testing.assert_array_equal(x, run("RandomUniform", shape=[60, 50], low=2.0, high=4.0, seed=1.5))
    assert (x != run("RandomUniform", shape=[60, 50], low=2.0, high=4.0, seed=1.25)).any()
    other = run("RandomUniformLike", LIKE, dtype=TensorProto.DOUBLE)
    assert (other.dtype, other.shape) == (np.float64, (50, 40))


def test_normal_numbers() -> None:
    x = run("RandomNormalLike", LIKE, mean=3.0, scale=2.0, seed=7.0)
    assert (x.dtype, x.shape) == (np.float32, (50, 40))
    assert abs(x.mean() - 3) < 0.2
    assert abs(x.std() - 2) < 0.2
    assert run("RandomNormal", shape=[2, 3], dtype=TensorProto.FLOAT16).dtype == np.float16


def test_draws_by_probabilities() -> None:
    x = run("Bernoulli", np.full((50, 40), 0.25), seed=1.0, dtype=TensorProto.BOOL)
    assert x.dtype == np.bool_
    assert abs(x.mean() - 0.25) < 0.05
    classes = run(
        "Multinomial", np.log(np.array([[0.5, 0.5, 1e-9], [1e-9, 0.1, 0.9]], np.float32)), sample_size=500, seed=1.0
    )
    assert (classes.dtype, classes.shape) == (np.int32, (2, 500))
    assert abs(classes[0].mean() - 0.5) < 0.1
    assert abs(classes[1].mean() - 1.9) < 0.1
