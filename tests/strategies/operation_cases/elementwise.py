"""Cases of elementwise functions. What Tile has by itself is tested there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strategies.operations import Array, Case, integers, sample
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

_X: Final = sample(3, 5)
_POSITIVE: Final = sample(3, 5, low=0.1, high=3)
_ROW: Final = sample(5, low=-3, high=3, seed=1)
_TINY: Final = np.array([0.0, 1e-9, -1e-9, 1e-5, -1e-5, 0.3, -0.3, 2.0, 30.0, -0.99])
_FAR: Final = np.array([1.01, -1.5, 2.5, -300.0, 1e5, -1e20, 3e38])
_ODD: Final = np.array([0.0, np.nan, np.inf, -np.inf, 1.0])
_WHOLE: Final = integers(4, 5)
_DIVISOR: Final = np.array([3, -3, 1, -2, 5], np.int32)
_POINTS: Final = np.array([[1.0, 1, -1, -1, 0, 0, 3, -2], [1.0, -1, 1, -1, 2, -2, 0, 0]])


def _one(
    name: str,
    build: Callable[..., Any],
    numpy: Callable[..., Any],
    torch: Callable[..., Any] | None = None,
    x: Array = _X,
    wrt: tuple[str, ...] | None = None,
) -> Case:
    return Case(name, build, {"X": x}, numpy, torch, wrt)


def _two(
    name: str,
    build: Callable[..., Any],
    numpy: Callable[..., Any],
    torch: Callable[..., Any] | None = None,
    x: Array = _X,
    y: Array = _ROW,
    wrt: tuple[str, ...] | None = None,
) -> Case:
    return Case(name, build, {"X": x, "Y": y}, numpy, torch, wrt)


def _sinc_near_zero(x: Any) -> Any:
    """Return the series of ``sin(π x) / (π x)``, exact up to 1e-5: PyTorch's gradient of its own loses digits there."""
    squares = (math.pi * x) ** 2
    return 1 - squares / 6 + squares**2 / 120


_UNARY: Final = (
    _one("square", ops.square, np.square, lambda torch, x: torch.square(x)),
    _one("reciprocal", ops.reciprocal, np.reciprocal, lambda torch, x: torch.reciprocal(x), _POSITIVE),
    _one("exp2", ops.exp2, np.exp2, lambda torch, x: torch.exp2(x)),
    _one("expm1", ops.expm1, np.expm1, lambda torch, x: torch.expm1(x), _TINY),
    _one("log1p", ops.log1p, np.log1p, lambda torch, x: torch.log1p(x), _TINY),
    _one("log1p_at_the_ends", ops.log1p, np.log1p, None, np.array([-1.0, np.inf, -2.0, np.nan, 0.0]), ()),
    _one("log2", ops.log2, np.log2, lambda torch, x: torch.log2(x), _POSITIVE),
    _one("log10", ops.log10, np.log10, lambda torch, x: torch.log10(x), _POSITIVE),
    _one("logit", ops.logit, lambda p: np.log(p / (1 - p)), lambda torch, x: torch.logit(x), _POSITIVE / 4),
    _one("erfc", ops.erfc, lambda x: 1 - np.vectorize(math.erf)(x), lambda torch, x: torch.erfc(x)),
    _one("asinh", ops.asinh, np.arcsinh, lambda torch, x: torch.asinh(x), _TINY),
    _one("acosh", ops.acosh, np.arccosh, lambda torch, x: torch.acosh(x), _POSITIVE + 1),
    _one("asinh_far_out", ops.asinh, np.arcsinh, lambda torch, x: torch.asinh(x), _FAR),
    _one("acosh_far_out", ops.acosh, np.arccosh, lambda torch, x: torch.acosh(x), np.abs(_FAR)),
    _one("acosh_at_the_ends", ops.acosh, np.arccosh, None, np.array([-1e30, -3, 0.5, 1, -np.inf, np.inf, np.nan]), ()),
    _one("atanh", ops.atanh, np.arctanh, lambda torch, x: torch.atanh(x), _TINY[[0, 1, 2, 3, 4, 5, 6, 9]]),
    _one("sinc", ops.sinc, np.sinc, lambda torch, x: torch.sinc(x), _TINY[[0, 5, 6, 7]]),
    _one("sinc_near_zero", ops.sinc, np.sinc, lambda _, x: _sinc_near_zero(x), _TINY[:5]),
    _one("deg2rad", ops.deg2rad, np.deg2rad, lambda torch, x: torch.deg2rad(x)),
    _one("rad2deg", ops.rad2deg, np.rad2deg, lambda torch, x: torch.rad2deg(x)),
    _one("frac", ops.frac, lambda x: x - np.trunc(x), lambda torch, x: torch.frac(x)),
    _one("isnan", ops.isnan, np.isnan, lambda torch, x: torch.isnan(x), _ODD, ()),
    _one("isinf", ops.isinf, np.isinf, lambda torch, x: torch.isinf(x), _ODD, ()),
    _one("isfinite", ops.isfinite, np.isfinite, lambda torch, x: torch.isfinite(x), _ODD, ()),
    _one("isfinite_of_integers", ops.isfinite, np.isfinite, None, _WHOLE),
    _one(
        "nan_to_num",
        lambda x: ops.nan_to_num(x, nan=5.0, posinf=7.0, neginf=-7.0),
        lambda x: np.nan_to_num(x, nan=5.0, posinf=7.0, neginf=-7.0),
        lambda torch, x: torch.nan_to_num(x, 5.0, 7.0, -7.0),
        _ODD,
        (),
    ),
    _one("clip", lambda x: ops.clip(x, -1, 0.5), lambda x: np.clip(x, -1, 0.5), lambda _, x: x.clamp(-1, 0.5)),
    _one("clip_below", lambda x: ops.clip(x, -1), lambda x: np.maximum(x, -1), lambda _, x: x.clamp(min=-1)),
    _one(
        "clip_of_integers",
        lambda x: ops.clip(x, -1, 2),
        lambda x: np.clip(x, -1, 2),
        lambda _, x: x.clamp(-1, 2),
        _WHOLE,
    ),
    _one(
        "full_like",
        lambda x: ops.full_like(x, 2.5),
        lambda x: np.full_like(x, 2.5),
        lambda torch, x: torch.full_like(x, 2.5),
        wrt=(),
    ),
    _one("zeros_like", ops.zeros_like, np.zeros_like, None, _WHOLE),
    _one("ones_like", ops.ones_like, np.ones_like, None, _WHOLE),
    _one("cast", lambda x: ops.cast(x, "i32"), lambda x: x.astype(np.int32), None, _X, ()),
)

_BINARY: Final = (
    _two("maximum", ops.maximum, np.maximum, lambda torch, x, y: torch.maximum(x, y)),
    _two("minimum", ops.minimum, np.minimum, lambda torch, x, y: torch.minimum(x, y)),
    _two("logaddexp", ops.logaddexp, np.logaddexp, lambda torch, x, y: torch.logaddexp(x, y), _X * 40, _ROW),
    _two("logaddexp_of_equals", ops.logaddexp, np.logaddexp, lambda torch, x, y: torch.logaddexp(x, y), _ROW, _ROW),
    _two("logaddexp_of_infinities", ops.logaddexp, np.logaddexp, None, _ODD, _ODD[[0, 0, 2, 3, 3]], ()),
    _two(
        "xlogy",
        ops.xlogy,
        lambda x, y: np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, y))),
        lambda torch, x, y: torch.xlogy(x, y),
        np.array([0.0, 1.5, 2.0, 0.0]),
        np.array([3.0, 1.0, 0.5, 2.0]),
    ),
    _two(
        "xlogy_at_the_ends",
        ops.xlogy,
        lambda x, y: np.where((x == 0) & (y == y), 0, x * np.log(y)),
        lambda torch, x, y: torch.xlogy(x, y),
        np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, np.nan]),
        np.array([0.0, np.inf, np.nan, -1.0, 0.0, np.nan, 1.0]),
        (),
    ),
    _two("atan2", ops.atan2, np.arctan2, lambda torch, x, y: torch.atan2(x, y)),
    _two("atan2_on_axes", ops.atan2, np.arctan2, lambda torch, x, y: torch.atan2(x, y), *_POINTS),
    _two("atan2_far_out", ops.atan2, np.arctan2, None, _ODD[[2, 3, 0, 2, 0]], _ODD[[2, 2, 0, 4, 3]], ()),
    _two("hypot", ops.hypot, np.hypot, lambda torch, x, y: torch.hypot(x, y)),
    _two(
        "hypot_of_large", ops.hypot, np.hypot, None, np.array([3e30, 0, np.inf, 1]), np.array([4e30, 0, 1, -np.inf]), ()
    ),
    _two("fmod", ops.fmod, np.fmod, lambda torch, x, y: torch.fmod(x, y), _X * 3),
    _two("remainder", ops.remainder, np.mod, lambda torch, x, y: torch.remainder(x, y), _X * 3),
    _two("remainder_of_integers", ops.remainder, np.mod, lambda torch, x, y: torch.remainder(x, y), _WHOLE, _DIVISOR),
    _two(
        "floor_divide", ops.floor_divide, np.floor_divide, lambda torch, x, y: torch.floor_divide(x, y), _X * 3, wrt=()
    ),
    _two(
        "floor_divide_at_the_ends",
        ops.floor_divide,
        np.floor_divide,
        None,
        np.array([1.0, -1, 0, 1, -1, 1, np.nan, -7, 5, 1e30]),
        np.array([0.0, 0, 0, -np.inf, np.inf, np.inf, 1, 0.1, -0.1, 3]),
        (),
    ),
    _two("floor_divide_of_integers", ops.floor_divide, np.floor_divide, None, _WHOLE, _DIVISOR),
    _two("copysign", ops.copysign, np.copysign, lambda torch, x, y: torch.copysign(x, y), wrt=("X",)),
    _two("heaviside", ops.heaviside, np.heaviside, lambda torch, x, y: torch.heaviside(x, y), _ROW - _ROW[2], _ROW, ()),
    _two("isclose", ops.isclose, np.isclose, None, _ODD[[0, 2, 3, 4, 4]], np.array([1e-9, np.inf, np.inf, 1.1, 1]), ()),
    _two(
        "logical_and",
        ops.logical_and,
        np.logical_and,
        lambda torch, x, y: torch.logical_and(x, y),
        _WHOLE,
        _DIVISOR * 0,
    ),
    _two("logical_or", ops.logical_or, np.logical_or, lambda torch, x, y: torch.logical_or(x, y), _WHOLE, _DIVISOR * 0),
    _two("logical_xor", ops.logical_xor, np.logical_xor, lambda torch, x, y: torch.logical_xor(x, y), _WHOLE, _DIVISOR),
    *(
        _two(
            name,
            getattr(ops, name),
            getattr(np, name),
            lambda torch, x, y, n=short: getattr(torch, n)(x, y),
            _WHOLE,
            _DIVISOR,
        )
        for name, short in (
            ("equal", "eq"),
            ("not_equal", "ne"),
            ("less", "lt"),
            ("less_equal", "le"),
            ("greater", "gt"),
            ("greater_equal", "ge"),
        )
    ),
    Case(
        "lerp",
        ops.lerp,
        {"X": _X, "Y": _ROW, "W": sample(3, 1, low=0, high=1)},
        lambda x, y, w: x + w * (y - x),
        lambda torch, x, y, w: torch.lerp(x, y.expand(3, 5), w.expand(3, 5)),
    ),
)

CASES: Final = (*_UNARY, *_BINARY)
