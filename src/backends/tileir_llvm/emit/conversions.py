"""Value conversions between element types that LLVM has, according to :mod:`tileir_llvm.emit.capabilities`."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tileir.core.dtype import DType
from tileir.semtree.ir import Type
from tileir_llvm.emit.spelling import constant, register, suffix
from tileir_llvm.emit.text import FunctionText, Value

_HALF: Final = 16
"""Bits of half a word."""


@lru_cache(maxsize=1 << 12)
def integer(value: int, kind: Type) -> Value:
    """Return an integer or bool constant; ``value`` is in range."""
    return Value(constant(value, kind), kind, value)


def wrapped(value: int, dtype: DType) -> int:
    """Return ``value`` modulo the range of an integer type."""
    if dtype is DType.BOOL:
        return value & 1
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.maximum else value


def cast(out: FunctionText, value: Value, dtype: DType) -> Value:
    """Convert every lane to ``dtype``."""
    source = value.type.dtype
    if source is dtype:
        return value
    kind = value.type.with_dtype(dtype)
    if value.known is not None and not dtype.is_float:
        return integer(wrapped(value.known, dtype), kind)
    if source.is_float:
        return _float_to_float(out, value, dtype) if dtype.is_float else _float_to_integer(out, value, dtype)
    return _integer_to_float(out, value, dtype) if dtype.is_float else _integer_to_integer(out, value, dtype)


def convert(out: FunctionText, instruction: str, value: Value, kind: Type) -> Value:
    """Apply one of LLVM's conversion instructions."""
    return Value(out.pure(f"{instruction} {register(value.type)} {value.text} to {register(kind)}"), kind)


def _float_to_integer(out: FunctionText, value: Value, dtype: DType) -> Value:
    """Convert by truncation; scalars saturate."""
    kind = value.type.with_dtype(dtype)
    sign = "s" if dtype.is_signed else "u"
    if value.type.lanes > 1:
        return convert(out, f"fpto{sign}i", value, kind)
    name = f"llvm.fpto{sign}i.sat.{suffix(kind)}.{suffix(value.type)}"
    return Value(out.call(register(kind), name, (register(value.type), value.text)), kind)


def _float_to_float(out: FunctionText, value: Value, dtype: DType) -> Value:
    if value.type.dtype is DType.BF16:
        return _widened(out, value)
    if dtype is DType.BF16:  # registers have its bits
        kind = value.type.with_dtype(dtype)
        narrow = "bfloat" if kind.lanes == 1 else f"<{kind.lanes} x bfloat>"
        rounded = out.pure(f"fptrunc {register(value.type)} {value.text} to {narrow}")
        return Value(out.pure(f"bitcast {narrow} {rounded} to {register(kind)}"), kind)
    return convert(
        out, "fpext" if dtype.bits > value.type.dtype.bits else "fptrunc", value, value.type.with_dtype(dtype)
    )


def _widened(out: FunctionText, value: Value) -> Value:
    """Return bf16 as f32, whose upper half it is; two neighbours are unpacked at once.

    As a conversion of each lane to a wider integer, GPU code would take five instructions for two lanes.
    """
    lanes, kind, bits = value.type.lanes, value.type.with_dtype(DType.F32), value.type.with_dtype(DType.U32)
    if lanes % 2:
        word = out.pure(f"zext {register(value.type)} {value.text} to {register(bits)}")
        found = out.pure(f"shl {register(bits)} {word}, {constant(_HALF, bits)}")
        return Value(out.pure(f"bitcast {register(bits)} {found} to {register(kind)}"), kind)
    pairs = Type(DType.U32, lanes // 2)
    both = out.pure(f"bitcast {register(value.type)} {value.text} to {register(pairs)}")
    first = out.pure(f"shl {register(pairs)} {both}, {constant(_HALF, pairs)}")
    second = out.pure(f"and {register(pairs)} {both}, {constant(-1 << _HALF, pairs)}")
    if lanes == 2:
        half = out.pure(f"insertelement <2 x i32> poison, i32 {first}, i64 0")
        found = out.pure(f"insertelement <2 x i32> {half}, i32 {second}, i64 1")
    else:
        order = ", ".join(f"i32 {number // 2 + number % 2 * (lanes // 2)}" for number in range(lanes))
        halves = f"{register(pairs)} {first}, {register(pairs)} {second}"
        found = out.pure(f"shufflevector {halves}, <{lanes} x i32> <{order}>")
    return Value(out.pure(f"bitcast {register(bits)} {found} to {register(kind)}"), kind)


def _integer_to_float(out: FunctionText, value: Value, dtype: DType) -> Value:
    instruction = "sitofp" if value.type.dtype.is_signed else "uitofp"
    return convert(out, instruction, value, value.type.with_dtype(dtype))


def _integer_to_integer(out: FunctionText, value: Value, dtype: DType) -> Value:
    source = value.type.dtype
    kind = value.type.with_dtype(dtype)
    if dtype.bits == source.bits:
        return Value(value.text, kind, None)
    if dtype.bits < source.bits:
        return convert(out, "trunc", value, kind)
    return convert(out, "sext" if source.is_signed else "zext", value, kind)
