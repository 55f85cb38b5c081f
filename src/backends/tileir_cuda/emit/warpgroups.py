"""Matrix products by ``wgmma``, the instruction of four warps, whose operands are in shared memory.

Descriptors follow NVIDIA, "PTX ISA" (wgmma, Matrix Descriptor): bits 0 to 13 are the address, 16 to 29 the distance of
chunks, 32 to 45 that of eight rows, all in units of 16 bytes, and bits 62 and 63 the swizzle. Rows along the depth are
as long as the swizzle; rows across the depth form chunks of that length.

For 32-bit elements instructions only take left operands along the depth, so threads load others into registers. Of each
eight steps of the depth a thread holds two, four apart, in two rows, eight apart (wgmma.mma_async.m64nNk8). In memory
neighbours are rows of the operand, in pieces of 32 that are swizzled by the step.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from tileir.core import DType, attrs
from tileir.core.fragments import FRAGMENTS, named
from tileir.semtree.ir import MatrixMultiply, MatrixOperand, Type
from tileir.semtree.matrices import held
from tileir.semtree.swizzles import folded
from tileir_cuda.emit.operands import CODES, Matrix
from tileir_cuda.emit.products import PrivateFragments, Shared, accumulators, keep, rounded, thread_number
from tileir_llvm.emit.conversions import cast, integer
from tileir_llvm.emit.expressions import Environment, evaluate
from tileir_llvm.emit.spelling import register
from tileir_llvm.emit.text import FunctionText, Value

ALIGNMENT: Final = 1024
"""Alignment of operands in bytes: eight rows of the widest swizzle."""

CONVERGENT: Final = 2
"""Attributes of statements that all threads of a warp run together."""

_LINE: Final = 128
_WORD: Final = 4
_STEPS: Final = 8
"""Depth of an instruction for 32-bit elements."""

_OF_WARPS: Final = 2
"""Pieces of a line for four warps of sixteen rows."""

_EIGHT: Final = 8
_UNIT: Final = 16
_ADDRESS_BITS: Final = 0x3FFFF
_KINDS: Final = {
    DType.F16: "f16",
    DType.BF16: "bf16",
    DType.F32: "tf32",
    DType.F8E4M3FN: "e4m3",
    DType.F8E5M2: "e5m2",
}
"""Type names of factors in instructions."""

_INDEX: Final = Type(DType.I32)
_WIDE: Final = Type(DType.I64)

OF_WARPGROUPS: Final = tuple(name for name in named("sm_90a") if FRAGMENTS[name].a.dtype in _KINDS)
"""Fragments of this module."""


@attrs.frozen(eq=False)
class PendingProduct:
    """Product in flight.

    Attributes:
        stmt: The product.
        words: Register operands, which must not change until it is done.
    """

    stmt: MatrixMultiply
    words: tuple[str, ...]


def is_spelt(stmt: MatrixMultiply) -> bool:
    """Return whether the layout of a product's operands is supported by the instruction."""
    right = _right(stmt)
    if right is None or (right.across and not FRAGMENTS[stmt.fragment].b.transposable):
        return False
    left = None if stmt.left.held else _left(stmt)
    return stmt.left.held > 0 or (left is not None and (not _is_loaded(stmt, left) or is_loadable(left, stmt)))


def _is_loaded(stmt: MatrixMultiply, left: Matrix) -> bool:
    """Return whether threads load the left operand, as the instruction does not support it across the depth."""
    return left.across and not FRAGMENTS[stmt.fragment].a.transposable


def _left(stmt: MatrixMultiply) -> Matrix | None:
    rows, _, step = FRAGMENTS[stmt.fragment].mnk
    return Matrix.of(stmt.left, step, rows, right=False)


def _right(stmt: MatrixMultiply) -> Matrix | None:
    _, columns, step = FRAGMENTS[stmt.fragment].mnk
    return Matrix.of(stmt.right, step, columns, right=True)


def begin(
    env: Environment, stmt: MatrixMultiply, group: tuple[int, ...], shared: dict[str, Shared], *, fresh: bool
) -> PendingProduct:
    """Begin a product, with one statement of all steps for each part of the sums; ``fresh`` sums were zeros."""
    fragment = FRAGMENTS[stmt.fragment]
    (rows, columns, step), (height, width, depth) = fragment.mnk, stmt.tile
    right, b = _right(stmt), _descriptor(env, stmt.right, shared[stmt.right.start.array])
    assert right is not None  # others are expanded
    factors, words = _factors(env, stmt, group, shared)
    count = fragment.sums.held
    for row in range(height // rows):
        for column in range(width // columns):
            first = (row * (width // columns) + column) * count
            sums = [] if fresh else accumulators(env, stmt, first, count)
            pairs = [(factors[row][n], _moved(env, right, b, column, n)) for n in range(depth // step)]
            flags = (right.across,) if words else (factors_across(stmt), right.across)
            keep(env, stmt, first, _products(env, stmt, pairs, sums, flags))
    return PendingProduct(stmt, words)


def factors_across(stmt: MatrixMultiply) -> bool:
    """Return whether the rows of a left operand in shared memory lie across the depth."""
    left = _left(stmt)
    assert left is not None
    return left.across


def _factors(
    env: Environment, stmt: MatrixMultiply, group: tuple[int, ...], shared: dict[str, Shared]
) -> tuple[list[list[tuple[str, ...]]], tuple[str, ...]]:
    """Return left operands of instructions, by rows and steps, as descriptors or words; and all words."""
    rows, _, step = FRAGMENTS[stmt.fragment].mnk
    height, depth = range(stmt.tile[0] // rows), range(stmt.tile[2] // step)
    left = None if stmt.left.held else _left(stmt)
    if left is None or _is_loaded(stmt, left):
        if left is None:
            own = PrivateFragments.of(env, stmt)
            found = [[tuple(own.at(row * rows, n * step)) for n in depth] for row in height]
        else:
            lane = thread_number(env, group)
            start = _address(env, stmt.left, shared[stmt.left.start.array])
            found = [[loaded(env, left, start, lane, row, n) for n in depth] for row in height]
        return found, tuple(word for line in found for words in line for word in words)
    a = _descriptor(env, stmt.left, shared[stmt.left.start.array])
    return [[(_moved(env, left, a, row, n),) for n in depth] for row in height], ()


def finish(
    env: Environment, done: list[PendingProduct], pending: int, changed: Collection[str] = (), *, apart: bool = False
) -> None:
    """Wait for products of this thread, except the last ``pending``, and keep their sums.

    Until then the registers of sums and words must not be touched, so they are operands here. Words that were
    overwritten in the arrays ``changed`` get new registers here: the assembler would otherwise reuse the registers and
    serialise the products.

    The assembler moves a wait to the beginning of its block, before statements that should overlap. A wait that stands
    ``apart`` is in a separate block, a loop that no thread repeats. The condition is uniform, as four warps have to
    wait together; the assembler does not know that no grid is empty.
    """
    places = {(each.stmt.accumulators.array, str(each.stmt.accumulators.offset)): each.stmt for each in done}
    sums = [(stmt, accumulators(env, stmt, 0, held(stmt))) for stmt in places.values()]
    old = [word for each in done for word in each.words]
    lefts = {
        s.left.start.array: s for s in (each.stmt for each in done) if s.left.held and s.left.start.array in changed
    }
    owned = [PrivateFragments.of(env, stmt) for stmt in lefts.values()]
    new = [word for own in owned for word in own.words()]
    values = [value for _, part in sums for value in part]
    first = 2 * len(values) + len(new)
    lines = [f"wgmma.wait_group.sync.aligned {pending};"]
    if apart:
        empty = ("mov.u32 n, %nctaid.x;", "setp.eq.u32 p, n, 0;", "@p bra.uni W_${:uid};")
        lines = ["{", ".reg .pred p;", ".reg .u32 n;", "W_${:uid}:", *lines, *empty, "}"]
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
    """Return sums after adding products, in one statement; without sums, the products themselves."""
    fragment = FRAGMENTS[stmt.fragment]
    m, n, k = fragment.mnk
    kinds = f"{_KINDS[fragment.a.dtype]}.{_KINDS[fragment.b.dtype]}"
    count = fragment.sums.held
    names = ", ".join(f"${number}" for number in range(count))
    flags = "".join(f", {int(flag)}" for flag in turned) if fragment.b.transposable else ""
    lines = ["{", ".reg .pred p, q;", "setp.eq.u32 p, 0, 0;", "setp.ne.u32 q, 0, 0;", "wgmma.fence.sync.aligned;"]
    operands: list[tuple[str, str]] = []
    for number, (left, right) in enumerate(pairs):
        place = count + len(sums) + len(operands)
        parts = [f"${place + part}" for part in range(len(left) + 1)]
        operands += [*((text, "r" if len(left) > 1 else "l") for text in left), (right, "l")]
        a = f"{{{', '.join(parts[:-1])}}}" if len(left) > 1 else parts[0]
        shape, adds = f"m{m}n{n}k{k}.f32.{kinds}", "p" if sums or number else "q"
        lines.append(f"wgmma.mma_async.sync.aligned.{shape} {{{names}}}, {a}, {parts[-1]}, {adds}, 1, 1{flags};")
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
    """Return the descriptor of the first instruction's part of an operand, without constant offsets."""
    out = env.out
    masked = out.pure(f"and i32 {_address(env, operand, shared)}, {_ADDRESS_BITS}")
    units = out.pure(f"lshr i32 {masked}, 4")
    return Value(out.pure(f"zext i32 {units} to i64"), _WIDE)


def _address(env: Environment, operand: MatrixOperand, shared: Shared) -> str:
    """Return the shared-memory address of an operand."""
    out, size = env.out, operand.start.type.dtype.itemsize
    start = cast(out, evaluate(env, folded(operand.start.offset, operand.fold), index=True), DType.I32)
    place = out.pure(f"mul nuw nsw i32 {start.text}, {size}")
    return out.pure(f"add i32 {place}, {shared.address}")


def _moved(env: Environment, matrix: Matrix, start: Value, part: int, number: int) -> str:
    """Return the descriptor of step ``number`` of part ``part`` across the depth."""
    distance = matrix.start(part, number)
    fixed = CODES[matrix.row] << 62 | (_EIGHT * matrix.row // _UNIT) << 32 | max(matrix.chunk // _UNIT, 1) << 16
    signed = fixed + distance // _UNIT
    known = integer(signed - (1 << 64) if signed >= 1 << 63 else signed, _WIDE)
    return env.out.pure(f"add i64 {start.text}, {known.text}")


def is_loadable(matrix: Matrix, stmt: MatrixMultiply) -> bool:
    """Return whether an operand across the depth has the layout that :func:`loaded` expects."""
    return stmt.left.start.type.dtype.itemsize == _WORD and matrix.row == _LINE and matrix.chunk > 0


def loaded(env: Environment, matrix: Matrix, start: str, thread: Value, part: int, step: int) -> tuple[str, ...]:
    """Return a thread's words of the operand at ``start``: step ``step`` of part ``part``, rounded to TF32."""
    words = []
    for address in addresses(env.out, matrix, start, thread.text, part, step):
        pointer = env.out.pure(f"inttoptr i32 {address} to ptr addrspace(3)")
        words.append(rounded(env, env.out.result(f"load i32, ptr addrspace(3) {pointer}, align {_WORD}")))
    return tuple(words)


def addresses(out: FunctionText, matrix: Matrix, start: str, thread: str, part: int, step: int) -> list[str]:
    """Return the addresses of the words: both rows at the first step, then at the second."""
    down, row = out.pure(f"and i32 {thread}, 3"), out.pure(f"lshr i32 {thread}, 2")
    row, warp = out.pure(f"and i32 {row}, 7"), out.pure(f"lshr i32 {thread}, 5")
    piece = out.pure(f"and i32 {out.pure(f'lshr i32 {warp}, 1')}, 1")
    base = out.pure(f"add i32 {start}, {out.pure(f'mul nuw nsw i32 {piece}, {matrix.chunk}')}")
    base = out.pure(f"add i32 {base}, {out.pure(f'mul nuw nsw i32 {down}, {_LINE}')}")
    half = out.pure(f"shl i32 {out.pure(f'and i32 {warp}, 1')}, 6")
    within = out.pure(f"or i32 {half}, {out.pure(f'shl i32 {row}, 2')}")
    within = out.pure(f"xor i32 {within}, {out.pure(f'shl i32 {down}, 4')}")
    found = []
    for later in (0, 1):
        for below in (0, 1):
            place = out.pure(f"xor i32 {within}, {below << 5 | later << 6}")
            distance = part * _OF_WARPS * matrix.chunk + (step * _STEPS + later * _STEPS // 2) * _LINE
            found.append(out.pure(f"add i32 {out.pure(f'add i32 {base}, {place}')}, {distance}"))
    return found
