"""Errors of elementwise functions and derivatives beside mpmath, in all float dtypes: near 0, far out and between.

The bounds are those of the table of all operations, which random calls are held to as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import pytest
from mpmath import mp  # type: ignore[import-untyped]

import tileir
from fuzz.wide.closeness import compare, unit
from fuzz.wide.table import ROWS
from strategies.operations import Case
from tileir import ops
from tileir.core import DType
from tileir.tile.builder_functions import gradient, jvp

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[[Any], Any]

DTYPES: Final = ("bf16", "f16", "f32", "f64")
SLOPE: Final = 4.0
"""By how much more roundings a slope may be off than its value: by those of its own terms, each at most 1."""

HUGE: Final = mp.mpf(10) ** 4000
"""More than any float is, of extended precision as well."""

LEAST: Final = 1e-30
"""Distance from 0 at which mpmath's differences still lie on one side of it."""

mp.dps = 60


def softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(x))


def elu(x: Any, alpha: float = 1.0) -> Any:
    return x if x > 0 else alpha * mp.expm1(x)


def sinc(x: Any) -> Any:
    return mp.mpf(1) if x == 0 else mp.sinpi(x) / (mp.pi * x)


FUNCTIONS: Final[dict[str, Function]] = {
    "acos": mp.acos,
    "acosh": mp.acosh,
    "asin": mp.asin,
    "asinh": mp.asinh,
    "atan": mp.atan,
    "atanh": mp.atanh,
    "celu": elu,
    "cos": mp.cos,
    "cosh": mp.cosh,
    "deg2rad": mp.radians,
    "elu": elu,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "exp": mp.exp,
    "exp2": lambda x: mp.mpf(2) ** x,
    "expm1": mp.expm1,
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
    "hard_sigmoid": lambda x: min(max(x / 6 + mp.mpf(0.5), 0), 1),
    "hard_swish": lambda x: x * min(max(x / 6 + mp.mpf(0.5), 0), 1),
    "log": mp.log,
    "log10": mp.log10,
    "log1p": mp.log1p,
    "log2": lambda x: mp.log(x) / mp.log(2),
    "log_sigmoid": lambda x: -softplus(-x),
    "logit": lambda x: mp.log(x / (1 - x)),
    "mish": lambda x: x * mp.tanh(softplus(x)),
    "rad2deg": mp.degrees,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "selu": lambda x: mp.mpf("1.0507009873554804934193349852946") * elu(x, mp.mpf("1.6732632423543772848170429916717")),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "sin": mp.sin,
    "sinc": sinc,
    "sinh": mp.sinh,
    "softplus": softplus,
    "softsign": lambda x: x / (1 + abs(x)),
    "sqrt": mp.sqrt,
    "square": lambda x: x * x,
    "tan": mp.tan,
    "tanh": mp.tanh,
    "tanh_shrink": lambda x: x - mp.tanh(x),
}
CURVED: Final = [name for name in FUNCTIONS if name not in ("hard_sigmoid", "hard_swish")]
"""Those whose slopes have no steps."""


def sample(dtype: str) -> Any:
    """Return numbers of all magnitudes and both signs, some of them whole, or one rounding from 1."""
    kind = DType(dtype).numpy
    limits = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    whole = (1, 2, 3, 5, 8, 10, 12, 17, 30, 60, 87, 100, 300, 500, 700, 1000, 1e4, 4e4)
    parts = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.01, 1.2, 1.5, 2.5, 3.3, 4.4, 5.6, 6.7, 9.1, 21.7)
    edges = (limits.smallest_subnormal, limits.tiny, limits.eps, 1 - float(limits.eps) / 2, 1 + float(limits.eps))
    small = (1e-7, 1e-5, 1e-3)
    values = np.array([0, *edges, *small, *parts, *whole], np.longdouble).astype(kind)
    return np.concatenate([values, -values[1:]])


def exact(function: Function, values: Any, order: int = 0) -> Any:
    """Return what mpmath says, NaN where there is no real number, in extended precision."""

    def at(value: float) -> Any:
        point = mp.mpf(value)
        try:
            found = function(point) if order == 0 else mp.diff(function, point, order)
        except (ValueError, ZeroDivisionError, mp.NoConvergence):
            return np.longdouble("nan")
        if isinstance(found, mp.mpc):
            return np.longdouble("nan")
        if abs(found) > HUGE:
            return np.longdouble("inf") if found > 0 else -np.longdouble("inf")
        return np.longdouble(mp.nstr(found, 25) if abs(found) > 1 / HUGE else 0)

    return np.array([at(float(value)) for value in values], np.longdouble)


def value(operation: Function, x: Any) -> Any:
    return operation(x)


def backward(operation: Function, x: Any) -> Any:
    return gradient(operation(x), x)


def forward(operation: Function, x: Any) -> Any:
    return jvp(operation(x), x, ops.ones_like(x))


def found(name: str, values: Any, what: Callable[[Function, Any], Any]) -> Any:
    case = Case(name, lambda x: what(getattr(ops, name), x), {"X": values}, lambda x: x)
    return np.asarray(tileir.jit(case.function(), "llvm")(values))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str, dtype: str) -> None:
    values, row = sample(dtype), ROWS[name]
    wanted = exact(FUNCTIONS[name], values)
    wide = values.astype(np.longdouble)
    terms = 0.0 if row.terms is None else row.terms(wide)
    sure = np.isfinite(wanted)
    result = found(name, values, value)
    assert result.dtype == values.dtype
    told = f"{name} of {dtype}"
    compare(
        told, result[sure], wanted[sure], units=row.units, terms=np.broadcast_to(terms, wide.shape)[sure], exact=False
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("dtype", "what"), [*((dtype, backward) for dtype in DTYPES), ("f16", forward)])
@pytest.mark.parametrize("name", CURVED)
def test_slopes(name: str, dtype: str, what: Callable[[Function, Any], Any]) -> None:
    values, function = sample(dtype), FUNCTIONS[name]
    wanted, bend = (exact(function, values, order) for order in (1, 2))
    wide = values.astype(np.longdouble)
    scale = exact(function, values)
    sure = np.isfinite(wanted) & np.isfinite(bend) & np.isfinite(scale) & (np.abs(wide) > LEAST)
    cancelling = 0 if ROWS[name].terms is None else 1  # as 1 does with erf(x) for large negative x
    terms = SLOPE * (np.minimum(1, np.abs(scale)) + np.abs(wanted) + np.abs(wide * bend) + cancelling)
    result = found(name, values, what)
    compare(
        f"slope of {name} of {dtype}",
        result[sure],
        wanted[sure],
        units=ROWS[name].units,
        terms=terms[sure],
        exact=False,
    )


def test_units_are_those_of_numpy() -> None:
    for dtype in (np.float32, np.float64):
        values = np.array([1.0, 1.5, 3.0, 1e-3], dtype)
        kind = DType.F32 if dtype is np.float32 else DType.F64
        np.testing.assert_array_equal(unit(kind, values.astype(np.longdouble)).astype(dtype), np.spacing(values))
