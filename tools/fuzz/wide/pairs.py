"""Rows of operations on elements at the same place of two tensors, or three."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fuzz.wide.closeness import compare
from fuzz.wide.pointwise import converted, logical_of, real
from fuzz.wide.row import ALL, FLOATS, INTEGERS, TAME, Arguments, Array, Draw, Row


def floored(x: Array, y: Array) -> Array:
    """Return the quotient rounded down, exactly; of integers by 0 it is 0."""
    if x.dtype != np.longdouble:
        return np.where(y == 0, 0, x // np.where(y == 0, 1, y))
    rest = np.fmod(x, y)
    rest = np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
    whole = np.round((x - rest) / y)
    return np.where(
        y == 0, x / y, np.where(np.isinf(y) & np.isfinite(x), np.where((x < 0) == (y < 0), 0, -1) * (x != 0), whole)
    )


def powered(x: Array, y: Array) -> Array:
    """Return a power."""
    return real(x) ** real(y)


def _binary(name: str, oracle: Callable[..., Any], among: str = "any", **more: Any) -> Row:
    def draw(draw: Draw) -> Arguments:
        shape = draw.shape()
        return [draw.tensor(shape, among), draw.partner(shape, among)], {}

    return Row(name, draw, oracle, **{"pointwise": True, **more})


def _where(draw: Draw) -> Arguments:
    shape = draw.shape()
    condition = draw.tensor(shape, "zeros", draw.pick(("bool", "i8", "f16")))
    return [condition, draw.partner(shape), draw.partner(shape)], {}


def _masked_fill(draw: Draw) -> Arguments:
    shape = draw.shape()
    return [draw.tensor(shape), draw.tensor(shape, "zeros", "bool"), draw.pick((0, 1, 3.5))], {}


def _lerp(draw: Draw) -> Arguments:
    shape = draw.shape()
    weight = draw.partner(shape) if draw.flag() else draw.pick((0.5, 0.25, 2))
    return [draw.tensor(shape), draw.partner(shape), weight], {}


def _isclose(draw: Draw) -> Arguments:
    shape = draw.shape()
    return [draw.tensor(shape), draw.tensor(shape)], {
        "rtol": draw.pick((0.0, 0.125)),
        "atol": draw.pick((0.5, 0.0, 1.0)),
    }


def _close(x: Array, y: Array, rtol: float, atol: float) -> Array:
    x, y = real(x), real(y)
    return np.asarray((x == y) | ((np.abs(x - y) <= atol + rtol * np.abs(y)) & np.isfinite(y)))


def _holds_close(found: Sequence[Array], x: Array, y: Array, rtol: float, atol: float) -> None:
    """Check for closeness but where both sides are as good as equal: each is rounded, in f32 at least."""
    with np.errstate(invalid="ignore"):  # infinities
        wanted = _close(x, y, rtol, atol)
        x, y = real(x), real(y)
        allowed = atol + rtol * np.abs(y)
        beyond = np.abs(np.abs(x - y) - allowed)
    doubtful = (beyond > 0) & (beyond <= 2.0**-22 * allowed + 2.0**-149) & (x != y)
    sure = np.asarray(np.where(doubtful, wanted, found[0]))
    compare("closeness", sure, wanted, units=0, terms=0, exact=True)


def _xlogy(x: Array, y: Array) -> Array:
    return np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y))


def _hyperbolic(x: Array, y: Array) -> Array:
    return np.where(np.isinf(x) | np.isinf(y), np.inf, np.hypot(real(x), real(y)))


def _angle(y: Array, x: Array) -> Array:
    return np.arctan2(real(y) + 0.0, real(x) + 0.0)


ROWS_PAIRS: Final = (
    _binary("atan2", _angle, units=8, terms=lambda y, x: 0 * (y + x) + 4),
    _binary("copysign", lambda x, y: np.where(y < 0, -abs(x), abs(x)), exact=True, flavours=TAME),
    _binary("gcd", np.gcd, dtypes=("i16", "i32", "i64", "u32"), exact=True),
    _binary("lcm", np.lcm, dtypes=("i32", "i64"), exact=True),
    _binary("floor_divide", floored, dtypes=("i8", "u8", "i16", "i32", "u32", "f32"), units=1, constant="*"),
    _binary("fmod", np.fmod, exact=True, flavours=TAME, constant="*"),
    _binary(
        "remainder",
        lambda x, y: np.where(np.isinf(y), np.nan, np.mod(x, y)),
        flavours=TAME,
        constant="*",
        terms=lambda x, y: abs(y),
    ),
    _binary("hypot", _hyperbolic, units=8, dtypes=(*FLOATS, "i8")),
    _binary("logaddexp", lambda x, y: np.logaddexp(real(x), real(y)), units=8, terms=lambda x, y: abs(x) + abs(y) + 1),
    _binary("maximum", np.maximum, dtypes=ALL[:4] + INTEGERS, exact=True),
    _binary("minimum", np.minimum, dtypes=ALL[:4] + INTEGERS, exact=True),
    _binary("xlogy", _xlogy, units=8, terms=lambda x, y: abs(x)),
    _binary("pow", powered, "positive", units=32, terms=lambda x, y: 4 * abs(y * np.log(x)) * x**y),
    *(
        _binary(name, getattr(np, name), dtypes=ALL, exact=True)
        for name in ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
    ),
    *(
        _binary(name, logical_of(getattr(np, name)), dtypes=ALL, exact=True)
        for name in ("logical_and", "logical_or", "logical_xor")
    ),
    Row("isclose", _isclose, _close, (*FLOATS, *INTEGERS), holds=_holds_close),
    Row(
        "lerp",
        _lerp,
        lambda x, y, w: x + w * (real(y) - x),
        pointwise=True,
        terms=lambda x, y, w: abs(x) + abs(w) * (abs(x) + abs(y)),
        flavours=TAME,
    ),
    Row("where", _where, lambda c, x, y: np.where(c != 0, x, y), ALL, exact=True, pointwise=True),
    Row(
        "masked_fill",
        _masked_fill,
        lambda x, m, value: np.where(
            m, converted(np.asarray(value), x.dtype.name) if x.dtype == bool else np.asarray(value).astype(x.dtype), x
        ),
        ALL,
        exact=True,
        pointwise=True,
    ),
)
