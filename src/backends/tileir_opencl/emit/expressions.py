"""Expressions of legalised kernels (:mod:`tileir.semtree.legalise`) as OpenCL C.

In registers, f16 and bf16 are floats with a value of the narrow type: their arithmetic is defined in f32, and only
memory holds them in 16 bits. In memory a bool is a byte.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import numpy as np

from tileir.core import DType, Op, attrs
from tileir.semtree.ir import Apply, GridIndex, GridLevel, Subscript, Type
from tileir_emit import c_like
from tileir_emit.c_like import Value, call
from tileir_emit.c_vectors import CVectors, Place
from tileir_emit.guards import guard
from tileir_emit.lanes import register_bits
from tileir_opencl.device.features import Features
from tileir_opencl.emit.operations import FAST
from tileir_opencl.emit.peephole import Call, call_for

WIDENED_LANES: Final = 8
"""Maximum lanes that a selection widens to 32 bits: PoCL 3.0 miscompiles vectors of 512 bits."""

_UNSIGNED: Final = {DType.U8: "uchar", DType.U16: "ushort", DType.U32: "uint", DType.U64: "ulong"}
_SIGNED: Final = {DType(dtype.value.replace("u", "i")): name[1:] for dtype, name in _UNSIGNED.items()}
_SMALL: Final = {dtype: f"({name}){{}}" for dtype, name in (_UNSIGNED | _SIGNED).items() if dtype.bits < 32}
_FURTHER: Final = (Op.RSQRT, Op.EXP, Op.LOG, Op.SIN, Op.COS, Op.TAN)


@attrs.define(eq=False, repr=False)
class Expressions(CVectors):
    """Writer of expressions in OpenCL C.

    Attributes:
        features: Features of the device.
        fast_math: Whether accuracy may be traded for speed.
        coordinates: Text of each coordinate.
    """

    TYPES = MappingProxyType(
        {
            DType.BOOL: "bool",
            DType.F16: "float",
            DType.BF16: "float",
            DType.F32: "float",
            DType.F64: "double",
            **_UNSIGNED,
            **_SIGNED,
        }
    )
    ELEMENTS = MappingProxyType({DType.BOOL: "uchar", DType.F16: "half", DType.BF16: "ushort"})
    VALUED = frozenset({DType.F16, DType.BF16})
    LITERALS = MappingProxyType({**_SMALL, DType.U32: "{}u", DType.I64: "{}L", DType.U64: "{}ul"})
    LEAST = MappingProxyType({DType.I32: "(-2147483647 - 1)", DType.I64: "(-9223372036854775807L - 1)"})
    FUNCTIONS = MappingProxyType(
        {**c_like.FUNCTIONS, Op.MAX: "fmax", Op.MIN: "fmin", **{op: op.value for op in _FURTHER}}
    )

    features: Features = attrs.field(kw_only=True)
    fast_math: bool = attrs.field(kw_only=True)
    coordinates: dict[tuple[GridLevel, int], Value] = attrs.field(factory=dict, init=False)

    # Types and constants

    @classmethod
    def neighbours(cls, kind: Type) -> str:
        """Return the type of neighbours in memory; halves become floats on load."""
        return cls.type(kind) if kind.dtype is DType.F16 else super().neighbours(kind)

    @classmethod
    def literal(cls, value: bool | int | float, dtype: DType) -> str:
        """Return a constant; large constants as hexadecimal numbers, for readability."""
        if dtype.is_integer and not dtype.is_signed and dtype.bits > 16 and value > 0xFFFF:
            return cls.LITERALS[dtype].format(hex(int(value)))
        return super().literal(value, dtype)

    @classmethod
    def real(cls, value: float, dtype: DType) -> str:
        """Return an exact float literal: decimal if that is short, else hexadecimal."""
        double = dtype is DType.F64
        if not math.isfinite(value):
            return f"{'(double)' * double}{'-' * (value < 0)}{'NAN' if math.isnan(value) else 'INFINITY'}"
        digits = repr(value if double else float(np.format_float_scientific(np.float32(value), unique=True)))
        if len(digits) > 12 or "e" in digits or Fraction(digits) != Fraction(value):
            mantissa, exponent = value.hex().split("p")
            digits = f"{mantissa.rstrip('0').rstrip('.')}p{exponent}"
        return digits + ("" if double else "f")

    # Operations

    def apply(self, expr: Apply) -> Value:
        """Return an operation, or the function that computes it with others."""
        found = call_for(expr, fast_math=self.fast_math)
        if found is not None:
            return self.builtin(found)
        assert self.ranges is not None
        return super().apply(guard(expr, self.ranges) or expr)

    def builtin(self, found: Call) -> Value:
        """Return the call of a function that a peephole row has matched."""
        args = [self.value(arg) for arg in found.args]
        return call(found.function, args[-1].type, *args)

    def applied(self, op: Op, args: tuple[Value, ...]) -> Value:
        """Return an operation on operands of one type, for which the language defines it."""
        kind = args[0].type
        if kind.dtype.is_integer and op in (Op.ABS, Op.MAX, Op.MIN):
            return call(self._magnitude(kind) if op is Op.ABS else op.value, kind, *args)
        return super().applied(op, args)

    def function_name(self, op: Op, kind: Type) -> str:
        """Return the name of a function of floats."""
        native = self.fast_math and op in FAST and kind.dtype is not DType.F64
        return f"{'native_' * native}{self.FUNCTIONS[op]}"

    def _magnitude(self, kind: Type) -> str:
        """Return the function for the magnitude of signed numbers.

        PoCL 3.0 computes ``abs`` of the least number as if it could not occur, though OpenCL defines it, and Oclgrind
        lacks the instruction that compilers make of a selection between a number and its negation.
        """
        word = self.type(kind)
        name, unsigned = f"magnitude_{word}", self.type(kind.with_dtype(DType(f"u{kind.dtype.bits}")))
        return self.helpers.function(name, word, f"{word} x", f"return max(x, ({word})-({unsigned})x);")

    def choice(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """Return ``then`` in the lanes where ``condition`` holds, else ``otherwise``."""
        kind = then.type
        narrow = kind.lanes > 1 and kind.dtype.is_integer and register_bits(kind.dtype) == 16 != condition.mask
        if narrow and then.known is not None and otherwise.known is not None and kind.lanes <= WIDENED_LANES:
            # NVIDIA's driver 580 makes this a shift of the widened mask, as if signed: 1 : 0 became -1 : 0.
            wide = kind.with_dtype(DType.I32)
            found = super().choice(condition, self.constant(then.known, wide), self.constant(otherwise.known, wide))
            return call(f"convert_{self.type(kind)}", kind, found)
        return super().choice(condition, then, otherwise)

    def converted(self, value: Value, kind: Type) -> Value:
        """Return every lane converted to another type."""
        source, dtype = value.type.dtype, kind.dtype
        if source is DType.F16:
            return value.retyped(kind)
        if dtype is DType.F16:
            return call(self._rounder(value.type), kind, value)
        if kind.lanes == 1:
            return super().converted(value, kind)
        if source.is_integer and dtype.is_integer and source.bits == dtype.bits:
            return self.reinterpreted(value, kind)
        return call(f"convert_{self.type(kind)}", kind, value)

    def _rounder(self, single: Type) -> str:
        """Return the function that rounds f32 to f16 values, through memory if registers hold no halves."""
        kind = self.type(single)
        n, size = "" if single.lanes == 1 else single.lanes, 2 * (4 if single.lanes == 3 else single.lanes)
        by_memory = (
            f"uchar bytes[{size}] __attribute__((aligned({size})));",
            f"vstore_half{n}(x, 0, (__private half *)bytes);",
            f"return vload_half{n}(0, (__private const half *)bytes);",
        )
        lines = (f"return convert_{kind}(convert_half{n}_rte(x));",) if self.features.fp16 else by_memory
        return self.helpers.function(f"rounded_f16_{kind}", kind, f"{kind} x", *lines)

    def reinterpreted(self, value: Value, kind: Type) -> Value:
        """Return the bits as another type."""
        if kind.dtype is value.type.dtype:
            return value
        if value.type.dtype.is_integer and kind.dtype.is_integer and kind.lanes == 1:
            return super().converted(value, kind)
        return call(f"as_{self.type(kind)}", kind, value)

    # Lanes

    def coordinate(self, expr: GridIndex) -> Value:
        """Return a coordinate of a thread or group."""
        return self.coordinates[expr.level, expr.axis]

    # Memory

    def element_at(self, array: Place, offset: Value) -> str:
        """Return one element in its memory type, but f16 as a float."""
        if array.stored is DType.F16:
            return f"vload_half({offset.text}, {array.pointer})"
        return super().element_at(array, offset)

    def read(self, array: Place, offset: Value, divisor: int, kind: Type) -> Value:
        """Read ``kind.lanes`` neighbours from an offset that ``divisor`` divides; halves become floats."""
        if array.stored is not DType.F16 or kind.lanes == 1:
            return super().read(array, offset, divisor, kind)
        if array.is_aligned(divisor, kind.with_dtype(DType.F16)):
            return call(f"vloada_half{kind.lanes}", kind, "0", array.at(offset))
        return call(self._half_loader(array, kind), kind, array.at(offset))

    def _half_loader(self, array: Place, kind: Type) -> str:
        """Return the function that reads neighbouring halves without vector alignment.

        They are read as bits, and widened in registers: PoCL 3.1 reads the operand of ``vload_half8`` by an instruction
        that faults unless it is aligned.
        """
        space, n, floats = array.qualifiers.split()[0], kind.lanes, self.type(kind)
        bits = f"ushort{n} bits = vload{n}(0, ({space} const ushort *)p);"
        widened = f"return vload_half{n}(0, (__private const half *)&bits);"
        return self.helpers.function(f"half{n}_in_{space.strip('_')}", floats, f"{space} const half *p", bits, widened)

    def store(self, array: Place, offset: Value, divisor: int, value: Value) -> None:
        """Write neighbours from an offset that ``divisor`` divides; floats are rounded to halves."""
        kind = value.type.with_dtype(DType.F16)
        if array.stored is not DType.F16:
            super().store(array, offset, divisor, value)
        elif kind.lanes == 1:
            self.line(f"vstore_half_rte({value.text}, {offset.text}, {array.pointer});")
        else:
            name = f"vstore{'a' * array.is_aligned(divisor, kind)}_half{kind.lanes}_rte"
            self.line(f"{name}({value.text}, 0, {array.at(offset).text});")

    def prefetch(self, target: Subscript) -> str:
        """Return a prefetch call for the element at a scalar offset, which may lie outside of the array."""
        return f"prefetch({self.arrays[target.array].at(self.value(target.offset)).text}, 1)"
