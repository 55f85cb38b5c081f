"""Dot products of few neighbours in each lane, by the instructions that x86 processors have for them."""

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
        DType.BF16: ("llvm.x86.avx512bf16.dpbf16ps", "bfloat"),
    }
)
"""For the dtype of the left factor an intrinsic of LLVM, without its width, and the element type of its factors."""

SPELT: Final = (*named("avx512vnni"), *named("avx512bf16"))
"""The fragments that have an intrinsic, as :mod:`tileir.core.fragments` names them."""


def native_dots(features: Collection[str], *, fast_math: bool = False) -> frozenset[str]:
    """Return the fragments that a processor has; without ``fast_math`` those that are exact."""
    if "avx512vl" not in features:
        return frozenset()
    return frozenset(row.name for row in usable(SPELT, rounded=fast_math) if row.feature in features)


def apply_dot(out: FunctionText, left: Value, right: Value, total: Value) -> Value:
    """Return the dot product by an instruction that the processor has for these types."""
    name, element = _INSTRUCTIONS[left.type.dtype]
    factor = f"<{left.type.lanes} x {element}>"
    result = register(total.type)
    name = f"{name}.{total.type.lanes * total.type.dtype.bits}"
    out.module.declarations[f"declare {result} @{name}({result}, {factor}, {factor})"] = None
    operands = [_factor(out, value, factor) for value in (left, right)]
    text = out.pure(f"call {result} @{name}({result} {total.text}, {', '.join(operands)})")
    return Value(text, total.type)


def _factor(out: FunctionText, value: Value, kind: str) -> str:
    own = register(value.type)
    return f"{kind} {value.text}" if own == kind else f"{kind} {out.pure(f'bitcast {own} {value.text} to {kind}')}"
