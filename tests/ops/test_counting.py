"""Results whose number elements decide: beside NumPy's, of nothing and of NaN, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        (lambda x: ops.nonzero(ops.sum(x)), "TIL217", "a number has no positions"),
        (lambda x: ops.compress(x, x), "TIL217", "a condition has one axis, not 2"),
        (lambda x: ops.compress(x, ops.sum(x, 0), 2), "TIL314", "the axis is 2"),
        (lambda x: ops.unique(x, 2), "TIL314", "the axis is 2"),
        (lambda x: ops.non_max_suppression(x, x, 1), "TIL217", "boxes and scores have 3 axes each, not 2 and 2"),
    ],
)
def test_mistakes(attempt: Callable[[Tensor], object], code: str, message: str) -> None:
    x = tileir.FunctionBuilder().input("X", "N", "C")
    found, text = fault_of(lambda: attempt(x), __file__)
    assert (found, text[: len(message)]) == (code, message)


ARRAYS: Any = [
    np.array([2.0, 1.0, 1.0, 3.0, 4.0, 3.0]),
    np.array([np.nan, -0.0, 0.0, np.inf, np.nan, -np.inf]),
    np.zeros((0,)),
    np.array([True, False, True]),
    np.random.default_rng(0).integers(0, 4, (5, 6)),
]


@pytest.mark.parametrize("x", ARRAYS, ids=range(len(ARRAYS)))
def test_elements_that_numpy_finds(x: Any) -> None:
    values, first, often, inverse, count = run(ops.unique, x)
    wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    assert count == len(wanted[0])
    np.testing.assert_array_equal(values[:count], wanted[0])
    np.testing.assert_array_equal(first[:count], wanted[1])
    np.testing.assert_array_equal(inverse, wanted[2].ravel())
    np.testing.assert_array_equal(often[:count], wanted[3])
    assert not values[count:].any()
    assert (first[count:] == -1).all()
    places, number = run(ops.nonzero, x)
    np.testing.assert_array_equal(places[:, :number], np.nonzero(x))
    assert (places[:, number:] == -1).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_slices_that_numpy_finds(axis: int) -> None:
    x = np.random.default_rng(1).integers(0, 2, (6, 3)).astype(np.float32)
    values, first, often, inverse, count = run(lambda x: ops.unique(x, axis), x)
    wanted: Any = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    np.testing.assert_array_equal(np.take(values, range(count), axis), wanted[0])
    np.testing.assert_array_equal(first[:count], wanted[1])
    np.testing.assert_array_equal(inverse, wanted[2].ravel())
    np.testing.assert_array_equal(often[:count], wanted[3])


def test_gradients_go_to_what_was_kept() -> None:
    f = tileir.FunctionBuilder()
    function = f.build(Y=ops.compress(f.input("X", "N"), f.input("C", "N"))[0])
    arrays = {"X": np.array([1.0, 2, 3]), "C": np.array([True, False, True])}
    slopes = tileir.vjp(function, arrays, {"Y": np.array([5.0, 6, 7])})
    np.testing.assert_array_equal(slopes["X"], [5, 0, 6])
