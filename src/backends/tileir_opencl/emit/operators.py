"""Operations and conversions that :mod:`tileir_opencl.emit.operations` names, as OpenCL C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op
from tileir.semtree.ir import Type
from tileir.semtree.legalise.c_operators import FUNCTIONS
from tileir_opencl.emit.logic import both, choice, compared, differ, either, negated
from tileir_opencl.emit.operations import FAST
from tileir_opencl.emit.spelling import INFIX, MEMORY, SHIFT, UNARY, register, vector
from tileir_opencl.emit.text import KernelText, Value, call, infix, operands

_FUNCTIONS: Final[Mapping[Op, str]] = MappingProxyType(
    {
        **FUNCTIONS,
        Op.MAX: "fmax",
        Op.MIN: "fmin",
        Op.RSQRT: "rsqrt",
        Op.EXP: "exp",
        Op.LOG: "log",
        Op.SIN: "sin",
        Op.COS: "cos",
        Op.TAN: "tan",
    }
)
"""Functions of floats."""

_OF_BOOLS: Final[Mapping[Op, Callable[..., Value]]] = MappingProxyType(
    {Op.BIT_AND: both, Op.BIT_OR: either, Op.BIT_XOR: differ, Op.BIT_NOT: negated}
)


def applied(out: KernelText, op: Op, args: tuple[Value, ...]) -> Value:
    """Return an operation on operands of one type, for which the language defines it."""
    kind = args[0].type
    if op is Op.COND:
        return choice(*args)
    if kind.dtype.is_bool:
        return _OF_BOOLS[op](*args)
    if op.info.compares:
        return compared(INFIX[op][0], *args)
    same = _unchanged(op, args)
    if same is not None:
        return same
    if op in (Op.NEG, Op.BIT_NOT):
        return _narrowed(Value(("-" if op is Op.NEG else "~") + args[0].at(UNARY + 1), kind, UNARY))
    if op in INFIX and not (kind.dtype.is_float and op is Op.MOD):
        return _narrowed(_infix(op, *args))
    if kind.dtype.is_integer:
        return call(_magnitude(out, kind) if op is Op.ABS else op.value, kind, *args)
    native = out.fast_math and op in FAST and kind.dtype is not DType.F64
    return call(f"native_{_FUNCTIONS[op]}" if native else _FUNCTIONS[op], kind, *args)


def _magnitude(out: KernelText, kind: Type) -> str:
    """Return the function from a signed number to what lies between it and 0.

    PoCL 3.0 computes ``abs`` of the least number as if it could not occur, though OpenCL defines it, and Oclgrind lacks
    what compilers make of a choice between a number and its negation.
    """
    word = register(kind)
    name, unsigned = f"magnitude_{word}", register(kind.with_dtype(DType(f"u{kind.dtype.bits}")))
    text = f"static inline {word} {name}({word} x)\n{{\n  return max(x, ({word})-({unsigned})x);\n}}\n"
    return out.helpers.use(name, lambda: text)


def _unchanged(op: Op, args: tuple[Value, ...]) -> Value | None:
    """Return the operand that is the result, if one is known to be."""
    match op, [arg.known for arg in args]:
        case (Op.ADD, (_, 0)) | (Op.SUB, (_, 0)) | ((Op.MUL | Op.DIV), (_, 1)):
            return args[0]
        case (Op.ADD, (0, _)) | (Op.MUL, (1, _)):
            return args[1]
        case _:
            return None


def _infix(op: Op, left: Value, right: Value) -> Value:
    """Return an operation; those of bits with brackets around operands, for few know how they bind."""
    sign, rank = INFIX[op]
    if rank > SHIFT:
        return infix(sign, rank, left, right, left.type)
    kind = left.type
    if right.splat is not None or rank < SHIFT:
        left, right = operands(left, right)
    return Value(f"{left.at(rank if left.rank == rank else UNARY)} {sign} {right.at(UNARY)}", kind, rank)


def _narrowed(value: Value) -> Value:
    """Cast a scalar that C has computed in ``int`` back to its type."""
    dtype = value.type.dtype
    if value.type.lanes > 1 or dtype.is_float or dtype.bits >= 32:
        return value
    return Value(f"({MEMORY[dtype]}){value.at(UNARY)}", value.type, UNARY)


def converted(out: KernelText, value: Value, kind: Type) -> Value:
    """Return every lane as a value of another type."""
    source, dtype = value.type.dtype, kind.dtype
    if source is DType.F16:
        return value.retyped(kind)
    if dtype is DType.F16:
        return call(_rounder(out, value.type), kind, value)
    if kind.lanes == 1:
        return Value(f"({register(kind)}){value.at(UNARY)}", kind, UNARY)
    if source.is_integer and dtype.is_integer and source.bits == dtype.bits:
        return reinterpreted(value, kind)
    return call(f"convert_{register(kind)}", kind, value)


def _rounder(out: KernelText, single: Type) -> str:
    """Return the function that rounds f32 to values of f16, by way of memory where registers hold no halves."""
    name, kind = f"rounded_f16_{register(single)}", register(single)
    n, size = vector("", single.lanes), 2 * (4 if single.lanes == 3 else single.lanes)
    if out.features.fp16:
        lines = f"  return convert_{kind}(convert_half{n}_rte(x));\n"
    else:
        lines = (
            f"  uchar bytes[{size}] __attribute__((aligned({size})));\n"
            f"  vstore_half{n}(x, 0, (__private half *)bytes);\n"
            f"  return vload_half{n}(0, (__private const half *)bytes);\n"
        )
    return out.helpers.use(name, lambda: f"static inline {kind} {name}({kind} x)\n{{\n{lines}}}\n")


def reinterpreted(value: Value, kind: Type) -> Value:
    """Return the same bits as another type."""
    integers = value.type.dtype.is_integer and kind.dtype.is_integer
    if kind.dtype is value.type.dtype:
        return value
    if integers and kind.lanes == 1:
        return Value(f"({register(kind)}){value.at(UNARY)}", kind, UNARY)
    return call(f"as_{register(kind)}", kind, value)
