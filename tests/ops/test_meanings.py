"""Corners in which an operation means the same as NumPy's: NaN, infinities, sizes of 0 and 1, bounds in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from strategies.operations import run
from tileir import ops

INF, NAN = np.inf, np.nan
GENERATOR = np.random.default_rng(1)


def normal(*sizes: int) -> Any:
    return GENERATOR.standard_normal(sizes, np.float32)


@pytest.mark.parametrize("right", [False, True])
def test_nan_is_greater_than_all_numbers(right: bool) -> None:
    sequence, values = (np.array(v, np.float32) for v in ([1, 2, 2, 3, NAN, NAN], [NAN, 2, 0, 9, INF, -INF]))
    side: Any = "right" if right else "left"
    expected = np.searchsorted(sequence, values, side=side)
    np.testing.assert_array_equal(run(lambda a, b: ops.searchsorted(a, b, right=right), sequence, values), expected)
    expected = np.searchsorted(sequence[:4], values, side=side)
    np.testing.assert_array_equal(run(lambda a, b: ops.bucketize(b, a, right=right), sequence[:4], values), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("far", [INF, -INF, 1e30])
def test_there_are_zeros_at_infinity(mode: str, far: float) -> None:
    grid = np.array([[[[far, 0], [0, far]]]], np.float32)
    found = run(lambda x, g: ops.grid_sample(x, g, mode=mode), normal(1, 2, 5, 6), grid)
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize(("low", "high"), [(3, 1), (-1, 1), (None, 0.5), (0.5, None), (2, 2)])
def test_the_upper_bound_wins(low: float | None, high: float | None) -> None:
    x = normal(50) * 3
    x[0] = NAN
    np.testing.assert_array_equal(run(lambda a: ops.clip(a, low, high), x), np.clip(x, low, high))


def test_bounds_that_are_tensors_may_cross() -> None:
    x, low, high = normal(3, 50)
    np.testing.assert_array_equal(run(ops.clip, x, low, high), np.clip(x, low, high))


@pytest.mark.parametrize("operation", ["argmax", "argmin"])
def test_all_axes_stay_with_size_1(operation: str) -> None:
    x = normal(3, 4)
    found = run(lambda a: getattr(ops, operation)(a, keepdims=True), x)
    np.testing.assert_array_equal(found, getattr(np, operation)(x, keepdims=True))


@pytest.mark.parametrize("shapes", [((3,), (2, 2)), ((2, 3, 2), (4,)), ((2, 2), (3, 3)), ((1, 2), (2, 1, 3))])
def test_kronecker_products_of_any_ranks(shapes: Any) -> None:
    x, y = (normal(*shape) for shape in shapes)
    np.testing.assert_allclose(run(ops.kron, x, y), np.kron(x, y), rtol=1e-6)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(3, 1), (4, 5)]),
        ("ij,jk->ik", [(3, 4), (1, 5)]),
        ("ij,ij->ij", [(3, 1), (1, 5)]),
        ("ij,jk,kl->il", [(3, 1), (4, 5), (1, 2)]),
        ("bij,bjk->bik", [(1, 3, 4), (2, 4, 5)]),
        ("i,i->", [(1,), (4,)]),
        ("ij,ij->", [(1, 4), (3, 4)]),
        ("...i,i...->...", [(2, 3), (3, 2)]),
    ],
)
def test_axes_of_size_1_are_stretched(subscripts: str, shapes: Any) -> None:
    arrays = [normal(*shape) for shape in shapes]
    found = run(lambda *tensors: ops.einsum(subscripts, *tensors), *arrays)
    np.testing.assert_allclose(found, np.einsum(subscripts, *arrays), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operation", [ops.logsumexp, ops.logcumsumexp])
def test_minus_infinities_alone_have_no_gradient(operation: Any) -> None:
    f = tileir.FunctionBuilder()
    function = f.build(Y=operation(f.input("X", "N", "M"), 1))
    x = np.array([[-INF] * 3, [0, 1, -INF], [-INF, -INF, 2]], np.float32)
    found = tileir.evaluate(function, (x,))
    ones = np.ones_like(found)
    exact = np.array([np.logaddexp.accumulate(row) for row in x])
    np.testing.assert_allclose(found, exact if found.ndim == 2 else exact[:, -1], rtol=1e-6)
    slopes = tileir.vjp(function, x, {"Y": ones})["X"]
    assert np.isfinite(slopes).all()
    np.testing.assert_array_equal(slopes[0], 0)
    np.testing.assert_array_equal(slopes[2], [0, 0, 1])


@pytest.mark.parametrize("count", range(5))
@pytest.mark.parametrize("order", [0, 1, 2])
def test_differences_of_short_axes(count: int, order: int) -> None:
    x = np.arange(count, dtype=np.float32) ** 2
    np.testing.assert_array_equal(run(lambda a: ops.diff(a, order), x), np.diff(x, order))


EMPTY = np.zeros((0, 3), np.float32)
PLACES = np.array([0, 1], np.int32)


def test_elements_of_nothing_are_the_filling() -> None:
    taken = run(lambda x, i: ops.take(x, i, mode="fill", fill=7), EMPTY, PLACES)
    np.testing.assert_array_equal(taken, np.full((2, 3), 7))
    along = run(lambda x, i: ops.take_along_axis(x, i, 0, mode="fill", fill=7), EMPTY, np.zeros((2, 3), np.int32))
    np.testing.assert_array_equal(along, np.full((2, 3), 7))
    points = run(lambda x, i: ops.gather_nd(x, i, depth=1, mode="fill", fill=7), EMPTY, PLACES[:, None])
    np.testing.assert_array_equal(points, np.full((2, 3), 7))
    grid = np.zeros((1, 1, 2, 2), np.float32)
    sampled = run(ops.grid_sample, np.zeros((1, 1, 0, 3), np.float32), grid)
    np.testing.assert_array_equal(sampled, np.zeros((1, 1, 1, 2)))


def test_of_no_boxes_none_is_kept() -> None:
    kept = run(lambda b, s: ops.nms(b, s, 2)[0], np.zeros((0, 4), np.float32), np.zeros(0, np.float32))
    np.testing.assert_array_equal(kept, [-1, -1])
