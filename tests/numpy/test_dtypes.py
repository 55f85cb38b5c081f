"""Plain expressions of one and two arrays of every dtype, beside NumPy's values and kinds of dtypes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tileir

FLOATS, SIGNED, UNSIGNED = ("f2", "f4", "f8"), ("i1", "i2", "i4", "i8"), ("u1", "u2", "u4", "u8")

ONE = """
abs(x)
x.sum()
x.sum(axis=1)
x.prod(axis=1)
x.mean(axis=0)
x.max(axis=1)
x.std()
x.var(axis=0)
x.argmax(axis=1)
x.cumsum()
np.sort(x, axis=0)
np.argsort(x, axis=1, kind='stable')
np.median(x)
np.sqrt(abs(x))
np.exp(x / 4)
np.square(x)
np.round(x * 1)
x ** 2
x * 2.5
x / 2
x // 2
x % 3
x > 1
x != x[0]
x < 300
x > -200
np.where(x > 1, x, 0)
np.clip(x, 0, 3)
np.minimum(x, x[::-1])
x @ x.T
np.dot(x, x[0])
np.outer(x[0], x[1])
np.einsum('ij,kj->ik', x, x)
np.diff(x)
np.any(x)
np.count_nonzero(x)
np.pad(x, 1)
np.repeat(x, [1, 0, 2], axis=0)
np.trace(x)
np.tril(x)
np.isin(x, [1, 2])
x.astype(bool)
np.linalg.norm(x)
np.logical_and(x, x[0])
np.cumprod(x[:, :2], axis=1)
np.nan_to_num(x)
np.full_like(x, 3)
x[::-1, [0, 2]]
np.searchsorted(np.sort(x[0]), x[1])
np.interp(x, [0, 1], [0, 2])
divmod(x, 3)
np.cov(x)
np.arctan2(x, 2)
np.signbit(x)
np.kron(x[:2, :2], x)
np.copysign(x, -1)
np.heaviside(x, 1)
np.float_power(abs(x), 2)
np.power(abs(x), 2)
""".strip().splitlines()
TWO = """
x + y
x - y * 1
x * y
x / (y * y + 1)
x // (y * y + 1)
x % (y * y + 1)
x < y
x == y
np.maximum(x, y)
np.where(x > 1, x, y)
np.concatenate([x, y])
np.stack([x, y])
x @ y.T
np.arctan2(x, y)
np.logical_xor(x, y)
np.append(x, y)
np.inner(x, y)
np.isin(x, y)
np.copysign(x, y)
np.power(abs(x) + 1, abs(y) % 3)
np.convolve(x[0], y[0])
np.average(x, weights=y * y + 1)
np.cov(x[0], y[0])
np.block([[x, y], [y, x]])
""".strip().splitlines()


def values(dtype: str) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(5)
    if dtype == "?":
        return generator.random((3, 4)) > 0.5
    if dtype in FLOATS:
        return generator.normal(size=(3, 4)).astype(dtype)
    return generator.integers(0 if dtype in UNSIGNED else -9, 10, (3, 4)).astype(dtype)


def assert_same(source: str, dtypes: tuple[str, ...]) -> None:
    arrays = [values(dtype) for dtype in dtypes]
    function = eval(f"lambda {', '.join('xy'[: len(arrays)])}: {source}", {"np": np})
    try:
        with np.errstate(all="ignore"):
            wanted = function(*arrays)
    except TypeError:  # as of booleans, which NumPy does not subtract
        return
    found = tileir.evaluate(function, arrays)
    half = "f2" in dtypes
    for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, wanted)), strict=True):
        assert one.shape == np.shape(other), source
        assert one.dtype.kind == np.asarray(other).dtype.kind, source
        relative, absolute = (2e-2, 1e-2) if np.asarray(other).dtype == np.float16 or half else (5e-5, 5e-6)
        np.testing.assert_allclose(one.astype("f8"), np.asarray(other, "f8"), relative, absolute, err_msg=source)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["?", *FLOATS, *SIGNED, *UNSIGNED])
def test_expressions_of_one_array(dtype: str) -> None:
    for source in ONE:
        assert_same(source, (dtype,))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("left", "right"), list(itertools.product(("?", *FLOATS, *SIGNED, *UNSIGNED), repeat=2)))
def test_expressions_of_two_arrays(left: str, right: str) -> None:
    for source in TWO:
        if not (source.startswith("np.power") and {left, right} == {"?"}):  # which of booleans is i8
            assert_same(source, (left, right))
