"""Semtree patterns with an OpenCL function.

Each row matches where a function computes exactly the semtree's meaning, or, if a row says so, within its contract;
``tests/backends_opencl/test_peephole.py`` proves each row by the interpreter. The first matching row wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.semtree.analysis.ranges import is_number
from tileir.semtree.ir import Apply, Assign, Const, Expr, Stmt


@attrs.frozen
class Call:
    """Function call by name; its result has the type of the last operand."""

    function: str
    args: tuple[Expr, ...]


def accumulation(stmt: Stmt) -> Call | None:
    """Apply ``t = fma(a, b, t)`` → ``t = mad(a, b, t)``.

    Sums of a contraction may be fused or not; everywhere else a fused operation is required for its exactness.
    """
    match stmt:
        case Assign(target=target, value=Apply(op=Op.FMA, args=(_, _, addend) as args)) if addend == target:
            return Call("mad", args)
        case _:
            return None


def call_for(expr: Apply, *, fast_math: bool) -> Call | None:
    """Return the function that computes an expression, if a row matches."""
    rows = (ROWS, FAST_ROWS) if fast_math else (ROWS,)
    return next((found for row in rows if expr.op in row and (found := row[expr.op](expr)) is not None), None)


def _clamp(expr: Apply) -> Call | None:
    """Match ``min(max(x, low), high)``; a NaN would become a limit, so floats must be known not to be NaN."""
    match expr:
        case Apply(op=Op.MIN, args=(Apply(op=Op.MAX, args=(x, Const() as low)), Const() as high)):
            pass
        case Apply(op=Op.MAX, args=(Apply(op=Op.MIN, args=(x, Const() as high)), Const() as low)):
            pass
        case _:
            return None
    numbers = not x.type.dtype.is_bool and (x.type.dtype.is_integer or is_number(x))
    return Call("clamp", (x, low, high)) if numbers and low.value <= high.value else None


def _rotate(expr: Apply) -> Call | None:
    """Match ``x << k | x >> (bits - k)``."""
    dtype = expr.type.dtype
    match expr.args:
        case (
            Apply(op=Op.BIT_LEFT, args=(x, Const(value=left) as count)),
            Apply(op=Op.BIT_RIGHT, args=(other, Const(value=right))),
        ) if not dtype.is_signed and x == other and left + right == dtype.bits and 0 < left < dtype.bits:
            return Call("rotate", (x, count))
        case _:
            return None


def _mad(expr: Apply) -> Call | None:
    """Match ``a * b + c``."""
    match expr.args:
        case (Apply(op=Op.MUL, args=(a, b)), c) | (c, Apply(op=Op.MUL, args=(a, b))) if expr.type.dtype.is_float:
            return Call("mad", (a, b, c))
        case _:
            return None


def _rsqrt(expr: Apply) -> Call | None:
    """Match ``1 / sqrt(x)``."""
    match expr.args:
        case (Const(value=1.0), Apply(op=Op.SQRT, args=(x,))):
            return Call("rsqrt" if x.type.dtype is DType.F64 else "native_rsqrt", (x,))
        case _:
            return None


Rows = Mapping[Op, Callable[[Apply], Call | None]]

ROWS: Final[Rows] = MappingProxyType({Op.MIN: _clamp, Op.MAX: _clamp, Op.BIT_OR: _rotate})
"""Rows that always hold, by the operation at their root."""

FAST_ROWS: Final[Rows] = MappingProxyType({Op.ADD: _mad, Op.DIV: _rsqrt})
"""Rows that hold under ``fast_math`` only."""
