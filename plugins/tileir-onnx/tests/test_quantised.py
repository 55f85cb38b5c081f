"""Quantised operators beside exact arithmetic: every bit has to be right."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nodes import Array, check, number_of, run

RNG = np.random.default_rng(0)
X = RNG.normal(0, 40, (2, 3, 4)).astype(np.float32)


def quantised(x: Array, scale: Array, zero_point: Array) -> Array:
    limits = np.iinfo(zero_point.dtype)
    return np.asarray(np.clip(np.rint(x / scale) + zero_point, limits.min, limits.max), zero_point.dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16], ids=lambda each: each.__name__)
def test_numbers_are_quantised_and_back(dtype: type[Any]) -> None:
    scale, zero = np.array(0.5, np.float32), np.array(3, dtype)
    integers = quantised(X, scale, zero)
    check(run("QuantizeLinear", X, scale, zero), integers)
    check(run("DequantizeLinear", integers, scale, zero), (integers.astype(np.float32) - 3) * scale)
    scales, zeros = np.array([0.5, 2, 0.25], np.float32), np.array([0, 1, 2], dtype)
    column = (scales[:, None], zeros[:, None])
    integers = quantised(X, *column)
    check(run("QuantizeLinear", X, scales, zeros, axis=1), integers)
    check(run("QuantizeLinear", X, scales, zeros, axis=-2, opset=13), integers)
    check(run("DequantizeLinear", integers, scales, zeros), (integers.astype(np.float32) - column[1]) * column[0])
    blocks = RNG.uniform(0.25, 2, (2, 3, 2)).astype(np.float32)
    points = RNG.integers(0, 9, (2, 3, 2)).astype(dtype)
    integers = quantised(X, np.repeat(blocks, 2, 2), np.repeat(points, 2, 2))
    check(run("QuantizeLinear", X, blocks, points, axis=2, block_size=2), integers)
    check(
        run("QuantizeLinear", X, scale, output_dtype=number_of(np.dtype(dtype))),
        quantised(X, scale, np.zeros((), dtype)),
    )


def test_without_a_zero_point_bytes_are_unsigned() -> None:
    check(run("QuantizeLinear", X, np.array(1, np.float32)), quantised(X, np.array(1), np.zeros((), np.uint8)))


@pytest.mark.parametrize(
    ("dtype", "largest"), [(ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e5m2, 57344)], ids=["e4m3", "e5m2"]
)
def test_floats_of_eight_bits(dtype: type[Any], largest: float) -> None:
    scale, zero = np.array(0.5, np.float32), np.zeros((), dtype)
    wanted = np.clip(X / scale, -largest, largest).astype(dtype)
    check(run("QuantizeLinear", X, scale, zero), wanted)
    check(run("DequantizeLinear", wanted, scale, zero), wanted.astype(np.float32) * scale)


def test_scales_that_follow_from_the_numbers() -> None:
    for x in (X, np.abs(X), -np.abs(X)):
        low, high = min(x.min(), 0), max(x.max(), 0)
        scale = np.float32((high - low) / np.float32(255))
        zero = np.clip(np.rint(-low / scale), 0, 255).astype(np.uint8)
        wanted = (quantised(x, np.asarray(scale), np.asarray(zero)), np.asarray(scale), np.asarray(zero))
        check(run("DynamicQuantizeLinear", x, outputs=3), wanted)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=lambda each: each.__name__)
def test_products_of_integers(dtype: type[Any]) -> None:
    limits = np.iinfo(dtype)
    x = RNG.integers(limits.min, limits.max, (2, 3, 5), dtype)
    y = RNG.integers(limits.min, limits.max, (5, 4), dtype)
    zero, other = np.array(7, dtype), np.array([1, 2, 3, 4], dtype)
    total = (x.astype(np.int32) - 7) @ (y.astype(np.int32) - other.astype(np.int32))
    check(run("MatMulInteger", x, y, zero, other), total)
    check(run("MatMulInteger", x, y), x.astype(np.int32) @ y.astype(np.int32))
    scales = [np.array(each, np.float32) for each in (0.5, 0.25, 16)]
    point = np.array(11, dtype)
    wanted = np.clip(np.rint(total * (0.5 * 0.25 / 16)) + 11, limits.min, limits.max).astype(dtype)
    check(run("QLinearMatMul", x, scales[0], zero, y, scales[1], other, scales[2], point), wanted)


def test_convolutions_of_integers() -> None:
    x, w = RNG.integers(0, 255, (1, 2, 5, 5), np.uint8), RNG.integers(-128, 127, (3, 2, 3, 3), np.int8)
    zero, zeros = np.array(5, np.uint8), np.array([0, 1, -2], np.int8)
    padded = np.pad(x.astype(np.int64) - 5, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    shifted = w.astype(np.int64) - zeros.astype(np.int64)[:, None, None, None]
    total = np.einsum("nchwij,kcij->nkhw", windows, shifted)
    check(run("ConvInteger", x, w, zero, zeros, pads=[1, 1, 1, 1]), total.astype(np.int32))
    check(
        run("ConvInteger", x, w, zero, pads=[1, 1, 1, 1], strides=[2, 2]),
        np.einsum("nchwij,kcij->nkhw", windows, w.astype(np.int64))[:, :, ::2, ::2].astype(np.int32),
    )
    scales, bias = np.array([0.5, 1, 0.25], np.float32), np.array([10, -20, 30], np.int32)
    one, scale = np.array(0.5, np.float32), np.array(32, np.float32)
    exact = (total + bias[:, None, None]) * (0.5 * scales[:, None, None] / 32)
    wanted = np.clip(np.rint(exact) + 100, 0, 255).astype(np.uint8)
    check(
        run("QLinearConv", x, one, zero, w, scales, zeros, scale, np.array(100, np.uint8), bias, pads=[1, 1, 1, 1]),
        wanted,
    )


def test_products_of_rows_and_columns_with_scales_of_their_own() -> None:
    x, y = RNG.integers(0, 255, (2, 3, 5), np.uint8), RNG.integers(0, 255, (2, 5, 4), np.uint8)
    rows, columns = np.array([0.5, 1, 2], np.float32), np.array([0.25, 1, 2, 4], np.float32)
    zeros, others, points = np.arange(3, dtype=np.uint8), np.arange(4, dtype=np.uint8), np.array([7, 8, 9], np.uint8)
    scales = np.array([512, 1024, 2048], np.float32)
    total = (x.astype(np.int64) - zeros[:, None]) @ (y.astype(np.int64) - others)
    exact = total * (rows[:, None] * columns / scales[:, None])
    wanted = np.clip(np.rint(exact) + points[:, None], 0, 255).astype(np.uint8)
    check(run("QLinearMatMul", x, rows, zeros, y, columns, others, scales, points), wanted)
