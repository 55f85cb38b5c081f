"""LLVM's text of types, constants and comparisons.

A bool is ``i1`` in registers and a byte in memory. bf16 is the integer ``i16`` everywhere: its arithmetic is done in
f32 and rounded by integer operations, since the conversion instructions of processors flush subnormals.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core import DType, Op
from tileir.semtree.ir import KernelFunction, Type

REGISTER: Final[Mapping[DType, str]] = MappingProxyType(
    {
        DType.BOOL: "i1",
        DType.F16: "half",
        DType.BF16: "i16",
        DType.F32: "float",
        DType.F64: "double",
        **{dtype: f"i{dtype.bits}" for dtype in DType if dtype.is_integer},
    }
)

INTEGER_COMPARISON: Final[Mapping[Op, str]] = MappingProxyType(
    {
        Op.CMP_EQ: "eq",
        Op.CMP_NE: "ne",
        Op.CMP_LT: "lt",
        Op.CMP_LE: "le",
        Op.CMP_GT: "gt",
        Op.CMP_GE: "ge",
    }
)

FLOAT_COMPARISON: Final[Mapping[Op, str]] = MappingProxyType(
    {op: f"o{name}" if op is not Op.CMP_NE else "une" for op, name in INTEGER_COMPARISON.items()}
)
"""Comparisons; all but ``!=`` are false for a NaN."""


def vector(element: str, lanes: int) -> str:
    """Return the type of ``lanes`` elements; a single one is a scalar."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def register(kind: Type) -> str:
    """Return the type of a value in registers."""
    lanes = kind.lanes
    return REGISTER[kind.dtype] if lanes == 1 else f"<{lanes} x {REGISTER[kind.dtype]}>"


def memory_element(dtype: DType) -> str:
    """Return the type of one element in memory."""
    return "i8" if dtype is DType.BOOL else REGISTER[dtype]


def memory(kind: Type) -> str:
    """Return the type of a value in memory."""
    return vector(memory_element(kind.dtype), kind.lanes)


def suffix(kind: Type) -> str:
    """Return the type suffix of an intrinsic's name, such as ``v16f32`` or ``i64``."""
    number = f"f{kind.dtype.bits}" if kind.dtype.is_float else REGISTER[kind.dtype]
    return number if kind.lanes == 1 else f"v{kind.lanes}{number}"


def scalar_constant(value: bool | int | float, dtype: DType) -> str:
    """Return a constant operand; ``value`` is representable in ``dtype``."""
    if dtype.is_integer:
        return str(int(value))
    match dtype:
        case DType.BOOL:
            return "true" if value else "false"
        case DType.F16:
            return f"0xH{_bits('<e', '<H', value):04X}"
        case DType.BF16:
            return str(_bits("<f", "<I", value) >> 16)
        case DType.F32:
            # LLVM writes f32 constants too as the bits of the f64 with their value.
            return f"0x{_bits('<d', '<Q', struct.unpack('<f', struct.pack('<f', value))[0]):016X}"
        case _:
            return f"0x{_bits('<d', '<Q', value):016X}"


def constant(value: bool | int | float, kind: Type) -> str:
    """Return a constant operand with ``value`` in every lane."""
    text = scalar_constant(value, kind.dtype)
    return text if kind.lanes == 1 else f"splat ({REGISTER[kind.dtype]} {text})"


def _bits(of: str, to: str, value: float) -> int:
    bits: int = struct.unpack(to, struct.pack(of, value))[0]
    return bits


def symbol(number: int, kernel: KernelFunction) -> str:
    """Return the name of the function of kernel ``number`` of a module."""
    return f"k{number}_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in kernel.name)
