"""Rows of special functions, whose answers are mpmath's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from mpmath import mp  # type: ignore[import-untyped]

from fuzz.wide.pointwise import real
from fuzz.wide.row import TAME, Arguments, Array, Draw, Row

_DIGITS: Final = 40
_HUGE: Final = mp.mpf(10) ** 4000
"""More than any float is, of extended precision as well."""


def exactly(function: Callable[..., Any]) -> Callable[..., Array]:
    """Return a function of numbers of mpmath as one of arrays: NaN where there is no real number."""

    def one(*numbers: Any) -> Any:
        if any(map(np.isnan, numbers)):
            return np.longdouble("nan")
        with mp.workdps(_DIGITS):
            try:
                found = mp.mpmathify(function(*(mp.mpf(str(number)) for number in numbers)))
            except (ValueError, ZeroDivisionError, mp.NoConvergence):
                return np.longdouble("nan")
            if isinstance(found, mp.mpc) or mp.isnan(found):
                return np.longdouble("nan")
            if abs(found) > _HUGE:
                return np.longdouble("inf") if found > 0 else -np.longdouble("inf")
            return np.longdouble(mp.nstr(found, 25) if abs(found) > 1 / _HUGE else 0)

    return lambda *arrays: np.asarray(np.frompyfunc(one, len(arrays), 1)(*map(real, arrays))).astype(np.longdouble)


def log_gamma(x: Any) -> Any:
    """Return the logarithm of the magnitude of the gamma function."""
    if x == mp.floor(x) and x <= 0:
        return mp.inf
    return mp.loggamma(x) if x > 0 else mp.log(mp.pi / abs(mp.sinpi(x))) - mp.loggamma(1 - x)


def psi(n: int) -> Callable[[Any], Any]:
    """Return a derivative of the logarithm of the gamma function; at poles of even order it is infinite."""

    def function(x: Any) -> Any:
        if x == mp.floor(x) and x <= 0:
            return mp.nan if n == 0 and x else -mp.inf if n % 2 == 0 else mp.inf
        return mp.psi(n, x)

    return function


def scaled_erfc(x: Any) -> Any:
    """Return ``exp(x²) erfc(x)``."""
    with mp.workdps(80):
        return mp.exp(x * x) * mp.erfc(x) if abs(x) < 1e4 else 1 / (x * mp.sqrt(mp.pi)) if x > 0 else mp.inf


def log_normal(x: Any) -> Any:
    """Return the logarithm of the distribution function of the normal distribution."""
    half = mp.erfc(abs(x) / mp.sqrt(2)) / 2
    return mp.log1p(-half) if x > 0 else mp.log(half)


def quantile(p: Any) -> Any:
    """Return the quantile of the normal distribution."""
    if not 0 < p < 1:
        return mp.nan if p not in (0, 1) else mp.inf if p else -mp.inf
    with mp.workdps(60):
        return mp.sqrt(2) * mp.erfinv(2 * p - 1)


def regular(function: Callable[[Any], Any], at_zero: Any) -> Callable[[Any], Any]:
    """Return a function for positive numbers, with its limit at 0."""
    return lambda x: mp.nan if x < 0 else at_zero if x == 0 else function(x)


UNARY: Final[dict[str, Callable[[Any], Any]]] = {
    "bessel_i0": lambda x: mp.besseli(0, x),
    "bessel_i0e": lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
    "bessel_i1": lambda x: mp.besseli(1, x),
    "bessel_i1e": lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
    "bessel_j0": lambda x: mp.besselj(0, x),
    "bessel_j1": lambda x: mp.besselj(1, x),
    "bessel_k0": regular(lambda x: mp.besselk(0, x), mp.inf),
    "bessel_k0e": regular(lambda x: mp.besselk(0, x) * mp.exp(x), mp.inf),
    "bessel_k1": regular(lambda x: mp.besselk(1, x), mp.inf),
    "bessel_k1e": regular(lambda x: mp.besselk(1, x) * mp.exp(x), mp.inf),
    "bessel_y0": regular(lambda x: mp.bessely(0, x), -mp.inf),
    "bessel_y1": regular(lambda x: mp.bessely(1, x), -mp.inf),
    "digamma": psi(0),
    "erfc": mp.erfc,
    "erfcx": scaled_erfc,
    "erfinv": lambda x: mp.erfinv(x) if abs(x) < 1 else mp.inf * x if abs(x) == 1 else mp.nan,
    "lgamma": log_gamma,
    "log_ndtr": log_normal,
    "ndtri": quantile,
    "spherical_bessel_j0": lambda x: mp.sin(x) / x if x else mp.mpf(1),
}
"""Special functions of one number, as mpmath has them."""

_WAVES: Final = frozenset({"bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "digamma", "lgamma", "log_ndtr"})
"""Functions with zeros, near which what is added up stays about 1."""


def _row(name: str) -> Row:
    among = "probability" if name in ("ndtri", "erfinv") else "any"

    def draw(draw: Draw) -> Arguments:
        return [draw.tensor(draw.shape(), among)], {}

    terms = (lambda x: 0 * x + 1) if name in _WAVES else None
    return Row(name, draw, exactly(UNARY[name]), pointwise=True, flavours=TAME, units=16, terms=terms)


def _polygamma(draw: Draw) -> Arguments:
    return [draw.integer(0, 4), draw.tensor(draw.shape())], {}


def _zeta(draw: Draw) -> Arguments:
    return [draw.pick((2, 3, 1, 0.5, 7)), draw.tensor(draw.shape())], {}


def hurwitz(s: float) -> Callable[[Any], Any]:
    """Return the zeta function of an exponent, of which no power of a negative number is complex."""

    def function(q: Any) -> Any:
        if s <= 1:
            return mp.nan if s < 1 else mp.inf
        if q <= 0 and q == mp.floor(q):
            return mp.inf
        if q < 0 and s != int(s):
            return mp.nan
        return mp.psi(int(s) - 1, q) * (-1) ** int(s) / mp.factorial(int(s) - 1) if s == int(s) else mp.zeta(s, q)

    return function


def _polynomial(draw: Draw) -> Arguments:
    return [draw.tensor(draw.shape()), draw.integer(0, 5)], {}


POLYNOMIALS: Final[dict[str, Callable[[Any, int], Any]]] = {
    "chebyshev_polynomial_t": lambda x, n: mp.chebyt(n, x),
    "chebyshev_polynomial_u": lambda x, n: mp.chebyu(n, x),
    "chebyshev_polynomial_v": lambda x, n: mp.chebyu(n, x) - (mp.chebyu(n - 1, x) if n else 0),
    "chebyshev_polynomial_w": lambda x, n: mp.chebyu(n, x) + (mp.chebyu(n - 1, x) if n else 0),
    "hermite_polynomial_h": lambda x, n: mp.hermite(n, x),
    "hermite_polynomial_he": lambda x, n: mp.hermite(n, x / mp.sqrt(2)) / mp.sqrt(2) ** n,
    "laguerre_polynomial_l": lambda x, n: mp.laguerre(n, 0, x),
    "legendre_polynomial_p": lambda x, n: mp.legendre(n, x),
}
"""Orthogonal polynomials of a number and a degree, as mpmath has them."""


def _polynomial_row(name: str) -> Row:
    function = POLYNOMIALS[name]
    return Row(
        name,
        _polynomial,
        lambda x, n: exactly(lambda each: function(each, n))(x),
        pointwise=True,
        flavours=TAME,
        units=16,
        terms=lambda x, n: 8 * (1 + 2 * abs(x)) ** n,
    )


ROWS_SPECIAL: Final = (
    *map(_row, UNARY),
    *map(_polynomial_row, POLYNOMIALS),
    Row(
        "polygamma",
        _polygamma,
        lambda n, x: exactly(psi(n))(x),
        pointwise=True,
        flavours=TAME,
        units=16,
        terms=lambda n, x: 0 * x + 1,
    ),
    Row("zeta", _zeta, lambda s, q: exactly(hurwitz(s))(q), pointwise=True, flavours=TAME, units=16),
)
