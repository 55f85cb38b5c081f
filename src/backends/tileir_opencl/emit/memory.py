"""Reading and writing array elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tileir.core import DType, attrs
from tileir.semtree.ir import Type
from tileir_opencl.emit.logic import compared
from tileir_opencl.emit.spelling import MEMORY, PRODUCT, SUM, UNARY, register, vector
from tileir_opencl.emit.text import KernelText, Value, call, canonical, integer, lane_of, masked


@attrs.frozen
class Place:
    """An array: the pointer to its first element, with the qualifiers of what it points to, and that one's alignment.

    ``registers`` says that elements are stored as variables are: halves as floats.
    """

    pointer: str
    qualifiers: str
    dtype: DType
    alignment: int
    registers: bool = False

    @property
    def stored(self) -> DType:
        """The element type in memory."""
        return DType.F32 if self.registers and self.dtype.is_narrow else self.dtype


def load(place: Place, offset: Value, divisor: int, kind: Type) -> Value:
    """Read ``kind.lanes`` neighbours from an offset on, which ``divisor`` divides."""
    stored = kind.with_dtype(place.stored)
    return _loaded(place, offset, divisor, stored).retyped(kind)


def gather(place: Place, offsets: Sequence[Value], kind: Type) -> Value:
    """Read the element of each lane, or one element for all lanes."""
    stored = kind.with_dtype(place.stored)
    elements = ", ".join(_element(place, offset) for offset in offsets)
    element_type = register(stored) if place.stored is DType.F16 else vector(MEMORY[stored.dtype], stored.lanes)
    return _from_memory(Value(f"({element_type})({elements})", stored), stored).retyped(kind)


def store(out: KernelText, place: Place, offset: Value, divisor: int, value: Value) -> None:
    """Write neighbours from an offset on, which ``divisor`` divides."""
    stored = value.retyped(value.type.with_dtype(place.stored)) if place.registers else value
    out.writer.line(_store_text(place, offset, divisor, stored) + ";")


def scatter(out: KernelText, place: Place, offsets: Sequence[Value], value: Value) -> None:
    """Write the element of each lane, lane 0 first."""
    value = out.temporary("value", canonical(value))
    for number, offset in enumerate(offsets):
        store(out, place, offset, 1, lane_of(value, number))


def prefetch(place: Place, offset: Value) -> str:
    """Return a statement that asks for the element at a scalar offset, which may lie outside of the array."""
    return f"prefetch({_pointer(place, offset).text}, 1);"


def _pointer(place: Place, offset: Value) -> Value:
    """Return the pointer to an element; offsets are summed before they are widened to the size of a pointer."""
    if offset.known == 0:
        return Value(place.pointer, offset.type)
    return Value(f"{place.pointer} + {offset.at(PRODUCT)}", offset.type, SUM)


def _element(place: Place, offset: Value) -> str:
    """Return one element as memory holds it, but f16 as a float."""
    if place.stored is DType.F16:
        return f"vload_half({offset.text}, {place.pointer})"
    return f"{place.pointer}[{offset.text}]"


def is_aligned(place: Place, divisor: int, kind: Type) -> bool:
    """Return whether neighbours from an offset on that ``divisor`` divides lie where a vector of them would."""
    size = kind.dtype.itemsize
    wanted = kind.lanes * size
    return kind.lanes != 3 and math.gcd(place.alignment, divisor * size) % wanted == 0


def _loaded(place: Place, offset: Value, divisor: int, kind: Type) -> Value:
    if kind.lanes == 1:
        return _from_memory(Value(_element(place, offset), kind), kind)
    pointer, aligned = _pointer(place, offset), is_aligned(place, divisor, kind)
    if place.stored is DType.F16:
        return call(f"vload{'a' if aligned else ''}_half{kind.lanes}", kind, "0", pointer)
    if aligned:
        element_type = vector(MEMORY[kind.dtype], kind.lanes)
        text = f"*({place.qualifiers}{element_type} *){pointer.at(UNARY)}"
        return _from_memory(Value(text, kind, UNARY), kind)
    return _from_memory(call(f"vload{kind.lanes}", kind, "0", pointer), kind)


def _from_memory(value: Value, kind: Type) -> Value:
    """Return loaded memory as a register value; any byte but 0 is true."""
    if not kind.dtype.is_bool:
        return value
    byte = value.retyped(kind.with_dtype(DType.U8))
    return compared("!=", byte, Value("0", byte.type) if kind.lanes == 1 else integer(0, byte.type))


def _to_memory(value: Value) -> Value:
    kind = value.type
    if not kind.dtype.is_bool or kind.lanes == 1:
        return value
    ones = Value("-" + masked(value, 8).at(UNARY + 1), kind, UNARY)
    return call(f"as_{vector('uchar', kind.lanes)}", kind.with_dtype(DType.U8), ones)


def _store_text(place: Place, offset: Value, divisor: int, value: Value) -> str:
    kind = value.type
    if kind.lanes == 1:
        if place.stored is DType.F16:
            return f"vstore_half_rte({value.text}, {offset.text}, {place.pointer})"
        return f"{place.pointer}[{offset.text}] = {_to_memory(value).text}"
    pointer, aligned = _pointer(place, offset), is_aligned(place, divisor, kind)
    if place.stored is DType.F16:
        return f"vstore{'a' if aligned else ''}_half{kind.lanes}_rte({value.text}, 0, {pointer.text})"
    content = _to_memory(value).text
    if aligned:
        element = vector(MEMORY[kind.dtype], kind.lanes)
        return f"*({place.qualifiers}{element} *){pointer.at(UNARY)} = {content}"
    return f"vstore{kind.lanes}({content}, 0, {pointer.text})"
