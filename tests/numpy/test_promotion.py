"""Booleans, mixed signs, lists and numbers as operands of traced functions, beside NumPy's own results and dtypes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir

if TYPE_CHECKING:
    from collections.abc import Callable

B = np.array([[True, False, True], [False, False, True]])
C = np.array([[True, True, False], [False, True, True]])
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


def same(function: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> None:
    with np.errstate(all="ignore"):
        wanted = np.asarray(function(*arrays))
    found = tileir.evaluate(function, list(arrays))
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.sampled(13)
@pytest.mark.parametrize(("left", "right"), list(itertools.product(INTEGERS, INTEGERS)))
def test_integers_of_two_dtypes_become_one_that_holds_both(left: str, right: str) -> None:
    low, high = np.iinfo(left).min // 2, np.iinfo(right).max // 2
    x, y = np.array([low, 3, 5], left), np.array([high, 1, 2], right)
    for function in (
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x < y,
        np.maximum,
        np.not_equal,
        lambda x, y: np.where(x < 4, x, y),
        lambda x, y: np.concatenate([x, y]),
    ):
        same(function, x, y)


@pytest.mark.parametrize(
    "function",
    [
        lambda b, c: b + c,
        lambda b, c: b * c,
        lambda b, c: b & c | ~b ^ c,
        lambda b, c: np.add(b, c) | np.multiply(b, c),
        lambda b, c: b @ c.T,
        lambda b, c: np.einsum("ij,ij->i", b, c),
        lambda b, c: np.tensordot(b, c, 2),
        lambda b, c: np.diff(b, axis=1) | np.diff(c, 1),
        lambda b, _: abs(b),
        lambda b, _: b + True,
        lambda b, c: np.maximum(b, c),
        lambda b, c: b <= c,
    ],
)
def test_booleans_stay_booleans(function: Callable[..., Any]) -> None:
    same(function, B, C)


@pytest.mark.parametrize("function", [lambda b: b | 1, lambda b: 2 ^ b, lambda b: b + 1, lambda b: b * 3, np.cumsum])
def test_booleans_beside_integers_count(function: Callable[..., Any]) -> None:
    np.testing.assert_array_equal(tileir.evaluate(function, [B]), function(B))


def test_booleans_have_no_difference() -> None:
    with pytest.raises(tileir.TileError, match=r"TIL215.*write x \^ y"):
        tileir.evaluate(lambda b, c: b - c, [B, C])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_comparisons_with_numbers_that_no_element_has(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.min, 0, info.max], dtype)
    for number in (info.min - 1, info.max + 1 if dtype != "u8" else 5):
        for apply in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
            same(lambda x, number=number, apply=apply: apply(x, number), x)
        same(lambda x, number=number: number < x, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (1.5, 2.0, 3.0) * x,
        lambda x: [[1], [2]] * x,
        lambda x: x > [0, 1, 2],
        lambda x: np.add([1, 2, 3], x),
        lambda x: np.interp(x, [0.0, 1.0, 4.0], [2.0, 4.0, 0.0]),
        lambda x: np.append(x, [[7, 8, 9]], axis=0),
        lambda x: np.append(x, 3.0),
        lambda x: np.convolve(x[0], [1, 2, 1], "same"),
    ],
)
def test_lists_are_arrays(function: Callable[..., Any]) -> None:
    x = np.arange(6, dtype="f4").reshape(2, 3)
    np.testing.assert_allclose(tileir.evaluate(function, [x]), function(x), rtol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.add(x, 1, dtype="f8"),
        lambda x: np.exp(x, dtype=np.float64),
        lambda x: np.multiply(x, x, casting="unsafe", dtype="i8"),
        lambda x: np.divide(x, 2, out=None, where=True),
        lambda x: np.less(x, 2, dtype=bool),
    ],
)
def test_arguments_of_elementwise_functions(function: Callable[..., Any]) -> None:
    x = np.arange(6, dtype="f4").reshape(2, 3)
    wanted = function(x)
    found = tileir.evaluate(function, [x])
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


class Foreign:
    """An array of another library."""

    def __array__(self, *_: object, **__: object) -> np.ndarray[Any, Any]:
        return B


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: np.add(x, 1, where=x > 0), r"numpy.where\(mask, numpy.add\(x, y\), other\)"),
        (lambda x: np.add(x, 1, out=np.zeros(3)), "out"),
        (lambda x: float(x.sum()), "has no value"),
        (lambda x: f"{x.sum():.2f}", "has no value"),
        (lambda x: range(x[0, 0]), "has no value"),
        (lambda x: [x, x] * x, "numpy.stack"),
        (lambda x: np.sum([x, x]), "numpy.stack"),
        (lambda x: np.zeros(5)[x[0]], "numpy.take"),
        (lambda x: x + Foreign(), r"a test_promotion.Foreign is no operand; pass it as an argument"),
    ],
)
def test_refusals_name_the_line_and_what_to_write(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(tileir.TileError, match=words) as caught:
        tileir.evaluate(function, [np.ones((2, 3), "f4")])
    assert "test_promotion.py" in str(caught.value)


def test_integers_to_integers_of_a_tensor() -> None:
    x, n = np.array([3, -2, 0, 7, -1, 5], "i4"), np.array([4, 3, 0, 40, 7, -1], "i4")
    found = tileir.evaluate(lambda x, n: (x**n, 2**n, x ** abs(n)), [x, n])
    assert [each.dtype for each in found] == [np.int32] * 3
    np.testing.assert_array_equal(found[0], [81, -8, 1, (7**40 + (1 << 31)) % (1 << 32) - (1 << 31), -1, 0])
    np.testing.assert_array_equal(found[1], [16, 8, 1, 0, 128, 0])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found[2], x ** abs(n))
