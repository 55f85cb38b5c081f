"""Tiles of attention: their layout in local memory, their copies, and the elements of sums that a thread holds.

The module also describes the threads of a group: the places of their elements, and loops over these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tileir.core import DType, Op, attrs
from tileir.core.fragments import FRAGMENTS, Fragment
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.views import View
from tileir.semtree.swizzles import PLAIN
from tileir.stripe.attention import PANEL, QUAD, AttentionParameters, panels

_COPIED: Final = 16
_LINE: Final = 128
_WORD: Final = 2
"""Bytes of an element of results stored as boxes: threads hold pairs of them."""


@attrs.frozen
class Matrix:
    """A matrix in memory: contiguous rows at a stride.

    Attributes:
        array: The parameter.
        offset: Its first element.
        rows: Number of rows.
        stride: Elements from one row to the next.
        columns: Elements of a row; 1 for one number per row.
        dtype: Dtype of the elements.
        heads: Number of matrices, and their distance.
        ranges: Ranges of the variables of ``offset``.
    """

    array: str
    offset: Affine
    rows: int
    stride: int
    columns: int
    dtype: DType
    heads: tuple[int, int] = (1, 0)
    ranges: Mapping[str, int] = attrs.field(factory=dict)

    @classmethod
    def of(cls, view: View, ranges: Mapping[str, int], *, numbers: bool = False) -> Matrix:
        """Return the matrix of a view, by its axes with several elements; with ``numbers``, one element per row."""
        axes = [(dim.size, dim.stride) for dim in view.shape.dims if dim.size > 1]
        columns = 1 if numbers else axes.pop()[0]
        rows, stride = axes.pop()
        heads = axes.pop() if axes else (1, 0)
        return cls(view.array, view.offset, rows, stride, columns, view.shape.dtype, heads, ranges)

    @property
    def is_boxes(self) -> bool:
        """True if stride and length of rows allow box stores."""
        steps = (self.stride, self.columns, self.offset.offset, *(step for _, step in self.offset.terms))
        return self.dtype.itemsize == _WORD and all(int(step) * _WORD % _COPIED == 0 for step in steps)

    def of_head(self, head: Affine) -> Matrix:
        """Return one of several matrices."""
        return attrs.evolve(self, offset=self.offset + head * self.heads[1], heads=(1, 0))


@attrs.frozen
class Panel:
    """Columns of a tile in local memory: rows of ``width`` elements, swizzled so that eight have distinct banks.

    There are ``stages`` tiles, one after another. Wide rows are folded into columns of ``piece`` elements, 0 for
    none.
    """

    array: str
    dtype: DType
    first: int
    width: int
    rows: int
    stages: int = 1
    piece: int = 0

    @property
    def fold(self) -> tuple[int, int, int]:
        """Folding of the rows."""
        return (self.piece, self.width, self.rows) if self.piece else PLAIN

    @property
    def swizzle(self) -> tuple[int, int]:
        """Shift and mask."""
        piece, width = _COPIED // self.dtype.itemsize, self.piece or self.width
        pieces = width // piece
        apart = max(1, _LINE // (width * self.dtype.itemsize))
        return (width * apart // piece).bit_length() - 1, (pieces - 1) * piece

    def declaration(self) -> sem.Stmt:
        """Return the declaration of its array."""
        return sem.DeclareArray(self.array, self.dtype, self.stages * self.rows * self.width, sem.Region.LOCAL)


def tile(
    blocks: BlockLowering, name: str, dtype: DType, rows: int, columns: int, stages: int = 1, *, joined: bool = False
) -> tuple[Panel, ...]:
    """Return the panels of a tile; with ``joined``, one folded panel may replace several."""
    if joined and columns > PANEL and columns % PANEL == 0:
        return (Panel(blocks.names.fresh(f"{name}_stage"), dtype, 0, columns, rows, stages, PANEL),)
    return tuple(
        Panel(blocks.names.fresh(f"{name}_stage"), dtype, first, width, rows, stages)
        for first, width in panels(columns)
    )


def operand(blocks: BlockLowering, panel: Panel, row: Affine, *, across: bool, column: int = 0) -> sem.MatrixOperand:
    """Return the operand that begins at a row of a panel; with ``across`` its rows are rows of the operand."""
    start = blocks.offsets.scalar(row * panel.width + column)
    strides = (panel.width, 1) if across else (1, panel.width)
    place = sem.Subscript(panel.array, start, sem.Type(panel.dtype))
    return sem.MatrixOperand(place, strides, *panel.swizzle, fold=panel.fold)


def copies(
    blocks: BlockLowering,
    matrix: Matrix,
    staged: tuple[Panel, ...],
    first: Affine,
    threads: int,
    thread: sem.Var,
    stage: Affine,
) -> tuple[sem.Stmt, ...]:
    """Return the begin of copies of rows from ``first`` on, by pieces; rows beyond the end become zeros.

    They go to the tile number ``stage``.
    """
    result: list[sem.Stmt] = []
    for panel in staged:
        lanes = _COPIED // panel.dtype.itemsize
        across = panel.width // lanes
        at_once = max(n for n in range(1, threads // across + 1) if panel.rows % n == 0)
        column, row = (blocks.counter(f"{panel.array}_{word}") for word in ("column", "row"))
        constant = blocks.offsets.constant
        result += [
            sem.Declare(column, sem.Apply(Op.MUL, (sem.Apply(Op.MOD, (thread, constant(across))), constant(lanes)))),
            sem.Declare(row, sem.Apply(Op.DIV, (thread, constant(across)))),
        ]
        more = blocks.counter("more")
        place = Affine.of({row.name: 1, more.name: at_once})
        own = place + stage * panel.rows
        inner = _copy(blocks, matrix, panel, (first + place, own, Affine.index(column.name)), lanes)
        if panel.rows > at_once:
            inner = sem.For(more, constant(0), constant(panel.rows // at_once), 1, (inner,), sem.LoopKind.UNROLL)
        else:
            result.append(sem.Declare(more, constant(0)))
        if at_once * across < threads:
            inner = sem.If(sem.Apply(Op.CMP_LT, (thread, constant(at_once * across))), (inner,))
        result.append(inner)
    return (*result, sem.AsyncCommit())


def box(
    blocks: BlockLowering, matrix: Matrix, panel: Panel, first: Affine, stage: Affine, channel: sem.Subscript
) -> sem.BulkCopy:
    """Return the copy of rows from ``first`` on to the tile number ``stage``, as a box of a tensor."""
    tensor, local, axes = _box(blocks, matrix, panel, first, stage)
    return sem.BulkCopy(channel, local, tensor, *axes, *panel.swizzle, fold=panel.fold)


def box_back(blocks: BlockLowering, matrix: Matrix, panel: Panel, first: Affine, stage: Affine) -> sem.BulkStore:
    """Return the store of the tile number ``stage`` to rows from ``first`` on, as a box of a tensor."""
    tensor, local, axes = _box(blocks, matrix, panel, first, stage)
    return sem.BulkStore(tensor, local, *axes, *panel.swizzle, fold=panel.fold)


_Axes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[sem.Expr, ...]]


def _box(
    blocks: BlockLowering, matrix: Matrix, panel: Panel, first: Affine, stage: Affine
) -> tuple[sem.Subscript, sem.Subscript, _Axes]:
    """Return the tensor, the tile, and the box: sizes, extents, strides, and place."""
    axes = [(int(step), matrix.ranges[name], 1, Affine.index(name)) for name, step in matrix.offset.terms]
    axes.append((matrix.stride, matrix.rows, panel.rows, first))
    axes.sort(key=lambda axis: -axis[0])
    axes.append((1, matrix.columns, panel.width, Affine.constant(panel.first)))
    strides, extents, sizes, at = zip(*axes, strict=True)
    kind = sem.Type(panel.dtype)
    return (
        sem.Subscript(matrix.array, blocks.offsets.constant(int(matrix.offset.offset)), kind),
        sem.Subscript(panel.array, blocks.offsets.scalar(stage * (panel.rows * panel.width)), kind),
        (sizes, extents, strides, tuple(blocks.offsets.scalar(each) for each in at)),
    )


def _copy(
    blocks: BlockLowering, matrix: Matrix, panel: Panel, place: tuple[Affine, Affine, Affine], lanes: int
) -> sem.Stmt:
    row, own, column = place
    kind = sem.Type(panel.dtype, lanes)
    there = blocks.offsets.swizzled(own * panel.width + column, *panel.swizzle, PLAIN)
    target = sem.Subscript(panel.array, there, kind)
    source = matrix.offset + row * matrix.stride + column + panel.first
    copy = sem.AsyncCopy(target, sem.Subscript(matrix.array, blocks.offsets.scalar(source), kind))
    if matrix.rows % panel.rows == 0:
        return copy
    test = sem.Apply(Op.CMP_LT, (blocks.offsets.scalar(row), blocks.offsets.constant(matrix.rows)))
    return sem.If(test, (copy,), (sem.Assign(target, sem.Const(0.0, kind)),))


EIGHT = 8
"""Distance of the rows of which a thread holds elements."""


@attrs.frozen(eq=False, repr=False)
class Threads:
    """The threads of a group.

    Attributes:
        blocks: Names and offsets.
        plan: The parameters of the attention.
        first: The first query of the group.
        thread: The number of a thread.
        team: The number of the threads that run a fragment together.
        row: The first row of a thread in the tile of queries.
        quad: The number of a thread among those that share a row.
    """

    blocks: BlockLowering
    plan: AttentionParameters
    first: Affine
    thread: sem.Var
    team: sem.Var
    row: sem.Var
    quad: sem.Var

    @property
    def fragment(self) -> Fragment:
        """The instruction."""
        return FRAGMENTS[self.plan.fragment]

    @property
    def slots(self) -> int:
        """Number of rows of which a thread holds elements."""
        return self.plan.tall * QUAD // self.fragment.threads

    @property
    def scores(self) -> int:
        """Number of scores of a tile that a thread holds, in the layout of sums; weights have that of left operands."""
        return self.plan.tall * self.plan.keys // self.fragment.threads

    def _coordinates(self) -> tuple[sem.Stmt, ...]:
        """Return the places of a thread: its team, and its row and column in the layout of sums."""
        lanes = self.fragment.threads
        lane = self._op(Op.MOD, self.thread, self._number(lanes))
        own = self._op(Op.MOD, self._op(Op.DIV, lane, self._number(QUAD)), self._number(EIGHT))
        if lanes > sem.WARP:  # each of its warps has sixteen rows
            warp = self._op(Op.DIV, lane, self._number(sem.WARP))
            own = self._op(Op.ADD, self._op(Op.MUL, warp, self._number(2 * EIGHT)), own)
        row = self._op(Op.ADD, self._op(Op.MUL, self.team, self._number(self.plan.tall)), own)
        return (
            sem.Declare(self.thread, sem.GridIndex(sem.GridLevel.LOCAL, 0, self.thread.type)),
            sem.Declare(self.team, self._op(Op.DIV, self.thread, self._number(lanes))),
            sem.Declare(self.row, row),
            sem.Declare(self.quad, self._op(Op.MOD, self.thread, self._number(QUAD))),
        )

    def _each(
        self,
        width: int,
        body: Callable[[Affine, Affine, Affine, sem.Expr], tuple[sem.Stmt, ...]],
        *,
        pairs: bool = False,
    ) -> sem.Stmt:
        """Return loops over the elements of sums that a thread holds, of ``width`` columns.

        ``body`` gets the row in the tile, the number of the row among those of the thread, the column, and the place of
        the element; with ``pairs``, of the first of two neighbours.
        """
        block, half, group, side = (self.blocks.counter(word) for word in ("block", "half", "group", "side"))
        extents = ((block, self.slots // 2), (half, 2), (group, width // 8), (side, 1 if pairs else 2))
        values = {counter.name: Affine.index(counter.name) if extent > 1 else Affine() for counter, extent in extents}
        b, h, g, s = (values[counter.name] for counter, _ in extents)
        row = Affine.index(self.row.name) + b * 16 + h * 8
        column = g * 8 + Affine.index(self.quad.name) * 2 + s
        at = self.blocks.offsets.scalar(b * (width // 2) + g * 4 + h * 2 + s)
        result = body(row, b * 2 + h, column, at)
        for counter, extent in reversed(extents):
            if extent > 1:
                result = (self._unrolled(counter, extent, *result),)
        return result[0]

    def _slot_row(self, slot: sem.Var) -> Affine:
        """Return the row of a slot: rows of a thread are eight apart."""
        return Affine.index(self.row.name) + Affine.index(slot.name) * 8

    def _unrolled(self, counter: sem.Var, extent: int, *body: sem.Stmt) -> sem.Stmt:
        return sem.For(counter, self._number(0), self._number(extent), 1, body, sem.LoopKind.UNROLL)

    def _all(self, tests: list[sem.Expr], op: Op) -> sem.Expr:
        result = tests[0]
        for test in tests[1:]:
            result = self._op(op, result, test)
        return result

    def _number(self, value: int) -> sem.Const:
        return self.blocks.offsets.constant(value)

    def _op(self, op: Op, *args: sem.Expr) -> sem.Expr:
        return sem.Apply(op, args)
