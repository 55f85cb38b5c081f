"""Exact values of mathematical functions, and distances to them in units in the last place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import mpmath  # type: ignore[import-untyped]  # it has no types
import numpy as np

from tileir.core.dtype import DType
from tileir.core.ops import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Array = np.ndarray[Any, Any]

_CONTEXT = mpmath.mp.clone()
_CONTEXT.prec = 1300  # ample for huge angles

EXACT: Final[Mapping[Op, Callable[..., Any]]] = {
    Op.RSQRT: lambda x: 1 / _CONTEXT.sqrt(x),
    Op.EXP: _CONTEXT.exp,
    Op.LOG: _CONTEXT.log,
    Op.SIN: _CONTEXT.sin,
    Op.COS: _CONTEXT.cos,
    Op.TAN: _CONTEXT.tan,
    Op.ASIN: _CONTEXT.asin,
    Op.ACOS: _CONTEXT.acos,
    Op.ATAN: _CONTEXT.atan,
    Op.SINH: _CONTEXT.sinh,
    Op.COSH: _CONTEXT.cosh,
    Op.TANH: _CONTEXT.tanh,
    Op.SIGMOID: lambda x: 1 / (1 + _CONTEXT.exp(-x)),
    Op.ERF: _CONTEXT.erf,
    Op.POW: _CONTEXT.power,
}

_LAYOUT: Final = {DType.F32: (24, -149, 128), DType.F64: (53, -1074, 1024)}


def worst(op: Op, dtype: DType, actual: Array, args: Sequence[Array], precision: int = 120) -> tuple[float, str]:
    """Return the greatest distance of finite arguments' results from the truth, and where it is."""
    found = (0.0, "nowhere")
    with _CONTEXT.workprec(precision):
        for result, *values in zip(actual.tolist(), *(arg.tolist() for arg in args), strict=True):
            exact = EXACT[op](*(_CONTEXT.mpf(value) for value in values))
            distance = _distance(result, exact, *_LAYOUT[dtype])
            if distance > found[0]:
                found = distance, f"{op.value}{tuple(values)} = {result}, not {_CONTEXT.nstr(exact, 20)}"
    return found


def _distance(actual: float, exact: Any, digits: int, least: int, most: int) -> float:
    _, exponent = _CONTEXT.frexp(exact)
    unit = _CONTEXT.ldexp(1, max(exponent - digits, least))
    if np.isinf(actual):
        bound = _CONTEXT.ldexp(1, most) - _CONTEXT.ldexp(1, most - digits - 1)
        return 0.0 if exact * np.sign(actual) >= bound else float("inf")
    return float(abs(_CONTEXT.mpf(actual) - exact) / unit)
