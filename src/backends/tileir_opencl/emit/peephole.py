"""Patterns of the semtree that OpenCL has a function for.

Each row says where a function computes exactly what the semtree means, or, where a row says so, what its contract
allows; ``tests/backends_opencl/test_peephole.py`` proves each row by the interpreter. The first row that matches wins.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.semtree.analysis.ranges import is_number
from tileir.semtree.ir import Apply, Assign, Const, Expr, Stmt


class Builtin(enum.Enum):
    """A function of OpenCL C; the value is its name."""

    CLAMP = "clamp"
    MAD = "mad"
    ROTATE = "rotate"
    RSQRT = "rsqrt"
    NATIVE_RSQRT = "native_rsqrt"

    __hash__ = object.__hash__


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
ROTATE: Final = Row("x << k | x >> (bits - k) = rotate(x, k)", _rotate)
FUSE: Final = Row("a * b + c = mad(a, b, c)", _mad, fast=True)
RSQRT: Final = Row("1 / sqrt(x) = rsqrt(x)", _rsqrt, fast=True)

ROWS: Final[Mapping[Op, tuple[Row, ...]]] = MappingProxyType(
    {
        Op.MIN: (CLAMP,),
        Op.MAX: (CLAMP,),
        Op.BIT_OR: (ROTATE,),
        Op.ADD: (FUSE,),
        Op.DIV: (RSQRT,),
    }
)
"""The rows by the operation at their root."""
