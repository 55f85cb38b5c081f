"""Statistics, bits and positions of NumPy on tensors, beside NumPy's own on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import tileir

if TYPE_CHECKING:
    from collections.abc import Callable

R = np.random.default_rng(0)
X = R.normal(size=(5, 7)).astype("f4")
GAPS = np.where(R.random((5, 7)) < 0.4, np.float32(np.nan), X)
GAPS[2] = np.nan
ANGLES = np.cumsum(R.normal(size=(3, 20)) * 3, 1).astype("f4")
INTEGERS = R.integers(-20, 20, (4, 9))
SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, -1.5], "f4")
MANY = R.normal(size=1000).astype("f4")

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        f"nanmedian over {axis}": (lambda x, axis=axis: np.nanmedian(x, axis=axis, keepdims=True), (GAPS,))
        for axis in (None, 0, -1, (0, 1))
    },
    **{
        f"nanquantile {method}": (lambda x, m=method: np.nanquantile(x, [0, 0.3, 0.5], axis=1, method=m), (GAPS,))
        for method in ("linear", "lower", "higher", "nearest", "midpoint")
    },
    "nanpercentile of f64": (lambda x: np.nanpercentile(x, 30, axis=0), (GAPS.astype("f8"),)),
    "nanmedian of integers": (lambda x: np.nanmedian(x, axis=0), (INTEGERS,)),
    "unwrap": (np.unwrap, (ANGLES,)),
    "unwrap of half turns": (np.unwrap, (np.array([0, np.pi, 2 * np.pi, -np.pi, 0]),)),
    "unwrap along the first axis": (lambda x: np.unwrap(x, discont=4.0, axis=0), (ANGLES,)),
    **{f"unwrap by {n}": (lambda x, n=n: np.unwrap(x, period=n), (INTEGERS,)) for n in (6, 5, 4.5)},
    "histogram": (np.histogram, (MANY,)),
    "histogram in a range": (lambda x: np.histogram(x, 7, range=(-1, 1)), (SPECIAL,)),
    "histogram between ends": (lambda x: np.histogram(x, [-1, 0, 0, 0.5, 2]), (MANY,)),
    "histogram as a density": (lambda x: np.histogram(x, 5, density=True), (INTEGERS,)),
    "histogram of weights": (lambda x, w: np.histogram(x, 6, weights=w), (MANY, R.random(1000))),
    "histogram of integral weights": (lambda x, w: np.histogram(x, 6, weights=w), (MANY, R.integers(-4, 9, 1000))),
    "histogram of equal elements": (lambda x: np.histogram(x, 4), (np.full(5, 3, "f4"),)),
    "histogram of nothing": (lambda x: np.histogram(x, 4), (np.zeros(0, "f4"),)),
    "lexsort": (lambda a, b, c: np.lexsort((a, b, c)), tuple(R.integers(0, 3, (3, 50)))),
    "lexsort of rows": (np.lexsort, (R.integers(0, 3, (3, 9)),)),
    "lexsort down columns": (lambda a, b: np.lexsort((a, b), axis=0), tuple(R.integers(0, 3, (2, 9, 4)))),
    **{
        f"bitwise_count {dtype}": (
            np.bitwise_count,
            (np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 45], dtype),),
        )
        for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
    },
    **{
        f"{name} of floats": (getattr(np, name), (SPECIAL,))
        for name in ("angle", "fix", "isposinf", "isneginf", "isreal", "imag", "iscomplex")
    },
    **{
        f"{name} of integers": (getattr(np, name), (INTEGERS,))
        for name in ("angle", "fix", "isposinf", "isneginf", "isreal", "imag", "iscomplex")
    },
    "angle in degrees": (lambda x: np.angle(x, deg=True), (X,)),
    "ldexp by a number": (lambda x: np.ldexp(x, 3), (X.astype("f2"),)),
    "ldexp of a number": (lambda n: np.ldexp(1.5, n), (np.arange(-10, 10, dtype="i4"),)),
    "fftshift": (np.fft.fftshift, (X,)),
    "ifftshift": (np.fft.ifftshift, (X,)),
    "ifftshift of an axis": (lambda x: np.fft.ifftshift(x, axes=0), (X,)),
    **{
        f"delete {key}": (lambda x, key=key: (np.delete(x, key), np.delete(x, key, axis=1)), (X,))
        for key in (0, -1, [0, 2], slice(None, None, 2), [])
    },
    "matvec": (np.matvec, (R.normal(size=(2, 3, 4)), R.normal(size=4))),
    "vecmat": (np.vecmat, (R.normal(size=(2, 3)), R.normal(size=(2, 3, 4)))),
    "unravel_index": (lambda x: np.unravel_index(x, (3, 4, 5)), (R.integers(0, 60, (3, 4)),)),
    "unravel_index along one axis": (lambda x: np.unravel_index(x, 60), (R.integers(0, 60, 4),)),
    "ravel_multi_index": (lambda a, b: np.ravel_multi_index((a, b), (5, 6)), tuple(R.integers(0, 5, (2, 9)))),
}


@pytest.mark.filterwarnings("ignore:All-NaN", "ignore:numpy.fix")
@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    function, arrays = CASES[name]
    found, right = tileir.jit(function)(*arrays), function(*arrays)
    pairs = zip(found, right, strict=True) if isinstance(right, tuple) else [(found, right)]
    for got, want in pairs:
        assert np.shape(got) == np.shape(want)
        np.testing.assert_allclose(np.float64(got), np.float64(want), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_ldexp_rounds_once(dtype: str) -> None:
    tens = R.integers(-4 if dtype == "f2" else -30, 4 if dtype == "f2" else 30, 400)
    x = np.concatenate([R.normal(size=400) * 10.0**tens, SPECIAL]).astype(dtype)
    n = np.append(R.integers(-300, 300, x.size - 2), [5000, -5000]).astype("i4")
    found = tileir.jit(lambda x, n: np.ldexp(x, n))(x, n)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, np.ldexp(x, n))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.histogram(x, "auto"), "depends on values"),
        (lambda x: np.histogram(x, 0), "bins are a positive number"),
        (lambda x: np.histogram(x, [2, 1]), "ascending order, not \\[2, 1\\]"),
        (np.bitwise_count, "needs integers"),
        (lambda x: np.gcd(x, x), "tileir.while_loop"),
        (lambda x: np.delete(x, 9, axis=0), "index 9 is out of bounds"),
        (lambda x: np.delete(x, x), "known while the function is built"),
        (np.fft.rfft, "no complex numbers"),
        (lambda x: np.unwrap(x, axis=3), "the axis is 3"),
        (lambda x: np.ravel_multi_index((x, x), (5,)), "2 positions do not fit 1 axes"),
        (lambda x: np.put_along_axis(x, x, 0, 0), "x.at\\[key\\].set"),
        (lambda x: np.apply_along_axis(np.sum, 0, x), "tileir.vmap"),
    ],
)
def test_errors_say_what_to_change(function: Callable[..., object], message: str) -> None:
    with pytest.raises(tileir.TileError, match=message):
        tileir.jit(cast("Any", function))(X)
