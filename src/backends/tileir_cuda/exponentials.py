"""Exponentials that are rounded to f16, by the instruction for powers of two.

Its error is below 2^-22 of the result (NVIDIA, "PTX ISA", ex2.approx), and that of the exponent, 2^-24 of a number
below 32, below 2^-19: f16 keeps 11 digits. What is below the normal numbers of f32 is 0 in f16.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Type
from tileir.semtree.legalise.capabilities import Support
from tileir_llvm.capabilities import CAPABILITIES as LLVM
from tileir_llvm.spelling import constant

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPABILITIES: Final = attrs.evolve(
    LLVM,
    operations=MappingProxyType({**LLVM.operations, (Op.EXP, DType.F32): Support.TOTAL}),
    vectors=None
    if LLVM.vectors is None
    else attrs.evolve(
        LLVM.vectors, operations=MappingProxyType({**LLVM.vectors.operations, (Op.EXP, DType.F32): Support.TOTAL})
    ),
)
"""What LLVM has, and the exponentials that are left."""

EXPONENTIAL: Final = "exponential.rounded"
"""What the function is called."""

ROUNDED: Final = frozenset({Op.EXP})
"""The operations for which there is such a function."""

_FUNCTION: Final = """define internal float @{name}(float %x) alwaysinline {{
  %power = fmul float %x, {factor}
  %result = call float @llvm.nvvm.ex2.approx.ftz.f(float %power)
  ret float %result
}}
declare float @llvm.nvvm.ex2.approx.ftz.f(float)
"""


def exponentials(text: str) -> Iterator[str]:
    """Yield the definition of the function, if a module calls it."""
    if f"@{EXPONENTIAL}(" in text:
        yield _FUNCTION.format(name=EXPONENTIAL, factor=constant(1.0 / math.log(2.0), Type(DType.F32)))
