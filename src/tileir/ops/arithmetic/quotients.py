"""Quotients of elements that are rounded to integers, and what remains of them."""
# ruff: noqa: A004  NumPy's names

from __future__ import annotations

import operator

from tileir.ops.arithmetic.elementwise import compared
from tileir.ops.shared.foundation import Operand, Tensor, call, promoted
from tileir.tile.builder_functions import round, trunc

__all__ = ["floor_divide", "fmod", "frac", "remainder"]


def fmod(x: Operand, y: Operand) -> Tensor:
    """Return the remainder of the truncated quotient, with the sign of ``x``."""
    return call("mod", x, y)


def remainder(x: Operand, y: Operand) -> Tensor:
    """Return the remainder of the quotient rounded down, with the sign of ``y``, as Python's ``%``."""
    rest = call("mod", x, y)
    other_side = call("bit_xor", rest < 0, compared(operator.lt, y, 0)) & (rest != 0)
    return call("cond", other_side, rest + y, rest)


def floor_divide(x: Operand, y: Operand) -> Tensor:
    """Return the quotient rounded down, as NumPy's ``//``; that of integers is one, and 0 for the divisor 0."""
    given = x, y
    x, y = _widened(x), _widened(y)
    rest = call("mod", x, y)
    other_side = call("bit_xor", rest < 0, compared(operator.lt, y, 0)) & (rest != 0)
    by_zero = compared(operator.eq, y, 0)
    # one quotient: of two by one divisor fast_math makes products with 1 / y, which is infinite for the least numbers
    whole = round(call("cond", by_zero, x, call("sub", x, rest)) / y)
    return promoted(call("cond", by_zero, whole, call("cond", other_side, whole - 1, whole)), *given)


def frac(x: Tensor) -> Tensor:
    """Return ``x - trunc(x)``."""
    return x - trunc(x)


def _widened(x: Operand) -> Operand:
    """Return floats of 32 bits at least; integers stay."""
    return call("widen", x) if isinstance(x, Tensor) else x
