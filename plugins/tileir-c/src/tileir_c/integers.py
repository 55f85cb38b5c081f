"""Operations on bools and integers, as :mod:`tileir.core.arithmetic` defines them, without undefined behaviour."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.dtype import DType
from tileir.core.errors import BackendError, Diagnostic
from tileir.core.ops import Op
from tileir_c.spelling import VALUE, unsigned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir_c.prelude import Prelude

COMPARISONS: Final[Mapping[Op, str]] = MappingProxyType(
    {Op.CMP_EQ: "==", Op.CMP_NE: "!=", Op.CMP_LT: "<", Op.CMP_LE: "<=", Op.CMP_GT: ">", Op.CMP_GE: ">="}
)

_SAME: Final = frozenset({Op.IDENT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC})
_BITWISE: Final[Mapping[Op, str]] = MappingProxyType({Op.BIT_AND: "&", Op.BIT_OR: "|", Op.BIT_XOR: "^"})
_RING: Final[Mapping[Op, str]] = MappingProxyType({Op.ADD: "+", Op.SUB: "-", Op.MUL: "*"})
_OF_BOOLS: Final[Mapping[Op, str]] = MappingProxyType({**_BITWISE, Op.MAX: "|", Op.MIN: "&"})
_SHIFTS: Final = frozenset({Op.BIT_LEFT, Op.BIT_RIGHT})
_NATURAL: Final = frozenset({DType.U32, DType.U64})
"""Types whose arithmetic is C's own: no promotion to int comes before it, and it wraps."""


def apply_integer(
    prelude: Prelude, op: Op, dtype: DType, args: tuple[str, ...], constants: tuple[int | None, ...]
) -> str:
    """Return an expression for an operation on bools or integers of one type.

    Args:
        prelude: Where functions are defined.
        op: What to compute.
        dtype: The type of the operands.
        args: The operands as expressions.
        constants: The value of each operand that is a constant, else None.

    """
    if op in _SAME:
        return args[0]
    if op in COMPARISONS:
        # Compilers warn of comparisons of small types with their limits, which calls hide.
        if dtype in (DType.I32, DType.I64) or constants == (None, None):
            return f"({args[0]} {COMPARISONS[op]} {args[1]})"
        return _call(prelude, op, dtype, f"return a {COMPARISONS[op]} b;", args, "bool")
    if dtype.is_bool:
        return f"(!{args[0]})" if op is Op.BIT_NOT else f"({args[0]} {_OF_BOOLS[op]} {args[1]})"
    if op in _BITWISE:
        return f"({args[0]} {_BITWISE[op]} {args[1]})"
    if op in _RING:
        if dtype in _NATURAL:
            return f"({args[0]} {_RING[op]} {args[1]})"
        return _call(
            prelude, op, dtype, _wrapped(f"({_wide(dtype, 'a')} {_RING[op]} {_wide(dtype, 'b')})", dtype), args
        )
    if op in (Op.DIV, Op.MOD) and constants[1] not in (None, 0, -1):
        sign = "/" if op is Op.DIV else "%"
        return f"({args[0]} {sign} {args[1]})"
    if op in _SHIFTS and constants[1] is not None and 0 <= constants[1] < dtype.bits:
        if op is Op.BIT_RIGHT:
            return f"({args[0]} >> {constants[1]})"
        return f"{'' if dtype in _NATURAL else f'({VALUE[dtype]})'}({_wide(dtype, args[0])} << {constants[1]})"
    return _call(prelude, op, dtype, _body(op, dtype), args)


def _call(prelude: Prelude, op: Op, dtype: DType, body: str, args: tuple[str, ...], result: str = "") -> str:
    kind = VALUE[dtype]
    params = ", ".join(f"{kind} {name}" for name in "ab"[: len(args)])
    name = prelude.function(f"tile_{op.value.removeprefix('cmp_')}_{dtype.value}", result or kind, params, body)
    return f"{name}({', '.join(args)})"


def _wide(dtype: DType, text: str) -> str:
    return text if dtype in _NATURAL else f"({unsigned(dtype)}){text}"


def _wrapped(text: str, dtype: DType) -> str:
    return f"return {text};" if dtype in _NATURAL else f"return ({VALUE[dtype]}){text};"


def _body(op: Op, dtype: DType) -> str:
    """Return the body of a function of ``a`` and, for two operands, ``b``."""
    negated = f"({VALUE[dtype]})(0u - {_wide(dtype, 'a')})"
    inside = f"{_wide(dtype, 'b')} < {dtype.bits}"
    match op:
        case Op.NEG:
            return f"return {negated};"
        case Op.ABS:
            return f"return a < 0 ? {negated} : a;" if dtype.is_signed else "return a;"
        case Op.BIT_NOT:
            return _wrapped(f"~{_wide(dtype, 'a')}", dtype)
        case Op.DIV if dtype.is_signed:
            return f"return b == 0 ? 0 : b == -1 ? {negated} : ({VALUE[dtype]})(a / b);"
        case Op.DIV:
            return "return b == 0 ? 0 : a / b;"
        case Op.MOD if dtype.is_signed:
            return "return b == 0 || b == -1 ? 0 : a % b;"
        case Op.MOD:
            return "return b == 0 ? 0 : a % b;"
        case Op.MAX:
            return "return a > b ? a : b;"
        case Op.MIN:
            return "return a < b ? a : b;"
        case Op.BIT_LEFT:
            shifted = f"({_wide(dtype, 'a')} << b)"
            return f"return {inside} ? {shifted if dtype in _NATURAL else f'({VALUE[dtype]}){shifted}'} : 0;"
        case Op.BIT_RIGHT:
            return f"return {inside} ? a >> b : {'a < 0 ? -1 : 0' if dtype.is_signed else '0'};"
        case _:
            message = f"the C back end has no {op.value} of {dtype.value}"  # nor does the verifier let one through
            raise BackendError((Diagnostic("TIL804", message),))
