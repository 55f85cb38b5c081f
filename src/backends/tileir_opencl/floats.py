"""Operations on floats, as :mod:`tileir.core.arithmetic` defines them; f16 and bf16 are computed in f32."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir_opencl.conversions import rounded
from tileir_opencl.definitions import define
from tileir_opencl.logic import choice, compared, either
from tileir_opencl.spelling import INFIX, UNARY, register
from tileir_opencl.text import Value, call, infix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.ir import Type
    from tileir_opencl.text import KernelText

_INFIX: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.DIV})

_FUNCTIONS: Final[Mapping[Op, str]] = MappingProxyType(
    {
        Op.ABS: "fabs",
        Op.SQRT: "sqrt",
        Op.FLOOR: "floor",
        Op.CEIL: "ceil",
        Op.ROUND: "rint",
        Op.TRUNC: "trunc",
        Op.MOD: "fmod",
        Op.FMA: "fma",
        Op.RSQRT: "rsqrt",
        Op.EXP: "exp",
        Op.LOG: "log",
        Op.SIN: "sin",
        Op.COS: "cos",
        Op.TAN: "tan",
    }
)

NATIVE: Final = frozenset({Op.RSQRT})
"""Operations with an expansion that every device computes at least as accurately: ``rsqrt`` errs by 2 ulp at most."""

SINGLE: Final = NATIVE | {Op.SIN, Op.COS, Op.TAN}
"""For devices without f64, which these expansions need in f32; OpenCL's own err by 4, 4 and 5 ulp at most."""

FAST: Final = SINGLE | {Op.EXP, Op.LOG}
"""Those that have a ``native_`` function, for ``fast_math``; f64 takes the ordinary one."""

_INEXACT: Final = frozenset({*_INFIX, Op.SQRT, Op.FMA, *FAST})
"""Operations on halves whose result in f32 may not be a half."""


def apply_float(out: KernelText, op: Op, args: tuple[Value, ...]) -> Value:
    """Compute an operation that has no expansion, or one of :data:`FAST`, on floats of one type."""
    kind = args[0].type
    if op is Op.IDENT:
        return args[0]
    if op.info.compares:
        return compared(INFIX[op][0], *args)
    result = _compute(out, op, args)
    return rounded(out, result, kind.dtype) if op in _INEXACT else result


def _compute(out: KernelText, op: Op, args: tuple[Value, ...]) -> Value:
    kind = args[0].type
    if op in _INFIX:
        sign, rank = INFIX[op]
        return infix(sign, rank, args[0], args[1], kind)
    if op is Op.NEG:
        return Value("-" + args[0].at(UNARY + 1), kind, UNARY)
    if op in (Op.MAX, Op.MIN):
        return call(_extremum(out, op, kind), kind, *args)
    name = _FUNCTIONS[op]
    native = out.fast_math and op in FAST and kind.dtype is not DType.F64
    return call(f"native_{name}" if native else name, kind, *args)


def _extremum(out: KernelText, op: Op, kind: Type) -> str:
    """Return the function to the larger or smaller operand, or the one that is NaN.

    A comparison with a NaN is false, which chooses the right operand, so that only the left needs a test.
    """
    kind = kind.with_dtype(DType.F32) if kind.dtype.is_narrow else kind
    sign, word = (">", "maximum") if op is Op.MAX else ("<", "minimum")

    def body(_: KernelText, left: Value, right: Value) -> Value:
        return choice(either(compared(sign, left, right), compared("!=", left, left)), left, right)

    return define(out, f"{word}_{register(kind)}", kind, (kind, kind), body)
