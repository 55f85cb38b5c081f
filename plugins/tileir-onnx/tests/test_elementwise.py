"""Operators on elements beside NumPy: all dtypes that they take, ranks, and opsets that broadcast in other ways."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nodes import Array, check, number_of, run

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), BF16]
INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
RNG = np.random.default_rng(0)


def numbers(dtype: np.dtype[Any], *shape: int) -> Array:
    if dtype.kind == "b":
        return RNG.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return RNG.integers(1, 11, shape).astype(dtype)
    return RNG.uniform(0.1, 0.9, shape).astype(dtype)


def wide(x: Array) -> Array:
    return x if x.dtype.kind in "iub" else x.astype(np.float64)


ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda x, y: x // y if x.dtype.kind in "iu" else x / y,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_keeps_its_dtype(op: str, dtype: np.dtype[Any]) -> None:
    for left, right in (((2, 3), (3,)), ((), (2, 2)), ((3, 1), (1, 0)), ((), ())):
        x, y = numbers(dtype, *left), numbers(dtype, *right)
        with np.errstate(all="ignore"):
            wanted = np.asarray(ARITHMETIC[op](wide(x), wide(y))).astype(dtype)
        check(run(op, x, y), wanted, atol=1e-2 if dtype.itemsize == 2 else 1e-6)


def test_integers_are_divided_towards_zero() -> None:
    x, y = np.array([-7, 7, -7, 7, 6], np.int32), np.array([2, -2, -2, 2, 3], np.int32)
    check(run("Div", x, y), np.array([-3, -3, 3, 3, 2], np.int32))


@pytest.mark.parametrize("dtype", [np.dtype(np.int8), np.dtype(np.int64), np.dtype(np.float32)], ids=str)
def test_remainders_have_the_sign_that_fmod_says(dtype: np.dtype[Any]) -> None:
    x, y = np.array([-7, 7, -7, 7, 6], dtype), np.array([2, -2, -2, 2, 3], dtype)
    check(run("Mod", x, y, opset=28, fmod=0), np.mod(x, y))
    check(run("Mod", x, y, fmod=1), np.fmod(x, y))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("exponent", [np.float32, np.int64, np.int32, np.float64], ids=lambda each: each.__name__)
@pytest.mark.parametrize("base", [np.float32, np.int32, np.int64, np.float16, np.float64], ids=lambda e: e.__name__)
def test_powers_have_the_dtype_of_the_base(base: type[Any], exponent: type[Any]) -> None:
    x, y = np.array([1, 2, 3, 4], base), np.array([3, 2, 0, 1], exponent)
    check(run("Pow", x, y), np.array([1, 4, 1, 4], base))
    check(run("Pow", x, np.array(2, exponent)), np.array([1, 4, 9, 16], base))
    if exponent in (np.float32, np.float64):
        check(run("Pow", x, np.array(0.5, exponent)), np.sqrt(x.astype(np.float64)).astype(base))


@pytest.mark.parametrize("opset", [1, 6])
def test_old_opsets_broadcast_from_an_axis(opset: int) -> None:
    x, y = numbers(FLOATS[0], 2, 3, 4), numbers(FLOATS[0], 3)
    check(run("Add", x, y, opset=opset, broadcast=1, axis=1), x + y[:, None])
    check(run("Sub", x, y, opset=opset, broadcast=1, axis=-2), x - y[:, None])
    check(run("Mul", x, numbers(FLOATS[0]) * 0 + 2, opset=opset, broadcast=1), x * 2)
    check(run("Greater", x, y, opset=opset, broadcast=1, axis=1), x > y[:, None])
    check(run("Pow", x, y, opset=opset, broadcast=1, axis=1), x ** y[:, None])


@pytest.mark.parametrize("op", ["Abs", "Relu", "Sqrt", "Neg", "Clip"])
def test_opset_1_names_inputs_to_reuse(op: str) -> None:
    x = numbers(FLOATS[0], 3)
    wanted = {"Abs": x, "Relu": x, "Sqrt": np.sqrt(x), "Neg": -x, "Clip": np.clip(x, 0.3, 0.5)}[op]
    more: dict[str, Any] = {"min": 0.3, "max": 0.5} if op == "Clip" else {}
    check(run(op, x, opset=1, consumed_inputs=[0], **more), wanted)


COMPARISONS = {"Equal": np.equal, "Greater": np.greater, "Less": np.less}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op: str, dtype: np.dtype[Any]) -> None:
    x, y = numbers(dtype, 4, 5), numbers(dtype, 5)
    check(run(op, x, y), COMPARISONS[op](x, y))


def test_or_equal_and_logic() -> None:
    x, y = numbers(FLOATS[0], 4), numbers(FLOATS[0], 4)
    p, q = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    check(run("LessOrEqual", x, y), x <= y)
    check(run("GreaterOrEqual", x, x), x >= x)
    check(run("And", p, q), p & q)
    check(run("Or", p, q), p | q)
    check(run("Xor", p, q), p ^ q)
    check(run("Not", p), ~p)
    check(run("Equal", p, q), p == q)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bits(dtype: np.dtype[Any]) -> None:
    x, y = np.arange(1, 7).astype(dtype), np.array([3, 5, 0, 1, 2, 9], dtype)
    check(run("BitwiseAnd", x, y), x & y)
    check(run("BitwiseOr", x, y), x | y)
    check(run("BitwiseXor", x, y), x ^ y)
    check(run("BitwiseNot", x), ~x)
    shift = np.array([0, 1, 2, dtype.itemsize * 8 - 1, dtype.itemsize * 8, dtype.itemsize * 8 + 5], dtype)
    bits = [int(each) << int(by) if by < dtype.itemsize * 8 else 0 for each, by in zip(x, shift, strict=True)]
    check(run("BitShift", x, shift, opset=28, direction="LEFT"), _wrapped(bits, dtype))
    bits = [int(each) >> int(by) for each, by in zip(x, shift, strict=True)]
    check(run("BitShift", x, shift, opset=28, direction="RIGHT"), _wrapped(bits, dtype))
    if dtype.kind == "i":
        bits = [int(-each) >> int(by) for each, by in zip(x, shift, strict=True)]
        check(run("BitShift", -x, shift, opset=28, direction="RIGHT"), _wrapped(bits, dtype))


def _wrapped(values: list[int], dtype: np.dtype[Any]) -> Array:
    mask = (1 << (8 * dtype.itemsize)) - 1
    return np.array([each & mask for each in values], f"u{dtype.itemsize}").view(dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_variadic(dtype: np.dtype[Any]) -> None:
    parts = [numbers(dtype, 2, 3), numbers(dtype, 3), numbers(dtype, 2, 1)]
    check(run("Max", *parts), np.maximum(np.maximum(parts[0], parts[1]), parts[2]))
    check(run("Min", *parts), np.minimum(np.minimum(parts[0], parts[1]), parts[2]))
    check(run("Max", parts[0]), parts[0])
    if dtype.kind == "f" or dtype == BF16:
        total = sum(map(wide, parts[1:]), wide(parts[0]))
        check(run("Sum", *parts), total.astype(dtype), atol=1e-2 if dtype.itemsize == 2 else 1e-6)
        check(run("Mean", *parts), (total / 3).astype(dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.int8), np.dtype(np.uint64), np.dtype(np.int64)], ids=str)
def test_clip(dtype: np.dtype[Any]) -> None:
    x = np.arange(8).astype(dtype)
    low, high = np.array(2, dtype), np.array(5, dtype)
    check(run("Clip", x, low, high), np.minimum(np.maximum(x, low), high))
    check(run("Clip", x, None, high), np.minimum(x, high))
    check(run("Clip", x, low), np.maximum(x, low))
    check(run("Clip", x), x)
    check(run("Clip", x, high, low), np.full(8, 2, dtype))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, np.dtype(bool)], ids=str)
def test_where(dtype: np.dtype[Any]) -> None:
    x, y = numbers(dtype, 3, 1), numbers(dtype, 4)
    mask = np.array([1, 0, 0, 1], bool)
    check(run("Where", mask, x, y), np.where(mask, x, y))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS, np.dtype(bool)], ids=str)
def test_casts(target: np.dtype[Any]) -> None:
    for source in (*FLOATS, np.dtype(np.int16), np.dtype(np.uint8), np.dtype(bool)):
        x = np.array([0, 1, 3, 100], source)
        check(run("Cast", x, to=number_of(target)), x.astype(target))
        check(run("CastLike", x, np.zeros(2, target)), x.astype(target))


@pytest.mark.parametrize(
    ("dtype", "largest"), [(ml_dtypes.float8_e4m3fn, 448.0), (ml_dtypes.float8_e5m2, 57344.0)], ids=["e4m3", "e5m2"]
)
def test_casts_to_eight_bits_saturate(dtype: type[Any], largest: float) -> None:
    x = np.array([1e6, -1e6, np.inf, -np.inf, np.nan, 3.3], np.float32)
    number = number_of(np.dtype(dtype))
    found = run("Cast", x, opset=19, to=number).astype(np.float64)
    np.testing.assert_array_equal(found[:4], [largest, -largest, largest, -largest])
    assert math.isnan(found[4])
    plain = run("Cast", x, opset=19, to=number, saturate=0)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(plain.astype(np.float64), x.astype(dtype).astype(np.float64))


def test_bits_are_read_as_another_dtype() -> None:
    x = numbers(FLOATS[0], 5)
    check(run("BitCast", x, opset=26, to=6), x.view(np.int32))
    check(run("BitCast", np.array([1, 0, 1], np.uint8), opset=26, to=9), np.array([1, 0, 1], bool))
    check(run("BitCast", np.array([1, 0], bool), opset=26, to=3), np.array([1, 0], np.int8))


def test_not_finite() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0], np.float32)
    check(run("IsInf", x), np.isinf(x))
    check(run("IsInf", x, detect_negative=0), x == np.inf)
    check(run("IsInf", x, detect_positive=0), x == -np.inf)
    check(run("IsInf", x, detect_positive=0, detect_negative=0), np.zeros(4, bool))
    check(run("IsNaN", x), np.isnan(x))


UNARY: dict[str, Callable[[Array], Array]] = {
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atanh": np.arctanh,
    "Ceil": np.ceil,
    "Cosh": np.cosh,
    "Erf": np.vectorize(math.erf),
    "Exp": np.exp,
    "Log": np.log,
    "Reciprocal": np.reciprocal,
    "Round": np.round,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Sign": np.sign,
    "Tan": np.tan,
}
BEFORE: dict[str, Callable[[Array], Array]] = {"Acosh": lambda x: x + 1, "Round": lambda x: x * 10}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_number(op: str, dtype: np.dtype[Any]) -> None:
    for shape in ((3, 4), (), (2, 0)):
        x = numbers(dtype, *shape)
        given = BEFORE[op](x).astype(dtype) if op in BEFORE else x
        exact = UNARY[op]
        wanted = np.asarray(exact(given.astype(np.float64)) if given.size else np.zeros(shape)).astype(dtype)
        check(run(op, given, opset=22), wanted)
