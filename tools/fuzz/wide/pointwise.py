"""Rows of operations whose elements depend on those at the same place alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fuzz.wide.row import ALL, FLOATS, INTEGERS, TAME, Arguments, Array, Draw, Row
from tileir.core import DType

PI: Final = np.longdouble("3.14159265358979323846264338327950288")
E2: Final = np.log(np.longdouble(2))
_SIXTH: Final = 1 / np.longdouble(6)
E10: Final = np.log(np.longdouble(10))


def real(x: Array) -> Array:
    """Return floats of extended precision, of integers too."""
    return x if x.dtype == np.longdouble else x.astype(np.longdouble)


def erf(x: Array) -> Array:
    """Return the error function: its series of terms of one sign where they are few, else 1 less the rest."""
    near = np.clip(np.nan_to_num(real(x)), -3, 3)
    term, total = near, near
    for n in range(1, 90):
        term = term * 2 * near * near / (2 * n + 1)
        total = total + term
    series = 2 / np.sqrt(PI) * np.exp(-near * near) * total
    return np.where(np.isnan(x), np.nan, np.where(abs(x) <= 3, series, np.sign(x) * (1 - _beyond(abs(x)))))


def erfc(x: Array) -> Array:
    """Return 1 less the error function, without cancellation."""
    return np.where(x > 1, _beyond(x), 1 - erf(x))


def _beyond(x: Array) -> Array:
    """Return ``erfc(x)`` for x above 1 by its continued fraction."""
    x = np.clip(np.nan_to_num(real(x)), 1, 150)
    rest = np.zeros_like(x)
    for n in range(400, 0, -1):
        rest = n / 2 / (x + rest)
    return np.exp(-x * x) / np.sqrt(PI) / (x + rest)


def sigmoid(x: Array) -> Array:
    """Return the logistic function, without cancellation on either side."""
    small = np.exp(-np.abs(real(x)))
    return np.where(x < 0, small, 1) / (1 + small)


def softplus(x: Array) -> Array:
    """Return ``log(1 + exp(x))``."""
    return np.logaddexp(np.longdouble(0), real(x))


def elu(x: Array, alpha: Any = 1.0) -> Array:
    """Return the exponential linear unit."""
    return np.where(x > 0, real(x), alpha * np.expm1(np.minimum(real(x), 0)))


def gelu(x: Array, approximate: str = "none") -> Array:
    """Return the Gaussian error linear unit, or one of what it is approximated by."""
    if approximate == "tanh":
        return x * sigmoid(2 * np.sqrt(2 / PI) * (x + 0.044715 * x**3))
    return x * sigmoid(1.702 * x) if approximate == "sigmoid" else x * erfc(-x / np.sqrt(np.longdouble(2))) / 2


def relu(x: Array, alpha: float = 0, threshold: float = 0, max_value: float | None = None) -> Array:
    """Return the rectifier with all its options."""
    low = alpha * (x - threshold) if alpha else 0 * x.clip(-1, 1)
    result = np.where(x < threshold, low, x)
    return result if max_value is None else np.where(result >= max_value, max_value, result)


def converted(x: Array, dtype: str, *, saturate: bool = False) -> Array:
    """Return the conversion by the rules of Tile: floats become integers towards zero, within limits."""
    to = DType(dtype)
    if saturate:
        return np.clip(real(x), -to.format.largest, to.format.largest)
    if to.is_bool:
        return np.asarray(x != 0)
    if to.is_float:
        return real(x)
    if x.dtype != np.longdouble:
        return x.astype(to.numpy).astype(np.uint64 if to is DType.U64 else np.int64)
    inside = np.trunc(np.where(np.isnan(x), 0, np.clip(x, to.minimum, to.maximum)))
    return np.array([int(value) for value in inside.ravel()], object).reshape(x.shape)


def _unary(
    name: str,
    oracle: Callable[..., Any],
    among: str = "any",
    options: Callable[[Draw], dict[str, Any]] = lambda _: {},
    **more: Any,
) -> Row:
    def draw(draw: Draw) -> Arguments:
        return [draw.tensor(draw.shape(), among)], options(draw)

    return Row(name, draw, oracle, **{"pointwise": True, **more})


def _one_of(**choices: tuple[Any, ...]) -> Callable[[Draw], dict[str, Any]]:
    """Return what draws options, each of some values; None leaves it out."""

    def draw(draw: Draw) -> dict[str, Any]:
        drawn = {name: draw.pick(values) for name, values in choices.items()}
        return {name: value for name, value in drawn.items() if value is not None}

    return draw


def _discrete(name: str, oracle: Callable[..., Any], **more: Any) -> Row:
    return _unary(name, oracle, **{"exact": True, **more})


def _clip(draw: Draw) -> Arguments:
    bounds = [draw.pick((None, -0.5, 0, 1)), draw.pick((2, 0.5, -1.5, None))]
    return [draw.tensor(draw.shape()), *(bounds if bounds != [None, None] else [0, None])], {}


def _clipped(x: Array, low: float | None = None, high: float | None = None) -> Array:
    x = real(x) if isinstance(low, float) or isinstance(high, float) else x
    return np.where(np.isnan(x), x, np.clip(x, low, high)) if x.dtype == np.longdouble else np.clip(x, low, high)


def _cast(draw: Draw) -> Arguments:
    dtype = draw.pick(tuple(dtype.value for dtype in DType))
    saturates = DType(dtype).is_float and draw.flag()
    return [draw.tensor(draw.shape()), dtype], {"saturate": True} if saturates else {}


def _bit_cast(draw: Draw) -> Arguments:
    bits = DType(draw.dtype).bits
    return [draw.tensor(draw.shape()), draw.pick([d.value for d in DType if d.bits == bits])], {}


def _read_as(x: Array, dtype: str) -> Array:
    bits, to = DType(dtype).bits, DType(dtype)
    source = f"f{bits}" if x.dtype == np.longdouble else f"u{bits}"
    found = x.astype(DType(source).numpy).view(to.numpy)
    return real(found) if to.is_float else found.astype(np.uint64 if to is DType.U64 else np.int64)


def _prelu(draw: Draw) -> Arguments:
    shape = draw.full(2, 3)
    return [draw.tensor(shape), draw.tensor(draw.pick(((), (1,), shape[1:2])))], {}


def _prelued(x: Array, w: Array) -> Array:
    w = w.reshape(-1, *(1,) * (x.ndim - 2)) if w.ndim else w
    return np.where(x > 0, x, x * w)


def logical_of(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function of bools as one of what is 0 or not."""
    return lambda *values: function(*(value != 0 for value in values))


def _nan_to_num(x: Array, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Array:
    result = np.where(np.isnan(x), nan, x)
    result = np.where(np.isposinf(result), np.longdouble(np.inf) if posinf is None else posinf, result)
    return np.where(np.isneginf(result), -np.inf if neginf is None else neginf, result)


def _unsigned_abs(x: Array) -> Array:
    return x if x.dtype == np.uint64 else np.abs(x)


_SIGNED: Final = (*FLOATS, "i8", "i16", "i32", "i64")
_SMOOTH: Final = (
    _unary("acos", lambda x: np.arccos(real(x)), units=8, terms=lambda x: 0 * x + 2),
    _unary("acosh", lambda x: np.arccosh(real(x)), units=8),
    _unary("asin", lambda x: np.arcsin(real(x)), units=8),
    _unary("asinh", lambda x: np.arcsinh(real(x)), units=8),
    _unary("atan", lambda x: np.arctan(real(x)), units=8),
    _unary("atanh", lambda x: np.arctanh(real(x)), units=8),
    _unary("cos", lambda x: np.cos(real(x)), flavours=TAME, units=8, terms=lambda x: 0 * x + 1),
    _unary("cosh", lambda x: np.cosh(real(x)), units=8),
    _unary("deg2rad", lambda x: real(x) * PI / 180, dtypes=ALL[:4]),
    _unary("rad2deg", lambda x: real(x) * 180 / PI),
    _unary("erf", erf, units=8),
    _unary("exp", lambda x: np.exp(real(x)), units=8),
    _unary("exp2", lambda x: np.exp2(real(x)), units=16),
    _unary("expm1", lambda x: np.expm1(real(x)), units=8),
    _unary("log", lambda x: np.log(real(x)), units=8),
    _unary("log1p", lambda x: np.log1p(real(x)), units=8),
    _unary("log2", lambda x: np.log(real(x)) / E2, units=8),
    _unary("log10", lambda x: np.log(real(x)) / E10, units=8),
    _unary("logit", lambda p: np.log(p / (1 - p)), "probability", units=8),
    _unary("reciprocal", lambda x: 1 / real(x)),
    _unary("rsqrt", lambda x: 1 / np.sqrt(real(x)), units=8),
    _unary("sin", lambda x: np.sin(real(x)), flavours=TAME, units=8),
    _unary("sinh", lambda x: np.sinh(real(x)), units=8),
    _unary(
        "sinc",
        lambda x: np.where(x == 0, 1, np.sin(PI * x) / (PI * np.where(x == 0, 1, x))),
        flavours=TAME,
        units=8,
        terms=lambda x: 1 / np.maximum(1, abs(x)),
    ),
    _unary("sqrt", lambda x: np.sqrt(real(x)), units=8),
    _unary("tan", lambda x: np.tan(real(x)), flavours=TAME, units=8),
    _unary("tanh", lambda x: np.tanh(real(x)), units=8),
    _unary("square", lambda x: x * x, dtypes=(*FLOATS, *INTEGERS)),
    _unary("sigmoid", sigmoid, units=8),
    _unary("silu", lambda x: x * sigmoid(x), units=8),
    _unary("softplus", lambda x, beta=1: softplus(beta * x) / beta, options=_one_of(beta=(None, 0.5, 2, 5)), units=8),
    _unary("log_sigmoid", lambda x: -softplus(-x), units=8),
    _unary("mish", lambda x: x * np.tanh(softplus(x)), units=16),
    _unary("softsign", lambda x: x / (1 + abs(x))),
    _unary("tanh_shrink", lambda x: x - np.tanh(x), units=8, terms=lambda x: abs(x) + abs(np.tanh(x))),
    _unary("gelu", gelu, options=_one_of(approximate=(None, "tanh", "sigmoid")), units=16, terms=lambda x, **_: abs(x)),
    _unary("elu", elu, options=_one_of(alpha=(None, 0.5, 1.5)), units=8),
    _unary(
        "celu",
        lambda x, alpha=1: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
        options=_one_of(alpha=(None, 0.5, 1.5)),
        units=8,
    ),
    _unary(
        "selu",
        lambda x: (
            np.longdouble("1.0507009873554804934193349852946")
            * elu(x, np.longdouble("1.6732632423543772848170429916717"))
        ),
        units=8,
    ),
    _unary(
        "hard_sigmoid",
        lambda x, slope=_SIXTH: np.clip(slope * x + 0.5, 0, 1),
        options=_one_of(slope=(None, 0.25)),
        terms=lambda x, **_: np.minimum(abs(x), 8) + 1,
    ),
    _unary("hard_swish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1), terms=lambda x: abs(x)),
)
_KINKED: Final = (
    _unary("relu", relu, options=_one_of(alpha=(None, 0.25), threshold=(None, 0.5), max_value=(None, 2))),
    _unary("relu6", lambda x: np.where(np.isnan(x), x, np.clip(x, 0, 6))),
    _unary(
        "leaky_relu",
        lambda x, negative_slope: np.where(x > 0, x, negative_slope * x),
        options=_one_of(negative_slope=(0.5, 0.25)),
    ),
    _unary(
        "hard_tanh",
        lambda x, low=-1, high=1: np.where(np.isnan(x), x, np.clip(x, low, high)),
        options=_one_of(low=(None, -0.5), high=(None, 1.5)),
    ),
    _unary(
        "soft_shrink",
        lambda x, threshold=0.5: np.where(np.isnan(x), x, np.sign(x) * np.maximum(abs(x) - threshold, 0)),
        options=_one_of(threshold=(None, 0.25)),
        terms=lambda x, **_: abs(x),
    ),
    _unary(
        "hard_shrink",
        lambda x, threshold=0.5: np.where(abs(x) > threshold, x, np.where(np.isnan(x), x, 0)),
        options=_one_of(threshold=(None, 0.25)),
    ),
    Row(
        "threshold",
        lambda d: ([d.tensor(d.shape()), d.pick((0.5, 0)), d.pick((-3, 0.25))], {}),
        lambda x, limit, value: np.where((x > limit) | np.isnan(x), x, value),
        pointwise=True,
    ),
    Row("prelu", _prelu, _prelued, pointwise=False),
    Row("clip", _clip, _clipped, (*FLOATS, "i8", "i32"), pointwise=True),
    Row("clip_by_value", lambda d: ([d.tensor(d.shape()), -0.5, d.pick((1, 0.25))], {}), _clipped, pointwise=True),
    _unary("abs", _unsigned_abs, dtypes=(*FLOATS, *INTEGERS)),
    _unary("nan_to_num", _nan_to_num, options=_one_of(nan=(None, 3.0), posinf=(7.0,), neginf=(-7.0,))),
    _unary("scale_gradient", lambda x, **_: x, options=_one_of(scale=(2, -0.5)), constant="*"),
    _unary("frac", lambda x: x - np.trunc(x), exact=True, flavours=TAME, constant="*"),
)
_STEPS: Final = (
    _discrete("ceil", lambda x: np.ceil(real(x))),
    _discrete("floor", lambda x: np.floor(real(x))),
    _discrete("trunc", lambda x: np.trunc(real(x))),
    _discrete("round", lambda x: np.round(real(x))),
    _discrete("sign", np.sign, dtypes=_SIGNED),
    _discrete("isfinite", np.isfinite, dtypes=(*FLOATS, "i8", "u64")),
    _discrete("isinf", np.isinf, dtypes=(*FLOATS, "i8", "u64")),
    _discrete("isnan", np.isnan, dtypes=(*FLOATS, "i8", "u64")),
    _discrete("logical_not", logical_of(np.logical_not), dtypes=ALL),
    _discrete("zeros_like", np.zeros_like, dtypes=ALL),
    _discrete("ones_like", np.ones_like, dtypes=ALL),
    Row(
        "full_like",
        lambda d: ([d.tensor(d.shape()), d.pick((0, 3, 1))], {}),
        lambda x, value: np.full(x.shape, value).astype(x.dtype),
        ALL,
        exact=True,
    ),
    Row("heaviside", lambda d: ([d.tensor(d.shape()), d.pick((0, 1, 0.5))], {}), np.heaviside, exact=True),
    Row("cast", _cast, converted, ALL, exact=True, constant="*"),
    Row("bit_cast", _bit_cast, _read_as, ("f16", "f32", "f64", *INTEGERS), TAME, exact=True, constant="*"),
)

ROWS_POINTWISE: Final = (*_SMOOTH, *_KINKED, *_STEPS)
