"""Dot products of adjacent elements in each lane, by x86 instructions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.dtype import DType
from tileir.core.fragments import named, usable
from tileir_llvm.emit.spelling import register
from tileir_llvm.emit.text import FunctionText, Value

_INSTRUCTIONS: Final[Mapping[DType, tuple[str, str]]] = MappingProxyType(
    {
        DType.I16: ("llvm.x86.avx512.vpdpwssd", "i16"),
        DType.U8: ("llvm.x86.avx512.vpdpbusd", "i8"),
        DType.I8: ("llvm.x86.avx512.vpdpbusd", "i8"),
        DType.BF16: ("llvm.x86.avx512bf16.dpbf16ps", "bfloat"),
    }
)
"""LLVM intrinsic, without its width, and its factor type for the dtype of the left factor."""

SPELT: Final = (*named("avx512vnni"), *named("avx512bf16"))
"""Fragments with an intrinsic, as named in :mod:`tileir.core.fragments`."""


FLUSHING: Final = frozenset(row.name for row in usable(SPELT) if row.flushes)
"""Fragments that are exact for factors that pass :mod:`tileir_llvm.dots.checked`."""


def native_dots(features: Collection[str]) -> frozenset[str]:
    """Return the fragments that a processor supports."""
    if "avx512vl" not in features:
        return frozenset()
    return frozenset(row.name for row in usable(SPELT) if row.feature in features)


def apply_dot(out: FunctionText, left: Value, right: Value, total: Value) -> Value:
    """Return the dot product by the processor's instruction for these types.

    For bytes it takes unsigned times signed factors. For equally signed factors the left factors are converted:
    flipping the highest bit adds or subtracts 128. The excess is a dot product of the right factors, which tiles share
    whose rows only differ in the left factors.
    """
    name, element = _INSTRUCTIONS[left.type.dtype]
    factor = f"<{left.type.lanes} x {element}>"
    result = register(total.type)
    name = f"{name}.{total.type.lanes * total.type.dtype.bits}"
    out.module.declarations[f"declare {result} @{name}({result}, {factor}, {factor})"] = None

    def dot(start: str, first: str, second: str) -> str:
        return out.pure(f"call {result} @{name}({result} {start}, {first}, {second})")

    first, second = (_factor(out, value, factor) for value in (left, right))
    dtype = left.type.dtype
    if dtype is not right.type.dtype or element != "i8":
        return Value(dot(total.text, first, second), total.type)
    high = f"<{', '.join(['i8 -128'] * left.type.lanes)}>"
    turned = f"{factor} {out.pure(f'xor {first}, {high}')}"
    signed = dtype is DType.I8
    much = dot("zeroinitializer", *((f"{factor} {high}", second) if signed else (second, f"{factor} {high}")))
    whole = dot(total.text, *((turned, second) if signed else (second, turned)))
    return Value(out.pure(f"sub {result} {whole}, {much}"), total.type)


def _factor(out: FunctionText, value: Value, kind: str) -> str:
    own = register(value.type)
    return f"{kind} {value.text}" if own == kind else f"{kind} {out.pure(f'bitcast {own} {value.text} to {kind}')}"
