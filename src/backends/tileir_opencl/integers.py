"""Operations on bools and integers, as :mod:`tileir.core.arithmetic` defines them.

Signed overflow is undefined in C, so signed numbers are added, subtracted and multiplied as unsigned ones, unless the
range of the result is known to fit. Scalars of less than 32 bits are computed in ``int``, and cast back.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ranges import Range, exact
from tileir_opencl.definitions import define
from tileir_opencl.logic import both, choice, compared, differ, either, negated
from tileir_opencl.spelling import INFIX, MEMORY, SUM, UNARY, lane_constant, register, vector
from tileir_opencl.text import Value, call, infix, integer, operands

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.semtree.ir import Type
    from tileir_opencl.text import KernelText

_UNSIGNED: Final[Mapping[DType, DType]] = MappingProxyType(
    {DType.I8: DType.U8, DType.I16: DType.U16, DType.I32: DType.U32, DType.I64: DType.U64}
)


def apply_integer(out: KernelText, op: Op, args: tuple[Value, ...], *, index: bool = False) -> Value:
    """Compute an operation on bools or integers of one type.

    ``index`` says that the result is a part of an offset, which cannot overflow where the program is right.
    """
    kind = args[0].type
    if kind.dtype.is_bool:
        return _BOOLS[op](*args)
    if op.info.compares:
        return compared(INFIX[op][0], *args)
    same = _unchanged(op, args)
    if same is not None:
        return same
    fact = exact(op, tuple(arg.range for arg in args))
    fits = index or (fact is not None and fact.fits(kind.dtype))
    known = None if fact is None else _inside(fact, kind.dtype) if index else fact.wrapped(kind.dtype)
    if known is not None and known.known is not None:
        return integer(known.known, kind)
    result = _compute(out, op, args, fits=fits)
    ramp = _ramp(out, op, args) if index and kind.lanes > 1 else None
    return attrs.evolve(result, fact=known, ramp=ramp)


def _inside(fact: Range, dtype: DType) -> Range:
    """Return what is known about a result that is promised not to overflow."""
    low, high = int(dtype.minimum), int(dtype.maximum)
    return Range(min(max(fact.low, low), high), max(min(fact.high, high), low), fact.divisor)


def _unchanged(op: Op, args: tuple[Value, ...]) -> Value | None:
    """Return the operand that is the result, if one is known to be."""
    match op, [arg.known for arg in args]:
        case ((Op.IDENT | Op.FLOOR | Op.CEIL | Op.ROUND | Op.TRUNC), _):
            return args[0]
        case (Op.ADD, (_, 0)) | (Op.SUB, (_, 0)) | ((Op.MUL | Op.DIV), (_, 1)):
            return args[0]
        case (Op.ADD, (0, _)) | (Op.MUL, (1, _)):
            return args[1]
        case Op.ABS, _ if not args[0].type.dtype.is_signed or args[0].range.low >= 0:
            return args[0]
        case _:
            return None


def _compute(out: KernelText, op: Op, args: tuple[Value, ...], *, fits: bool) -> Value:
    match op:
        case Op.ADD | Op.SUB | Op.MUL:
            return _wrapping(op, *args, fits=fits)
        case Op.NEG:
            return _negative(args[0], fits=fits)
        case Op.DIV | Op.MOD:
            return _division(out, op, *args)
        case Op.BIT_LEFT | Op.BIT_RIGHT:
            return _shift(out, op, *args)
        case Op.ABS:
            return _magnitude(out, args[0])
        case Op.MAX | Op.MIN:
            return call(op.value, args[0].type, *args)
        case Op.BIT_NOT:
            return narrowed(Value("~" + args[0].at(UNARY + 1), args[0].type, UNARY))
        case _:
            return narrowed(_bits(op, *args))


def reinterpreted(value: Value, kind: Type) -> Value:
    """Return an integer as one of the same bits and another sign."""
    origin = None if value.type.dtype.is_signed else value
    if kind.lanes > 1:
        return attrs.evolve(call(f"as_{register(kind)}", kind, value), origin=origin)
    return Value(f"({register(kind)}){value.at(UNARY)}", kind, UNARY, origin=origin)


def narrowed(value: Value) -> Value:
    """Cast a scalar that C has computed in ``int`` back to its type."""
    if value.type.lanes > 1 or value.type.dtype.bits >= 32:
        return value
    return Value(f"({MEMORY[value.type.dtype]}){value.at(UNARY)}", value.type, UNARY)


def _unsigned(value: Value) -> Value:
    """Return a signed integer as an unsigned one; scalars of less than 32 bits as ``uint``, where nothing overflows."""
    dtype = value.type.dtype
    if value.origin is not None and dtype.is_signed:
        return value.origin
    if value.known is not None and value.known >= 0:
        return integer(value.known, value.type.with_dtype(_UNSIGNED.get(dtype, dtype)))
    return reinterpreted(value, value.type.with_dtype(_UNSIGNED[dtype])) if dtype.is_signed else value


def _wrapping(op: Op, left: Value, right: Value, *, fits: bool) -> Value:
    kind = left.type
    sign, rank = INFIX[op]
    small = kind.lanes == 1 and kind.dtype.bits < 32
    if small and op is Op.MUL and kind.dtype is DType.U16:
        wide = kind.with_dtype(DType.U32)
        left = Value(f"(uint){left.at(UNARY)}", wide, UNARY)
    if small or fits or not kind.dtype.is_signed:
        return narrowed(infix(sign, rank, left, right, kind))
    unsigned = kind.with_dtype(_UNSIGNED[kind.dtype])
    return reinterpreted(infix(sign, rank, _unsigned(left), _unsigned(right), unsigned), kind)


def _negative(value: Value, *, fits: bool) -> Value:
    kind = value.type
    small = kind.lanes == 1 and kind.dtype.bits < 32
    if small or fits or not kind.dtype.is_signed:
        return narrowed(Value("-" + value.at(UNARY + 1), kind, UNARY))
    unsigned = kind.with_dtype(_UNSIGNED[kind.dtype])
    return reinterpreted(Value("-" + _unsigned(value).at(UNARY + 1), unsigned, UNARY), kind)


def _magnitude(out: KernelText, value: Value) -> Value:
    """Return what lies between a signed number and 0; the least number has no positive counterpart, and stays."""
    kind = value.type
    if value.range.low > kind.dtype.minimum:
        return reinterpreted(call("abs", kind.with_dtype(_UNSIGNED[kind.dtype]), value), kind)
    # PoCL 3.0 computes `abs` of the least number as if it could not occur, though OpenCL defines it.
    short = kind.dtype is DType.I16 and kind.lanes > 1
    body = _negated_below_zero if short else _greater_of_signs
    return call(define(out, f"magnitude_{register(kind)}", kind, (kind,), body), kind, value)


def _greater_of_signs(_: KernelText, value: Value) -> Value:
    return call("max", value.type, value, _negative(value, fits=False))


def _negated_below_zero(_: KernelText, value: Value) -> Value:
    """Choose between a number and its negation.

    NVIDIA's driver 580 joins the maximum of a number, its negation and a third one into one instruction, and gets it
    wrong for vectors of 16 bits.
    """
    return choice(compared("<", value, integer(0, value.type)), _negative(value, fits=False), value)


def _bits(op: Op, left: Value, right: Value) -> Value:
    """Return a bit operation, with brackets around operands that are operations."""
    sign, rank = INFIX[op]
    kind = left.type
    if right.splat is not None or op not in (Op.BIT_LEFT, Op.BIT_RIGHT):
        left, right = operands(left, right)
    return Value(f"{left.at(rank if left.rank == rank else UNARY)} {sign} {right.at(UNARY)}", kind, rank)


def _division(out: KernelText, op: Op, left: Value, right: Value) -> Value:
    kind = left.type
    if right.range.low > 0 or right.range.high < -1:
        sign, rank = INFIX[op]
        return narrowed(infix(sign, rank, left, right, kind))
    name = f"{'divide' if op is Op.DIV else 'remainder'}_{register(kind)}"
    return call(define(out, name, kind, (kind, kind), _quotient if op is Op.DIV else _rest), kind, left, right)


def _is(value: Value, number: int) -> Value:
    return compared("==", value, integer(number, value.type))


def _safe_divisor(divisor: Value) -> Value:
    """Replace the divisors that could trap, 0 and -1, by 1."""
    unsafe = _is(divisor, 0)
    if divisor.type.dtype.is_signed:
        unsafe = either(unsafe, _is(divisor, -1))
    return choice(unsafe, integer(1, divisor.type), divisor)


def _quotient(_: KernelText, left: Value, right: Value) -> Value:
    """Divide towards zero; 0 where the divisor is 0, and the negated dividend, which wraps, where it is -1."""
    result = narrowed(infix(*INFIX[Op.DIV], left, _safe_divisor(right), left.type))
    if left.type.dtype.is_signed:
        result = choice(_is(right, -1), _negative(left, fits=False), result)
    return choice(_is(right, 0), integer(0, left.type), result)


def _rest(_: KernelText, left: Value, right: Value) -> Value:
    """Return the remainder of :func:`_quotient`, which is 0 for the divisors 0 and -1."""
    return narrowed(infix(*INFIX[Op.MOD], left, _safe_divisor(right), left.type))


def _shift(out: KernelText, op: Op, value: Value, count: Value) -> Value:
    kind, bits = value.type, value.type.dtype.bits
    left = op is Op.BIT_LEFT
    if count.range.low >= 0 and count.range.high < bits:
        return _shifted_left(value, count) if left else _shifted_right(value, count)
    name = f"{'shift_left' if left else 'shift_right'}_{register(kind)}"
    return call(define(out, name, kind, (kind, kind), _any_left if left else _any_right), kind, value, count)


def _shifted_left(value: Value, count: Value) -> Value:
    """Shift to the left by less than the width; the count has the type of the value, and is not negative."""
    kind = value.type
    if kind.lanes == 1 and kind.dtype.bits < 32:
        # The value is shifted as an `uint`, whose upper bits are lost in the end.
        wide = Value(f"(uint){value.at(UNARY)}", kind, UNARY)
        return narrowed(_bits(Op.BIT_LEFT, wide, count))
    if not kind.dtype.is_signed:
        return _bits(Op.BIT_LEFT, value, count)
    return reinterpreted(_bits(Op.BIT_LEFT, _unsigned(value), _unsigned(count)), kind)


def _shifted_right(value: Value, count: Value) -> Value:
    return narrowed(_bits(Op.BIT_RIGHT, value, count))


def _in_width(count: Value) -> Value:
    unsigned = _unsigned(count)
    return compared("<", unsigned, integer(count.type.dtype.bits, unsigned.type))


def _any_left(_: KernelText, value: Value, count: Value) -> Value:
    return choice(_in_width(count), _shifted_left(value, count), integer(0, value.type))


def _any_right(_: KernelText, value: Value, count: Value) -> Value:
    """Shift to the right; counts outside the width leave the sign."""
    kind = value.type
    if kind.dtype.is_signed:
        widest = integer(kind.dtype.bits - 1, kind)
        return _shifted_right(value, choice(_in_width(count), count, widest))
    return choice(_in_width(count), _shifted_right(value, count), integer(0, kind))


def _ramp(out: KernelText, op: Op, args: tuple[Value, ...]) -> tuple[Value, int] | None:
    """Return base and step of a sum, difference or multiple of vectors whose lanes are known to form ramps."""
    if op not in (Op.ADD, Op.SUB, Op.MUL):
        return None
    left, right = (as_ramp(arg) for arg in args)
    if left is None or right is None:
        return None
    if op is Op.MUL:
        factor = right[0].known if right[1] == 0 else left[0].known if left[1] == 0 else None
        if factor is None and (left[1] or right[1]):
            return None
        step = (left[1] + right[1]) * (0 if factor is None else factor)
    else:
        step = left[1] + right[1] if op is Op.ADD else left[1] - right[1]
    return apply_integer(out, op, (left[0], right[0]), index=True), step


def as_ramp(value: Value) -> tuple[Value, int] | None:
    """Return base and step of lanes that are known to form a ramp."""
    if value.known is not None:
        return integer(value.known, type(value.type)(value.type.dtype)), 0
    return value.ramp


def steps(kind: Type, stride: int) -> Value:
    """Return the vector ``0, stride, 2·stride, …``, reduced to the range of its type."""
    texts = []
    for number in range(kind.lanes):
        value = (stride * number) & ((1 << kind.dtype.bits) - 1)
        value -= (1 << kind.dtype.bits) if value > kind.dtype.maximum else 0
        texts.append(lane_constant(value, kind.dtype))
    ends = sorted((0, stride * (kind.lanes - 1)))
    fact = Range(ends[0], ends[1], abs(stride)).wrapped(kind.dtype)
    return Value(f"({vector(MEMORY[kind.dtype], kind.lanes)})({', '.join(texts)})", kind, fact=fact)


def _less_bool(left: Value, right: Value) -> Value:
    return both(negated(left), right)


def _same_bool(left: Value, right: Value) -> Value:
    if left.type.lanes == 1 and left.known is None and right.known is None:
        return Value(f"{left.at(SUM)} == {right.at(SUM)}", left.type, INFIX[Op.CMP_EQ][1])
    return negated(differ(left, right))


_BOOLS: Final[Mapping[Op, Callable[..., Value]]] = MappingProxyType(
    {
        Op.IDENT: lambda a: a,
        Op.BIT_NOT: negated,
        Op.BIT_AND: both,
        Op.MIN: both,
        Op.BIT_OR: either,
        Op.MAX: either,
        Op.BIT_XOR: differ,
        Op.CMP_NE: differ,
        Op.CMP_EQ: _same_bool,
        Op.CMP_LT: _less_bool,
        Op.CMP_GT: lambda a, b: _less_bool(b, a),
        Op.CMP_GE: lambda a, b: either(a, negated(b)),
        Op.CMP_LE: lambda a, b: either(negated(a), b),
    }
)
