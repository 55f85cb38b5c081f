"""Left operands of words that threads load from shared memory, where instructions take them along the depth only.

Of each eight steps of the depth a thread holds two, four apart, in two rows, eight apart (NVIDIA, "PTX ISA",
wgmma.mma_async.m64nNk8). In memory neighbours are rows of the operand, in pieces of 32 that are swizzled by the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir_cuda.emit.products import rounded

if TYPE_CHECKING:
    from tileir.semtree.ir import MatrixMultiply
    from tileir_cuda.emit.operands import Matrix
    from tileir_llvm.emit.expressions import Environment
    from tileir_llvm.emit.text import FunctionText, Value

_LINE: Final = 128
_WORD: Final = 4
_STEPS: Final = 8
"""The depth of an instruction for words."""

_OF_WARPS: Final = 2
"""Pieces of a line that four warps of sixteen rows have."""


def is_loadable(matrix: Matrix, stmt: MatrixMultiply) -> bool:
    """Return whether an operand across the depth lies as :func:`loaded` expects it."""
    return stmt.left.start.type.dtype.itemsize == _WORD and matrix.row == _LINE and matrix.chunk > 0


def loaded(env: Environment, matrix: Matrix, start: str, thread: Value, part: int, step: int) -> tuple[str, ...]:
    """Return what a thread holds of the operand at ``start``: of step ``step`` of part ``part``, rounded to TF32."""
    words = []
    for address in addresses(env.out, matrix, start, thread.text, part, step):
        pointer = env.out.pure(f"inttoptr i32 {address} to ptr addrspace(3)")
        words.append(rounded(env, env.out.result(f"load i32, ptr addrspace(3) {pointer}, align {_WORD}")))
    return tuple(words)


def addresses(out: FunctionText, matrix: Matrix, start: str, thread: str, part: int, step: int) -> list[str]:
    """Return where the words lie: those of both rows at the first step, then those at the second one."""
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
