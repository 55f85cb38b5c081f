"""Operators of onnxruntime's own domain beside their formulas in f64."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import tileir
import tileir_onnx
from nodes import Array, check, feeds_of, model_of, run as run_node

RNG = np.random.default_rng(0)
run = partial(run_node, domain="com.microsoft", opset=17)
X, Y, C = (RNG.normal(size=shape).astype(np.float32) for shape in ((2, 3, 8), (2, 3, 8), (8,)))
erf = np.vectorize(math.erf)


def gelu(x: Array) -> Array:
    return np.asarray(x * (1 + erf(x / math.sqrt(2))) / 2)


def fast(x: Array) -> Array:
    return np.asarray(x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2)


def f32(x: Array) -> Array:
    return np.asarray(x, np.float64).astype(np.float32)


def norm(x: Array, epsilon: float) -> Array:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon))


def rms(x: Array, epsilon: float) -> Array:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon))


def test_activations() -> None:
    exact = X.astype(np.float64)
    check(run("Gelu", X), f32(gelu(exact)))
    check(run("BiasGelu", X, C), f32(gelu(exact + C)))
    check(run("FastGelu", X), f32(fast(exact)))
    check(run("FastGelu", X, C), f32(fast(exact + C)))
    check(run("QuickGelu", X, alpha=2.0), f32(exact / (1 + np.exp(-2 * exact))))


def test_products() -> None:
    check(run("FusedMatMul", X, Y, transB=1, alpha=0.5), f32(0.5 * X.astype(np.float64) @ Y.swapaxes(1, 2)))
    check(run("FusedMatMul", X, Y, transA=1), f32(X.astype(np.float64).swapaxes(1, 2) @ Y))
    with pytest.raises(tileir.TileError, match=r"TIL605.*batches that are transposed"):
        run("FusedMatMul", X, Y, transBatchA=1)


def test_norms_with_skips() -> None:
    gamma, beta, bias = C, C[::-1].copy(), C * 2
    total = X.astype(np.float64) + Y + bias
    found = run("SkipLayerNormalization", X, Y, gamma, beta, bias, outputs=4, epsilon=1e-5)
    mean = total.mean(-1, keepdims=True)
    deviation = 1 / np.sqrt(total.var(-1, keepdims=True) + 1e-5)
    check(found, tuple(map(f32, (norm(total, 1e-5) * gamma + beta, mean, deviation, total))), atol=1e-5)
    check(
        run("SkipLayerNormalization", X, Y[:1], gamma),
        f32(norm(X.astype(np.float64) + Y[:1], 1e-12) * gamma),
        atol=1e-5,
    )
    check(run("SkipSimplifiedLayerNormalization", X, Y, gamma, bias), f32(rms(total, 1e-12) * gamma))
    check(run("SimplifiedLayerNormalization", X, gamma), f32(rms(X.astype(np.float64), 1e-5) * gamma))
    check(run_node("SimplifiedLayerNormalization", X, gamma, opset=17), f32(rms(X.astype(np.float64), 1e-5) * gamma))


def test_embeddings_are_normalised() -> None:
    tokens, kinds = np.array([[1, 2, 0], [4, 4, 3]], np.int32), np.array([[0, 1, 1], [0, 0, 1]], np.int32)
    words, places, segments = (RNG.normal(size=(n, 8)).astype(np.float32) for n in (5, 6, 2))
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    total = words.astype(np.float64)[tokens] + places[:3] + segments[kinds]
    found = run("EmbedLayerNormalization", tokens, kinds, words, places, segments, C, C, mask, outputs=2, epsilon=1e-5)
    check(found, (f32(norm(total, 1e-5) * C + C), np.array([2, 3], np.int32)), atol=1e-5)


def test_convolutions_with_activations() -> None:
    x, w = RNG.normal(size=(1, 2, 5)).astype(np.float32), RNG.normal(size=(3, 2, 1)).astype(np.float32)
    product = np.einsum("ncx,kc->nkx", x.astype(np.float64), w[:, :, 0])
    check(run("FusedConv", x, w, activation="Relu"), f32(np.maximum(product, 0)))
    found = run("FusedConv", x, w, activation="Clip", activation_params=[-0.5, 0.5])
    check(found, f32(np.clip(product, -0.5, 0.5)))
    check(
        run("FusedConv", x, w, None, f32(product), activation="LeakyRelu", activation_params=[0.1]),
        f32(np.where(product < 0, 0.2, 2) * product),
    )
    with pytest.raises(tileir.TileError, match=r"TIL605.*the activation is one of"):
        run("FusedConv", x, w, activation="Odd")


def quantised(x: Array, scale: float, zero: int) -> Array:
    return np.asarray(np.clip(np.rint(x / scale) + zero, 0, 255), np.uint8)


def test_quantised_arithmetic() -> None:
    x, y = (RNG.integers(0, 255, (2, 3, 4, 4), np.uint8) for _ in range(2))
    left, right = (x.astype(np.float32) - 3) * 0.5, (y.astype(np.float32) - 128) * 0.25
    one: list[Array] = [np.array(0.5, np.float32), np.array(3, np.uint8)]
    two: list[Array] = [np.array(0.25, np.float32), np.array(128, np.uint8)]
    three: list[Array] = [np.array(2, np.float32), np.array(7, np.uint8)]
    check(run("QLinearAdd", x, *one, y, *two, *three), quantised(left + right, 2, 7))
    check(run("QLinearMul", x, *one, y, *two, np.array(64, np.float32), three[1]), quantised(left * right, 64, 7))
    found = run("QLinearSigmoid", y, *two, np.array(1 / 256, np.float32), np.array(0, np.uint8))
    assert np.abs(found.astype(int) - quantised(1 / (1 + np.exp(-right.astype(np.float64))), 1 / 256, 0)).max() <= 1
    check(run("QLinearGlobalAveragePool", x, *one, *three), quantised(left.mean((2, 3), keepdims=True), 2, 7))


def test_quantised_products() -> None:
    y = RNG.integers(-128, 127, (8, 4), np.int8)
    scale, zero = np.array(0.5, np.float32), np.array(3, np.int8)
    low, high = X.min(), X.max()
    step = np.float32((high - low) / np.float32(255))
    point = np.clip(np.rint(-low / step), 0, 255)
    integers = np.clip(np.rint(X / step) + point, 0, 255) - point
    wanted = f32(integers.astype(np.float64) @ (y.astype(np.float64) - 3) * step * 0.5)
    check(run("DynamicQuantizeMatMul", X, y, scale, zero, C[:4]), f32(wanted + C[:4]), atol=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("columns", [(), (4,)])
@pytest.mark.parametrize("trans", [0, 1])
def test_quantised_products_of_matrices(dtype: type[np.integer[Any]], columns: tuple[int, ...], trans: int) -> None:
    limits = np.iinfo(dtype)
    x, y = (RNG.integers(limits.min, limits.max + 1, shape).astype(dtype) for shape in ((5, 8), (8, 4)))
    c = RNG.integers(-9000, 9000, 4).astype(np.int32)
    scales, zeros = RNG.uniform(0.01, 0.02, columns).astype(np.float32), np.full(columns, 2, dtype)
    total = ((x.astype(np.int64) - 3) @ (y.astype(np.int64) - 2) + c).astype(np.float64) * scales * 0.25
    given = [np.ascontiguousarray(each.T) if trans else each for each in (x, y)]
    inputs = [given[0], np.array(0.5, np.float32), np.array(3, dtype), given[1], scales, zeros, c]
    options: dict[str, Any] = {"alpha": 0.5, "transA": trans, "transB": trans}
    check(run("QGemm", *inputs, **options), f32(total))
    found = run("QGemm", *inputs, np.array(1.5, np.float32), np.array(7, dtype), **options)
    assert found.dtype == dtype
    assert np.abs(found - np.clip(np.rint(total / 1.5) + 7, limits.min, limits.max)).max() <= 1


@pytest.mark.parametrize(("opset", "axis", "axes"), [(13, -1, (2,)), (13, 1, (1,)), (12, 1, (1, 2)), (12, 2, (2,))])
def test_softmax_of_quantised_numbers(opset: int, axis: int, axes: tuple[int, ...]) -> None:
    x = RNG.integers(0, 256, (3, 4, 5)).astype(np.uint8)
    scales = [np.array(each, np.float32) for each in (0.05, 1 / 256)]
    zeros = [np.array(each, np.uint8) for each in (128, 0)]
    powers = np.exp(x.astype(np.float64) * scales[0])
    inputs: list[Array] = [x, scales[0], zeros[0], scales[1], zeros[1]]
    model = model_of("QLinearSoftmax", inputs, {"axis": axis, "opset": opset}, 17, 1, "com.microsoft")
    (found,) = tileir_onnx.InferenceSession(model.SerializeToString()).run(None, feeds_of(inputs))
    assert np.abs(found.astype(int) - quantised(powers / powers.sum(axes, keepdims=True), 1 / 256, 0)).max() <= 1


def test_choice_of_quantised_numbers() -> None:
    x, y = (RNG.integers(0, 256, shape).astype(np.uint8) for shape in ((3, 4), (4,)))
    scales = [np.array(each, np.float32) for each in (0.5, 0.25, 0.75)]
    zeros = [np.array(each, np.uint8) for each in (7, 3, 128)]
    mask = RNG.random((3, 1)) > 0.5
    wanted = np.where(mask, (x.astype(np.float64) - 7) * 0.5, (y.astype(np.float64) - 3) * 0.25)
    parts: list[Array] = [x, scales[0], zeros[0], y, scales[1], zeros[1], scales[2], zeros[2]]
    check(run("QLinearWhere", mask, *parts), quantised(wanted, 0.75, 128))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("axis", [None, 0])
def test_quantisation_in_the_domain_of_onnxruntime(dtype: type[np.integer[Any]], axis: int | None) -> None:
    limits = np.iinfo(dtype)
    x = (X[0] * 2000).astype(np.float32)
    scale = np.array(0.5, np.float32) if axis is None else np.array([0.25, 0.5, 2], np.float32)
    zero = np.full(scale.shape, 3, dtype)
    steps = scale if axis is None else scale[:, None]
    integers = np.clip(np.rint(x / steps) + 3, limits.min, limits.max).astype(dtype)
    options: dict[str, Any] = {} if axis is None else {"axis": axis}
    check(run("QuantizeLinear", x, scale, zero, **options), integers)
    check(run("DequantizeLinear", integers, scale, zero, **options), f32((integers.astype(np.float64) - 3) * steps))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("points", [False, True])
def test_weights_of_few_bits(bits: int, points: bool) -> None:
    inner, outer, block = 40, 6, 16
    blocks, parts = 3, 8 // bits
    whole = RNG.integers(0, 1 << bits, (outer, blocks, block)).astype(np.uint8)
    scales = RNG.uniform(0.5, 1, (outer, blocks)).astype(np.float32)
    zeros = RNG.integers(0, 1 << bits, (outer, -(-blocks // parts) * parts)).astype(np.uint8)
    packed = packed_of(whole, bits)
    more: list[Any] = [packed_of(zeros, bits)] if points else []
    offset = zeros[:, :blocks, None].astype(np.float64) if points else 1 << (bits - 1)
    weights = ((whole.astype(np.float64) - offset) * scales[..., None]).reshape(outer, -1)[:, :inner]
    x = RNG.normal(size=(2, inner)).astype(np.float32)
    options: dict[str, Any] = {"K": inner, "N": outer, "bits": bits, "block_size": block}
    check(
        run("MatMulNBits", x, packed, scales.reshape(-1), *more, **options),
        f32(x.astype(np.float64) @ weights.T),
        rtol=1e-4,
        atol=1e-4,
    )


def packed_of(x: Array, bits: int) -> Array:
    groups = x.reshape(*x.shape[:-1], -1, 8 // bits)
    shifts = np.arange(0, 8, bits)
    return np.asarray((groups.astype(np.int64) << shifts).sum(-1), np.uint8)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_group_norm(last: int, activation: int) -> None:
    x, gamma, beta, bias = normal(2, 3, 4, 8), normal(8), normal(8), normal(8)
    options: dict[str, Any] = {"groups": 2, "activation": activation, "channels_last": last, "epsilon": 1e-3}

    def layout(y: Array) -> Array:
        return y if last else np.ascontiguousarray(np.moveaxis(y, -1, 1))

    def wanted(y: Array) -> Array:
        parts = y.astype(np.float64).reshape(2, 12, 2, 4)
        mean, deviation = parts.mean((1, 3), keepdims=True), np.sqrt(parts.var((1, 3), keepdims=True) + 1e-3)
        z = ((parts - mean) / deviation).reshape(y.shape) * gamma + beta
        return layout(f32(z / (1 + np.exp(-z)) if activation else z))

    check(run("GroupNorm", layout(x), gamma, beta, **options), wanted(x), atol=1e-5)
    for skip in (normal(2, 8), normal(2, 1, 1, 8), normal(2, 3, 4, 8)):
        total = x + (skip.reshape(2, 1, 1, 8) if skip.ndim == 2 else skip) + bias
        given = skip if skip.ndim == 2 else layout(skip)
        found = run("SkipGroupNorm", layout(x), gamma, beta, given, bias, outputs=2, **options)
        check(found, (wanted(total), layout(total)), atol=1e-5)
    with pytest.raises(tileir.TileError, match=r"TIL605.*the activation is 0 for none or 1 for SiLU"):
        run("GroupNorm", x, gamma, beta, groups=2, activation=2)


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def test_concatenation_of_quantised_numbers() -> None:
    x, y = (RNG.integers(0, 256, (2, 3, 4)).astype(np.uint8) for _ in range(2))
    scales = [np.array(each, np.float32) for each in (0.5, 0.25, 0.75)]
    zeros = [np.array(each, np.uint8) for each in (7, 3, 128)]
    parts = [(each.astype(np.float64) - zeros[at]) * scales[at] for at, each in ((1, x), (2, y))]
    for axis in (1, -1):
        found = run("QLinearConcat", scales[0], zeros[0], x, scales[1], zeros[1], y, scales[2], zeros[2], axis=axis)
        check(found, quantised(np.concatenate(parts, axis), 0.5, 7))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("whole", [0, 1])
def test_average_of_quantised_numbers(last: int, whole: int) -> None:
    x = RNG.integers(0, 256, (2, 3, 6, 6)).astype(np.uint8)
    real = np.pad((x.astype(np.float64) - 3) * 0.5, [(0, 0), (0, 0), (1, 1), (1, 1)])
    ones = np.pad(np.ones(x.shape), [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=whole)
    total, count = (each.reshape(2, 3, 4, 2, 4, 2).sum((3, 5)) for each in (real, ones))
    options: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    given, wanted = x, quantised(total / count, 0.375, 9)
    if last:
        given, wanted = (np.ascontiguousarray(np.moveaxis(each, 1, -1)) for each in (given, wanted))
    parts: list[Array] = [np.array(0.5, np.float32), np.array(3, np.uint8)]
    parts += [np.array(0.375, np.float32), np.array(9, np.uint8)]
    found = run("QLinearAveragePool", given, *parts, channels_last=last, count_include_pad=whole, **options)
    assert found.dtype == np.uint8
    assert np.abs(found.astype(int) - wanted).max() <= 1
