"""Products of matrices by the instructions of warps, ``mma.sync``, whose operands are in registers.

Fragments are those of NVIDIA, "PTX ISA" (mma.m16n8k16, mma.m16n8k8, ldmatrix): lane ``4 * g + t`` has rows ``g`` and
``g + 8`` of the left operand, column ``g`` of the right one, and neighbours along the depth from ``t`` words on.
"""

from __future__ import annotations

from typing import Final

from tileir.core import DType, Op, attrs
from tileir.core.fragments import FRAGMENTS, Fragment
from tileir.semtree.ir import GridLevel, MatrixMultiply, MatrixOperand, Type
from tileir.semtree.rewrite import summands
from tileir.semtree.swizzles import period
from tileir_llvm.emit.conversions import cast, integer
from tileir_llvm.emit.expressions import Environment, evaluate, offset_of
from tileir_llvm.emit.integers import apply_integer
from tileir_llvm.emit.memory import Offset, Place, load, store
from tileir_llvm.emit.spelling import memory_element, register
from tileir_llvm.emit.text import Value

ROWS: Final = 16
"""Rows of the left operand, and columns of the right one, that are loaded at a time."""

_EIGHT: Final = 8
_WORD: Final = 4
_ROW_BYTES: Final = 16
"""What ldmatrix takes from one address."""

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
"""The intrinsic of each fragment, and what it takes a word of an operand for."""

OF_WARPS: Final = tuple(_MULTIPLY)
"""The fragments of this module."""


@attrs.frozen(eq=False)
class Shared:
    """Arrays in shared memory, by name: their address there, a constant of 32 bits, and its alignment."""

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
    """Return ``count`` of the sums that a thread holds, from ``first`` on."""
    place, kind = env.arrays[stmt.accumulators.array], stmt.accumulators.type
    return [load(env.out, place, _held(env, stmt, first + number), kind) for number in range(count)]


def keep(env: Environment, stmt: MatrixMultiply, first: int, sums: list[Value]) -> None:
    """Store sums that a thread holds, from ``first`` on."""
    place = env.arrays[stmt.accumulators.array]
    for number, value in enumerate(sums):
        store(env.out, place, _held(env, stmt, first + number), value)


def _held(env: Environment, stmt: MatrixMultiply, number: int) -> Offset:
    offset = offset_of(env, stmt.accumulators.offset)
    assert isinstance(offset, Offset)
    return attrs.evolve(offset, distance=offset.distance + number, step=1, lanes=1)


def multiply(env: Environment, stmt: MatrixMultiply, group: tuple[int, ...], shared: dict[str, Shared]) -> None:
    """Write a product: for each step the fragments of both operands, then all pairs of them."""
    fragment = FRAGMENTS[stmt.fragment]
    (rows, columns, step), (height, width, depth) = fragment.mnk, stmt.tile
    lane = apply_integer(env.out, Op.MOD, (thread_number(env, group), integer(fragment.threads, _INDEX)), index=True)
    left: Held | _Fragments
    if stmt.left.held:
        left = Held.of(env, stmt)
    else:
        left = _Fragments.of(env, stmt.left, shared[stmt.left.start.array], lane, step, height, right=False)
    right = _Fragments.of(env, stmt.right, shared[stmt.right.start.array], lane, step, width, right=True)
    count = fragment.sums.held
    sums = accumulators(env, stmt, 0, height // rows * (width // columns) * count)
    for number in range(depth // step):
        a = [left.at(row, number * step) for row in range(0, height, ROWS)]
        b = [right.at(column, number * step) for column in range(0, width, ROWS)]
        for row in range(height // rows):
            for column in range(width // columns):
                at = (row * (width // columns) + column) * count
                pair = b[column // 2][:2] if column % 2 == 0 else b[column // 2][2:]
                sums[at : at + count] = _product(env, stmt.fragment, a[row], pair, sums[at : at + count])
    keep(env, stmt, 0, sums)


@attrs.frozen(eq=False, repr=False)
class Held:
    """Takes fragments of the left operand from a private array, where they lie as instructions want them.

    Attributes:
        env: What names mean.
        place: The array.
        start: The first element.
        dtype: Of its elements.
        fragment: The instruction.
        across: How many fragments a row of them has.
        count: How many elements a thread holds.

    """

    env: Environment
    place: Place
    start: Offset
    dtype: DType
    fragment: Fragment
    across: int
    count: int

    @classmethod
    def of(cls, env: Environment, stmt: MatrixMultiply) -> Held:
        """Look at the left operand of a product."""
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
        """Return all words, in the order in which they lie."""
        lanes = _WORD // self.dtype.itemsize
        return [self._word(place, lanes) for place in range(0, self.count, lanes)]

    def keep(self, values: list[Value]) -> list[Value]:
        """Store all words, which are the first of some values, and return the other ones."""
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
    """Return the sums of a thread with one product added."""
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
    """Loads fragments of one operand: sixteen rows of the left one, or sixteen columns of the right one, at a time.

    Attributes:
        env: What names mean.
        shared: Where the array is.
        dtype: Of its elements.
        strides: Elements from one row, or column of the right operand, to the next, and from one step to the next.
        swizzle: Shift and mask.
        outside: Terms of the start that no swizzle changes.
        inside: The other ones.
        lane: The number of the thread in its warp.
        step: Depth of an instruction.
        end: Rows, or columns, that there are.
        right: Whether the operand is the right one.
        by_rows: Whether ldmatrix may be used.

    """

    env: Environment
    shared: Shared
    dtype: DType
    strides: tuple[int, int]
    swizzle: tuple[int, int]
    outside: Value
    inside: Value
    lane: Value
    step: int
    end: int
    right: bool
    by_rows: bool

    @classmethod
    def of(
        cls, env: Environment, operand: MatrixOperand, shared: Shared, lane: Value, step: int, end: int, *, right: bool
    ) -> _Fragments:
        """Look at an operand; the right one is taken by its columns."""
        dtype, ranges = operand.start.type.dtype, env.ranges
        assert ranges is not None
        unit = period(operand.shift, operand.mask) if operand.mask else 1
        outside = inside = integer(0, _INDEX)
        for term in summands(operand.start.offset):
            value = cast(env.out, evaluate(env, term, index=True), DType.I32)
            if ranges.at(term).divisor % unit:
                inside = added(env, inside, value)
            else:
                outside = added(env, outside, value)
        major, minor = operand.strides[::-1] if right else operand.strides
        eight = _ROW_BYTES // dtype.itemsize
        other = minor if major == 1 else major
        lowest = operand.mask & -operand.mask if operand.mask else eight
        divisor = ranges.at(operand.start.offset).divisor
        fits = divisor % eight == 0 and other % eight == 0 and lowest % eight == 0 and shared.alignment % 16 == 0
        along = minor == 1 or (major == 1 and dtype.itemsize == _WORD // 2)
        swizzle = operand.shift, operand.mask
        by_rows = fits and along and end % ROWS == 0
        return cls(env, shared, dtype, (major, minor), swizzle, outside, inside, lane, step, end, right, by_rows)

    def at(self, row: int, step: int) -> list[str]:
        """Return the four words of sixteen rows from ``row`` and the steps from ``step`` on."""
        words = self._by_rows(row, step) if self.by_rows else self._by_elements(row, step)
        return [rounded(self.env, word) for word in words] if self.dtype is DType.F32 else words

    def _by_rows(self, row: int, step: int) -> list[str]:
        """Return the four matrices of eight by sixteen bytes that make up the fragments.

        Of the left operand these are: the rows, the next eight rows, then both for the other half of the depth. Of the
        right one: both halves of the depth for eight columns, then those of the next eight. Each lane names a row.
        """
        out, (major, minor) = self.env.out, self.strides
        number, matrix = self._split(_EIGHT)
        second, fourth = self._digit(matrix, 1), self._digit(matrix, 2)
        rows, depth = (fourth, second) if self.right else (second, fourth)
        turned = minor != 1
        down, along = (rows, self._plus(number, depth, self.step // 2)) if turned else (rows, depth)
        place = times(self.env, down, _EIGHT * major)
        if turned:
            place = added(self.env, place, times(self.env, along, minor))
        else:
            place = added(self.env, place, times(self.env, number, major))
            place = added(self.env, place, times(self.env, depth, self.step // 2))
        address = self._address(place, row * major + step * minor)
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{'.trans' if turned else ''}.b16.p3"
        result = "{i32, i32, i32, i32}"
        out.module.declarations[f"declare {result} @{name}(ptr addrspace(3))"] = None
        pointer = out.pure(f"inttoptr i32 {address.text} to ptr addrspace(3)")
        made = out.result(f"call {result} @{name}(ptr addrspace(3) {pointer})")
        return [out.result(f"extractvalue {result} {made}, {number}") for number in range(4)]

    def _by_elements(self, row: int, step: int) -> list[str]:
        """Return the fragments put together from single elements."""
        (major, minor), pair = self.strides, _WORD // self.dtype.itemsize
        halves = [(0, 0), (_EIGHT, 0), (0, self.step // 2), (_EIGHT, self.step // 2)]
        if self.right:
            halves = [halves[0], halves[2], halves[1], halves[3]]
        word, group = self._split(_WORD)
        place = added(self.env, times(self.env, group, major), times(self.env, word, pair * minor))
        words = []
        for down, along in halves:
            if row + down >= self.end:
                words.append("0")
                continue
            starts = [(row + down) * major + (step + along + number) * minor for number in range(pair)]
            words.append(self._word([self._element(place, start) for start in starts]))
        return words

    def _element(self, place: Value, distance: int) -> str:
        """Return the bits of an element, in 32 bits."""
        out, element = self.env.out, memory_element(self.dtype)
        pointer = out.pure(f"inttoptr i32 {self._address(place, distance).text} to ptr addrspace(3)")
        size = self.dtype.itemsize
        bits = f"i{8 * size}"
        read = out.result(f"load {element}, ptr addrspace(3) {pointer}, align {size}")
        if element != bits:
            read = out.pure(f"bitcast {element} {read} to {bits}")
        return read if bits == "i32" else out.pure(f"zext {bits} {read} to i32")

    def _word(self, elements: list[str]) -> str:
        """Return elements side by side, the first one lowest."""
        out, word = self.env.out, elements[0]
        for number, element in enumerate(elements[1:], 1):
            high = out.pure(f"shl i32 {element}, {8 * self.dtype.itemsize * number}")
            word = out.pure(f"or i32 {word}, {high}")
        return word

    def _address(self, place: Value, distance: int) -> Value:
        """Return the address in shared memory of the element at a place that is known but for ``distance``."""
        env, (shift, mask) = self.env, self.swizzle
        unit = period(shift, mask) if mask else 1
        inner = distance % unit
        within = added(env, added(env, self.inside, place), integer(inner, _INDEX))
        if mask:
            high = env.out.pure(f"lshr i32 {within.text}, {shift}")
            bits = env.out.pure(f"and i32 {high}, {mask}")
            within = Value(env.out.pure(f"xor i32 {within.text}, {bits}"), _INDEX)
        size = self.dtype.itemsize
        total = times(env, added(env, within, self.outside), size)
        base = Value(env.out.pure(f"add i32 {total.text}, {self.shared.address}"), _INDEX)
        return added(env, base, integer((distance - inner) * size, _INDEX))

    def _split(self, count: int) -> tuple[Value, Value]:
        """Return the lane's number modulo ``count``, a power of two, and divided by it."""
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
