"""Reading and writing array elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.ir import Type
from tileir_opencl.conversions import from_half_bits, half_bits
from tileir_opencl.integers import apply_integer, as_ramp
from tileir_opencl.logic import compared
from tileir_opencl.spelling import MEMORY, PRODUCT, SUM, UNARY, register, vector
from tileir_opencl.text import Value, call, canonical, integer, lane_of, masked

if TYPE_CHECKING:
    from tileir_opencl.text import KernelText


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


def load(out: KernelText, place: Place, offset: Value, kind: Type) -> Value:
    """Read ``kind.lanes`` neighbours from a scalar offset, or the element of each lane of a vector offset."""
    stored = kind.with_dtype(place.stored)
    read = _load_run if offset.type.lanes == 1 else _load_lanes
    value = read(out, place, offset, stored)
    return value if stored == kind else value.retyped(kind)


def store(out: KernelText, place: Place, offset: Value, value: Value) -> None:
    """Write neighbours from a scalar offset on, or the element of each lane of a vector offset, lane 0 first."""
    if place.stored is not place.dtype:
        value = value.retyped(value.type.with_dtype(place.stored))
    ramp = as_ramp(offset) if offset.type.lanes > 1 else (offset, 1)
    if ramp is not None and ramp[1] == 1:
        _store_run(out, place, ramp[0], value)
        return
    value = out.temporary("value", canonical(value))
    offset = offset if ramp is not None else out.temporary("place", offset)
    for number in range(value.type.lanes):
        to = lane_of(offset, number) if ramp is None else _moved(out, ramp[0], ramp[1] * number)
        _store_run(out, place, to, lane_of(value, number))


def prefetch(place: Place, offset: Value) -> str:
    """Return a statement that asks for the element at a scalar offset, which may lie outside of the array."""
    return f"prefetch({_pointer(place, offset).text}, 1);"


def _load_lanes(out: KernelText, place: Place, offset: Value, kind: Type) -> Value:
    """Read the element of each lane of a vector offset."""
    ramp = as_ramp(offset)
    if ramp is None:
        offset = out.temporary("place", offset)
        offsets = [lane_of(offset, number) for number in range(kind.lanes)]
    else:
        base, step = ramp
        if step == 1:
            return _load_run(out, place, base, kind)
        offsets = [_moved(out, base, step * number) for number in range(1 if step == 0 else kind.lanes)]
    elements = [_element(place, each) for each in offsets]
    if place.stored is DType.F16:
        return Value(f"({register(kind)})({', '.join(elements)})", kind)
    gathered = Value(f"({vector(MEMORY[kind.dtype], kind.lanes)})({', '.join(elements)})", kind)
    return _from_memory(out, gathered, kind)


def _moved(out: KernelText, base: Value, distance: int) -> Value:
    return apply_integer(out, Op.ADD, (base, integer(distance, base.type)), index=True)


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


def is_aligned(place: Place, offset: Value, kind: Type) -> bool:
    """Return whether the neighbours from ``offset`` on lie where a vector of them would."""
    size = kind.dtype.itemsize
    wanted = kind.lanes * size
    return kind.lanes != 3 and math.gcd(place.alignment, offset.range.divisor * size) % wanted == 0


def _load_run(out: KernelText, place: Place, offset: Value, kind: Type) -> Value:
    if kind.lanes == 1:
        element = Value(_element(place, offset), kind)
        return element if place.stored is DType.F16 else _from_memory(out, element, kind)
    pointer, aligned = _pointer(place, offset), is_aligned(place, offset, kind)
    if place.stored is DType.F16:
        return call(f"vload{'a' if aligned else ''}_half{kind.lanes}", kind, "0", pointer)
    if aligned:
        element_type = vector(MEMORY[kind.dtype], kind.lanes)
        text = f"*({place.qualifiers}{element_type} *){pointer.at(UNARY)}"
        return _from_memory(out, Value(text, kind, UNARY), kind)
    return _from_memory(out, call(f"vload{kind.lanes}", kind, "0", pointer), kind)


def _from_memory(out: KernelText, value: Value, kind: Type) -> Value:
    """Return loaded memory as a register value; any byte but 0 is true."""
    match kind.dtype:
        case DType.BOOL:
            byte = value.retyped(kind.with_dtype(DType.U8))
            zero = Value("0", byte.type) if kind.lanes == 1 else integer(0, byte.type)
            return compared("!=", byte, zero)
        case DType.BF16:
            return from_half_bits(out, value.retyped(kind.with_dtype(DType.U16)), kind)
        case _:
            return value


def _to_memory(out: KernelText, value: Value) -> Value:
    kind = value.type
    match kind.dtype:
        case DType.BOOL if kind.lanes == 1:
            return value
        case DType.BOOL:
            ones = Value("-" + masked(value, 8).at(UNARY + 1), kind, UNARY)
            return call(f"as_{vector('uchar', kind.lanes)}", kind.with_dtype(DType.U8), ones)
        case DType.BF16:
            return half_bits(out, value, kind.with_dtype(DType.U16))
        case _:
            return value


def _unrounded(value: Value) -> Value:
    """Return what was rounded to f16, for storing rounds too."""
    return value if value.origin is None else value.origin


def _store_run(out: KernelText, place: Place, offset: Value, value: Value) -> None:
    out.writer.line(_store_text(out, place, offset, value) + ";")


def _store_text(out: KernelText, place: Place, offset: Value, value: Value) -> str:
    kind = value.type
    if place.stored is DType.F16 and kind.lanes == 1:
        return f"vstore_half_rte({_unrounded(value).text}, {offset.text}, {place.pointer})"
    if kind.lanes == 1:
        return f"{place.pointer}[{offset.text}] = {_to_memory(out, value).text}"
    pointer, aligned = _pointer(place, offset), is_aligned(place, offset, kind)
    if place.stored is DType.F16:
        return f"vstore{'a' if aligned else ''}_half{kind.lanes}_rte({_unrounded(value).text}, 0, {pointer.text})"
    content = _to_memory(out, value).text
    if aligned:
        element = vector(MEMORY[kind.dtype], kind.lanes)
        return f"*({place.qualifiers}{element} *){pointer.at(UNARY)} = {content}"
    return f"vstore{kind.lanes}({content}, 0, {pointer.text})"
