"""Conversions between element types, by value, as :func:`tileir.core.arithmetic.cast` defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.dtype import DType
from tileir_c.spelling import VALUE

if TYPE_CHECKING:
    from tileir_c.prelude import Prelude


def cast(prelude: Prelude, text: str, source: DType, target: DType) -> str:
    """Return an expression that converts the value of the expression ``text``."""
    if source is target:
        return text
    if target.is_bool:
        return f"(({text} & 0x7fff) != 0)" if source.is_narrow else f"({text} != 0)"
    if source.is_narrow:
        return cast(prelude, widened(prelude, text, source), DType.F32, target)
    if source.is_float and target.is_integer:
        return f"{_float_to_integer(prelude, source, target)}({text})"
    if target.is_narrow:
        return _to_half(prelude, text, source, target)
    return f"({VALUE[target]}){text}"


def widened(prelude: Prelude, text: str, dtype: DType) -> str:
    """Return the f32 value of an expression of type f16 or bf16; of any other type the expression itself."""
    if dtype is DType.F16:
        return f"{_f16_to_f32(prelude)}({text})"
    return f"{_bf16_to_f32(prelude)}({text})" if dtype is DType.BF16 else text


def narrowed(prelude: Prelude, text: str, dtype: DType) -> str:
    """Undo :func:`widened`: round an f32 expression to f16 or bf16, to nearest even."""
    if dtype is DType.F16:
        return f"{_f32_to_f16(prelude)}({text})"
    return f"{_f32_to_bf16(prelude)}({text})" if dtype is DType.BF16 else text


def bits(prelude: Prelude, text: str, source: DType, target: DType) -> str:
    """Return an expression that reads the bits of one of another type of the same width."""
    if source is target or VALUE[source] == VALUE[target]:
        return text
    if source.is_float == target.is_float or source.bits == 16:
        return f"({VALUE[target]}){text}"  # between integers, to or from the bits of a half
    of, to = VALUE[source], VALUE[target]
    name = f"tile_{target.value}_of_bits_of_{source.value}"
    # Reading another member of a union than the one written is defined in C, and no copy in any compiler.
    prelude.function(name, to, f"{of} x", f"const union {{ {of} from; {to} to; }} bits = {{x}};\nreturn bits.to;")
    return f"{name}({text})"


def _f16_to_f32(prelude: Prelude) -> str:
    """Shift exponent and fraction to their places; subtract the implicit bit that a subnormal does not have."""
    read, write = bits(prelude, "word", DType.U32, DType.F32), bits(prelude, "X", DType.F32, DType.U32)
    magic = bits(prelude, "UINT32_C(0x38800000)", DType.U32, DType.F32)
    body = f"""\
const uint32_t exponent = half & UINT32_C(0x7c00);
const uint32_t shifted = (half & UINT32_C(0x7fff)) << 13;
uint32_t word = shifted + UINT32_C(0x38800000);
const uint32_t subnormal = {write.replace("X", f"{read} - {magic}")};
word = exponent == 0 ? subnormal : shifted + (exponent == 0x7c00 ? UINT32_C(0x70000000) : UINT32_C(0x38000000));
word |= (half & UINT32_C(0x8000)) << 16;
return {read};"""
    return prelude.function("tile_f16_to_f32", "float", "uint16_t half", body)


def _f32_to_f16(prelude: Prelude) -> str:
    """Round to nearest even by integer operations; for subnormals the addition of a float rounds."""
    read, write = bits(prelude, "X", DType.U32, DType.F32), bits(prelude, "X", DType.F32, DType.U32)
    sum_of = f"{read.replace('X', 'size')} + 0.5f"
    body = f"""\
const uint32_t word = {write.replace("X", "x")};
const uint32_t size = word & UINT32_C(0x7fffffff);
const uint32_t nan = UINT32_C(0x7e00) | ((size >> 13) & UINT32_C(0x3ff));
const uint32_t tiny = {write.replace("X", sum_of)} - UINT32_C(0x3f000000);
const uint32_t usual = (size - UINT32_C(0x38000000) + UINT32_C(0xfff) + ((size >> 13) & 1)) >> 13;
const uint32_t finite = size < UINT32_C(0x38800000) ? tiny : usual;
const uint32_t large = size > UINT32_C(0x7f800000) ? nan : UINT32_C(0x7c00);
return (uint16_t)((size >= UINT32_C(0x47800000) ? large : finite) | ((word >> 16) & UINT32_C(0x8000)));"""
    return prelude.function("tile_f32_to_f16", "uint16_t", "float x", body)


def _bf16_to_f32(prelude: Prelude) -> str:
    body = f"return {bits(prelude, '((uint32_t)half << 16)', DType.U32, DType.F32)};"
    return prelude.function("tile_bf16_to_f32", "float", "uint16_t half", body)


def _f32_to_bf16(prelude: Prelude) -> str:
    """Round to nearest even by integer operations; a NaN stays one, made quiet."""
    body = f"""\
const uint32_t word = {bits(prelude, "x", DType.F32, DType.U32)};
const uint32_t rounded = (word + UINT32_C(0x7fff) + ((word >> 16) & 1)) >> 16;
return (uint16_t)(x != x ? (word >> 16) | UINT32_C(0x40) : rounded);"""
    return prelude.function("tile_f32_to_bf16", "uint16_t", "float x", body)


def _to_half(prelude: Prelude, text: str, source: DType, target: DType) -> str:
    """Round once: through f32 where that is exact enough, else through f32 rounded to odd."""
    if source is DType.F32 or (not source.is_float and (target is DType.F16 or source.bits <= 16)):
        # Integers that f32 rounds are infinite in f16.
        return narrowed(prelude, f"(float){text}" if source is not DType.F32 else text, target)
    exact = f"{_sticky(prelude, source)}({text})" if source.bits == 64 and not source.is_float else text
    double = exact if source is DType.F64 else f"(double){exact}"
    return narrowed(prelude, f"{_rounded_to_odd(prelude)}({double})", target)


def _rounded_to_odd(prelude: Prelude) -> str:
    """Round f64 to f32 so that rounding the result to f16 or bf16 equals rounding once.

    Where f32 cannot hold the value, its lower neighbour with the last bit set is taken (Boldo and Melquiond 2008).
    """
    read = bits(prelude, "(word | (lost ? 1u : 0u))", DType.U32, DType.F32)
    body = f"""\
const float near = (float)x;
const double back = (double)near;
const bool lost = (back < x) | (back > x);
const bool away = x < 0 ? back < x : back > x;
const uint32_t word = {bits(prelude, "near", DType.F32, DType.U32)} - (away ? 1u : 0u);
return {read};"""
    return prelude.function("tile_f64_to_odd_f32", "float", "double x", body)


def _sticky(prelude: Prelude, dtype: DType) -> str:
    """Make a 64-bit integer exact in f64: where it is too large to be, fold its low 12 bits into one."""
    kind = VALUE[dtype]
    size = "(x < 0 ? 0u - (uint64_t)x : (uint64_t)x)" if dtype.is_signed else "x"
    body = f"""\
const uint64_t word = (uint64_t)x;
const uint64_t folded = (word & ~UINT64_C(0xfff)) | ((word & UINT64_C(0xfff)) != 0 ? UINT64_C(0x800) : UINT64_C(0));
return ({kind})({size} < (UINT64_C(1) << 53) ? word : folded);"""
    return prelude.function(f"tile_sticky_{dtype.value}", kind, f"{kind} x", body)


def _float_to_integer(prelude: Prelude, source: DType, target: DType) -> str:
    """Truncate towards zero, saturate at the limits, and make 0 of NaN."""
    of, to, suffix = VALUE[source], VALUE[target], "f" if source is DType.F32 else ""
    end = f"0x1p{target.bits - target.is_signed}{suffix}"
    low = f"x >= -{end}" if target.is_signed else f"x > -1.0{suffix}"
    name = f"INT{target.bits}"
    least, most = (f"{name}_MIN", f"{name}_MAX") if target.is_signed else ("0", f"U{name}_MAX")
    body = f"""\
const bool inside = ({low}) & (x < {end});
const {to} limit = x > 0 ? {most} : {least};
const {to} outside = x != x ? ({to})0 : limit;
return inside ? ({to})x : outside;"""
    return prelude.function(f"tile_{source.value}_to_{target.value}", to, f"{of} x", body)
