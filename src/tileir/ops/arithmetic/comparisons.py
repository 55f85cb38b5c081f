"""Elementwise predicates and choices: comparisons, logic, and tests for NaN and infinities.

All broadcast.
"""

from __future__ import annotations

import math
from typing import Final

from tileir.ops.shared.foundation import Operand, Tensor, call, cast_to, floating, for_sums, tensor_of, wide
from tileir.tile.builder_functions import binary, logical_and, logical_not, logical_or

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "nan_to_num",
    "not_equal",
]

_INFINITY: Final = math.inf
_WRAPPED: Final = 2.0**64
_GREATEST: Final = ((2 - 2.0**-52) * 2.0**1023, (2 - 2.0**-23) * 2.0**127, (2 - 2.0**-7) * 2.0**127, 65504.0)
"""The greatest finite numbers of f64, f32, bf16 and f16."""


equal = binary("equal", "Return whether two are equal, as bool.", "cmp_eq", __name__)
not_equal = binary("not_equal", "Return whether two differ, as bool; NaN differs from itself.", "cmp_ne", __name__)
less = binary("less", "Return whether ``x < y``, as bool.", "cmp_lt", __name__)
less_equal = binary("less_equal", "Return whether ``x <= y``, as bool.", "cmp_le", __name__)
greater = binary("greater", "Return whether ``x > y``, as bool.", "cmp_gt", __name__)
greater_equal = binary("greater_equal", "Return whether ``x >= y``, as bool.", "cmp_ge", __name__)


def isclose(x: Operand, y: Operand, *, rtol: float = 1e-5, atol: float = 1e-8) -> Tensor:
    """Return whether ``|x - y| <= atol + rtol * |y|``, or both are the same infinity, as bool.

    The distance between integers is exact, and compared in f64; that between f16 or bf16 is computed in f32.
    """
    left, right = (value if isinstance(value, int | float) else _of_most_bits(value) for value in (x, y))
    distance = call("sub", call("max", left, right), call("min", left, right))
    positive = wide(floating(distance))  # integers that are at least 2**63 apart wrap
    distance = call("cond", distance < 0, positive + _WRAPPED, positive)
    if isinstance(right, int | float):
        return call("cmp_eq", x, y) | ((distance <= abs(right) * rtol + atol) & math.isfinite(right))
    return call("cmp_eq", x, y) | ((distance <= call("abs", wide(floating(right))) * rtol + atol) & isfinite(right))


def _of_most_bits(x: Operand) -> Tensor:
    """Return integers in 64 bits, and 16-bit floats in f32."""
    return for_sums(call("mul", x, cast_to(tensor_of(x, 1), "i64")))


def isnan(x: Operand) -> Tensor:
    """Return whether an element is NaN, as bool."""
    return call("cmp_ne", x, x)


def isinf(x: Operand) -> Tensor:
    """Return whether an element is infinite, as bool."""
    return call("abs", x) == _INFINITY


def isfinite(x: Operand) -> Tensor:
    """Return whether an element is neither NaN nor infinite, as bool."""
    return call("abs", x) < _INFINITY


def logical_xor(x: Operand, y: Operand) -> Tensor:
    """Return whether exactly one of both is not 0, as bool."""
    one, other = (bool(value) if isinstance(value, int | float) else call("as_bool", value) for value in (x, y))
    return call("bit_xor", one, other)


def nan_to_num(
    x: Tensor, *, nan: Operand = 0.0, posinf: Operand | None = None, neginf: Operand | None = None
) -> Tensor:
    """Return ``x`` with ``nan`` for NaN, and ``posinf`` and ``neginf`` for infinities.

    The defaults are the greatest and least finite numbers of the dtype of ``x``, as in NumPy and PyTorch.
    """
    result = call("cond", isnan(x), nan, x)
    result = call("cond", x == _INFINITY, _greatest(x) if posinf is None else posinf, result)
    return call("cond", x == -_INFINITY, -_greatest(x) if neginf is None else neginf, result)


def _greatest(x: Tensor) -> Tensor:
    """Return the greatest finite number of the dtype of ``x``: the first of the list that the dtype can hold."""
    *larger, least = (call("as_like", number, x) for number in _GREATEST)
    for number in reversed(larger):
        least = call("cond", isfinite(number), number, least)
    return least
