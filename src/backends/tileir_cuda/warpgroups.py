"""Products of matrices by the instructions of four warps, ``wgmma``, whose operands are in shared memory.

Descriptors follow NVIDIA, "PTX ISA" (wgmma, Matrix Descriptor): bits 0 to 13 are the address, 16 to 29 the distance of
chunks, 32 to 45 that of eight rows, all in units of 16 bytes, and bits 62 and 63 the swizzle. An operand whose rows are
along the depth has them as long as the swizzle; one whose rows are across the depth has chunks of such rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.dtype import DType
from tileir.core.fragments import FRAGMENTS, named
from tileir.semtree.ir import Type
from tileir.semtree.matrices import PLAIN, folded
from tileir_cuda.products import accumulators, keep
from tileir_llvm.conversions import cast, integer
from tileir_llvm.expressions import evaluate
from tileir_llvm.spelling import register
from tileir_llvm.text import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.semtree.ir import MatrixMultiply, MatrixOperand
    from tileir_cuda.products import Shared
    from tileir_llvm.expressions import Environment

ALIGNMENT: Final = 1024
"""Bytes to which operands are aligned: eight rows of the widest swizzle."""

CONVERGENT: Final = 2
"""The attributes of statements that all threads of a warp run together."""

_EIGHT: Final = 8
_UNIT: Final = 16
_CODES: Final = {128: 1, 64: 2, 32: 3}
"""What descriptors call a swizzle of rows of so many bytes."""

_ADDRESS_BITS: Final = 0x3FFFF
_KINDS: Final = {DType.F16: "f16", DType.BF16: "bf16"}
_INDEX: Final = Type(DType.I32)
_WIDE: Final = Type(DType.I64)

OF_WARPGROUPS: Final = tuple(name for name in named("sm_90a") if FRAGMENTS[name].a.dtype in _KINDS)
"""The fragments of this module."""


@attrs.frozen
class Matrix:
    """How an operand lies in shared memory, in bytes.

    Attributes:
        row: The length of a row, and of the swizzle.
        across: Whether rows lie across the depth.
        chunk: The distance of what lies beyond a row across the depth; 0 where nothing does.
        step: The distance of two steps of an instruction.
        extent: What an instruction takes across the depth: bytes of rows across it, else of all rows.

    """

    row: int
    across: bool
    chunk: int
    step: int
    extent: int

    @classmethod
    def of(cls, operand: MatrixOperand, step: int, extent: int, *, right: bool) -> Matrix | None:
        """Return how an operand lies, of which an instruction takes ``step`` by ``extent``; None where it does not."""
        size = operand.start.type.dtype.itemsize
        major, minor = operand.strides[::-1] if right else operand.strides
        across = major == 1
        piece, whole, rows = operand.fold
        row = (minor if across else major) * size
        chunk = 0
        if operand.fold != PLAIN:
            if not across or minor != whole:
                return None
            row, chunk = piece * size, piece * rows * size
        swizzle = operand.mask * size + _UNIT
        lowest = operand.mask & -operand.mask
        spans = row if operand.mask else 0
        matches = swizzle == row and lowest * size == _UNIT and (1 << operand.shift) * lowest * size == 128
        if row not in _CODES or not operand.mask or not matches or not spans:
            return None
        if across:
            return cls(row, True, chunk, step * row, extent * size) if chunk or extent * size <= row else None
        return cls(row, False, 0, step * size, extent * row) if minor == 1 else None

    def start(self, part: int, number: int) -> int:
        """Return where step ``number`` of part ``part`` across the depth begins."""
        pieces, rest = divmod(part * self.extent, self.row) if self.chunk else (0, part * self.extent)
        return pieces * self.chunk + rest + self.step * number


def is_spelt(stmt: MatrixMultiply) -> bool:
    """Return whether the operands of a product lie as the instruction takes them."""
    return None not in _matrices(stmt)


def _matrices(stmt: MatrixMultiply) -> tuple[Matrix | None, Matrix | None]:
    rows, columns, step = FRAGMENTS[stmt.fragment].mnk
    return Matrix.of(stmt.left, step, rows, right=False), Matrix.of(stmt.right, step, columns, right=True)


def begin(env: Environment, stmt: MatrixMultiply, shared: dict[str, Shared]) -> list[Value]:
    """Begin a product: for each part of the sums one statement that begins all its steps. Return sums to wait for."""
    fragment = FRAGMENTS[stmt.fragment]
    (rows, columns, step), (height, width, depth) = fragment.mnk, stmt.tile
    left, right = _matrices(stmt)
    assert left is not None  # others are spelt out
    assert right is not None
    starts = [_descriptor(env, operand, shared[operand.start.array]) for operand in (stmt.left, stmt.right)]
    count = fragment.sums.held
    begun: list[Value] = []
    for row in range(height // rows):
        for column in range(width // columns):
            first = (row * (width // columns) + column) * count
            sums = accumulators(env, stmt, first, count)
            pairs = [
                (_moved(env, left, starts[0], row, number), _moved(env, right, starts[1], column, number))
                for number in range(depth // step)
            ]
            begun.extend(_products(env, stmt, pairs, sums, left.across, right.across))
    return begun


def finish(env: Environment, stmt: MatrixMultiply, begun: list[Value]) -> None:
    """Wait for the products of this thread, and keep their sums, which nothing may touch meanwhile."""
    lines = ("wgmma.wait_group.sync.aligned 0;",)
    keep(env, stmt, 0, _asm(env, lines, begun, []))


def _products(
    env: Environment, stmt: MatrixMultiply, pairs: list[tuple[str, str]], sums: list[Value], *turned: bool
) -> list[Value]:
    """Return sums with the products of pairs of descriptors added, one after the other, all in one statement."""
    m, n, k = FRAGMENTS[stmt.fragment].mnk
    kind = _KINDS[FRAGMENTS[stmt.fragment].a.dtype]
    held = len(sums)
    names = ", ".join(f"${number}" for number in range(held))
    flags = ", ".join(str(int(flag)) for flag in turned)
    lines = ["{", ".reg .pred p;", "setp.eq.u32 p, 0, 0;", "wgmma.fence.sync.aligned;"]
    for number in range(len(pairs)):
        a, b = (f"${2 * held + 2 * number + side}" for side in range(2))
        shape = f"m{m}n{n}k{k}.f32.{kind}.{kind}"
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {{{names}}}, {a}, {b}, p, 1, 1, {flags};")
    lines += ["wgmma.commit_group.sync.aligned;", "}"]
    return _asm(env, lines, sums, [text for pair in pairs for text in pair])


def _asm(env: Environment, lines: Sequence[str], sums: list[Value], descriptors: list[str]) -> list[Value]:
    """Write lines that change sums, whose registers are the first operands, and descriptors the last ones."""
    out, held = env.out, len(sums)
    constraints = ",".join((*["=f"] * held, *map(str, range(held)), *["l"] * len(descriptors), "~{memory}"))
    result = "{" + ", ".join([register(total.type) for total in sums]) + "}"
    operands = [f"{register(total.type)} {total.text}" for total in sums]
    operands += [f"i64 {text}" for text in descriptors]
    code = "\\0A".join(lines)
    made = out.result(f'call {result} asm sideeffect "{code}", "{constraints}"({", ".join(operands)}) #{CONVERGENT}')
    return [
        Value(out.result(f"extractvalue {result} {made}, {number}"), total.type) for number, total in enumerate(sums)
    ]


def _descriptor(env: Environment, operand: MatrixOperand, shared: Shared) -> Value:
    """Return the descriptor of the first instruction's part of an operand, but for what is known."""
    out, size = env.out, operand.start.type.dtype.itemsize
    start = cast(out, evaluate(env, folded(operand.start.offset, operand.fold), index=True), DType.I32)
    place = out.pure(f"mul nuw nsw i32 {start.text}, {size}")
    address = out.pure(f"add i32 {place}, {shared.address}")
    masked = out.pure(f"and i32 {address}, {_ADDRESS_BITS}")
    units = out.pure(f"lshr i32 {masked}, 4")
    return Value(out.pure(f"zext i32 {units} to i64"), _WIDE)


def _moved(env: Environment, matrix: Matrix, start: Value, part: int, number: int) -> str:
    """Return the descriptor of step ``number`` of part ``part`` across the depth."""
    distance = matrix.start(part, number)
    fixed = _CODES[matrix.row] << 62 | (_EIGHT * matrix.row // _UNIT) << 32 | max(matrix.chunk // _UNIT, 1) << 16
    signed = fixed + distance // _UNIT
    known = integer(signed - (1 << 64) if signed >= 1 << 63 else signed, _WIDE)
    return env.out.pure(f"add i64 {start.text}, {known.text}")
