"""Gathers and scatters beside NumPy: negative indices, all reductions, dtypes, index dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nodes import Array, check, run

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
DTYPES = [np.dtype(each) for each in (np.float32, np.float16, np.int8, np.uint64, ml_dtypes.bfloat16)]
INDICES = [np.dtype(np.int32), np.dtype(np.int64)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype(bool)], ids=str)
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_gathers(dtype: np.dtype[Any], index: np.dtype[Any]) -> None:
    x = X.astype(dtype)
    places = np.array([[0, -1], [-3, 2]], index)
    check(run("Gather", x, places, axis=1), np.take(x, places, 1))
    check(run("Gather", x, np.array(-1, index)), x[-1])
    check(run("Gather", x, np.zeros(0, index), axis=-1), x[..., :0])
    along = np.array([[[0, -1], [1, 2], [3, -4]]], index)
    check(run("GatherElements", x, along, axis=2), np.take_along_axis(x[:1], along.astype(np.int64), 2))
    rows = np.array([[[-1, 1, 0, 1]]], index)
    check(run("GatherElements", x, rows, axis=-3), np.take_along_axis(x[:, :1], rows.astype(np.int64), 0))


def test_gathers_of_points() -> None:
    points = np.array([[0, -1], [1, 0]])
    check(run("GatherND", X, points), X[[0, 1], [-1, 0]])
    check(run("GatherND", X, points[:, None]), X[[[0], [1]], [[-1], [0]]])
    batched = np.array([[[2, -1]], [[0, 1]]])
    check(run("GatherND", X, batched, batch_dims=1), np.array([[X[0, 2, -1]], [X[1, 0, 1]]]))


REDUCTIONS = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def updated(x: Array, place: Any, updates: Array, reduction: str) -> Array:
    result, function = x.copy(), REDUCTIONS[reduction]
    if function is None:
        result[place] = updates
    else:
        function.at(result, place, updates)
    return result


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.dtype(each) for each in (np.float32, np.float64, np.int32, np.uint8)], ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatters(reduction: str, dtype: np.dtype[Any]) -> None:
    x = X[0].astype(dtype)
    places = np.array([[0, -1], [2, 2]]) if reduction != "none" else np.array([[0, -1], [2, 1]])
    updates = np.array([[5, 1], [7, 3]], dtype)
    rows = np.arange(2)[:, None]
    attributes: dict[str, Any] = {} if reduction == "none" else {"reduction": reduction}
    check(
        run("ScatterElements", x, places, updates, opset=18, axis=1, **attributes),
        updated(x, (rows, places), updates, reduction),
    )
    columns = np.arange(2)[None]
    places = places % 3
    check(
        run("ScatterElements", x, places - 3, updates, opset=18, **attributes),
        updated(x, (places, columns), updates, reduction),
    )
    points = np.array([[1, -1], [0, 0], [1, 3]]) if reduction != "none" else np.array([[1, -1], [0, 0], [2, 3]])
    given = np.array([2, 9, 4], dtype)
    check(run("ScatterND", x, points, given, opset=18, **attributes), updated(x, tuple(points.T), given, reduction))


def test_scatters_of_opset_9_and_of_slices() -> None:
    places, updates = np.array([[1, 0]]), np.array([[-1, -2]], np.float32)
    check(run("Scatter", X[0], places, updates, opset=9, axis=1), updated(X[0], ([[0, 0]], [[1, 0]]), updates, "none"))
    check(run("ScatterND", X, np.array([[1]]), -X[:1]), updated(X, ([1],), -X[:1], "none"))
    check(
        run("ScatterND", X.astype(bool), np.array([[1]]), ~X[:1].astype(bool)),
        updated(X.astype(bool), ([1],), ~X[:1].astype(bool), "none"),
    )


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_caches_take_new_elements(mode: str) -> None:
    cache, update = np.zeros((2, 4, 3), np.float32), np.arange(1, 13, dtype=np.float32).reshape(2, 2, 3)
    starts = np.array([3, 1]) if mode == "circular" else np.array([2, 1])
    wanted = cache.copy()
    for batch in range(2):
        for at in range(2):
            wanted[batch, (starts[batch] + at) % 4] = update[batch, at]
    check(run("TensorScatter", cache, update, starts, opset=24, mode=mode), wanted)
    wanted = np.concatenate([update, cache[:, 2:]], 1)
    check(run("TensorScatter", cache, update, opset=24, axis=1), wanted)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_vectors(axis: int) -> None:
    places, values = np.array([[0, 2], [-1, 7]]), np.array([-1, 5], np.int32)
    hot = np.stack([np.where((places % 3 == at) & (abs(places) < 3), 5, -1) for at in range(3)], axis)
    check(run("OneHot", places, np.array(3), values, axis=axis), hot.astype(np.int32))
    floats = places.astype(np.float32)
    check(run("OneHot", floats, np.array([3.0], np.float32), values, axis=axis), hot.astype(np.int32))


def test_slices_that_a_condition_chooses() -> None:
    keep = np.array([1, 0, 1], bool)
    check(run("Compress", X, keep, axis=1), np.compress(keep, X, 1))
    check(run("Compress", X, keep), np.compress(keep, X))
    check(run("Compress", X, ~np.ones(2, bool), axis=0), X[:0])
