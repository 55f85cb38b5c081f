"""Patterns of the semtree that OpenCL has a function for.

Each row says where a function computes exactly what the semtree means, or, where a row says so, what its contract
allows; ``tests/backends_opencl/test_peephole.py`` proves each row by the interpreter. The first row that matches wins.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Apply, Assign, Broadcast, Cast, Const

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.semtree.ir import Expr, Stmt


class Builtin(enum.Enum):
    """A function of OpenCL C; the value is its name."""

    CLAMP = "clamp"
    FMAX = "fmax"
    FMIN = "fmin"
    MAD = "mad"
    ROTATE = "rotate"
    RSQRT = "rsqrt"
    NATIVE_RSQRT = "native_rsqrt"

    __hash__ = object.__hash__


INEXACT: Final = frozenset({Builtin.MAD, Builtin.RSQRT, Builtin.NATIVE_RSQRT})
"""Functions whose result in f32 may not be a half."""


@attrs.frozen
class Call:
    """A function of operands; its result has the type of the last."""

    builtin: Builtin
    args: tuple[Expr, ...]


@attrs.frozen
class Row:
    """A pattern, named by its law; ``fast`` says that it holds under ``fast_math`` only."""

    law: str
    match: Callable[[Apply], Call | None]
    fast: bool = False


def accumulation(stmt: Stmt) -> Call | None:
    """Apply ``t = fma(a, b, t)`` → ``t = mad(a, b, t)``.

    Sums of a contraction may be fused or not, and are not looked at otherwise; everywhere else a fused operation is
    there for its exactness, and stays.
    """
    match stmt:
        case Assign(target=target, value=Apply(op=Op.FMA, args=(_, _, addend) as args)) if addend == target:
            return Call(Builtin.MAD, args)
        case _:
            return None


@attrs.frozen
class Guard:
    """``bound - terms[0] - terms[1] - … >= 0`` where ``below``, else ``terms[0] - bound >= 0``."""

    bound: Const
    terms: tuple[Expr, ...]
    below: bool


def guard(expr: Expr) -> Guard | None:
    """Find ``c - x - y >= 0`` and ``x - c >= 0``.

    They are ``x + y < c + 1`` and ``x >= c`` where no sum or difference overflows. Guards of partial tiles come in
    the first forms; people write the second ones.
    """
    match expr:
        case Apply(op=Op.CMP_GE, args=(Apply(op=Op.SUB) as left, Const(value=0, type=kind))) if kind.lanes == 1:
            terms: list[Expr] = []
            rest: Expr = left
            while isinstance(rest, Apply) and rest.op is Op.SUB:
                rest, term = rest.args
                terms.insert(0, term)
            if isinstance(rest, Const) and rest.value < kind.dtype.maximum:
                return Guard(rest, tuple(terms), below=True)
            last = left.args[1]
            return Guard(last, left.args[:1], below=False) if isinstance(last, Const) else None
        case _:
            return None


def builtin_for(expr: Apply, *, fast_math: bool) -> Call | None:
    """Return the function that computes an expression, if a row has one."""
    for row in ROWS.get(expr.op, ()):
        if not row.fast or fast_math:
            found = row.match(expr)
            if found is not None:
                return found
    return None


def _clamp(expr: Apply) -> Call | None:
    """Match limits on both sides; a NaN would become one of them, so floats must be known to be none."""
    match expr:
        case Apply(op=Op.MIN, args=(Apply(op=Op.MAX, args=(x, Const() as low)), Const() as high)):
            pass
        case Apply(op=Op.MAX, args=(Apply(op=Op.MIN, args=(x, Const() as high)), Const() as low)):
            pass
        case _:
            return None
    numbers = not x.type.dtype.is_bool and (x.type.dtype.is_integer or is_number(x))
    return Call(Builtin.CLAMP, (x, low, high)) if numbers and low.value <= high.value else None


def _extremum(expr: Apply) -> Call | None:
    if not expr.type.dtype.is_float or not all(map(is_number, expr.args)):
        return None
    return Call(Builtin.FMAX if expr.op is Op.MAX else Builtin.FMIN, expr.args)


def is_number(expr: Expr) -> bool:
    """Return whether no lane of a float expression can be NaN, for reasons that its text shows."""
    match expr:
        case Const(value=value):
            return value == value
        case Cast(operand=operand):
            return not operand.type.dtype.is_float or is_number(operand)
        case Broadcast(operand=operand):
            return is_number(operand)
        case Apply(op=Op.MAX | Op.MIN | Op.NEG | Op.ABS | Op.FLOOR | Op.CEIL | Op.ROUND | Op.TRUNC, args=args):
            return all(map(is_number, args))
        case Apply(op=Op.COND, args=(_, then, otherwise)):
            return is_number(then) and is_number(otherwise)
        case _:
            return False


def _rotate(expr: Apply) -> Call | None:
    dtype = expr.type.dtype
    match expr.args:
        case (
            Apply(op=Op.BIT_LEFT, args=(x, Const(value=left) as count)),
            Apply(op=Op.BIT_RIGHT, args=(other, Const(value=right))),
        ) if not dtype.is_signed and x == other and left + right == dtype.bits and 0 < left < dtype.bits:
            return Call(Builtin.ROTATE, (x, count))
        case _:
            return None


def _mad(expr: Apply) -> Call | None:
    match expr:
        case Apply(args=(Apply(op=Op.MUL, args=(a, b)), c)) if expr.type.dtype.is_float:
            return Call(Builtin.MAD, (a, b, c))
        case Apply(args=(c, Apply(op=Op.MUL, args=(a, b)))) if expr.type.dtype.is_float:
            return Call(Builtin.MAD, (a, b, c))
        case _:
            return None


def _rsqrt(expr: Apply) -> Call | None:
    match expr.args:
        case (Const(value=1.0), Apply(op=Op.SQRT, args=(x,))):
            return Call(Builtin.RSQRT if x.type.dtype is DType.F64 else Builtin.NATIVE_RSQRT, (x,))
        case _:
            return None


CLAMP: Final = Row("min(max(x, low), high) = clamp(x, low, high) where low <= high and x is no NaN", _clamp)
EXTREMUM: Final = Row("max(x, y) = fmax(x, y) where neither is NaN", _extremum)
ROTATE: Final = Row("x << k | x >> (bits - k) = rotate(x, k)", _rotate)
FUSE: Final = Row("a * b + c = mad(a, b, c)", _mad, fast=True)
RSQRT: Final = Row("1 / sqrt(x) = rsqrt(x)", _rsqrt, fast=True)

ROWS: Final[Mapping[Op, tuple[Row, ...]]] = MappingProxyType(
    {
        Op.MIN: (CLAMP, EXTREMUM),
        Op.MAX: (CLAMP, EXTREMUM),
        Op.BIT_OR: (ROTATE,),
        Op.ADD: (FUSE,),
        Op.DIV: (RSQRT,),
    }
)
"""The rows by the operation at their root."""
