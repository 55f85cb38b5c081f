"""Conversions between element types, by value, as :func:`tileir.core.arithmetic.cast` defines them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from tileir.core.dtype import DType
from tileir_opencl.definitions import define
from tileir_opencl.integers import reinterpreted
from tileir_opencl.logic import both, choice, compared, either
from tileir_opencl.spelling import BIT_AND, UNARY, register, vector
from tileir_opencl.text import Value, call, integer, real

if TYPE_CHECKING:
    from tileir.semtree.ir import Type
    from tileir_opencl.text import KernelText


def cast(out: KernelText, value: Value, dtype: DType) -> Value:
    """Convert every lane to ``dtype``."""
    source = value.type.dtype
    if source is dtype:
        return value
    kind = value.type.with_dtype(dtype)
    if dtype is DType.BOOL:
        return _to_bool(value)
    if source is DType.BOOL:
        return _from_bool(value, kind)
    if source.is_float:
        return _float_to_float(out, value, kind) if dtype.is_float else _float_to_integer(out, value, kind)
    return _integer_to_float(out, value, kind) if dtype.is_float else _integer_to_integer(value, kind)


def converted(value: Value, kind: Type, suffix: str = "") -> Value:
    """Convert by C's rules, or OpenCL's with a rounding mode or saturation as ``suffix``."""
    if kind.lanes == 1 and not suffix:
        return Value(f"({register(kind)}){value.at(UNARY)}", kind, UNARY)
    return call(f"convert_{register(kind)}{suffix}", kind, value)


def rounded(out: KernelText, value: Value, dtype: DType) -> Value:
    """Round f32 to a value of f16 or bf16, to nearest even; any other type stays."""
    kind = value.type.with_dtype(dtype)
    if not dtype.is_narrow:
        return value
    single = value.type.with_dtype(DType.F32)
    name = f"rounded_{dtype.value}_{register(single)}"
    body = _round_to_bf16 if dtype is DType.BF16 else _round_to_f16
    result = call(define(out, name, single, (single,), body), kind, value)
    return attrs.evolve(result, origin=value if dtype is DType.F16 else None)


def half_bits(out: KernelText, value: Value, kind: Type) -> Value:
    """Return the bits of f16 or bf16 values as integers of 16 bits."""
    bits = value.type.with_dtype(DType.U16)
    if value.type.dtype is DType.BF16:
        result = converted(_shifted(call(_as(bits, DType.U32), bits, value), ">>"), bits)
    else:
        single = value.type.with_dtype(DType.F32)
        result = call(_bits_of_f16(out, single, bits), bits, value)
    return result if kind.dtype is DType.U16 else reinterpreted(result, kind)


def from_half_bits(out: KernelText, value: Value, kind: Type) -> Value:
    """Undo :func:`half_bits`, for integers of 16 bits of either sign."""
    bits = value.type.with_dtype(DType.U16)
    if value.type.dtype is not DType.U16:
        value = reinterpreted(value, bits)
    if kind.dtype is DType.BF16:
        wide = converted(value, value.type.with_dtype(DType.U32))
        return call(_as(kind, DType.F32), kind, _shifted(wide, "<<"))
    return call(_f16_of_bits(out, bits, kind.with_dtype(DType.F32)), kind, value)


def _as(kind: Type, dtype: DType) -> str:
    return f"as_{register(kind.with_dtype(dtype))}"


def _shifted(value: Value, sign: str) -> Value:
    return Value(f"{value.at(UNARY)} {sign} 16", value.type, BIT_AND)


def _bits_of_f16(out: KernelText, single: Type, bits: Type) -> str:
    """Return the function from f16 values to their bits, by way of memory: registers may not hold halves.

    Only bytes may be read where something else was written.
    """
    name = f"bits_of_f16_{register(single)}"
    lanes = single.lanes
    n = "" if lanes == 1 else str(lanes)
    if lanes == 16:
        content = "(ushort16)(as_ushort8(vload16(0, bytes)), as_ushort8(vload16(1, bytes)))"
    else:
        content = (
            f"as_{vector('ushort', _room(lanes))}(vload{2 * _room(lanes)}(0, bytes)){'.s012' if lanes == 3 else ''}"
        )
    text = (
        f"static inline {register(bits)} {name}({register(single)} x)\n{{\n"
        f"  uchar bytes[{2 * _room(lanes)}] __attribute__((aligned({2 * _room(lanes)})));\n"
        f"  vstore_half{n}(x, 0, (__private half *)bytes);\n"
        f"  return {content};\n}}\n"
    )
    return out.helpers.use(name, lambda: text)


def _f16_of_bits(out: KernelText, bits: Type, single: Type) -> str:
    """Return the inverse of :func:`_bits_of_f16`."""
    name = f"f16_of_bits_{register(single)}"
    lanes = single.lanes
    n = "" if lanes == 1 else str(lanes)
    if lanes == 16:
        lines = "  vstore16(as_uchar16(x.lo), 0, bytes);\n  vstore16(as_uchar16(x.hi), 1, bytes);\n"
    else:
        source = "(ushort4)(x, 0)" if lanes == 3 else "x"
        lines = f"  vstore{2 * _room(lanes)}(as_uchar{2 * _room(lanes)}({source}), 0, bytes);\n"
    text = (
        f"static inline {register(single)} {name}({register(bits)} x)\n{{\n"
        f"  uchar bytes[{2 * _room(lanes)}] __attribute__((aligned({2 * _room(lanes)})));\n"
        f"{lines}"
        f"  return vload_half{n}(0, (__private const half *)bytes);\n}}\n"
    )
    return out.helpers.use(name, lambda: text)


def _room(lanes: int) -> int:
    """Return the elements of memory that a vector takes."""
    return 4 if lanes == 3 else lanes


def _round_to_f16(out: KernelText, value: Value) -> Value:
    single = value.type
    if out.features.fp16:
        half = f"convert_{vector('half', single.lanes)}_rte"
        return (
            converted(call(half, single, value), single)
            if single.lanes == 1
            else call(f"convert_{register(single)}", single, call(half, single, value))
        )
    bits = single.with_dtype(DType.U16)
    there = call(_bits_of_f16(out, single, bits), bits, value)
    return call(_f16_of_bits(out, bits, single), single, there)


def _round_to_bf16(_: KernelText, value: Value) -> Value:
    """Round by integer arithmetic; a NaN stays as it is, but for the bits that are lost."""
    single = value.type
    wide = single.with_dtype(DType.U32)
    bits = f"as_{register(wide)}({value.text})"
    odd = f"({bits} >> {_splat(16, wide)} & {_splat(1, wide)})"
    near = f"{bits} + {_splat(0x7FFF, wide)} + {odd}"
    is_nan = compared("!=", value, value)
    quiet = Value(f"{bits} | {_splat(0x400000, wide)}", wide, BIT_AND)
    kept = choice(is_nan, quiet, Value(near, wide, BIT_AND))
    return call(f"as_{register(single)}", single, f"{kept.at(UNARY)} & {_splat(0xFFFF0000, wide)}")


def _splat(value: int, kind: Type) -> str:
    return integer(value, kind).text


def _to_bool(value: Value) -> Value:
    dtype = value.type.dtype
    return compared("!=", value, real(0.0, value.type) if dtype.is_float else integer(0, value.type))


def _from_bool(value: Value, kind: Type) -> Value:
    if kind.lanes == 1:
        return Value(f"({register(kind)}){value.at(UNARY)}", kind, UNARY)
    one, zero = (real(x, kind) if kind.dtype.is_float else integer(x, kind) for x in (1, 0))
    return choice(value, one, zero)


def _float_to_integer(out: KernelText, value: Value, kind: Type) -> Value:
    """Truncate, saturate at the limits, and give 0 for a NaN."""
    source = value.type.with_dtype(DType.F32) if value.type.dtype.is_narrow else value.type
    name = f"saturated_{register(kind)}_{register(source)}"
    return call(define(out, name, kind, (source,), partial(_saturated, kind)), kind, value)


def _saturated(kind: Type, _: KernelText, value: Value) -> Value:
    # The limits are written out: not every driver saturates as it should.
    dtype = kind.dtype
    low = compared("<", value, real(float(dtype.minimum), value.type))
    high = compared(">=", value, real(float(int(dtype.maximum) + 1), value.type))
    limits = choice(low, integer(int(dtype.minimum), kind), integer(int(dtype.maximum), kind))
    inside = both(
        compared(">=", value, real(float(dtype.minimum), value.type)),
        compared("<", value, real(float(int(dtype.maximum) + 1), value.type)),
    )
    safe = choice(inside, value, real(0.0, value.type))
    return choice(either(low, high), limits, converted(safe, kind))


def _float_to_float(out: KernelText, value: Value, kind: Type) -> Value:
    source, dtype = value.type.dtype, kind.dtype
    if dtype.is_narrow:
        single = _odd(out, value) if source is DType.F64 else value.retyped(value.type.with_dtype(DType.F32))
        return rounded(out, single, dtype)
    if dtype is DType.F32 and source.is_narrow:
        return value.retyped(kind)
    return converted(value, kind)


def _odd(out: KernelText, value: Value) -> Value:
    """Round f64 to f32 so that rounding the result to f16 or bf16 equals rounding ``value`` once.

    Where f32 cannot hold the value, its lower neighbour with the last bit set is taken (Boldo and Melquiond 2008).
    """
    kind = value.type.with_dtype(DType.F32)
    name = f"odd_{register(kind)}_{register(value.type)}"
    if value.type.lanes == 1:
        body = (
            "  float near = (float)x;\n  double back = (double)near;\n"
            "  uint away = fabs(back) > fabs(x) ? 1u : 0u;\n"
            "  uint lost = back < x || back > x ? 1u : 0u;\n"
            "  return as_float(as_uint(near) - away | lost);\n"
        )
    else:
        n = value.type.lanes
        body = (
            f"  float{n} near = convert_float{n}(x);\n  double{n} back = convert_double{n}(near);\n"
            f"  uint{n} away = convert_uint{n}(-(fabs(back) > fabs(x)));\n"
            f"  uint{n} lost = convert_uint{n}(-((back < x) | (back > x)));\n"
            f"  return as_float{n}((as_uint{n}(near) - away) | lost);\n"
        )
    text = f"static inline {register(kind)} {name}({register(value.type)} x)\n{{\n{body}}}\n"
    return call(out.helpers.use(name, lambda: text), kind, value)


def _integer_to_float(out: KernelText, value: Value, kind: Type) -> Value:
    source, dtype = value.type.dtype, kind.dtype
    if not dtype.is_narrow:
        return converted(value, kind)
    single = value.type.with_dtype(DType.F32)
    if dtype is DType.F16 or source.bits <= 16:
        # Integers that f32 rounds are infinite in f16.
        return rounded(out, converted(value, single), dtype)
    return rounded(out, _odd_integer(out, value, single), dtype)


def _odd_integer(out: KernelText, value: Value, single: Type) -> Value:
    """Convert an integer of 32 or 64 bits to f32, rounding to odd: what f32 cannot hold is folded into its last bit."""
    kind = value.type
    name = f"odd_{register(single)}_{register(kind)}"
    unsigned = kind.with_dtype(DType.U32 if kind.dtype.bits == 32 else DType.U64)
    whole, bits, real_ = register(unsigned), register(single.with_dtype(DType.U32)), register(single)
    lost = "(top << shift) != size"
    size, sign = "x", "near"
    if kind.dtype.is_signed:  # without `abs`, which some drivers get wrong for the least number
        size, sign = f"x < 0 ? -({whole})x : ({whole})x", "x < 0 ? -near : near"
    if kind.lanes == 1:
        lost = f"({whole})({lost})"
        wide, scale = "(float)(top | lost)", "(uint)(shift + 127) << 23"
    else:
        lost = f"as_{whole}(-({lost}))"
        wide, scale = f"convert_{real_}(top | lost)", f"(convert_{bits}(shift) + 127u) << 23"
        if kind.dtype.is_signed:
            size = f"as_{whole}(max(x, as_{register(kind)}(-as_{whole}(x))))"
            sign = f"copysign(near, convert_{real_}(x))"
    excess = integer(kind.dtype.bits - 24, unsigned).text
    text = (
        f"static inline {real_} {name}({register(kind)} x)\n{{\n"
        f"  {whole} size = {size};\n"
        f"  {whole} shift = {excess} - min(clz(size), {excess});\n"
        f"  {whole} top = size >> shift;\n"
        f"  {whole} lost = {lost};\n"
        f"  {real_} near = {wide} * as_{real_}({scale});\n"
        f"  return {sign};\n}}\n"
    )
    return call(out.helpers.use(name, lambda: text), single, value)


def _integer_to_integer(value: Value, kind: Type) -> Value:
    dtype = kind.dtype
    fact = value.fact.wrapped(dtype) if value.fact is not None else None
    if fact is not None and fact.known is not None:
        return integer(fact.known, kind)
    same_bits = kind.lanes > 1 and value.type.dtype.bits == dtype.bits
    result = reinterpreted(value, kind) if same_bits else converted(value, kind)
    return attrs.evolve(result, fact=fact)
