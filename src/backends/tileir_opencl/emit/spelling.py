"""How OpenCL C spells types, constants and operators.

In registers, f16 and bf16 are floats whose value is one of the narrow type: their arithmetic is defined in f32, and
only memory holds them in 16 bits. A bool is ``bool``; a vector of bools is a mask, whose lanes are signed integers, 0
or -1, as comparisons of vectors give them: of 8 bits where it is declared, else as wide as what was compared.
In memory a bool is a byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import numpy as np

from tileir.core import DType, Op
from tileir.semtree.ir import Type
from tileir.semtree.legalise import c_operators

TERNARY, EITHER, BOTH, BIT_OR, BIT_XOR, BIT_AND, EQUAL, ORDER, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(1, 14)
"""How tightly the operators of C bind."""

_BINDING: Final = (
    (BIT_OR, (Op.BIT_OR,)),
    (BIT_XOR, (Op.BIT_XOR,)),
    (BIT_AND, (Op.BIT_AND,)),
    (EQUAL, (Op.CMP_EQ, Op.CMP_NE)),
    (ORDER, (Op.CMP_LT, Op.CMP_LE, Op.CMP_GT, Op.CMP_GE)),
    (SHIFT, (Op.BIT_LEFT, Op.BIT_RIGHT)),
    (SUM, (Op.ADD, Op.SUB)),
    (PRODUCT, (Op.MUL, Op.DIV, Op.MOD)),
)

INFIX: Final[Mapping[Op, tuple[str, int]]] = MappingProxyType(
    {op: (c_operators.INFIX[op], rank) for rank, ops in _BINDING for op in ops}
)
"""Operators between two operands, and how tightly they bind."""

MEMORY: Final[Mapping[DType, str]] = MappingProxyType(
    {
        DType.BOOL: "uchar",
        DType.I8: "char",
        DType.I16: "short",
        DType.I32: "int",
        DType.I64: "long",
        DType.U8: "uchar",
        DType.U16: "ushort",
        DType.U32: "uint",
        DType.U64: "ulong",
        DType.F16: "half",
        DType.BF16: "ushort",
        DType.F32: "float",
        DType.F64: "double",
    }
)

_REGISTER: Final[Mapping[DType, str]] = MappingProxyType(
    {**MEMORY, DType.BOOL: "bool", DType.F16: "float", DType.BF16: "float"}
)

MASKS: Final[Mapping[int, str]] = MappingProxyType({8: "char", 16: "short", 32: "int", 64: "long"})
"""The element of a mask, by its bits."""


def vector(element: str, lanes: int) -> str:
    """Return the type of ``lanes`` elements; a single one is a scalar."""
    return element if lanes == 1 else f"{element}{lanes}"


def register(kind: Type) -> str:
    """Return the type of a variable."""
    if kind.dtype.is_bool and kind.lanes > 1:
        return vector(MASKS[8], kind.lanes)
    return vector(_REGISTER[kind.dtype], kind.lanes)


def register_bits(dtype: DType) -> int:
    """Return the bits of one lane of a variable."""
    return 32 if dtype.is_narrow else dtype.itemsize * 8


def lane(number: int) -> str:
    """Return the suffix that selects a lane of a vector."""
    return f".s{number:x}"


def scalar_constant(value: bool | int | float, dtype: DType) -> tuple[str, int]:
    """Return a constant and how tightly its text binds; ``value`` is representable in ``dtype``."""
    if dtype.is_bool:
        return ("true" if value else "false"), ATOM
    if dtype.is_float:
        return _float(float(value), dtype)
    return _integer(int(value), dtype)


def _integer(value: int, dtype: DType) -> tuple[str, int]:
    if dtype.bits < 32:
        return f"({MEMORY[dtype]}){value}", UNARY
    suffix = {True: "L", False: "ul"}[dtype.is_signed] if dtype.bits == 64 else "" if dtype.is_signed else "u"
    if value == dtype.minimum and value < 0:
        return f"(-{-value - 1}{suffix} - 1)", ATOM
    digits = f"{value:#x}" if not dtype.is_signed and value > 0xFFFF else str(value)
    return digits + suffix, ATOM if value >= 0 else UNARY


def lane_constant(value: int, dtype: DType) -> str:
    """Return an integer as an element of the literal of a vector, which converts it."""
    return str(value) if dtype.bits < 32 else _integer(value, dtype)[0]


def _float(value: float, dtype: DType) -> tuple[str, int]:
    double = dtype is DType.F64
    if not math.isfinite(value):
        name = "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
        return (f"(double){name}", UNARY) if double else (name, UNARY if value < 0 else ATOM)
    digits = repr(value if double else float(np.format_float_scientific(np.float32(value), unique=True)))
    if len(digits) > 12 or "e" in digits or Fraction(digits) != Fraction(value):
        digits = _hexadecimal(value)
    return digits + ("" if double else "f"), UNARY if math.copysign(1.0, value) < 0 else ATOM


def _hexadecimal(value: float) -> str:
    """Return an exact literal without trailing zeros."""
    mantissa, exponent = value.hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}"
