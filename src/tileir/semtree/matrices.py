"""Products of matrices that neighbouring threads compute together, and how threads do without them.

A thread has the number ``n`` in its group, axis 0 fastest; ``lane = n % 32`` is its place among the :data:`WIDTH`
threads of an instruction, which all have the same operands. The tile of a :class:`tileir.semtree.ir.MatrixMultiply` is
cut into those of ``shape``, row by row; of each of these a thread holds, in this order, the elements of rows
``lane // 4``, ``lane // 4 + 8``, … and columns ``2·(lane % 4)`` and ``2·(lane % 4) + 1`` (NVIDIA, "PTX ISA",
mma.m16n8k16). Operands in f32 may be rounded to the ten bits of TF32; sums are in f32.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.core.text.names import NameScope
from tileir.semtree.ir import (
    Apply,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Cast,
    Const,
    Declare,
    For,
    GridIndex,
    GridLevel,
    Instruction,
    MatrixMultiply,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.rewrite import kernel_names, rewrite_stmts, statements, with_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.semtree.ir import Expr, KernelFunction, MatrixOperand, Stmt

WIDTH: Final = 32
"""Threads that share an instruction."""

LANE_ROWS: Final = 8
LANE_COLUMNS: Final = 4
PAIR: Final = 2
"""A thread holds so many neighbours of a row."""

SHAPES: Final[Mapping[DType, tuple[int, int, int]]] = MappingProxyType(
    {DType.F16: (16, 8, 16), DType.BF16: (16, 8, 16), DType.F32: (16, 8, 8)}
)
"""Rows, columns and depth of the instruction for each dtype of operands."""

COPIED_BYTES: Final = (4, 8, 16)
"""What one asynchronous copy can move."""


def held(shape: tuple[int, int, int]) -> int:
    """Return how many elements of the result of one instruction a thread holds."""
    return shape[0] * shape[1] // WIDTH


def without_instructions(kernel: KernelFunction) -> KernelFunction:
    """Return an equal kernel without asynchronous copies and products of matrices; itself where it has none.

    Copies happen at once, and each thread computes the sums that it holds.
    """
    if not any(isinstance(stmt, Instruction) for stmt in statements(kernel.body)):
        return kernel
    names = NameScope.of(kernel_names(kernel))

    def plain(stmt: Stmt) -> tuple[Stmt, ...]:
        match stmt:
            case AsyncCopy(target=target, source=source):
                return (Assign(target, source),)
            case AsyncCommit() | AsyncWait():
                return ()
            case MatrixMultiply():
                return _Product(stmt, kernel, names).statements()
            case _:
                return (stmt,)

    return with_body(kernel, rewrite_stmts(plain, kernel.body))


class _Product:
    """What one thread does for a product."""

    def __init__(self, stmt: MatrixMultiply, kernel: KernelFunction, names: NameScope) -> None:
        self.stmt, self.names, self.index = stmt, names, Type(kernel.index)
        number: Expr = Const(0, self.index)
        for axis in reversed(range(len(kernel.group))):
            own = GridIndex(GridLevel.LOCAL, axis, self.index)
            number = self._sum(own, self._times(number, kernel.group[axis]))
        self.lane = Apply(Op.MOD, (number, self._constant(WIDTH)))

    def statements(self) -> tuple[Stmt, ...]:
        """Return loops over tiles, and in each over the elements that a thread holds."""
        stmt, lane = self.stmt, Var(self.names.fresh("lane"), self.index)
        (rows, columns, _), (height, width, depth) = stmt.shape, stmt.tile
        halves = rows // LANE_ROWS
        tile_row, tile_column, half, pair, step = (self._counter(n) for n in ("row", "column", "half", "pair", "step"))
        row = self._sum(self._times(tile_row, rows), self._times(half, LANE_ROWS))
        row = self._sum(row, Apply(Op.DIV, (lane, self._constant(LANE_COLUMNS))))
        column = self._sum(self._times(tile_column, columns), pair)
        column = self._sum(column, self._times(Apply(Op.MOD, (lane, self._constant(LANE_COLUMNS))), PAIR))
        place: Expr = self._sum(self._times(tile_row, width // columns), tile_column)
        place = self._sum(self._times(place, halves), half)
        place = self._sum(self._sum(self._times(place, PAIR), pair), stmt.accumulators.offset)
        target = Subscript(stmt.accumulators.array, place, stmt.accumulators.type)
        a, b = self._element(stmt.left, row, step), self._element(stmt.right, step, column)
        body: tuple[Stmt, ...] = (Assign(target, Apply(Op.FMA, (a, b, target))),)
        extents = ((tile_row, height // rows), (tile_column, width // columns), (half, halves), (pair, PAIR))
        for counter, extent in reversed((*extents, (step, depth))):
            body = (For(counter, self._constant(0), self._constant(extent), 1, body),)
        return (Declare(lane, self.lane), *body)

    def _element(self, operand: MatrixOperand, row: Expr, column: Expr) -> Expr:
        start = operand.start
        place = self._sum(self._times(row, operand.strides[0]), self._times(column, operand.strides[1]))
        place = swizzled(self._sum(start.offset, place), operand.shift, operand.mask)
        value = Subscript(start.array, place, start.type)
        wide = self.stmt.accumulators.type
        return value if start.type == wide else Cast(value, wide)

    def _counter(self, name: str) -> Var:
        return Var(self.names.fresh(name), self.index)

    def _constant(self, value: int) -> Const:
        return Const(value, self.index)

    def _sum(self, left: Expr, right: Expr) -> Expr:
        return Apply(Op.ADD, (left, Cast(right, left.type) if right.type != left.type else right))

    def _times(self, value: Expr, factor: int) -> Expr:
        return Apply(Op.MUL, (value, Const(factor, value.type)))


def swizzled(place: Expr, shift: int, mask: int) -> Expr:
    """Return the offset at which a swizzled array has what a plain one has at ``place``."""
    if not mask:
        return place
    high = Apply(Op.BIT_RIGHT, (place, Const(shift, place.type)))
    return Apply(Op.BIT_XOR, (place, Apply(Op.BIT_AND, (high, Const(mask, place.type)))))


def period(shift: int, mask: int) -> int:
    """Return what moves no element within its row: adding a multiple of it and swizzling commute."""
    return 1 << (mask << shift).bit_length()
