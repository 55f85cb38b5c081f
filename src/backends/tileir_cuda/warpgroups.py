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
from tileir.semtree.matrices import PLAIN, folded, held
from tileir_cuda.products import Held, accumulators, keep
from tileir_llvm.conversions import cast, integer
from tileir_llvm.expressions import evaluate
from tileir_llvm.spelling import register
from tileir_llvm.text import Value

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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


@attrs.frozen(eq=False)
class Begun:
    """A product that was begun.

    Attributes:
        stmt: The product.
        words: What its instructions read from registers, which have to stay as they are until it is done.

    """

    stmt: MatrixMultiply
    words: tuple[str, ...]


def is_spelt(stmt: MatrixMultiply) -> bool:
    """Return whether the operands of a product lie as the instruction takes them."""
    return _right(stmt) is not None and (stmt.left.held > 0 or _left(stmt) is not None)


def _left(stmt: MatrixMultiply) -> Matrix | None:
    rows, _, step = FRAGMENTS[stmt.fragment].mnk
    return Matrix.of(stmt.left, step, rows, right=False)


def _right(stmt: MatrixMultiply) -> Matrix | None:
    _, columns, step = FRAGMENTS[stmt.fragment].mnk
    return Matrix.of(stmt.right, step, columns, right=True)


def begin(env: Environment, stmt: MatrixMultiply, shared: dict[str, Shared], *, fresh: bool) -> Begun:
    """Begin a product: for each part of the sums one statement that begins all its steps; ``fresh`` sums were zeros."""
    fragment = FRAGMENTS[stmt.fragment]
    (rows, columns, step), (height, width, depth) = fragment.mnk, stmt.tile
    right, b = _right(stmt), _descriptor(env, stmt.right, shared[stmt.right.start.array])
    assert right is not None  # others are spelt out
    factors, words = _factors(env, stmt, shared)
    count = fragment.sums.held
    for row in range(height // rows):
        for column in range(width // columns):
            first = (row * (width // columns) + column) * count
            sums = [] if fresh else accumulators(env, stmt, first, count)
            pairs = [(factors[row][n], _moved(env, right, b, column, n)) for n in range(depth // step)]
            flags = (right.across,) if stmt.left.held else (factors_across(stmt), right.across)
            keep(env, stmt, first, _products(env, stmt, pairs, sums, flags))
    return Begun(stmt, words)


def factors_across(stmt: MatrixMultiply) -> bool:
    """Return whether the rows of a left operand in shared memory lie across the depth."""
    left = _left(stmt)
    assert left is not None
    return left.across


def _factors(
    env: Environment, stmt: MatrixMultiply, shared: dict[str, Shared]
) -> tuple[list[list[tuple[str, ...]]], tuple[str, ...]]:
    """Return what instructions take for left operands, by rows and steps, a descriptor or words; and all words."""
    rows, _, step = FRAGMENTS[stmt.fragment].mnk
    height, depth = range(stmt.tile[0] // rows), range(stmt.tile[2] // step)
    if stmt.left.held:
        own = Held.of(env, stmt)
        found = [[tuple(own.at(row * rows, n * step)) for n in depth] for row in height]
        return found, tuple(word for line in found for words in line for word in words)
    left, a = _left(stmt), _descriptor(env, stmt.left, shared[stmt.left.start.array])
    assert left is not None
    return [[(_moved(env, left, a, row, n),) for n in depth] for row in height], ()


def finish(env: Environment, done: list[Begun], pending: int, changed: Collection[str] = ()) -> None:
    """Wait for products of this thread, all but the last ``pending`` ones, and keep their sums.

    Until then nothing may touch the registers of sums or words: they are operands here, and so stay where they are.
    What was written over words meanwhile, to the arrays ``changed``, gets registers of its own here: the assembler
    would take those of the words otherwise, and then lets nothing go on beside a product.
    """
    places = {(each.stmt.accumulators.array, str(each.stmt.accumulators.offset)): each.stmt for each in done}
    sums = [(stmt, accumulators(env, stmt, 0, held(stmt))) for stmt in places.values()]
    old = [word for each in done for word in each.words]
    lefts = {each.stmt.left.start.array: each.stmt for each in done if each.stmt.left.start.array in changed}
    owned = [Held.of(env, stmt) for stmt in lefts.values()]
    new = [word for own in owned for word in own.words()]
    values = [value for _, part in sums for value in part]
    first = 2 * len(values) + len(new)
    lines = [f"wgmma.wait_group.sync.aligned {pending};"]
    lines += [f"mov.b32 ${len(values) + n}, ${first + n};" for n in range(len(new))]
    found = _asm(env, lines, values, [Type(DType.I32)] * len(new), [(word, "r") for word in (*new, *old)])
    for stmt, part in sums:
        keep(env, stmt, 0, found[: len(part)])
        found = found[len(part) :]
    for own in owned:
        found = own.keep(found)


def _products(
    env: Environment,
    stmt: MatrixMultiply,
    pairs: list[tuple[tuple[str, ...], str]],
    sums: list[Value],
    turned: tuple[bool, ...],
) -> list[Value]:
    """Return sums with products added, one after the other, in one statement; without sums, the products' own."""
    fragment = FRAGMENTS[stmt.fragment]
    m, n, k = fragment.mnk
    kind = _KINDS[fragment.a.dtype]
    count = fragment.sums.held
    names = ", ".join(f"${number}" for number in range(count))
    flags = ", ".join(str(int(flag)) for flag in turned)
    lines = ["{", ".reg .pred p, q;", "setp.eq.u32 p, 0, 0;", "setp.ne.u32 q, 0, 0;", "wgmma.fence.sync.aligned;"]
    operands: list[tuple[str, str]] = []
    for number, (left, right) in enumerate(pairs):
        place = count + len(sums) + len(operands)
        parts = [f"${place + part}" for part in range(len(left) + 1)]
        operands += [*((text, "r" if len(left) > 1 else "l") for text in left), (right, "l")]
        a = f"{{{', '.join(parts[:-1])}}}" if len(left) > 1 else parts[0]
        shape, adds = f"m{m}n{n}k{k}.f32.{kind}.{kind}", "p" if sums or number else "q"
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {{{names}}}, {a}, {parts[-1]}, {adds}, 1, 1, {flags};")
    lines += ["wgmma.commit_group.sync.aligned;", "}"]
    return _asm(env, lines, sums, [] if sums else [Type(DType.F32)] * count, operands)


def _asm(
    env: Environment, lines: Sequence[str], sums: list[Value], made: list[Type], inputs: list[tuple[str, str]]
) -> list[Value]:
    """Write lines that change sums, whose registers are the first operands, and make values; inputs come last."""
    out, kinds = env.out, [*(total.type for total in sums), *made]
    results = [f"={'f' if kind.dtype.is_float else 'r'}" for kind in kinds]
    constraints = ",".join((*results, *map(str, range(len(sums))), *(mark for _, mark in inputs), "~{memory}"))
    result = "{" + ", ".join([register(kind) for kind in kinds]) + "}"
    operands = [f"{register(total.type)} {total.text}" for total in sums]
    operands += [f"{'i64' if mark == 'l' else 'i32'} {text}" for text, mark in inputs]
    code = "\\0A".join(lines)
    made_of = out.result(f'call {result} asm sideeffect "{code}", "{constraints}"({", ".join(operands)}) #{CONVERGENT}')
    return [Value(out.result(f"extractvalue {result} {made_of}, {number}"), kind) for number, kind in enumerate(kinds)]


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
