"""Special functions and their gradients against mpmath: near zeros, poles and borders of series, and far out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from fuzz.wide.closeness import compare, sensitivity
from fuzz.wide.special import POLYNOMIALS, UNARY, exactly, hurwitz, psi
from strategies.operations import fault_of, run
from tileir import ops
from tileir.tile.builder_functions import gradient

SAMPLE: Final = np.array(
    [
        1e-30,
        1e-5,
        0.01,
        0.3,
        0.42,
        0.5,
        0.7,
        0.99,
        1,
        1.0001,
        1.4616,
        1.9,
        2,
        2.405,
        3.5,
        5.5,
        7.99,
        8,
        8.01,
        10,
        12,
        31,
        70,
    ]
)
"""Magnitudes around which functions have zeros, or are computed in another way."""

POINTS: Final = np.concatenate([SAMPLE, -SAMPLE, -SAMPLE[3:13] - 0.1, [0.0]])


def compared(function: Callable[..., Any], oracle: Callable[..., Any], points: Any, dtype: Any, units: float) -> None:
    """Compare where results are finite; they may be off by roundings, and by what roundings of arguments change."""
    x = points.astype(dtype)
    wanted, found = oracle(x.astype(np.longdouble)), run(function, x)
    assert found.dtype == dtype
    with np.errstate(invalid="ignore", over="ignore"):
        sure = np.isfinite(wanted.astype(dtype)) & np.isfinite(x)
        others = ~np.isfinite(wanted)
        np.testing.assert_array_equal(found[others & (abs(x) > 0)], wanted[others & (abs(x) > 0)].astype(dtype))
    near = sensitivity(lambda each: (oracle(*each),), [x[sure].astype(np.longdouble)], step=2.0**-40)[0]
    slack = near * np.finfo(dtype).eps * 4
    compare("result", found[sure], wanted[sure], units=units, terms=0.0, exact=False, slack=slack)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_values(name: str, dtype: Any) -> None:
    compared(getattr(ops, name), exactly(UNARY[name]), POINTS, dtype, 16)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", UNARY)
def test_gradients(name: str) -> None:
    step, function = np.longdouble(2.0**-22), exactly(UNARY[name])
    points = np.array([0.21, 0.47, 0.73, 0.96, 1.7, 2.9, 8.5, 11.3, -0.21, -0.47, -0.73, -1.7, -2.2])
    wide = points.astype(np.longdouble)
    with np.errstate(invalid="ignore"):
        near, far = (function(wide + h * wide) - function(wide - h * wide) for h in (step, 2 * step))
        wanted = (8 * near - far) / (12 * step * wide)  # from four values: its error is that of the fifth derivative
    found = run(lambda x: gradient(getattr(ops, name)(x), x), points)
    sure = np.isfinite(wanted)
    assert sure.sum() >= 4
    np.testing.assert_allclose(found[sure], wanted[sure].astype(np.float64), rtol=1e-9, atol=1e-12)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", UNARY)
def test_halves_are_rounded_once(name: str) -> None:
    x = np.array([0.25, 0.75, 3.5], np.float16)
    wanted = exactly(UNARY[name])(x.astype(np.longdouble)).astype(np.float16)
    np.testing.assert_allclose(run(getattr(ops, name), x), wanted, rtol=2**-10)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_derivatives_of_digamma(n: int, dtype: Any) -> None:
    compared(lambda x: ops.polygamma(n, x), exactly(psi(n)), POINTS, dtype, 16)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("s", [0.5, 1, 1.25, 2, 3, 8.5, 30])
def test_zeta(s: float, dtype: Any) -> None:
    compared(lambda q: ops.zeta(s, q), exactly(hurwitz(s)), POINTS, dtype, 16)


def test_gradients_of_zeta_and_polygamma() -> None:
    x = np.array([0.3, 1.5, 20.0, -1.3])
    found = run(lambda q: gradient(ops.zeta(3, q), q), x)
    np.testing.assert_allclose(found, -3 * run(lambda q: ops.zeta(4, q), x), rtol=1e-14)
    s = np.array([2.0, 3.5])
    found = run(lambda s, q: gradient(ops.sum(ops.zeta(s, q)), q), s, np.array(1.5))
    np.testing.assert_allclose(found, -sum(s * run(lambda s: ops.zeta(s + 1, 1.5 * ops.ones_like(s)), s)), rtol=1e-14)
    np.testing.assert_array_equal(
        run(lambda s: ops.zeta(s, 1.5), s), run(lambda s: ops.zeta(s, ops.full_like(s, 1.5)), s)
    )
    found = run(lambda q: gradient(ops.polygamma(2, q), q), x)
    np.testing.assert_allclose(found, run(lambda q: ops.polygamma(3, q), x), rtol=1e-14)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str, n: int) -> None:
    function = POLYNOMIALS[name]
    x = np.array([-3.0, -1, -0.6, 0, 0.3, 0.999, 1.01, 2.5])  # mpmath has no Laguerre polynomial at its zero 1
    wanted = exactly(lambda each: function(each, n))(x.astype(np.longdouble)).astype(np.float64)
    np.testing.assert_allclose(run(lambda x: getattr(ops, name)(x, n), x), wanted, rtol=1e-13, atol=1e-13)


def test_degrees_of_elements_differ() -> None:
    x, n = np.array([[0.5], [3.0]]), np.array([-1, 0, 1, 2, 9], np.int32)
    wanted = [
        [0 if k < 0 else float(exactly(lambda v, k=k: POLYNOMIALS["legendre_polynomial_p"](v, int(k)))(v)) for k in n]
        for v in x[:, 0]
    ]
    np.testing.assert_allclose(run(ops.legendre_polynomial_p, x, n), wanted, rtol=1e-14)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("function", "points", "wanted"),
    [
        (ops.lgamma, [0, -2, math.inf, -math.inf, math.nan], [math.inf] * 4 + [math.nan]),
        (ops.digamma, [0, -2, math.inf, math.nan], [-math.inf, math.nan, math.inf, math.nan]),
        (ops.erfinv, [1, -1, 1.5, -2, math.nan], [math.inf, -math.inf, math.nan, math.nan, math.nan]),
        (ops.ndtri, [0, 1, -0.5, 2, math.nan], [-math.inf, math.inf, math.nan, math.nan, math.nan]),
        (ops.erfc, [math.inf, -math.inf, math.nan], [0, 2, math.nan]),
        (ops.erfcx, [math.inf, -math.inf, math.nan], [0, math.inf, math.nan]),
        (ops.log_ndtr, [math.inf, -math.inf, math.nan], [0, -math.inf, math.nan]),
        (ops.bessel_j0, [math.inf, -math.inf, math.nan], [0, 0, math.nan]),
        (ops.bessel_y1, [0, -1, math.inf, math.nan], [-math.inf, math.nan, 0, math.nan]),
        (ops.bessel_i0, [math.inf, -math.inf, math.nan], [math.inf, math.inf, math.nan]),
        (ops.bessel_i1e, [math.inf, -math.inf, math.nan], [0, 0, math.nan]),
        (ops.bessel_k1, [0, -1, math.inf, math.nan], [math.inf, math.nan, 0, math.nan]),
        (ops.spherical_bessel_j0, [math.inf, 0, math.nan], [0, 1, math.nan]),
    ],
)
def test_ends(function: Callable[..., Any], points: list[float], wanted: list[float]) -> None:
    np.testing.assert_array_equal(run(function, np.array(points)), wanted)


def test_mistakes() -> None:
    code, message = fault_of(lambda: run(lambda x: ops.polygamma(-1, x), np.ones(2)), __file__)
    assert code == "TIL217"
    assert message == "the order of polygamma is at least 0, not -1"
