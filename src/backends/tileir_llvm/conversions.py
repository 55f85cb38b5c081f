"""Conversions between element types, by value, as :func:`tileir.core.arithmetic.cast` defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.dtype import DType
from tileir_llvm.spelling import constant, register, suffix
from tileir_llvm.text import FunctionText, Value

if TYPE_CHECKING:
    from tileir.semtree.ir import Type


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
        return integer(int(value.known != 0) if dtype is DType.BOOL else wrapped(value.known, dtype), kind)
    if dtype is DType.BOOL:
        return _to_bool(out, value)
    if source.is_float:
        wide = widened(out, value)
        return _float_to_float(out, wide, dtype) if dtype.is_float else _float_to_integer(out, wide, dtype)
    return _integer_to_float(out, value, dtype) if dtype.is_float else _integer_to_integer(out, value, dtype)


def widened(out: FunctionText, value: Value) -> Value:
    """Return an f16 or bf16 value as f32, and any other as it is."""
    dtype = value.type.dtype
    if not dtype.is_narrow:
        return value
    kind = value.type.with_dtype(DType.F32)
    if dtype is DType.F16:
        return convert(out, "fpext", value, kind)
    bits = value.type.with_dtype(DType.U32)
    low = convert(out, "zext", value, bits)
    return convert(out, "bitcast", _binary(out, "shl", low, 16), kind)


def narrowed(out: FunctionText, value: Value, dtype: DType) -> Value:
    """Undo :func:`widened`: round f32 to f16 or bf16, to nearest even; any other type stays."""
    if dtype is DType.F16:
        return convert(out, "fptrunc", value, value.type.with_dtype(dtype))
    return _to_bf16(out, value) if dtype is DType.BF16 else value


def convert(out: FunctionText, instruction: str, value: Value, kind: Type) -> Value:
    """Apply one of LLVM's conversion instructions."""
    return Value(out.pure(f"{instruction} {register(value.type)} {value.text} to {register(kind)}"), kind)


def _binary(out: FunctionText, instruction: str, left: Value, right: Value | int) -> Value:
    operand = constant(right, left.type) if isinstance(right, int) else right.text
    return Value(out.pure(f"{instruction} {register(left.type)} {left.text}, {operand}"), left.type)


def _test(out: FunctionText, comparison: str, left: Value, right: str) -> Value:
    kind = left.type.with_dtype(DType.BOOL)
    return Value(out.pure(f"{comparison} {register(left.type)} {left.text}, {right}"), kind)


def _select(out: FunctionText, condition: Value, then: Value, otherwise: Value) -> Value:
    kind = register(then.type)
    operands = f"{register(condition.type)} {condition.text}, {kind} {then.text}, {kind} {otherwise.text}"
    return Value(out.pure(f"select {operands}"), then.type)


def _to_bool(out: FunctionText, value: Value) -> Value:
    wide = widened(out, value)
    comparison = "fcmp une" if wide.type.dtype.is_float else "icmp ne"
    return _test(out, comparison, wide, constant(0, wide.type))


def _float_to_integer(out: FunctionText, value: Value, dtype: DType) -> Value:
    kind = value.type.with_dtype(dtype)
    sign = "s" if dtype.is_signed else "u"
    if value.type.lanes > 1:
        return _saturated_lanes(out, value, kind, f"fpto{sign}i")
    name = f"llvm.fpto{sign}i.sat.{suffix(kind)}.{suffix(value.type)}"
    return Value(out.call(register(kind), name, (register(value.type), value.text)), kind)


def _saturated_lanes(out: FunctionText, value: Value, kind: Type, instruction: str) -> Value:
    """Return integers nearest to floats towards zero, the ends of the range beyond it, and 0 for NaN.

    LLVM has an intrinsic that says so, but takes vectors apart for it.
    """
    low, high = int(kind.dtype.minimum), int(kind.dtype.maximum)
    first, behind = constant(float(low), value.type), constant(float(high + 1), value.type)
    fits = _binary(out, "and", _test(out, "fcmp oge", value, first), _test(out, "fcmp olt", value, behind))
    zero = Value(constant(0.0, value.type), value.type)
    found = convert(out, instruction, _select(out, fits, value, zero), kind)
    least = _select(out, _test(out, "fcmp olt", value, first), integer(low, kind), found)
    return _select(out, _test(out, "fcmp oge", value, behind), integer(high, kind), least)


def _float_to_float(out: FunctionText, value: Value, dtype: DType) -> Value:
    kind = value.type.with_dtype(dtype)
    if dtype.is_narrow:
        single = _rounded_to_odd(out, value) if value.type.dtype is DType.F64 else value
        return narrowed(out, single, dtype)
    if value.type.dtype is dtype:
        return value
    return convert(out, "fpext" if dtype is DType.F64 else "fptrunc", value, kind)


def _rounded_to_odd(out: FunctionText, value: Value) -> Value:
    """Round f64 to f32 so that rounding the result to f16 or bf16 equals rounding ``value`` once.

    Where f32 cannot hold the value, its lower neighbour with the last bit set is taken (Boldo and Melquiond 2008).
    """
    near = convert(out, "fptrunc", value, value.type.with_dtype(DType.F32))
    back = convert(out, "fpext", near, value.type)
    away = _test(out, "fcmp ogt", _magnitude(out, back), _magnitude(out, value).text)
    lost = _test(out, "fcmp one", back, value.text)
    kind = value.type.with_dtype(DType.U32)
    bits = convert(out, "bitcast", near, kind)
    towards_zero = _binary(out, "sub", bits, convert(out, "zext", away, kind))
    odd = _binary(out, "or", towards_zero, convert(out, "zext", lost, kind))
    return convert(out, "bitcast", odd, near.type)


def _magnitude(out: FunctionText, value: Value) -> Value:
    kind = register(value.type)
    return Value(out.call(kind, f"llvm.fabs.{suffix(value.type)}", (kind, value.text)), value.type)


def _to_bf16(out: FunctionText, value: Value) -> Value:
    """Round f32 to nearest even by integer operations; a NaN stays one, made quiet."""
    bits = convert(out, "bitcast", value, value.type.with_dtype(DType.U32))
    high = _binary(out, "lshr", bits, 16)
    odd = _binary(out, "and", high, 1)
    rounded = _binary(out, "lshr", _binary(out, "add", bits, _binary(out, "add", odd, 0x7FFF)), 16)
    is_nan = _test(out, "fcmp uno", value, value.text)
    chosen = _select(out, is_nan, _binary(out, "or", high, 0x40), rounded)
    return convert(out, "trunc", chosen, value.type.with_dtype(DType.BF16))


def _integer_to_float(out: FunctionText, value: Value, dtype: DType) -> Value:
    source = value.type.dtype
    instruction = "sitofp" if source.is_signed else "uitofp"
    if not dtype.is_narrow:
        return convert(out, instruction, value, value.type.with_dtype(dtype))
    if dtype is DType.F16 or source.bits <= 16:
        # Integers that f32 rounds are infinite in f16.
        return narrowed(out, convert(out, instruction, value, value.type.with_dtype(DType.F32)), dtype)
    exact = _sticky(out, value) if source.bits == 64 else value
    double = convert(out, instruction, exact, value.type.with_dtype(DType.F64))
    return narrowed(out, _rounded_to_odd(out, double), dtype)


def _sticky(out: FunctionText, value: Value) -> Value:
    """Make a 64-bit integer exact in f64, its low 12 bits folded into one where it is too large to be.

    The upper half of the unsigned ones has 53 bits above the lowest 11.
    """
    kind = register(value.type)
    size = value
    if value.type.dtype.is_signed:
        name = f"llvm.abs.{suffix(value.type)}"
        size = Value(out.call(kind, name, (kind, value.text), ("i1", "false")), value.type)
    small = _test(out, "icmp ult", size, constant(1 << 53, value.type))
    low = _test(out, "icmp ne", _binary(out, "and", value, 0xFFF), constant(0, value.type))
    folded = _binary(out, "shl", convert(out, "zext", low, value.type), 11)
    large = _binary(out, "or", _binary(out, "and", value, ~0xFFF), folded)
    return _select(out, small, value, large)


def _integer_to_integer(out: FunctionText, value: Value, dtype: DType) -> Value:
    source = value.type.dtype
    kind = value.type.with_dtype(dtype)
    if dtype.bits == source.bits:
        return Value(value.text, kind, None)
    if dtype.bits < source.bits:
        return convert(out, "trunc", value, kind)
    return convert(out, "sext" if source.is_signed else "zext", value, kind)
