"""Operations on floats, as :mod:`tileir.core.arithmetic` defines them; f16 and bf16 are computed in f32."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.dtype import DType
from tileir.core.errors import BackendError, Diagnostic
from tileir.core.ops import Op
from tileir_c.conversions import narrowed, widened
from tileir_c.integers import COMPARISONS
from tileir_c.spelling import VALUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir_c.prelude import Prelude

_INFIX: Final[Mapping[Op, str]] = MappingProxyType({Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/"})

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
    }
)
"""Functions of C that are exact, or rounded once; ``rint`` rounds to even unless a program changes the mode."""

NATIVE: Final = frozenset({*_INFIX, *_FUNCTIONS, *COMPARISONS, Op.NEG, Op.IDENT, Op.MAX, Op.MIN, Op.COND})
"""The float operations that :func:`apply_float` knows; all others are expanded before."""


def apply_float(prelude: Prelude, op: Op, dtype: DType, args: tuple[str, ...]) -> str:
    """Return an expression for an operation of :data:`NATIVE`, other than COND, on floats of one type.

    Raises:
        BackendError: TIL804, the operation is not native.

    """
    if op is Op.IDENT:
        return args[0]
    wide = tuple(widened(prelude, arg, dtype) for arg in args)
    if op in COMPARISONS:
        return f"({wide[0]} {COMPARISONS[op]} {wide[1]})"
    return narrowed(prelude, _compute(prelude, op, DType.F32 if dtype.is_narrow else dtype, wide), dtype)


def _compute(prelude: Prelude, op: Op, dtype: DType, args: tuple[str, ...]) -> str:
    if op in _INFIX:
        return f"({args[0]} {_INFIX[op]} {args[1]})"
    if op is Op.NEG:
        return f"(-({args[0]}))" if args[0].startswith("-") else f"(-{args[0]})"
    if op in (Op.MAX, Op.MIN):
        return f"{_extremum(prelude, op, dtype)}({args[0]}, {args[1]})"
    if op not in _FUNCTIONS:
        raise BackendError((Diagnostic("TIL804", f"the C back end has no {op.value}; expand it before"),))
    return f"{_FUNCTIONS[op]}{'f' if dtype is DType.F32 else ''}({', '.join(args)})"


def _extremum(prelude: Prelude, op: Op, dtype: DType) -> str:
    """Return a function for the larger or smaller operand, or the one that is NaN: the left one where that is.

    A comparison with a NaN is false, which chooses the right operand, so that only the left needs a test.
    """
    kind, sign = VALUE[dtype], ">" if op is Op.MAX else "<"
    body = f"return ((a {sign} b) | (a != a)) ? a : b;"
    return prelude.function(f"tile_{op.value}_{dtype.value}", kind, f"{kind} a, {kind} b", body)
