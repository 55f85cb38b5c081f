"""Operations on bools and integers for which LLVM defines the result (:mod:`tileir_llvm.emit.capabilities`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op
from tileir.core.numbers.integers import quotient, remainder
from tileir_llvm.emit.conversions import integer, wrapped
from tileir_llvm.emit.spelling import INTEGER_COMPARISON, constant, register, suffix
from tileir_llvm.emit.text import FunctionText, Value


def apply_integer(out: FunctionText, op: Op, args: tuple[Value, ...], *, index: bool) -> Value:
    """Compute an operation on bools or integers of one type.

    ``index`` says that the result is an offset, which cannot overflow in a valid program.
    """
    folded = _folded(op, args)
    if folded is not None:
        return folded
    kind = args[0].type
    signed = kind.dtype.is_signed
    match op:
        case _ if op.info.compares:
            sign = "" if op in (Op.CMP_EQ, Op.CMP_NE) else "s" if signed else "u"
            return _test(out, sign + INTEGER_COMPARISON[op], *args)
        case Op.MAX | Op.MIN:
            name = f"llvm.{'s' if signed else 'u'}{op.value}.{suffix(kind)}"
            spelt = register(kind)
            return Value(out.call(spelt, name, *((spelt, arg.text) for arg in args)), kind)
        case Op.ABS:
            spelt = register(kind)
            return Value(out.call(spelt, f"llvm.abs.{suffix(kind)}", (spelt, args[0].text), ("i1", "false")), kind)
        case Op.BIT_NOT:
            return _instruction(out, "xor", args[0], 1 if kind.dtype.is_bool else -1)
        case Op.BIT_RIGHT if kind.dtype.bits == 64:
            return _shift_right(out, *args)
        case _ if op in _WRAPPING:
            return _instruction(out, _WRAPPING[op] + (" nsw" if index and signed else ""), *args)
        case _:
            return _instruction(out, (_OF_SIGNED if signed else _OF_UNSIGNED)[op], *args)


def _folded(op: Op, args: tuple[Value, ...]) -> Value | None:
    """Return the result if it is known without an instruction, else None."""
    known = [arg.known for arg in args]
    if known == _UNKNOWN:
        return None
    kind = args[0].type
    if op in _FOLDS and None not in known:
        value = _FOLDS[op](*known)
        if op.info.compares:
            return integer(int(value), kind.with_dtype(DType.BOOL))
        return integer(wrapped(value, kind.dtype), kind)
    match op:
        case Op.ADD if known[0] == 0:
            return args[1]
        case Op.ADD | Op.SUB if known[1] == 0:
            return args[0]
        case Op.MUL if 0 in known:
            return integer(0, kind)
        case Op.MUL if known[0] == 1:
            return args[1]
        case Op.MUL | Op.DIV if known[1] == 1:
            return args[0]
        case _:
            return None


_UNKNOWN: Final = [None, None]


_FOLDS: Final[Mapping[Op, Callable[..., int]]] = MappingProxyType(
    {
        Op.ADD: lambda a, b: a + b,
        Op.SUB: lambda a, b: a - b,
        Op.MUL: lambda a, b: a * b,
        Op.DIV: quotient,
        Op.MOD: remainder,
        Op.MAX: max,
        Op.MIN: min,
        Op.BIT_AND: lambda a, b: a & b,
        Op.BIT_OR: lambda a, b: a | b,
        Op.BIT_XOR: lambda a, b: a ^ b,
        Op.CMP_EQ: lambda a, b: a == b,
        Op.CMP_NE: lambda a, b: a != b,
        Op.CMP_LT: lambda a, b: a < b,
        Op.CMP_LE: lambda a, b: a <= b,
        Op.CMP_GT: lambda a, b: a > b,
        Op.CMP_GE: lambda a, b: a >= b,
    }
)

_WRAPPING: Final[Mapping[Op, str]] = MappingProxyType({Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul"})


_BITS: Final = {Op.BIT_AND: "and", Op.BIT_OR: "or", Op.BIT_XOR: "xor", Op.BIT_LEFT: "shl"}
_OF_SIGNED: Final[Mapping[Op, str]] = MappingProxyType({**_BITS, Op.DIV: "sdiv", Op.MOD: "srem", Op.BIT_RIGHT: "ashr"})
_OF_UNSIGNED: Final[Mapping[Op, str]] = MappingProxyType(
    {**_BITS, Op.DIV: "udiv", Op.MOD: "urem", Op.BIT_RIGHT: "lshr"}
)


def _instruction(out: FunctionText, name: str, left: Value, right: Value | int) -> Value:
    operand = constant(right, left.type) if isinstance(right, int) else right.text
    return Value(out.pure(f"{name} {register(left.type)} {left.text}, {operand}"), left.type)


def _test(out: FunctionText, name: str, left: Value, right: Value | int) -> Value:
    operand = constant(right, left.type) if isinstance(right, int) else right.text
    kind = left.type.with_dtype(DType.BOOL)
    return Value(out.pure(f"icmp {name} {register(left.type)} {left.text}, {operand}"), kind)


def select(out: FunctionText, condition: Value, then: Value, otherwise: Value) -> Value:
    """Select by a bool in each lane, between values of one type."""
    if condition.known is not None:
        return then if condition.known else otherwise
    kind = register(then.type)
    operands = f"{register(condition.type)} {condition.text}, {kind} {then.text}, {kind} {otherwise.text}"
    return Value(out.pure(f"select {operands}"), then.type)


def _shift_right(out: FunctionText, value: Value, count: Value) -> Value:
    """Shift 64 bits by any count, opaque to LLVM."""
    inside = _test(out, "ult", count, 64)
    if value.type.dtype.is_signed:
        return _instruction(out, "ashr", value, select(out, inside, count, integer(63, count.type)))
    shifted = _instruction(out, "lshr", value, select(out, inside, count, integer(0, count.type)))
    return select(out, inside, shifted, integer(0, value.type))
