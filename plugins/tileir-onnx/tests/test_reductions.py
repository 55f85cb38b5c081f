"""Reductions beside NumPy: axes as attributes and as inputs, none, empty tensors, dtypes; and orders and softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nodes import Array, check, run

FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
RNG = np.random.default_rng(0)

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": lambda x, **o: np.abs(x).sum(**o),
    "ReduceL2": lambda x, **o: np.sqrt((x * x).sum(**o)),
    "ReduceLogSum": lambda x, **o: np.log(x.sum(**o)),
    "ReduceLogSumExp": lambda x, **o: np.log(np.exp(x).sum(**o)),
    "ReduceMax": lambda x, **o: x.max(**o),
    "ReduceMean": lambda x, **o: x.mean(**o),
    "ReduceMin": lambda x, **o: x.min(**o),
    "ReduceProd": lambda x, **o: x.prod(**o),
    "ReduceSum": lambda x, **o: x.sum(**o),
    "ReduceSumSquare": lambda x, **o: (x * x).sum(**o),
}
AXES: list[tuple[int, ...] | None] = [None, (0,), (1, -1), (0, 1, 2)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_axes_are_attributes_or_inputs(op: str) -> None:
    x = RNG.uniform(0.5, 1.5, (2, 3, 4)).astype(np.float32)
    for axes in AXES:
        for keepdims in (0, 1):
            wanted = np.asarray(REDUCTIONS[op](x.astype(np.float64), axis=axes, keepdims=bool(keepdims)))
            wanted = wanted.astype(np.float32)
            given: dict[str, Any] = {} if axes is None else {"axes": axes}
            opset = 12 if op == "ReduceSum" else 13
            check(run(op, x, opset=opset, keepdims=keepdims, **given), wanted)
            inputs = [x] if axes is None else [x, np.array(axes, np.int64)]
            check(run(op, *inputs, opset=18, keepdims=keepdims), wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_no_axes_are_all_or_none(op: str) -> None:
    x, none = RNG.uniform(0.5, 1.5, (2, 3)).astype(np.float32), np.zeros(0, np.int64)
    wanted = np.asarray(REDUCTIONS[op](x.astype(np.float64), keepdims=True)).astype(np.float32)
    check(run(op, x, none, opset=18), wanted)
    wanted = np.asarray(REDUCTIONS[op](x.astype(np.float64), axis=())).astype(np.float32)
    check(run(op, x, none, opset=18, noop_with_empty_axes=1), wanted)
    check(run(op, x, opset=18, noop_with_empty_axes=1, keepdims=0), wanted)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint32)], ids=str)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_results_have_the_dtype_of_the_input(op: str, dtype: np.dtype[Any]) -> None:
    x = RNG.integers(1, 5, (3, 4)).astype(dtype)
    wanted = np.asarray(REDUCTIONS[op](x.astype(np.float64), axis=1, keepdims=True))
    if op == "ReduceSum":
        check(run(op, x, np.array([1]), opset=13), wanted.astype(dtype))
    else:
        check(run(op, x, opset=13, axes=[1]), wanted.astype(dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.int8), np.dtype(np.int64), np.dtype(np.uint64)], ids=str)
def test_nothing_reduced_is_the_identity(dtype: np.dtype[Any]) -> None:
    x, axes = np.zeros((2, 0, 3), dtype), np.array([1], np.int64)
    least, greatest = -np.inf, np.inf
    if dtype in INTEGERS:
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    check(run("ReduceMax", x, axes, opset=20), np.full((2, 1, 3), least, dtype))
    check(run("ReduceMin", x, axes, opset=20), np.full((2, 1, 3), greatest, dtype))
    if dtype != np.int8:
        check(run("ReduceSum", x, axes, opset=20), np.zeros((2, 1, 3), dtype))
        check(run("ReduceProd", x, axes, opset=20), np.ones((2, 1, 3), dtype))


INTEGERS = (np.dtype(np.int8), np.dtype(np.int64), np.dtype(np.uint64))


def test_extrema_of_truth_values() -> None:
    x = np.array([[0, 1], [0, 0], [1, 1]], bool)
    check(run("ReduceMax", x, np.array([1]), opset=20, keepdims=0), x.any(1))
    check(run("ReduceMin", x, np.array([1]), opset=20, keepdims=0), x.all(1))


def test_scalars_are_reduced() -> None:
    x = np.array(2.5, np.float32)
    for op in ("ReduceSum", "ReduceMax", "ReduceMean"):
        check(run(op, x, opset=18), x)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_positions_of_extrema(op: str) -> None:
    x = RNG.integers(0, 3, (3, 5)).astype(np.float32)
    best = np.argmax if op == "ArgMax" else np.argmin
    check(run(op, x), best(x, 0, keepdims=True))
    check(run(op, x, axis=-1, keepdims=0), best(x, -1))
    check(run(op, x, axis=1, select_last_index=1), 4 - best(x[:, ::-1], 1, keepdims=True))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.float16], ids=lambda each: each.__name__)
def test_greatest_elements(dtype: type[Any]) -> None:
    x = RNG.permutation(30).reshape(5, 6).astype(dtype)
    order = np.argsort(-x.astype(np.int64), 1)[:, :2]
    check(run("TopK", x, np.array([2]), outputs=2, opset=11), (np.take_along_axis(x, order, 1), order))
    order = np.argsort(x.astype(np.int64), 0)[:3]
    wanted = (np.take_along_axis(x, order, 0), order)
    check(run("TopK", x, np.array([3]), outputs=2, opset=24, axis=0, largest=0), wanted)
    if dtype is np.float32:
        order = np.argsort(-x, 1)[:, :2]
        check(run("TopK", x, outputs=2, opset=1, k=2), (np.take_along_axis(x, order, 1), order))
    none = (np.zeros((5, 0), dtype), np.zeros((5, 0), np.int64))
    check(run("TopK", x, np.array([0]), outputs=2, opset=11), none)


def test_of_equal_elements_the_first_come_first() -> None:
    x = np.array([1, 1, 1, 0], np.float32)
    check(run("TopK", x, np.array([2]), outputs=2, opset=11)[1], np.array([0, 1]))


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    powers = np.exp(x - x.max(axes, keepdims=True))
    return np.asarray(powers / powers.sum(axes, keepdims=True))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax_of_an_axis_and_of_all_behind_it(dtype: np.dtype[Any]) -> None:
    x = RNG.normal(0, 2, (2, 3, 4)).astype(dtype)
    exact = x.astype(np.float64)
    kinds: list[tuple[int, dict[str, Any], tuple[int, ...]]] = [
        (13, {}, (2,)),
        (13, {"axis": 1}, (1,)),
        (11, {}, (1, 2)),
        (11, {"axis": -1}, (2,)),
        (1, {"axis": 0}, (0, 1, 2)),
    ]
    for opset, attributes, axes in kinds:
        wanted = softmax(exact, axes)
        check(run("Softmax", x, opset=opset, **attributes), wanted.astype(dtype))
        check(run("LogSoftmax", x, opset=opset, **attributes), np.log(wanted).astype(dtype))
        first = wanted == wanted.max(axes, keepdims=True)
        if dtype in (np.float32, np.float64):
            check(run("Hardmax", x, opset=opset, **attributes), first.astype(dtype))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [*FLOATS[:2], np.dtype(np.int32), np.dtype(np.int64)], ids=str)
def test_running_sums_and_products(dtype: np.dtype[Any]) -> None:
    x = RNG.integers(1, 4, (3, 4)).astype(dtype)
    for axis in (0, 1, -1):
        at = np.array(axis, np.int32)
        check(run("CumSum", x, at, opset=14), np.cumsum(x, axis, dtype))
        reverse = np.flip(np.cumsum(np.flip(x, axis), axis, dtype), axis)
        check(run("CumSum", x, at, opset=14, reverse=1), reverse)
        check(run("CumSum", x, at, opset=14, exclusive=1, reverse=1), reverse - x)
        check(run("CumProd", x, at, opset=26), np.cumprod(x, axis, dtype))
