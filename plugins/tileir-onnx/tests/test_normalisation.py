"""Normalisation beside NumPy in f64: statistics that are given and those of a batch, all axes, old opsets."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import numpy_helper

import tileir
import tileir_onnx
from rows import check, floats, model_of, run

Array = np.ndarray[Any, Any]


def _standard(x: Array, axes: tuple[int, ...], epsilon: float = 1e-5) -> Array:
    wide = x.astype(np.float64)
    y: Array = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + epsilon)
    return y


def _channel(vector: Array, rank: int) -> Array:
    return vector.astype(np.float64).reshape(-1, *[1] * (rank - 2))


@pytest.mark.parametrize("version", [6, 7, 9, 14, 15])
def test_batches_by_given_statistics(version: int) -> None:
    x, scale, bias, mean, variance = floats(2, 3, 4, 5), floats(3), floats(3, seed=1), floats(3, seed=2), floats(3) ** 2
    s, b, m, v = (_channel(each, 4) for each in (scale, bias, mean, variance))
    wanted = ((x - m) / np.sqrt(v + 1e-3) * s + b).astype(np.float32)
    check("BatchNormalization", [x, scale, bias, mean, variance], {"epsilon": 1e-3}, version=version, wanted=[wanted])


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("version", "rank"), [(7, 4), (9, 2), (15, 3), (15, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_batches_by_statistics_that_are_weights(version: int, rank: int, dtype: type[Any]) -> None:
    far = np.array([0, 1000, -1000], dtype)  # where what is left of a difference must not be rounded before
    x = (floats(2, 3, *[4] * (rank - 2)) + _channel(far, rank)).astype(dtype)
    given = [floats(3), floats(3, seed=1), far, floats(3) ** 2 + np.float32(0.1)]
    scale, bias, mean, variance = (each.astype(dtype) for each in given)
    s, b, m, v = (_channel(each, rank) for each in (scale, bias, mean, variance))
    wanted = (x.astype(np.float64) - m) / np.sqrt(v + 1e-3) * s + b
    model = model_of("BatchNormalization", [x, scale, bias, mean, variance], {"epsilon": 1e-3}, version=version)
    del model.graph.input[1:]
    names = model.graph.node[0].input[1:]
    arrays = zip((scale, bias, mean, variance), names, strict=True)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for array, name in arrays)
    loaded = tileir_onnx.load(model.SerializeToString())
    np.testing.assert_allclose(loaded(x), wanted, rtol=2e-2 if dtype is np.float16 else 2e-6, atol=1e-5)
    assert len(loaded.function.statements) <= 7 or dtype is np.float16


def test_wrong_sizes_of_statistics_that_are_weights_are_told() -> None:
    x, given = floats(2, 3, 4), [floats(2)] * 4
    model = model_of("BatchNormalization", [x, *given], {}, version=15)
    del model.graph.input[1:]
    names = model.graph.node[0].input[1:]
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for array, name in zip(given, names, strict=True)
    )
    with pytest.raises(tileir.TileError, match="BatchNormalization"):
        tileir_onnx.load(model.SerializeToString())(x)


def test_batches_whose_elements_have_statistics_of_their_own() -> None:
    x, scale, bias = floats(2, 3, 4), floats(3, 4), floats(3, 4, seed=1)
    mean, variance = floats(3, 4, seed=2), floats(3, 4, seed=3) ** 2
    wanted = ((x - mean) / np.sqrt(variance + 1e-5) * scale + bias).astype(np.float32)
    check("BatchNormalization", [x, scale, bias, mean, variance], {"spatial": 0}, version=7, wanted=[wanted])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("version", "outputs"), [(7, 5), (9, 5), (14, 3), (15, 3)])
def test_batches_in_training(version: int, outputs: int) -> None:
    x, scale, bias, mean, variance = floats(4, 3, 5), floats(3), floats(3, seed=1), floats(3, seed=2), floats(3) ** 2
    wide = x.astype(np.float64)
    saved = [wide.mean((0, 2)), wide.var((0, 2))]
    running = [old * 0.8 + new * 0.2 for old, new in zip((mean, variance), saved, strict=True)]
    y = _standard(x, (0, 2)) * _channel(scale, 3) + _channel(bias, 3)
    results = [y, *running, *(saved if outputs == 5 else ())]
    attributes = {"momentum": 0.8, **({"training_mode": 1} if version >= 14 else {})}
    wanted = [each.astype(np.float32) for each in results]
    check("BatchNormalization", [x, scale, bias, mean, variance], attributes, version=version, outputs=outputs,
          wanted=wanted)  # fmt: skip


def test_statistics_keep_their_dtypes() -> None:
    x, rest = floats(2, 3, 4, dtype=np.float16), [floats(3) ** 2] * 4
    model = model_of("BatchNormalization", [x, *rest], {"training_mode": 1}, version=15, outputs=3)
    assert [each.dtype for each in run(model, [x, *rest])] == [np.float16, np.float32, np.float32]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_layers(axis: int, dtype: Any) -> None:
    x = floats(3, 4, 5, dtype=dtype)
    shape = x.shape[axis:]
    scale, bias = floats(*shape, dtype=dtype), floats(*shape, seed=1, dtype=dtype)
    axes = tuple(range(axis % 3, 3))
    wide = x.astype(np.float64)
    y = _standard(x, axes) * scale.astype(np.float64) + bias.astype(np.float64)
    mean = wide.mean(axes, keepdims=True).astype(np.float32)
    inverse = (1 / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)).astype(np.float32)
    check("LayerNormalization", [x, scale, bias], {"axis": axis}, outputs=3, opened=axis % 3 > 0,
          wanted=[y.astype(dtype), mean, inverse])  # fmt: skip
    check("LayerNormalization", [x, scale], {"axis": axis}, opened=axis % 3 > 0,
          wanted=[(_standard(x, axes) * scale.astype(np.float64)).astype(dtype)])  # fmt: skip


def test_a_scale_that_broadcasts() -> None:
    x, scale, bias = floats(3, 4, 5), floats(5), floats(1)
    y = (_standard(x, (1, 2)) * scale + bias).astype(np.float32)
    check("LayerNormalization", [x, scale, bias], {"axis": 1}, wanted=[y])
    norm = np.sqrt((x.astype(np.float64) ** 2).mean((1, 2), keepdims=True) + 1e-5)
    check("RMSNormalization", [x, scale], {"axis": 1}, wanted=[(x / norm * scale).astype(np.float32)])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("dtype", "weights"), [(np.float32, np.float32), (np.float16, np.float32)])
def test_root_mean_squares(axis: int, dtype: Any, weights: Any) -> None:
    x, scale = floats(3, 4, dtype=dtype), floats(*(3, 4)[axis:], dtype=weights)
    axes = tuple(range(axis % 2, 2))
    wide = x.astype(np.float64)
    y = (wide / np.sqrt((wide * wide).mean(axes, keepdims=True) + 1e-5) * scale).astype(weights)
    model = model_of("RMSNormalization", [x, scale], {"axis": axis})
    (result,) = run(model, [x, scale])
    assert result.dtype == weights
    np.testing.assert_allclose(result, y, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sizes", [(4,), (3, 4), (2, 3, 2)])
def test_instances_and_groups(sizes: tuple[int, ...]) -> None:
    x, scale, bias = floats(2, 6, *sizes), floats(6), floats(6, seed=1)
    axes, rank = tuple(range(2, x.ndim)), x.ndim
    y = _standard(x, axes) * _channel(scale, rank) + _channel(bias, rank)
    check("InstanceNormalization", [x, scale, bias], wanted=[y.astype(np.float32)])
    grouped = _standard(x.reshape(2, 3, -1), (2,))
    y = grouped.reshape(x.shape) * _channel(scale, rank) + _channel(bias, rank)
    check("GroupNormalization", [x, scale, bias], {"num_groups": 3}, version=21, wanted=[y.astype(np.float32)])
    y = (grouped * scale[:3, None] + bias[:3, None]).reshape(x.shape)
    check("GroupNormalization", [x, scale[:3], bias[:3]], {"num_groups": 3}, version=18, wanted=[y.astype(np.float32)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [1, 3, 4, 5, 6])
def test_local_responses(size: int) -> None:
    x = floats(2, 7, 3, 2)
    total = np.stack([
        (x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1].astype(np.float64) ** 2).sum(1) for c in range(7)
    ], 1)  # fmt: skip
    y = x / (2 + 0.1 / size * total) ** 0.5
    check("LRN", [x], {"size": size, "alpha": 0.1, "beta": 0.5, "bias": 2.0}, wanted=[y.astype(np.float32)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_vectors_of_norm_one(p: int, axis: int) -> None:
    x = floats(3, 4, 2)
    x[:, 1] = 0
    x[1] = 0
    x[..., 1] = 0
    norm = np.linalg.norm(x.astype(np.float64), p, axis, keepdims=True)
    y = np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))
    check("LpNormalization", [x], {"axis": axis, "p": p}, wanted=[y.astype(np.float32)])
    half = x.astype(np.float16)
    norm = np.linalg.norm(half.astype(np.float64), p, axis, keepdims=True)
    y = np.where(norm == 0, 0, half / np.where(norm == 0, 1, norm))
    check("LpNormalization", [half], {"axis": axis, "p": p}, wanted=[y.astype(np.float16)], tolerance=1e-3)


def test_means_and_variances() -> None:
    x = floats(2, 3, 4, 5)
    check("MeanVarianceNormalization", [x], wanted=[_standard(x, (0, 2, 3), 1e-9).astype(np.float32)], tolerance=1e-4)
    check("MeanVarianceNormalization", [x], {"axes": [1]}, wanted=[_standard(x, (1,), 0).astype(np.float32)],
          tolerance=1e-4)  # fmt: skip


def test_dropout() -> None:
    x = floats(40, 50)
    for version, dtype in ((7, np.float32), (10, bool), (13, bool)):
        ones = np.ones(x.shape, dtype)
        check("Dropout", [x], version=version, outputs=2, wanted=[x, ones])
    ratio, training = np.array(0.25, np.float32), np.array(True)
    y, stays = run(model_of("Dropout", [x, ratio, training], {"seed": 3}, outputs=2, constants=(1, 2)), [x])
    np.testing.assert_allclose(y, np.where(stays, x / 0.75, 0), rtol=1e-6)
    assert abs(stays.mean() - 0.75) < 0.05
    other = run(model_of("Dropout", [x, ratio, training], {"seed": 4}, outputs=2, constants=(1, 2)), [x])[1]
    assert (other != stays).any()
