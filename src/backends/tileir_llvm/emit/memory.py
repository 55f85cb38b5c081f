"""Reading and writing array elements."""

from __future__ import annotations

import math
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.semtree.ir import Type
from tileir_llvm.emit.conversions import cast, convert, integer, wrapped
from tileir_llvm.emit.integers import apply_integer
from tileir_llvm.emit.spelling import REGISTER, memory, memory_element, register, suffix
from tileir_llvm.emit.text import FunctionText, Value

LINE: Final = 64
"""Bytes of a line of the caches of x86 and most other processors."""

_WIDE: Final = 64
_ALL: Final = "splat (i1 true)"


@attrs.frozen
class Place:
    """Array in memory: pointer to its first element, and alignment of that in bytes.

    If nothing writes it while the kernel runs, it is ``constant``, and loads need not be repeated. If no iteration of
    the current loop writes it, it is ``kept``: loads need not be repeated within one iteration. An array on the stack
    has ``elements``, and is in registers if it is as long as the moved vectors. Whole cache lines written to a
    ``streamed`` array bypass the caches. Pairs read from a ``narrow`` array are opaque to LLVM, which would otherwise
    keep the widened elements in twice as many registers.
    """

    pointer: str
    dtype: DType
    alignment: int
    constant: bool = False
    elements: int | None = None
    kept: bool = False
    streamed: bool = False
    narrow: bool = False


@attrs.frozen(eq=False)
class Offset:
    """First element of an access, in elements from the first one of an array: a sum of three parts.

    Attributes:
        outside: Invariant part in the innermost loop; None for none.
        inside: Varying part; None for none.
        distance: Constant part.
        step: Distance between lanes in elements.
        lanes: Number of lanes with separate offsets; 1 for neighbours.
        apart: Whether it is one of many lanes, which share all but the constant part.
        divisor: Divisor of the parts that are not constant.
    """

    outside: Value | None
    inside: Value | None
    distance: int = 0
    step: int = 1
    lanes: int = 1
    apart: bool = False
    divisor: int = 1

    def moved(self, lane: int) -> Offset:
        """Return the offset of one lane."""
        return attrs.evolve(self, distance=self.distance + lane * self.step, step=1, lanes=1, apart=True)

    def total(self, out: FunctionText) -> Value:
        """Return the sum, for lane 0 if lanes have separate offsets."""
        parts = [part for part in (self.outside, self.inside) if part is not None]
        if self.distance or not parts:
            parts.append(integer(self.distance, _INDEX))
        total, *others = parts
        for part in others:
            total = apply_integer(out, Op.ADD, (total, part), index=True)
        return total


_INDEX: Final = Type(DType.I64)


def load(out: FunctionText, place: Place, offset: Offset | Value, kind: Type) -> Value:
    """Read ``kind.lanes`` neighbours from a scalar offset, or the element of each lane of a vector offset."""
    if isinstance(offset, Value):
        read = _permuted if place.elements == kind.lanes else read_lanes
        return read(out, place, offset, kind)
    start = offset
    if start.lanes == 1 or start.step == 1:
        return _load_run(out, place, start, kind)
    if start.step == 0:
        return broadcast(out, _load_run(out, place, start, Type(kind.dtype)), kind.lanes)
    elements = [_load_run(out, place, start.moved(lane), Type(kind.dtype)) for lane in range(kind.lanes)]
    return joined(out, elements)


def store(out: FunctionText, place: Place, offset: Offset | Value, value: Value) -> None:
    """Write neighbours from a scalar offset on, or the element of each lane of a vector offset, lane 0 first."""
    if isinstance(offset, Value):
        write_lanes(out, place, offset, value)
        return
    start = offset
    if start.lanes == 1 or start.step == 1:
        _store_run(out, place, start, value)
    elif _scatters(value.type):
        write_lanes(out, place, start, value)
    else:
        for lane in range(value.type.lanes):
            _store_run(out, place, start.moved(lane), lane_of(out, value, lane))


def prefetch(out: FunctionText, place: Place, offset: Value) -> None:
    """Prefetch the element at a scalar offset, which may lie outside of the array, into the innermost cache."""
    index = cast(out, offset, DType.I64)
    element = memory_element(place.dtype)
    pointer = out.pure(f"getelementptr {element}, ptr {place.pointer}, {register(index.type)} {index.text}")
    out.module.declarations["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
    out.effect(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")


def broadcast(out: FunctionText, value: Value, lanes: int) -> Value:
    """Return a scalar in every lane."""
    if lanes == 1:
        return value
    kind = Type(value.type.dtype, lanes)
    if value.known is not None:
        return integer(value.known, kind)
    spelt = register(kind)
    first = out.pure(f"insertelement {spelt} poison, {register(value.type)} {value.text}, i64 0")
    text = out.pure(f"shufflevector {spelt} {first}, {spelt} poison, <{lanes} x i32> zeroinitializer")
    return Value(text, kind)


def ramp(out: FunctionText, base: Value, stride: int, lanes: int) -> Value:
    """Return the vector whose lane number ``k`` is ``base + k * stride``."""
    kind = Type(base.type.dtype, lanes)
    if lanes == 1:
        return base
    element = REGISTER[kind.dtype]
    first = 0 if base.known is None else base.known
    steps = ", ".join(f"{element} {wrapped(first + stride * lane, kind.dtype)}" for lane in range(lanes))
    text = f"<{steps}>"
    if base.known is None:
        text = out.pure(f"add {register(kind)} {broadcast(out, base, lanes).text}, {text}")
    return Value(text, kind)


def lane_of(out: FunctionText, value: Value, lane: int) -> Value:
    """Return one lane of a vector."""
    return Value(out.pure(f"extractelement {register(value.type)} {value.text}, i64 {lane}"), Type(value.type.dtype))


def joined(out: FunctionText, elements: list[Value]) -> Value:
    """Return the vector of scalars."""
    kind = Type(elements[0].type.dtype, len(elements))
    text = "poison"
    for lane, element in enumerate(elements):
        operand = f"{register(element.type)} {element.text}"
        text = out.pure(f"insertelement {register(kind)} {text}, {operand}, i64 {lane}")
    return Value(text, kind)


def _permuted(out: FunctionText, place: Place, offset: Value, kind: Type) -> Value:
    """Read the lanes of a vector in another order, for which LLVM selects the instruction, if the processor has one."""
    whole = _load_run(out, place, Offset(None, None), kind)
    chosen = cast(out, offset, DType.I32)
    vector = register(kind)
    elements = []
    for lane in range(kind.lanes):
        number = lane_of(out, chosen, lane)
        text = out.pure(f"extractelement {vector} {whole.text}, i32 {number.text}")
        elements.append(Value(text, Type(kind.dtype)))
    return joined(out, elements)


def pointer_to(out: FunctionText, place: Place, offset: Offset) -> tuple[str, int]:
    """Return the pointer to the element at a scalar offset, and its alignment.

    The terms of the invariant part are hidden from LLVM, whose loop strength reduction would try to rewrite these sums
    for each access. That takes a third of the code generation time of a convolution, without gain, as the sum is
    hoisted already. If many lanes are apart, the counter is hidden too.
    """
    size, outside, inside, distance = place.dtype.itemsize, offset.outside, offset.inside, offset.distance
    unknown = offset.divisor if outside or inside else 0
    alignment = math.gcd(place.alignment, unknown * size, distance * size)
    promise = "inbounds " if (outside is not None) + (inside is not None) + (distance != 0) == 1 else ""
    element = memory_element(place.dtype)
    pointer = place.pointer
    if outside is not None or inside is not None:
        parts = outside.text if outside else None, inside.text if inside else None
        key = pointer, element, promise, *parts, offset.apart
        pointer = out.recalled(key)
        if pointer is None:
            pointer = _computed(out, place.pointer, f"{promise}{element}", *parts, apart=offset.apart)
            out.remember(key, pointer)
    if distance:
        pointer = out.pure(f"getelementptr {promise}{element}, ptr {pointer}, i64 {distance}")
    return pointer, alignment


def _computed(
    out: FunctionText, pointer: str, element: str, outside: str | None, inside: str | None, *, apart: bool
) -> str:
    """Return a pointer moved by both computed parts of an offset."""
    if outside is not None:
        pointer = out.pure(f"getelementptr {element}, ptr {pointer}, i64 {outside}")
    if outside is not None and inside is not None:
        pointer = _opaque(out, pointer)
    if inside is not None:
        pointer = out.pure(f"getelementptr {element}, ptr {pointer}, i64 {inside}")
    return _opaque(out, pointer) if inside is not None and apart else pointer


def _opaque(out: FunctionText, pointer: str) -> str:
    """Return a pointer whose sum is opaque to LLVM's loop passes, and whose array to its alias analysis.

    Code generation drops the call after the loop passes.
    """
    return out.call("ptr", "llvm.strip.invariant.group.p0", ("ptr", pointer))


def _load_run(out: FunctionText, place: Place, offset: Offset, kind: Type) -> Value:
    pointer, alignment = pointer_to(out, place, offset)
    read = out.pure if place.constant else out.once if place.kept else out.result
    text = read(f"load {memory(kind)}, ptr {pointer}, align {alignment}")
    return _from_memory(out, _pairs(out, text, kind) if place.narrow and kind.lanes % 2 == 0 else text, kind)


def _pairs(out: FunctionText, text: str, kind: Type) -> str:
    """Return a vector of 16-bit elements whose earlier loads are hidden from LLVM."""
    lanes = kind.lanes // 2
    words = f"<{lanes} x i32>"
    read, made = out.pure(f"bitcast {memory(kind)} {text} to {words}"), "poison"
    for lane in range(lanes):
        word = out.pure(f"extractelement {words} {read}, i64 {lane}")
        other = out.result(f'call i32 asm sideeffect "", "=r,0"(i32 {word})')
        made = out.pure(f"insertelement {words} {made}, i32 {other}, i64 {lane}")
    return out.pure(f"bitcast {words} {made} to {memory(kind)}")


def _store_run(out: FunctionText, place: Place, offset: Offset, value: Value) -> None:
    pointer, alignment = pointer_to(out, place, offset)
    past = place.streamed and alignment >= LINE <= value.type.lanes * place.dtype.itemsize
    hint = f", !nontemporal !{out.module.node('!{i32 1}')}" if past else ""
    out.effect(f"store {memory(value.type)} {_to_memory(out, value)}, ptr {pointer}, align {alignment}{hint}")


def _from_memory(out: FunctionText, text: str, kind: Type) -> Value:
    """Return loaded memory as a register value; any byte but 0 is true."""
    if not kind.dtype.is_bool:
        return Value(text, kind)
    return Value(out.pure(f"icmp ne {memory(kind)} {text}, zeroinitializer"), kind)


def _to_memory(out: FunctionText, value: Value) -> str:
    if not value.type.dtype.is_bool:
        return value.text
    return convert(out, "zext", value, value.type.with_dtype(DType.U8)).text


def _pointers(out: FunctionText, place: Place, offset: Value) -> str:
    index = cast(out, offset, DType.I64)
    element = memory_element(place.dtype)
    return out.pure(f"getelementptr inbounds {element}, ptr {place.pointer}, {register(index.type)} {index.text}")


def read_lanes(out: FunctionText, place: Place, offset: Offset | Value, kind: Type, mask: str = _ALL) -> Value:
    """Read the elements of the lanes set in a mask; other lanes are zero, and may be out of bounds."""
    run, pointers = _addresses(out, place, offset, kind.lanes)
    called, spelt, size = suffix(_memory_type(kind)), memory(kind), place.dtype.itemsize
    name = f"llvm.masked.load.{called}.p0" if run else f"llvm.masked.gather.{called}.v{kind.lanes}p0"
    where, bits = pointers.rpartition(" ")[0], f"<{kind.lanes} x i1>"
    out.module.declarations[f"declare {spelt} @{name}({where}, i32, {bits}, {spelt})"] = None
    operands = f"{pointers}, i32 {size}, {bits} {mask}, {spelt} {'poison' if mask is _ALL else 'zeroinitializer'}"
    return _from_memory(out, out.result(f"call {spelt} @{name}({operands})"), kind)


def write_lanes(out: FunctionText, place: Place, offset: Offset | Value, value: Value, mask: str = _ALL) -> None:
    """Write the elements of the lanes set in a mask; others may be out of bounds."""
    lanes, spelt = value.type.lanes, memory(value.type)
    run, pointers = _addresses(out, place, offset, lanes)
    called, size = suffix(_memory_type(value.type)), place.dtype.itemsize
    name = f"llvm.masked.store.{called}.p0" if run else f"llvm.masked.scatter.{called}.v{lanes}p0"
    where, bits = pointers.rpartition(" ")[0], f"<{lanes} x i1>"
    out.module.declarations[f"declare void @{name}({spelt}, {where}, i32, {bits})"] = None
    stored = f"{spelt} {_to_memory(out, value)}"
    out.effect(f"call void @{name}({stored}, {pointers}, i32 {size}, {bits} {mask})")


def _addresses(out: FunctionText, place: Place, offset: Offset | Value, lanes: int) -> tuple[bool, str]:
    """Return whether lanes are neighbours, and the pointer to the first one, else one for each, as an operand.

    Neighbours may begin before the array, if a mask excludes the first lanes, so no bounds are declared.
    """
    if isinstance(offset, Offset) and (offset.lanes == 1 or offset.step == 1):
        element, first = memory_element(place.dtype), offset.total(out).text
        return True, f"ptr {out.pure(f'getelementptr {element}, ptr {place.pointer}, i64 {first}')}"
    places = offset if isinstance(offset, Value) else ramp(out, offset.total(out), offset.step, lanes)
    return False, f"<{lanes} x ptr> {_pointers(out, place, places)}"


def _scatters(kind: Type) -> bool:
    """Return whether to write separate lanes by one scatter instruction.

    Processors with vectors of 64 bytes have it. It takes as long as storing each lane, but much less compilation time.
    """
    return kind.dtype.itemsize in (4, 8) and kind.lanes * kind.dtype.itemsize >= _WIDE


def _memory_type(kind: Type) -> Type:
    """Return the integer type with the width of a type if registers and memory differ."""
    match kind.dtype:
        case DType.BOOL:
            return kind.with_dtype(DType.U8)
        case DType.BF16:
            return kind.with_dtype(DType.U16)
        case _:
            return kind
