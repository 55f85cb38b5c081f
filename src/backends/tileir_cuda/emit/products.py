"""Matrix products by the warp instruction ``mma.sync``, whose operands are in registers.

:mod:`tileir_emit.warp_fragments` defines the layout of fragments in threads.
"""

from __future__ import annotations

import math
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.core.fragments import FRAGMENTS, Fragment
from tileir.semtree.ir import GridLevel, MatrixMultiply, Type
from tileir_emit.warp_fragments import WarpOperand, steps
from tileir_llvm.emit.conversions import cast, integer
from tileir_llvm.emit.expressions import Environment, evaluate, offset_of
from tileir_llvm.emit.integers import apply_integer
from tileir_llvm.emit.memory import Offset, Place, load, store
from tileir_llvm.emit.spelling import memory_element, register
from tileir_llvm.emit.text import Value

_EIGHT: Final = 8
_WORD: Final = 4

_INDEX: Final = Type(DType.I32)

_MULTIPLY: Final = {
    "mma_m16n8k16_f16": ("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", "<2 x half>"),
    "mma_m16n8k16_bf16": ("llvm.nvvm.mma.m16n8k16.row.col.bf16", "i32"),
    "mma_m16n8k8_f32": ("llvm.nvvm.mma.m16n8k8.row.col.tf32", "i32"),
    "mma_m16n8k32_f8e4m3fn": ("llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", "i32"),
    "mma_m16n8k32_f8e4m3fn_f8e5m2": ("llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e5m2.f32", "i32"),
    "mma_m16n8k32_f8e5m2_f8e4m3fn": ("llvm.nvvm.mma.m16n8k32.row.col.f32.e5m2.e4m3.f32", "i32"),
    "mma_m16n8k32_f8e5m2": ("llvm.nvvm.mma.m16n8k32.row.col.f32.e5m2.e5m2.f32", "i32"),
}
"""Intrinsic of each fragment, and its type of an operand word."""

OF_WARPS: Final = tuple(_MULTIPLY)
"""Fragments of this module."""


@attrs.frozen(eq=False)
class Shared:
    """Arrays in shared memory, by name: address, a constant of 32 bits, and alignment."""

    address: str
    alignment: int


def thread_number(env: Environment, group: tuple[int, ...]) -> Value:
    """Return the number of a thread in its group, axis 0 fastest."""
    number = integer(0, _INDEX)
    for axis in reversed(range(len(group))):
        if group[axis] > 1:
            own = cast(env.out, env.coordinates[GridLevel.LOCAL, axis], DType.I32)
            number = added(env, own, times(env, number, group[axis]))
    return number


def added(env: Environment, left: Value, right: Value) -> Value:
    """Return the sum of two offsets."""
    return apply_integer(env.out, Op.ADD, (left, right), index=True)


def times(env: Environment, value: Value, factor: int) -> Value:
    """Return a multiple of an offset."""
    return apply_integer(env.out, Op.MUL, (value, integer(factor, value.type)), index=True)


def accumulators(env: Environment, stmt: MatrixMultiply, first: int, count: int) -> list[Value]:
    """Return ``count`` of a thread's accumulators from ``first`` on."""
    place, kind = env.arrays[stmt.accumulators.array], stmt.accumulators.type
    return [load(env.out, place, _held(env, stmt, first + number), kind) for number in range(count)]


def keep(env: Environment, stmt: MatrixMultiply, first: int, sums: list[Value]) -> None:
    """Store a thread's accumulators from ``first`` on."""
    place = env.arrays[stmt.accumulators.array]
    for number, value in enumerate(sums):
        store(env.out, place, _held(env, stmt, first + number), value)


def _held(env: Environment, stmt: MatrixMultiply, number: int) -> Offset:
    offset = offset_of(env, stmt.accumulators.offset)
    assert isinstance(offset, Offset)
    return attrs.evolve(offset, distance=offset.distance + number, step=1, lanes=1)


def multiply(env: Environment, stmt: MatrixMultiply, group: tuple[int, ...], shared: dict[str, Shared]) -> None:
    """Write a product: for each step the fragments of both operands, then the products of all pairs."""
    fragment = FRAGMENTS[stmt.fragment]
    lane = apply_integer(env.out, Op.MOD, (thread_number(env, group), integer(fragment.threads, _INDEX)), index=True)
    left: PrivateFragments | _Fragments = (
        PrivateFragments.of(env, stmt) if stmt.left.held else _Fragments.of(env, stmt, shared, lane)
    )
    right = _Fragments.of(env, stmt, shared, lane, right=True)
    count = fragment.sums.held
    sums = accumulators(env, stmt, 0, math.prod(stmt.tile[:2]) // math.prod(fragment.mnk[:2]) * count)
    for begin, rows, columns, products in steps(stmt):
        a = [left.at(row, begin) for row in rows]
        b = [right.at(column, begin) for column in columns]
        for row, column, at in products:
            pair = b[column // 2][:2] if column % 2 == 0 else b[column // 2][2:]
            sums[at : at + count] = _product(env, stmt.fragment, a[row], pair, sums[at : at + count])
    keep(env, stmt, 0, sums)


@attrs.frozen(eq=False, repr=False)
class PrivateFragments:
    """Reader of left fragments from a private array, in the order of instructions.

    Attributes:
        env: Environment of the code.
        place: The array.
        start: Its first element.
        dtype: Dtype of its elements.
        fragment: The instruction.
        across: Fragments in a row.
        count: Number of elements per thread.
    """

    env: Environment
    place: Place
    start: Offset
    dtype: DType
    fragment: Fragment
    across: int
    count: int

    @classmethod
    def of(cls, env: Environment, stmt: MatrixMultiply) -> PrivateFragments:
        """Return the reader for the left operand of a product."""
        start, fragment = stmt.left.start, FRAGMENTS[stmt.fragment]
        offset = offset_of(env, start.offset)
        assert isinstance(offset, Offset)
        across = stmt.tile[2] // fragment.mnk[2]
        return cls(env, env.arrays[start.array], offset, start.type.dtype, fragment, across, stmt.left.held)

    def at(self, row: int, step: int) -> list[str]:
        """Return the words of the fragment at a row and a step."""
        layout = self.fragment.a.layout
        assert layout is not None
        number = row // self.fragment.mnk[0] * self.across + step // self.fragment.mnk[2]
        lanes = _WORD // self.dtype.itemsize
        return [self._word(number * layout.held + place, lanes) for place in range(0, layout.held, lanes)]

    def words(self) -> list[str]:
        """Return all words, in memory order."""
        lanes = _WORD // self.dtype.itemsize
        return [self._word(place, lanes) for place in range(0, self.count, lanes)]

    def keep(self, values: list[Value]) -> list[Value]:
        """Store all words, which are the first values given, and return the remaining values."""
        lanes = _WORD // self.dtype.itemsize
        kind, count = Type(self.dtype, lanes), self.count // lanes
        for number, value in enumerate(values[:count]):
            pair = self.env.out.pure(f"bitcast i32 {value.text} to {register(kind)}")
            store(self.env.out, self.place, self._at(number * lanes, lanes), Value(pair, kind))
        return values[count:]

    def _at(self, distance: int, lanes: int) -> Offset:
        return attrs.evolve(self.start, distance=self.start.distance + distance, step=1, lanes=lanes)

    def _word(self, distance: int, lanes: int) -> str:
        kind = Type(self.dtype, lanes)
        offset = self._at(distance, lanes)
        word = self.env.out.pure(f"bitcast {register(kind)} {load(self.env.out, self.place, offset, kind).text} to i32")
        return rounded(self.env, word) if self.dtype is DType.F32 else word


def rounded(env: Environment, word: str) -> str:
    """Return a word of f32 as TF32."""
    value = env.out.pure(f"bitcast i32 {word} to float")
    return env.out.call("i32", "llvm.nvvm.f2tf32.rna", ("float", value))


def _product(env: Environment, fragment: str, left: list[str], right: list[str], sums: list[Value]) -> list[Value]:
    """Return a thread's accumulators after one product."""
    out, (name, word) = env.out, _MULTIPLY[fragment]
    kind = register(sums[0].type)
    words = [text if word == "i32" else out.pure(f"bitcast i32 {text} to {word}") for text in (*left, *right)]
    operands = ", ".join((*(f"{word} {text}" for text in words), *(f"{kind} {total.text}" for total in sums)))
    result = "{" + ", ".join([kind] * len(sums)) + "}"
    types = ", ".join((*[word] * len(words), *[kind] * len(sums)))
    out.module.declarations[f"declare {result} @{name}({types})"] = None
    made = out.result(f"call {result} @{name}({operands})")
    return [
        Value(out.result(f"extractvalue {result} {made}, {number}"), total.type) for number, total in enumerate(sums)
    ]


@attrs.frozen(eq=False, repr=False)
class _Fragments:
    """Loader of fragments of one operand.

    Attributes:
        env: Environment of the code.
        shared: Place of the array.
        operand: Layout of fragments in it.
        outside: Terms of its start outside of the swizzle.
        inside: The other terms.
        lane: Number of the thread in its warp.
    """

    env: Environment
    shared: Shared
    operand: WarpOperand
    outside: Value
    inside: Value
    lane: Value

    @classmethod
    def of(
        cls, env: Environment, stmt: MatrixMultiply, shared: dict[str, Shared], lane: Value, *, right: bool = False
    ) -> _Fragments:
        """Return the loader for the left or the right operand of a product."""
        assert env.ranges is not None
        place = shared[(stmt.right if right else stmt.left).start.array]
        operand = WarpOperand.of(stmt, env.ranges, place.alignment, right=right)
        parts = [integer(0, _INDEX)] * 2
        for term, changed in operand.terms:
            parts[changed] = added(env, parts[changed], cast(env.out, evaluate(env, term, index=True), DType.I32))
        return cls(env, place, operand, parts[0], parts[1], lane)

    def at(self, row: int, step: int) -> list[str]:
        """Return the four words of sixteen rows from ``row`` and the steps from ``step`` on."""
        words = self._by_rows(row, step) if self.operand.by_rows else self._by_elements(row, step)
        return [rounded(self.env, word) for word in words] if self.operand.dtype is DType.F32 else words

    def _by_rows(self, row: int, step: int) -> list[str]:
        """Return the fragments as four matrices of eight by sixteen bytes (ldmatrix).

        For the left operand: the rows, the next eight rows, then both for the second half of the depth. For the right
        operand: both halves of the depth for eight columns, then for the next eight. Each lane addresses a row.
        """
        out, operand = self.env.out, self.operand
        major, minor, half, turned = operand.major, operand.minor, operand.half, operand.turned
        number, matrix = self._split(_EIGHT)
        second, fourth = self._digit(matrix, 1), self._digit(matrix, 2)
        rows, depth = (fourth, second) if operand.right else (second, fourth)
        along = self._plus(number, depth, half) if turned else depth
        place = times(self.env, rows, _EIGHT * major)
        steps_of_lane = ((along, minor),) if turned else ((number, major), (depth, half))
        for value, factor in steps_of_lane:
            place = self._plus(place, value, factor)
        address = self._address(place, row * major + step * minor)
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{'.trans' if turned else ''}.b16.p3"
        result = "{i32, i32, i32, i32}"
        out.module.declarations[f"declare {result} @{name}(ptr addrspace(3))"] = None
        pointer = out.pure(f"inttoptr i32 {address.text} to ptr addrspace(3)")
        made = out.result(f"call {result} @{name}(ptr addrspace(3) {pointer})")
        return [out.result(f"extractvalue {result} {made}, {number}") for number in range(4)]

    def _by_elements(self, row: int, step: int) -> list[str]:
        """Return the fragments assembled from single elements."""
        major, minor, pair = self.operand.major, self.operand.minor, _WORD // self.operand.dtype.itemsize
        word, group = self._split(_WORD)
        place = added(self.env, times(self.env, group, major), times(self.env, word, pair * minor))
        words = []
        for down, along in self.operand.words:
            if row + down >= self.operand.end:
                words.append("0")
                continue
            starts = [(row + down) * major + (step + along + number) * minor for number in range(pair)]
            words.append(self._word([self._element(place, start) for start in starts]))
        return words

    def _element(self, place: Value, distance: int) -> str:
        """Return the bits of an element, in 32 bits."""
        out, element = self.env.out, memory_element(self.operand.dtype)
        pointer = out.pure(f"inttoptr i32 {self._address(place, distance).text} to ptr addrspace(3)")
        size = self.operand.dtype.itemsize
        bits = f"i{8 * size}"
        read = out.result(f"load {element}, ptr addrspace(3) {pointer}, align {size}")
        if element != bits:
            read = out.pure(f"bitcast {element} {read} to {bits}")
        return read if bits == "i32" else out.pure(f"zext {bits} {read} to i32")

    def _word(self, elements: list[str]) -> str:
        """Return packed elements, the first in the lowest bits."""
        out, word = self.env.out, elements[0]
        for number, element in enumerate(elements[1:], 1):
            high = out.pure(f"shl i32 {element}, {8 * self.operand.dtype.itemsize * number}")
            word = out.pure(f"or i32 {word}, {high}")
        return word

    def _address(self, place: Value, distance: int) -> Value:
        """Return the shared-memory address of an element whose place is constant except for ``distance``."""
        env, (shift, mask) = self.env, self.operand.swizzle
        inner, rest = self.operand.split(distance)
        within = added(env, added(env, self.inside, place), integer(inner, _INDEX))
        if mask:
            high = env.out.pure(f"lshr i32 {within.text}, {shift}")
            bits = env.out.pure(f"and i32 {high}, {mask}")
            within = Value(env.out.pure(f"xor i32 {within.text}, {bits}"), _INDEX)
        size = self.operand.dtype.itemsize
        total = times(env, added(env, within, self.outside), size)
        base = Value(env.out.pure(f"add i32 {total.text}, {self.shared.address}"), _INDEX)
        return added(env, base, integer(rest * size, _INDEX))

    def _split(self, count: int) -> tuple[Value, Value]:
        """Return the lane number modulo ``count``, a power of two, and divided by it."""
        out = self.env.out
        low = Value(out.pure(f"and i32 {self.lane.text}, {count - 1}"), _INDEX)
        return low, Value(out.pure(f"lshr i32 {self.lane.text}, {count.bit_length() - 1}"), _INDEX)

    def _digit(self, value: Value, bit: int) -> Value:
        """Return a bit of a value as 0 or 1."""
        out, shift = self.env.out, bit.bit_length() - 1
        text = out.pure(f"lshr i32 {value.text}, {shift}") if shift else value.text
        return Value(out.pure(f"and i32 {text}, 1"), _INDEX)

    def _plus(self, value: Value, digit: Value, factor: int) -> Value:
        return added(self.env, value, times(self.env, digit, factor))
