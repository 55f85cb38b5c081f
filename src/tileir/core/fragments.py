"""Products of small matrices that one instruction computes, as rows of a table.

A *fragment* adds ``A @ B`` to ``C``, where A has ``m`` by ``k`` elements, B ``k`` by ``n`` and C ``m`` by ``n``.
Several neighbouring threads run it together, and each holds some elements of the operands. A :class:`Layout` defines
these by bits: the bits of the thread's number and of the element's position in the thread, in turn from the lowest one,
are bits of the element's row and column. ``m0`` is the lowest bit of a row of A and of C, ``n0`` of a column of B and
of C, ``k0`` of a column of A and of a row of B; ``-`` is no bit: threads or elements that differ in it hold copies.

The layouts follow NVIDIA, "PTX ISA" (mma, wgmma); AMD, "MI300 Instruction Set Architecture" (MFMA); Khronos,
``cl_intel_subgroup_matrix_multiply_accumulate``; Intel, "Architectures Software Developer's Manual" (VNNI, AMX).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.dtype import DType
from tileir.core.errors import fail
from tileir.core.nodes import attrs
from tileir.core.text.names import nearest


class OperandMemory(enum.Enum):
    """Memory from which an instruction takes an operand."""

    REGISTER = "register"
    LOCAL = "local"
    TILE = "tile"


@attrs.frozen
class Run:
    """Neighbouring bits of a thread's or element's number that are neighbouring bits of a row or a column.

    Attributes:
        axis: ``m``, ``n`` or ``k``.
        start: The lowest of the bits in the number.
        bit: The lowest of the bits in the row or the column.
        count: The number of bits.
        most: The greatest number of values of the bits; 0 if they have all.
    """

    axis: str
    start: int
    bit: int
    count: int
    most: int = 0

    @property
    def extent(self) -> int:
        """Number of values of the bits."""
        return self.most or 1 << self.count

    def cut_at(self, places: Collection[int]) -> tuple[Run, ...]:
        """Return its parts that begin at its start and at each bit of the number among ``places``."""
        stop = self.start + self.count
        starts = (self.start, *sorted(place for place in places if self.start < place < stop))
        parts = (
            Run(self.axis, first, self.bit + first - self.start, after - first)
            for first, after in zip(starts, (*starts[1:], stop), strict=True)
        )
        *low, high = parts
        return (*low, attrs.evolve(high, most=self.most >> high.start - self.start))


@attrs.frozen
class Layout:
    """Elements of a matrix that each thread holds: a bit such as ``m0`` for each bit of both numbers.

    Attributes:
        threads: The bits of the thread's number.
        elements: The bits of the element's number.
        most: The number of elements, if fewer than the bits can number; 0 for all.
    """

    threads: tuple[str, ...]
    elements: tuple[str, ...]
    most: int = 0

    @classmethod
    def of(cls, threads: str, elements: str) -> Layout:
        """Return a layout from bits separated by blanks, the lowest first."""
        return cls(tuple(threads.split()), tuple(elements.split()))

    @property
    def held(self) -> int:
        """Number of elements that a thread holds."""
        return self.most or 1 << len(self.elements)

    def at(self, axis: str, thread: int, element: int) -> int:
        """Return the position of an element of a thread along an axis."""
        place = 0
        for number, bits in ((thread, self.threads), (element, self.elements)):
            for n, bit in enumerate(bits):
                if bit[0] == axis:
                    place |= (number >> n & 1) << int(bit[1:])
        return place

    def thread_runs(self) -> tuple[Run, ...]:
        """Return the runs of the thread's number, the lowest bits first."""
        return tuple(_runs(self.threads))

    def element_runs(self) -> tuple[Run, ...]:
        """Return the runs of the element's number, the lowest bits first."""
        runs = tuple(_runs(self.elements))
        return (*runs[:-1], attrs.evolve(runs[-1], most=self.most >> runs[-1].start)) if self.most else runs


NOTHING: Final = "-"
"""A bit that makes no difference."""


@attrs.frozen
class Swizzle:
    """Swizzled order of bytes: the one at ``p`` of a plain array lies at ``p ^ (p >> shift & mask)``."""

    shift: int
    mask: int


@attrs.frozen
class Operand:
    """One of the three matrices.

    Attributes:
        dtype: The dtype of its elements in memory.
        layout: The elements that each thread holds; None if the instruction takes it from local memory only.
        where: The memory of the operand; one of local memory with a layout may be in registers, too.
        swizzles: Possible swizzles of local memory, beside none.
        transposable: Whether local memory may have it by rows as well as by columns.
    """

    dtype: DType
    layout: Layout | None
    where: OperandMemory = OperandMemory.REGISTER
    swizzles: tuple[Swizzle, ...] = ()
    transposable: bool = False

    @property
    def turns(self) -> bool:
        """True if neighbours in local memory may lie across the depth.

        If the instruction does not support that, each thread can load the words of its layout.
        """
        return self.transposable or (self.layout is not None and self.dtype.itemsize == _WORD)


@attrs.frozen
class Fragment:
    """One instruction.

    Attributes:
        name: Its name in semtrees, targets and back ends.
        mnk: Rows, columns and depth.
        threads: The number of neighbouring threads that run it together.
        a: The left operand, ``m`` by ``k``.
        b: The right operand, ``k`` by ``n``.
        c: The sums, to which the product is added; always in registers.
        feature: The feature of devices with the instruction.
        is_async: Whether the instruction only begins the product, and another one waits for it.
        rounded: Whether it is less exact than its dtypes: f32 as TF32, or denormals as zeros.
        flushes: Whether it treats denormals as zeros, but is exact without them.
        exact_depth: Terms after which its sums, which have fewer digits than their dtype, have to be added to others by
            ordinary instructions; 0 if sums keep all digits.
    """

    name: str
    mnk: tuple[int, int, int]
    threads: int
    a: Operand
    b: Operand
    c: Operand
    feature: str
    is_async: bool = False
    rounded: bool = False
    exact_depth: int = 0
    flushes: bool = False

    @property
    def sums(self) -> Layout:
        """The elements of the result that each thread holds."""
        assert self.c.layout is not None
        return self.c.layout

    @property
    def dtypes(self) -> tuple[DType, DType, DType]:
        """The dtypes of both factors and of the sums."""
        return self.a.dtype, self.b.dtype, self.c.dtype

    @property
    def is_dot(self) -> bool:
        """True if the lanes of a vector each add the products of a few neighbours."""
        return self.mnk[0] == 1


def named(feature: str) -> tuple[str, ...]:
    """Return the names of the fragments of a device with a feature, in the order of the table."""
    return tuple(row.name for row in FRAGMENTS.values() if row.feature == feature)


def usable(names: Iterable[str], *, rounded: bool = False) -> tuple[Fragment, ...]:
    """Return the fragments of these names, without those that round unless ``rounded`` permits them.

    Raises:
        TileError: TIL547, there is no such fragment.
    """
    names = tuple(names)
    unknown = [name for name in names if name not in FRAGMENTS]
    if unknown:
        raise fail("TIL547", f"there is no fragment {unknown[0]!r}{nearest(unknown[0], FRAGMENTS)}")
    rows = (FRAGMENTS[name] for name in names)
    return tuple(row for row in rows if rounded or not row.rounded)


def _runs(bits: tuple[str, ...]) -> Iterator[Run]:
    start = 0
    for n in range(1, len(bits) + 1):
        if n == len(bits) or not _follows(bits[n - 1], bits[n]):
            if bits[start] != NOTHING:
                yield Run(bits[start][0], start, int(bits[start][1:]), n - start)
            start = n


def _follows(bit: str, after: str) -> bool:
    if NOTHING in (bit, after):
        return bit == after
    return bit[0] == after[0] and int(after[1:]) == int(bit[1:]) + 1


def _bits(axis: str, stop: int, start: int = 0) -> str:
    return " ".join(f"{axis}{n}" for n in range(start, stop))


def _layout(threads: str, *elements: str) -> Layout:
    return Layout(tuple(threads.split()), tuple(" ".join(elements).split()))


def _name(family: str, mnk: tuple[int, int, int], left: DType, right: DType) -> str:
    m, n, k = mnk
    return "_".join((family, f"m{m}n{n}k{k}", left.value, *(() if left is right else (right.value,))))


def _log(value: int) -> int:
    return value.bit_length() - 1


def _wide(dtype: DType) -> DType:
    return dtype if dtype is DType.F64 else DType.F32 if dtype.is_float else DType.I32


def _of_registers(
    family: str, mnk: tuple[int, int, int], dtypes: tuple[DType, DType], layouts: tuple[Layout, Layout, Layout],
    feature: str, *, rounded: bool = False, where: OperandMemory = OperandMemory.REGISTER,
    exact_depth: int = 0, flushes: bool = False,
) -> Fragment:  # fmt: skip
    dtypes_of_all = (*dtypes, _wide(dtypes[0]))
    a, b, c = (Operand(dtype, layout, where) for dtype, layout in zip(dtypes_of_all, layouts, strict=True))
    threads = 1 << len(layouts[2].threads)
    name = _name(family, mnk, *dtypes)
    return Fragment(name, mnk, threads, a, b, c, feature, rounded=rounded, exact_depth=exact_depth, flushes=flushes)


def _mma(depth: int, left: DType, right: DType) -> Fragment:
    """NVIDIA's: a thread holds words of neighbours along the depth; its number has the next two bits of the depth."""
    word, rows = max(0, _log(4 // left.itemsize)), 3 if left is DType.F64 else 4
    own, lanes, rest = _bits("k", word), _bits("k", word + 2, word), _bits("k", _log(depth), word + 2)
    layouts = (
        _layout(f"{lanes} m0 m1 m2", own, _bits("m", rows, 3), rest),
        _layout(f"{lanes} n0 n1 n2", own, rest),
        _layout("n1 n2 m0 m1 m2", "n0", _bits("m", rows, 3)),
    )
    mnk = (1 << rows, 8, depth)
    feature = "sm_89" if left.is_storage else "sm_80"
    return _of_registers(
        "mma", mnk, (left, right), layouts, feature, rounded=left is DType.F32, exact_depth=_exact_depth(left)
    )


def _wgmma(columns: int, left: DType, right: DType) -> Fragment:
    """NVIDIA's for four warps: factors are in local memory, in rows of 128 bytes or less, sums as those of ``mma``.

    Threads may hold the left factor in the layout of ``mma``, each warp its own rows.
    """
    mnk = (64, columns, 32 // left.itemsize)
    word, depth = _log(_WORD // left.itemsize), _log(mnk[2])
    own = _layout(f"{_bits('k', word + 2, word)} m0 m1 m2 m4 m5", _bits("k", word), "m3", _bits("k", depth, word + 2))
    sums = _layout("n1 n2 m0 m1 m2 m4 m5", "n0 m3", _bits("n", (columns - 1).bit_length(), 3))
    if columns & columns - 1:
        sums = attrs.evolve(sums, most=columns // 2)
    either = left.itemsize == _WORD // 2
    return Fragment(
        _name("wgmma", mnk, left, right),
        mnk,
        128,
        Operand(left, own, OperandMemory.LOCAL, _SWIZZLES, transposable=either),
        Operand(right, None, OperandMemory.LOCAL, _SWIZZLES, transposable=either),
        Operand(_wide(left), sums),
        "sm_90a",
        is_async=True,
        rounded=left is DType.F32,
        exact_depth=_exact_depth(left),
    )


def _exact_depth(dtype: DType) -> int:
    """Return the terms after which NVIDIA's sums are moved: those of 8-bit floats keep some 13 bits of a sum."""
    return 128 if dtype.is_storage else 0


def _mfma(side: int, depth: int, dtype: DType) -> Fragment:
    """AMD's: 64 threads number rows of A, columns of B and of the sums, then parts of the rest."""
    across, held = _log(side), _log(side * depth // 64)
    left, right = (_layout(f"{_bits(axis, across)} {_bits('k', _log(depth), held)}", _bits("k", held)) for axis in "mn")
    first, own = (0, "m2 m3") if dtype is DType.F64 else (2, f"m0 m1 {_bits('m', across, 3) if side > 16 else ''}")
    sums = _layout(f"{_bits('n', across)} {_bits('m', first + 6 - across, first)}", own)
    return _of_registers("mfma", (side, side, depth), (dtype, dtype), (left, right, sums), "cdna3")


def _xmx(left: DType, right: DType) -> Fragment:
    """Intel's on cards: 16 threads number the depth of A, two bytes or more at a time, and the columns of the rest."""
    depth, own = _log(32 // left.itemsize), _log(max(1, _WORD // 2 // left.itemsize))
    lanes = f"{_bits('k', min(depth, own + 4), own)} {_bits('m', own + 4 - depth)}"
    layouts = (
        _layout(lanes, _bits("k", own), _bits("m", 3, own + 4 - depth)),
        _layout(_bits("n", 4), _bits("k", depth)),
        _layout(_bits("n", 4), _bits("m", 3)),
    )
    return _of_registers("xmx", (8, 16, 1 << depth), (left, right), layouts, "xe_hpc", rounded=left is DType.F32)


def _amx(left: DType, right: DType) -> Fragment:
    """Intel's on processors: tiles of 16 rows of 64 bytes; words of B hold neighbours along the depth."""
    word, depth = _log(_WORD // left.itemsize), _log(64 // left.itemsize)
    layouts = (
        _layout("", _bits("k", depth), _bits("m", 4)),
        _layout("", _bits("k", word), _bits("n", 4), _bits("k", depth, word)),
        _layout("", _bits("n", 4), _bits("m", 4)),
    )
    feature, rounded = ("amx-bf16", True) if left.is_float else ("amx-int8", False)
    return _of_registers(
        "amx", (16, 16, 1 << depth), (left, right), layouts, feature, rounded=rounded, where=OperandMemory.TILE
    )


def _dot(lanes: int, left: DType, right: DType) -> Fragment:
    """Intel's in the lanes of a vector: each lane has the same terms of A, and its own of B."""
    terms, across = _log(_WORD // left.itemsize), _log(lanes)
    layouts = (
        _layout("", _bits("k", terms), " ".join([NOTHING] * across)),
        _layout("", _bits("k", terms), _bits("n", across)),
        _layout("", _bits("n", across)),
    )
    mnk, feature = (1, lanes, 1 << terms), "avx512bf16" if left.is_float else "avx512vnni"
    return _of_registers("dot", mnk, (left, right), layouts, feature, flushes=left.is_float)


_WORD: Final = 4
_SWIZZLES: Final = (Swizzle(3, 0x70), Swizzle(3, 0x30), Swizzle(3, 0x10))
_BYTES: Final = tuple((left, right) for left in (DType.I8, DType.U8) for right in (DType.I8, DType.U8))
_FLOAT_BYTES: Final = tuple(
    (left, right) for left in (DType.F8E4M3FN, DType.F8E5M2) for right in (DType.F8E4M3FN, DType.F8E5M2)
)


def _rows() -> Iterator[Fragment]:
    """Yield all fragments; those of a feature for equal dtypes are in the order of preference."""
    f16, bf16, f32, f64, i8 = DType.F16, DType.BF16, DType.F32, DType.F64, DType.I8
    for dtype in (f16, bf16):
        yield from (_mma(depth, dtype, dtype) for depth in (16, 8))
    yield from (_mma(depth, f32, f32) for depth in (8, 4))
    yield from (_mma(depth, *pair) for pair in _BYTES for depth in (32, 16))
    yield _mma(4, f64, f64)
    yield from (_mma(32, *pair) for pair in _FLOAT_BYTES)
    same = ((dtype, dtype) for dtype in (f16, bf16, f32, i8, DType.U8))
    for left, right in (*same, *_FLOAT_BYTES):
        between = (224, 192, 160) if left.is_float and left.itemsize < _WORD else ()
        yield from (_wgmma(columns, left, right) for columns in (256, *between, 128, 64, 32))
    for dtype in (f16, bf16):
        yield from (_mfma(16, 16, dtype), _mfma(32, 8, dtype))
    yield from (_mfma(16, 4, f32), _mfma(32, 2, f32), _mfma(16, 32, i8), _mfma(32, 16, i8), _mfma(16, 4, f64))
    yield from (_xmx(*pair) for pair in ((f16, f16), (bf16, bf16), (f32, f32), *_BYTES))
    yield from (_amx(*pair) for pair in ((bf16, bf16), *_BYTES))
    for pair in ((DType.I16, DType.I16), (DType.U8, i8), (i8, i8), (DType.U8, DType.U8), (bf16, bf16)):
        yield from (_dot(lanes, *pair) for lanes in (16, 8, 4))


FRAGMENTS: Final[Mapping[str, Fragment]] = MappingProxyType({row.name: row for row in _rows()})
"""All fragments, by name."""
