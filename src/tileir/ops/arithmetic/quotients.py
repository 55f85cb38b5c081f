"""Quotients of elements that are rounded to integers, and their remainders."""
# ruff: noqa: A004  NumPy's names

from __future__ import annotations

import operator

from tileir.ops.arithmetic.elementwise import compared
from tileir.ops.arithmetic.reductions import any
from tileir.ops.shared.foundation import (
    Operand,
    Tensor,
    broadcast_dims,
    call,
    expand,
    for_sums,
    promoted,
    rank_of,
    tensor_of,
)
from tileir.tile.builder_functions import abs, round, trunc
from tileir.tile.building.loops import while_loop

__all__ = ["floor_divide", "fmod", "frac", "gcd", "lcm", "remainder"]


def fmod(x: Operand, y: Operand) -> Tensor:
    """Return the remainder of the truncated quotient, with the sign of ``x``."""
    return call("mod", x, y)


def remainder(x: Operand, y: Operand) -> Tensor:
    """Return the remainder of the quotient rounded down, with the sign of ``y``, as Python's ``%``."""
    rest = call("mod", x, y)
    other_side = call("bit_xor", rest < 0, compared(operator.lt, y, 0)) & (rest != 0)
    return call("cond", other_side, rest + y, rest)


def floor_divide(x: Operand, y: Operand) -> Tensor:
    """Return the quotient rounded down, as NumPy's ``//``; that of integers is an integer, and 0 for the divisor 0."""
    given = x, y
    x, y = _widened(x), _widened(y)
    rest = call("mod", x, y)
    other_side = call("bit_xor", rest < 0, compared(operator.lt, y, 0)) & (rest != 0)
    by_zero = compared(operator.eq, y, 0)
    # one quotient: fast_math turns two by one divisor into products with 1 / y, infinite for the least numbers
    whole = round(call("cond", by_zero, x, call("sub", x, rest)) / y)
    return promoted(call("cond", by_zero, whole, call("cond", other_side, whole - 1, whole)), *given)


def frac(x: Tensor) -> Tensor:
    """Return ``x - trunc(x)``."""
    return x - trunc(x)


def gcd(x: Operand, y: Operand) -> Tensor:
    """Return the greatest common divisor of integers, by Euclid's algorithm, a loop; that of 0 and 0 is 0."""
    one = call("mul", call("as_like", 1, tensor_of(x, x)), call("as_like", 1, tensor_of(y, y)))
    x, y = call("mul", x, one), call("mul", y, one)
    sizes = broadcast_dims(x, y)
    x, y = (expand(each, sizes) if sizes else each for each in (x, y))
    found, _ = while_loop(_is_divisible, _euclid, (x, y))
    return abs(found)


def lcm(x: Operand, y: Operand) -> Tensor:
    """Return the least common multiple of integers, which is not negative; that of 0 and any integer is 0."""
    divisor = gcd(x, y)
    return abs(call("mul", call("div", x, call("cond", divisor == 0, 1, divisor)), y))


def _is_divisible(_: Tensor, y: Tensor) -> Tensor:
    return any(y != 0) if rank_of(y) else y != 0


def _euclid(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    ends = y == 0
    return call("cond", ends, x, y), call("cond", ends, y, call("mod", x, call("cond", ends, 1, y)))


def _widened(x: Operand) -> Operand:
    return for_sums(x) if isinstance(x, Tensor) else x
