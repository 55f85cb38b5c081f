"""Operations on bools and integers, of operands for which LLVM defines them (:mod:`tileir_llvm.capabilities`)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Type
from tileir_llvm.conversions import integer, wrapped
from tileir_llvm.spelling import INTEGER_COMPARISON, constant, register, suffix
from tileir_llvm.text import FunctionText, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def apply_integer(out: FunctionText, op: Op, args: tuple[Value, ...], *, index: bool) -> Value:
    """Compute an operation on bools or integers of one type.

    ``index`` says that the result is an offset, which cannot overflow where the program is right.
    """
    folded = _folded(op, args)
    if folded is not None:
        return folded
    if op.info.compares:
        return _compare(out, op, args)
    if op in _WRAPPING:
        return _wrapping(out, op, args, index=index)
    return _EMITTERS[op](out, *args)


def _folded(op: Op, args: tuple[Value, ...]) -> Value | None:
    """Return the result where it is known without an instruction, else None."""
    kind = args[0].type
    known = [arg.known for arg in args]
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


def _truncated_quotient(left: int, right: int) -> int:
    if right == 0:
        return 0
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _truncated_remainder(left: int, right: int) -> int:
    return 0 if right == 0 else left - right * _truncated_quotient(left, right)


_FOLDS: Final[Mapping[Op, Callable[..., int]]] = MappingProxyType(
    {
        Op.ADD: lambda a, b: a + b,
        Op.SUB: lambda a, b: a - b,
        Op.MUL: lambda a, b: a * b,
        Op.DIV: _truncated_quotient,
        Op.MOD: _truncated_remainder,
        Op.NEG: lambda a: -a,
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


def _wrapping(out: FunctionText, op: Op, args: tuple[Value, ...], *, index: bool) -> Value:
    kind = args[0].type
    flag = "nsw " if index and kind.dtype.is_signed else ""
    text = out.pure(f"{_WRAPPING[op]} {flag}{register(kind)} {args[0].text}, {args[1].text}")
    return Value(text, kind, ramp=_ramp(out, op, args) if index and kind.lanes > 1 else None)


def _ramp(out: FunctionText, op: Op, args: tuple[Value, ...]) -> tuple[Value, int] | None:
    """Return base and step of a sum, difference or multiple of vectors whose lanes are known to form ramps."""
    left, right = (as_ramp(arg) for arg in args)
    if left is None or right is None:
        return None
    base = apply_integer(out, op, (left[0], right[0]), index=True)
    match op:
        case Op.ADD:
            return base, left[1] + right[1]
        case Op.SUB:
            return base, left[1] - right[1]
        case _:
            if left[1] and right[1]:
                return None
            factor = right[0].known if left[1] else left[0].known
            return None if factor is None else (base, (left[1] + right[1]) * factor)


def as_ramp(value: Value) -> tuple[Value, int] | None:
    """Return base and step of an integer vector that is a ramp, a constant or a broadcast; else None."""
    if value.known is not None and value.ramp is None:
        return integer(value.known, Type(value.type.dtype)), 0
    return value.ramp


def _instruction(out: FunctionText, name: str, left: Value, right: Value | int) -> Value:
    operand = constant(right, left.type) if isinstance(right, int) else right.text
    return Value(out.pure(f"{name} {register(left.type)} {left.text}, {operand}"), left.type)


def _test(out: FunctionText, name: str, left: Value, right: Value | int) -> Value:
    operand = constant(right, left.type) if isinstance(right, int) else right.text
    kind = left.type.with_dtype(DType.BOOL)
    return Value(out.pure(f"icmp {name} {register(left.type)} {left.text}, {operand}"), kind)


def select(out: FunctionText, condition: Value, then: Value, otherwise: Value) -> Value:
    """Choose by a bool in each lane, between values of one type."""
    if condition.known is not None:
        return then if condition.known else otherwise
    kind = register(then.type)
    operands = f"{register(condition.type)} {condition.text}, {kind} {then.text}, {kind} {otherwise.text}"
    return Value(out.pure(f"select {operands}"), then.type)


def _compare(out: FunctionText, op: Op, args: tuple[Value, ...]) -> Value:
    sign = "" if op in (Op.CMP_EQ, Op.CMP_NE) else "s" if args[0].type.dtype.is_signed else "u"
    return _test(out, sign + INTEGER_COMPARISON[op], args[0], args[1])


def _same(_: FunctionText, value: Value) -> Value:
    return value


def _negate(out: FunctionText, value: Value) -> Value:
    return _instruction(out, "sub", integer(0, value.type), value)


def _invert(out: FunctionText, value: Value) -> Value:
    return _instruction(out, "xor", value, 1 if value.type.dtype.is_bool else -1)


def _absolute(out: FunctionText, value: Value) -> Value:
    if not value.type.dtype.is_signed:
        return value
    kind = register(value.type)
    return Value(out.call(kind, f"llvm.abs.{suffix(value.type)}", (kind, value.text), ("i1", "false")), value.type)


def _divide(out: FunctionText, left: Value, right: Value) -> Value:
    return _instruction(out, "sdiv" if left.type.dtype.is_signed else "udiv", left, right)


def _remainder(out: FunctionText, left: Value, right: Value) -> Value:
    return _instruction(out, "srem" if left.type.dtype.is_signed else "urem", left, right)


def _maximum(out: FunctionText, left: Value, right: Value) -> Value:
    return _extremum(out, "max", "or", left, right)


def _minimum(out: FunctionText, left: Value, right: Value) -> Value:
    return _extremum(out, "min", "and", left, right)


def _extremum(out: FunctionText, name: str, of_bools: str, left: Value, right: Value) -> Value:
    if left.type.dtype.is_bool:
        return _instruction(out, of_bools, left, right)
    kind = register(left.type)
    sign = "s" if left.type.dtype.is_signed else "u"
    function = f"llvm.{sign}{name}.{suffix(left.type)}"
    return Value(out.call(kind, function, (kind, left.text), (kind, right.text)), left.type)


def _shift_left(out: FunctionText, value: Value, count: Value) -> Value:
    return _instruction(out, "shl", value, count)


def _shift_right(out: FunctionText, value: Value, count: Value) -> Value:
    """Shift by fewer bits than there are; 64 bits by any count, and not so that LLVM sees it."""
    bits, signed = value.type.dtype.bits, value.type.dtype.is_signed
    if bits < 64:
        return _instruction(out, "ashr" if signed else "lshr", value, count)
    inside = _test(out, "ult", count, bits)
    if signed:
        return _instruction(out, "ashr", value, select(out, inside, count, integer(bits - 1, count.type)))
    shifted = _instruction(out, "lshr", value, select(out, inside, count, integer(0, count.type)))
    return select(out, inside, shifted, integer(0, value.type))


_EMITTERS: Final[Mapping[Op, Callable[..., Value]]] = MappingProxyType(
    {
        **dict.fromkeys((Op.IDENT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC), _same),
        Op.NEG: _negate,
        Op.ABS: _absolute,
        Op.BIT_NOT: _invert,
        Op.DIV: _divide,
        Op.MOD: _remainder,
        Op.MAX: _maximum,
        Op.MIN: _minimum,
        Op.BIT_AND: lambda out, a, b: _instruction(out, "and", a, b),
        Op.BIT_OR: lambda out, a, b: _instruction(out, "or", a, b),
        Op.BIT_XOR: lambda out, a, b: _instruction(out, "xor", a, b),
        Op.BIT_LEFT: _shift_left,
        Op.BIT_RIGHT: _shift_right,
    }
)
