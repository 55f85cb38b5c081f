"""Dot products of few neighbours in each lane, by the instructions that x86 processors have for them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from tileir_llvm.spelling import register
from tileir_llvm.text import FunctionText, Value

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tileir.semtree.ir import Dot

LANES: Final = (4, 8, 16)
"""Lanes of totals for which there are instructions."""


@attrs.frozen(repr=False)
class _Instruction:
    """An intrinsic of LLVM, without its width, the feature that has it, and the element type of its factors."""

    name: str
    feature: str
    element: str


_INSTRUCTIONS: Final[Mapping[str, _Instruction]] = MappingProxyType(
    {
        "i16_i16_i32": _Instruction("llvm.x86.avx512.vpdpwssd", "avx512vnni", "i16"),
        "u8_i8_i32": _Instruction("llvm.x86.avx512.vpdpbusd", "avx512vnni", "i8"),
        "bf16_bf16_f32": _Instruction("llvm.x86.avx512bf16.dpbf16ps", "avx512bf16", "bfloat"),
    }
)

_ROUNDED: Final = frozenset({"bf16_bf16_f32"})
"""Kinds that take denormals for zero."""


def native_dots(features: Collection[str], *, fast_math: bool = False) -> frozenset[str]:
    """Return the kinds of dot products that a processor has, as :func:`tileir.semtree.dots.kind_of` names them.

    Those that treat denormals as zeros are among them where ``fast_math`` allows it.
    """
    if "avx512vl" not in features:
        return frozenset()
    found = (kind for kind, instruction in _INSTRUCTIONS.items() if instruction.feature in features)
    return frozenset(kind for kind in found if fast_math or kind not in _ROUNDED)


def fits_instruction(dot: Dot) -> bool:
    """Return whether a dot product has the lanes and terms of the instruction for its dtypes."""
    filled = dot.terms * dot.left.type.dtype.bits == dot.total.type.dtype.bits
    return filled and dot.total.type.lanes in LANES


def apply_dot(out: FunctionText, kind: str, left: Value, right: Value, total: Value) -> Value:
    """Return the dot product of a kind that the processor has, for as many totals as :data:`LANES` says."""
    instruction = _INSTRUCTIONS[kind]
    factor = f"<{left.type.lanes} x {instruction.element}>"
    result = register(total.type)
    name = f"{instruction.name}.{total.type.lanes * total.type.dtype.bits}"
    out.module.declarations[f"declare {result} @{name}({result}, {factor}, {factor})"] = None
    operands = [_factor(out, value, factor) for value in (left, right)]
    text = out.pure(f"call {result} @{name}({result} {total.text}, {', '.join(operands)})")
    return Value(text, total.type)


def _factor(out: FunctionText, value: Value, kind: str) -> str:
    own = register(value.type)
    return f"{kind} {value.text}" if own == kind else f"{kind} {out.pure(f'bitcast {own} {value.text} to {kind}')}"
