"""Quantised numbers: what is refused, ties, and the results that ONNX gives for its examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import tileir
from strategies.operations import fault_of, run
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x, s: ops.quantize_linear(x, s, dtype="i32"), "TIL217", "quantised numbers are integers of 8 or 16"),
        (lambda x, s: ops.quantize_linear(x, s, dtype="int8"), "TIL206", "there is no element type 'int8'"),
        (lambda x, s: ops.quantize_linear(x, s, axis=2), "TIL314", "the axis is 2"),
        (lambda x, s: ops.quantize_linear(x, s, block_size=-1), "TIL217", "block_size is from 0 on, not -1"),
        (lambda x, s: ops.quantize_linear(x, s, block_size=2), "TIL305", "scales of blocks have 2 axes"),
        (lambda x, s: ops.dequantize_linear(s, x), "TIL305", "a scale or zero point has one axis, or as many as"),
        (lambda x, s: ops.requantize_linear(x, s, dtype="f32"), "TIL217", "quantised numbers are integers, not f32"),
        (lambda x, s: ops.requantize_linear(x, s, precision="f16"), "TIL217", "precision is one of"),
        (lambda x, _: ops.conv_integer(x, x, x), "TIL305", "the zero point of images is one number"),
    ],
)
def test_mistakes(attempt: Callable[[Tensor, Tensor], object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    x, s = f.input("X", "N", "C"), f.input("S", "C")
    found, text = fault_of(lambda: attempt(x, s), __file__)
    assert (found, text[: len(message)]) == (code, message)


def test_ties_go_to_even_numbers_and_large_ones_to_the_limits() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, np.inf, -np.inf, np.nan], np.float32)
    one = np.array(1, np.float32)
    found = run(lambda x, s: ops.quantize_linear(x, s, dtype="i8"), x, one)
    np.testing.assert_array_equal(found, [0, 2, 2, 0, -2, 127, -128, 127, -128, 0])
    found = run(lambda x, s, z: ops.quantize_linear(x, s, z, dtype="u8"), x, one, np.array(3, np.uint8))
    np.testing.assert_array_equal(found, [3, 5, 5, 3, 1, 255, 0, 255, 0, 0])


@pytest.mark.parametrize("saturate", [True, False])
def test_floats_of_8_bits(saturate: bool) -> None:
    x = np.array([0, 1, 2, 1000, 200, 100], np.float32)
    two = np.array(2, np.float32)
    found: Any = run(lambda x, s: ops.quantize_linear(x, s, dtype="f8e4m3fn", saturate=saturate), x, two)
    wanted = np.array([0, 0.5, 1, 448 if saturate else np.nan, 96, 48])  # ONNX' test_quantizelinear_e4m3fn
    np.testing.assert_array_equal(found.astype(np.float64), wanted)
    back = run(ops.dequantize_linear, found, two)
    np.testing.assert_array_equal(back, (wanted * 2).astype(np.float32))


def test_quotients_in_a_wider_dtype() -> None:
    x, scale = np.array([1.0, 5.0], np.float16), np.array(0.1, np.float16)
    for precision, wanted in (
        ("f32", np.rint(x.astype(np.float32) / scale.astype(np.float32))),
        (None, np.rint(x / scale)),
    ):
        found = run(lambda x, s, p=precision: ops.quantize_linear(x, s, precision=p), x, scale)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("x", [[0, 2, -3, -2.5, 1.34, 0.5], [-1.0, -2.1, -1.3, -2.5, -3.34, -4.0], [0.0, 0.0]])
def test_scales_found_from_the_elements(x: list[float]) -> None:
    array = np.array(x, np.float32)
    most, least = np.float32(max(array.max(), 0)), np.float32(min(array.min(), 0))
    scale = np.float32(most - least if most > least else 1) / np.float32(255)
    point = np.rint(np.clip(-least / scale, 0, 255))
    number, found_scale, found_point = run(ops.dynamic_quantize_linear, array)
    assert (found_scale, found_point) == (scale, point)
    assert number.dtype == found_point.dtype == np.uint8
    np.testing.assert_array_equal(number, np.clip(np.rint(array / scale) + point, 0, 255))


def test_sums_of_products_are_rounded_once_and_exactly() -> None:
    """A little more than a tie is one in f32, which does not hold so large a sum."""
    x, scale = np.array([2**24 + 1, 2**24 + 3], np.int32), np.array(2.0**-25, np.float32)
    wanted = np.rint(x * scale.astype(np.float64)).astype(np.uint8)
    assert wanted.tolist() == [1, 1]
    np.testing.assert_array_equal(run(ops.requantize_linear, x, scale), wanted)
    product = run(
        lambda a, b: ops.requantize_linear(ops.matmul_integer(a, b), ops.full(a, (), 2.0**-9), dtype="i8"),
        np.array([[127, -128]], np.int8),
        np.array([[127, 127], [-128, 127]], np.int8),
    )
    np.testing.assert_array_equal(product, [[64, 0]])


def test_gradients_go_to_scales() -> None:
    f = tileir.FunctionBuilder()
    function = f.build(Y=ops.dequantize_linear(f.input("X", "N"), f.scalar("S"), f.scalar("Z")))
    arrays = {"X": np.array([1, 5], np.int8), "S": np.float32(2), "Z": np.int8(3)}
    slopes = tileir.vjp(function, arrays, {"Y": np.array([1, 10], np.float32)})
    assert slopes["S"] == -2 + 20


def test_floats_stay_what_they_are_in_memory() -> None:
    x = np.array([448, -0.0, 2**-9], ml_dtypes.float8_e4m3fn)
    assert run(lambda x: ops.bit_cast(ops.bit_cast(x, "u8"), "f8e4m3fn"), x).tobytes() == x.tobytes()


def test_scales_of_all_axes_are_broadcast() -> None:
    x, scale = np.arange(6, dtype=np.int32).reshape(2, 3), np.array([[0.5], [3]], np.float32)
    found = run(lambda x, s: ops.requantize_linear(x, s, dtype="i8"), x, scale)
    np.testing.assert_array_equal(found, np.rint(x * scale).astype(np.int8))
    np.testing.assert_array_equal(run(ops.dequantize_linear, found, scale), found * scale)
