"""Lowering of the special ``attend_back``: gradients of attention, with recomputed weights.

The threads of a fragment hold some rows of sums, and iterate over the columns tile by tile. For each tile they multiply
rows and columns twice, compute weights from the scores and score gradients ("changes") from the other products, and use
both at once as left operands of the summed products: memory holds only tiles, and no sum is shared by several groups.
Products of weights overlap with the computation of changes. Gradients without scores in memory are by Dao et al.,
"FlashAttention", 2022. Rows of queries and rows of keys have separate kernels, so that sums have one order.
"""

from __future__ import annotations

import math
from typing import Final, Self

from tileir.core import DType, Op, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.attention.softmax import Softmax
from tileir.semtree.lower.attention.tiles import Matrix, Panel, copies, operand, tile
from tileir.semtree.lower.block import BlockLowering
from tileir.stripe.attention import STAGES, AttentionParameters, instruction_of_width

_WIDE: Final = sem.Type(DType.F32)
_PAIR: Final = sem.Type(DType.F32, 2)

_WORDS: Final = ("scores", "weights", "given", "changes", "logs", "dots")
"""The arrays: scores, later overwritten by the weights; these in the dtype of rows; products of the second matrices,
later score gradients; and the logarithms and dots of rows or of columns.
"""


@attrs.frozen(eq=False, repr=False)
class BackwardBuilder(Softmax):
    """Builder of the body of one kernel.

    Attributes:
        others: The sums of weights times the second columns, by panels; none with one output.
    """

    others: tuple[str, ...]

    @classmethod
    def of(
        cls, blocks: BlockLowering, plan: AttentionParameters, matrices: list[Matrix], first: Affine, part: Affine
    ) -> Self:
        """Choose names."""
        rows, beside, columns, others, *_ = matrices
        dtype, two = rows.dtype, len(matrices) > 7
        stages = (
            tile(blocks, "rows", dtype, plan.rows, rows.columns),
            tile(blocks, "columns", dtype, plan.keys, columns.columns, STAGES),
            tile(blocks, "others", dtype, plan.keys, others.columns, STAGES),
            tile(blocks, "beside", dtype, plan.rows, beside.columns),
        )
        thread, team, row, quad = (blocks.counter(word) for word in ("tid", "team", "own_row", "quad"))
        return cls(
            blocks, plan, first, thread, team, row, quad, [rows, columns, others, beside, *matrices[4:]], stages,
            {word: blocks.names.fresh(word) for word in _WORDS},
            tuple(blocks.names.fresh("result") for _ in stages[1]), part,
            tuple(blocks.names.fresh("other") for _ in stages[2] if two),
        )  # fmt: skip

    @property
    def two(self) -> bool:
        """True if there are two outputs, and numbers of columns."""
        return bool(self.others)

    def statements(self) -> tuple[sem.Stmt, ...]:
        """Return the body of the kernel."""
        columns = self.matrices[1]
        begin, end = (self.blocks.counter(word) for word in ("begin", "end"))
        lowest, highest = self.seen_tiles(-(-columns.rows // self.plan.keys))
        heads = columns.heads[0]
        head = self.blocks.counter("head")
        each = self._head(Affine.index(head.name) if heads > 1 else Affine(), begin, end)
        if heads > 1:
            each = (sem.For(head, self._number(0), self._number(heads), 1, (*each, sem.Barrier())),)
        return (
            *self._coordinates(),
            *self._declarations(),
            sem.Declare(begin, lowest),
            sem.Declare(end, highest),
            *copies(
                self.blocks, self.matrices[0], self.stages[0], self.first, self.plan.threads, self.thread, Affine()
            ),
            *copies(
                self.blocks, self.matrices[3], self.stages[3], self.first, self.plan.threads, self.thread, Affine()
            ),
            *(() if self.two else (self._numbers_of_rows(),)),
            *each,
            *self._stored(self.results, self.stages[1], self.matrices[6], self.plan.scale),
            *(self._stored(self.others, self.stages[2], self.matrices[7], 1.0) if self.two else ()),
        )

    def _declarations(self) -> tuple[sem.Stmt, ...]:
        scores, dtype = self.scores, self.matrices[0].dtype
        arrays = [sem.DeclareArray(self.names[word], DType.F32, scores) for word in ("scores", "given")]
        words = ("weights", "changes") if self.two else ("changes",)
        arrays += [sem.DeclareArray(self.names[word], dtype, scores) for word in words]
        size, region = (STAGES * self.plan.keys, sem.Region.LOCAL) if self.two else (self.slots, sem.Region.PRIVATE)
        arrays += [sem.DeclareArray(self.names[word], DType.F32, size, region) for word in ("logs", "dots")]
        sums = self._sums()
        arrays += [sem.DeclareArray(name, DType.F32, size) for name, size in sums]
        stages = [panel.declaration() for stage in self.stages for panel in stage]
        return (*stages, *arrays, *(self._zeros(name, size) for name, size in sums))

    def _sums(self) -> list[tuple[str, int]]:
        """Return the arrays of sums, and their sizes."""
        share = self.fragment.threads // self.plan.tall
        pairs = [*zip(self.results, self.stages[1], strict=True)]
        pairs += zip(self.others, self.stages[2] if self.two else (), strict=True)
        return [(name, panel.width // share) for name, panel in pairs]

    def _numbers_of_rows(self) -> sem.Stmt:
        """Return loads of the numbers of a thread's rows; rows beyond the end have zeros."""
        slot = self.blocks.counter("slot")
        row = self.first + self._slot_row(slot)
        loads: list[sem.Stmt] = []
        for word, numbers in (("logs", self.matrices[4]), ("dots", self.matrices[5])):
            place = self.blocks.offsets.scalar(numbers.offset + row * numbers.stride)
            loads.append(sem.Assign(self._held(word, slot), sem.Subscript(numbers.array, place, _WIDE)))
        rows = self.matrices[0].rows
        if rows % self.plan.rows == 0:
            return self._unrolled(slot, self.slots, *loads)
        inside = self._op(Op.CMP_LT, self.blocks.offsets.scalar(row), self._number(rows))
        none = [sem.Assign(self._held(word, slot), sem.Const(0.0, _WIDE)) for word in ("logs", "dots")]
        return self._unrolled(slot, self.slots, sem.If(inside, tuple(loads), tuple(none)))

    def _head(self, head: Affine, begin: sem.Var, end: sem.Var) -> tuple[sem.Stmt, ...]:
        """Return the loop over the columns of one head."""
        step = self.blocks.counter("step")
        return (
            *self._copies_of_columns(head, begin, 0),
            sem.For(step, begin, end, 1, self._step(head, step, end)),
            sem.AsyncWait(0),
        )

    def _step(self, head: Affine, step: sem.Var, end: sem.Var) -> tuple[sem.Stmt, ...]:
        """Return the work on a tile of columns."""
        stage = self.blocks.counter("stage")
        more = self._op(Op.CMP_LT, self.blocks.offsets.scalar(Affine.index(step.name) + 1), end)
        return (
            sem.Declare(stage, self._op(Op.BIT_AND, step, self._number(STAGES - 1))),
            sem.AsyncWait(0),
            sem.Barrier(),  # the tile has arrived, and the previous one is no longer read
            sem.If(more, self._copies_of_columns(head, step, 1)),
            self._zeros(self.names["scores"], self.scores),
            *self._products("scores", self.stages[0], self.stages[1], stage),
            self._zeros(self.names["given"], self.scores),
            *self._products("given", self.stages[3], self.stages[2], stage),
            *self._masked(Affine.index(step.name) * self.plan.keys),
            self._weights_of(stage),
            *(self._added_to(self.others, "weights", self.stages[2], stage) if self.two else ()),
            self._changes(stage),
            *self._added_to(self.results, "changes", self.stages[1], stage),
        )

    def _products(
        self, word: str, rows: tuple[Panel, ...], columns: tuple[Panel, ...], stage: sem.Var
    ) -> tuple[sem.Stmt, ...]:
        first = Affine.index(self.team.name) * self.plan.tall
        return tuple(
            sem.MatrixMultiply(
                self.fragment.name,
                (self.plan.tall, self.plan.keys, left.width),
                sem.Subscript(self.names[word], self._number(0), _WIDE),
                operand(self.blocks, left, first, across=True),
                operand(self.blocks, right, Affine.index(stage.name) * right.rows, across=False),
            )
            for left, right in zip(rows, columns, strict=True)
        )

    def _added_to(
        self, sums: tuple[str, ...], word: str, columns: tuple[Panel, ...], stage: sem.Var
    ) -> tuple[sem.Stmt, ...]:
        """Return the products of a thread's elements with columns."""
        kind = sem.Type(self.matrices[0].dtype)
        left = sem.MatrixOperand(sem.Subscript(self.names[word], self._number(0), kind), (0, 0), held=self.scores)
        return tuple(
            sem.MatrixMultiply(
                instruction_of_width(self.fragment, panel.width).name,
                (self.plan.tall, panel.width, self.plan.keys),
                sem.Subscript(name, self._number(0), _WIDE),
                left,
                operand(self.blocks, panel, Affine.index(stage.name) * panel.rows, across=True),
            )
            for name, panel in zip(sums, columns, strict=True)
        )

    def _number_pair(self, word: str, stage: sem.Var, number: Affine, column: Affine) -> sem.Expr:
        """Return the numbers of two adjacent elements of scores."""
        if not self.two:
            return sem.Broadcast(sem.Subscript(self.names[word], self.blocks.offsets.scalar(number), _WIDE), 2)
        place = Affine.index(stage.name) * self.plan.keys + column
        return sem.Subscript(self.names[word], self.blocks.offsets.scalar(place), _PAIR)

    def _weights_of(self, stage: sem.Var) -> sem.Stmt:
        """Return the computation of weights, at most 1, from scores."""
        dtype, scale = self.matrices[0].dtype, sem.Const.of(self.plan.scale / math.log(2.0), _WIDE)
        base = sem.Broadcast(sem.Const.of(math.log(2.0), _WIDE), 2)

        def weigh(_: Affine, number: Affine, column: Affine, at: sem.Expr) -> tuple[sem.Stmt, ...]:
            scores = sem.Subscript(self.names["scores"], at, _PAIR)
            less = self._op(Op.NEG, self._number_pair("logs", stage, number, column))
            exponents = self._op(Op.FMA, scores, sem.Broadcast(scale, 2), less)
            half = sem.Type(DType.F16, 2)
            powers: sem.Expr = sem.Cast(self._op(Op.EXP, self._op(Op.MUL, exponents, base)), half)
            wide = sem.Assign(scores, sem.Cast(powers, _PAIR))
            if not self.two:
                return (wide,)
            target = sem.Subscript(self.names["weights"], at, sem.Type(dtype, 2))
            if dtype is DType.F16:  # powers are computed from scores
                return (sem.Assign(target, powers), sem.Assign(scores, sem.Cast(target, _PAIR)))
            return (wide, sem.Assign(target, sem.Cast(scores, target.type)))

        return self._each(self.plan.keys, weigh, pairs=True)

    def _changes(self, stage: sem.Var) -> sem.Stmt:
        """Return the computation of score gradients."""

        def change(_: Affine, number: Affine, column: Affine, at: sem.Expr) -> tuple[sem.Stmt, ...]:
            weights, given = (sem.Subscript(self.names[word], at, _PAIR) for word in ("scores", "given"))
            less = self._op(Op.SUB, given, self._number_pair("dots", stage, number, column))
            target = sem.Subscript(self.names["changes"], at, sem.Type(self.matrices[0].dtype, 2))
            return (sem.Assign(target, sem.Cast(self._op(Op.MUL, weights, less), target.type)),)

        return self._each(self.plan.keys, change, pairs=True)

    def _copies_of_columns(self, head: Affine, step: sem.Var, ahead: int) -> tuple[sem.Stmt, ...]:
        """Return the begin of the copy of a tile of columns, ``ahead`` tiles after ``step``."""
        number, stage = Affine.index(step.name) + ahead, self.blocks.counter("next_stage")
        place = self._op(Op.BIT_AND, self.blocks.offsets.scalar(number), self._number(STAGES - 1))
        first, there = number * self.plan.keys, Affine.index(stage.name)
        result: list[sem.Stmt] = [sem.Declare(stage, place), *self._copied_numbers(head, first, there)]
        for matrix in (1, 2):
            source = self.matrices[matrix].of_head(head)
            result += copies(self.blocks, source, self.stages[matrix], first, self.plan.threads, self.thread, there)
        return tuple(result)

    def _copied_numbers(self, head: Affine, first: Affine, stage: Affine) -> tuple[sem.Stmt, ...]:
        """Return the begin of the copy of a tile's numbers, one per thread; those beyond the end are zeros."""
        if not self.two:
            return ()
        own, rows = Affine.index(self.thread.name), self.matrices[1].rows
        copied: list[sem.Stmt] = []
        for word, numbers in (("logs", self.matrices[4].of_head(head)), ("dots", self.matrices[5].of_head(head))):
            target = sem.Subscript(self.names[word], self.blocks.offsets.scalar(stage * self.plan.keys + own), _WIDE)
            place = self.blocks.offsets.scalar(numbers.offset + (first + own) * numbers.stride)
            copy: sem.Stmt = sem.AsyncCopy(target, sem.Subscript(numbers.array, place, _WIDE))
            if rows % self.plan.keys:
                inside = self._op(Op.CMP_LT, self.blocks.offsets.scalar(first + own), self._number(rows))
                copy = sem.If(inside, (copy,), (sem.Assign(target, sem.Const(0.0, _WIDE)),))
            copied.append(copy)
        if self.plan.threads == self.plan.keys:
            return tuple(copied)
        return (sem.If(self._op(Op.CMP_LT, self.thread, self._number(self.plan.keys)), tuple(copied)),)

    def _stored(
        self, names: tuple[str, ...], panels: tuple[Panel, ...], result: Matrix, scale: float
    ) -> tuple[sem.Stmt, ...]:
        """Return the stores of scaled sums."""
        stores = []
        for name, panel in zip(names, panels, strict=True):

            def store(
                row: Affine, _: Affine, column: Affine, at: sem.Expr, name: str = name, start: int = panel.first
            ) -> tuple[sem.Stmt, ...]:
                value: sem.Expr = sem.Subscript(name, at, _PAIR)
                if scale != 1.0:
                    value = self._op(Op.MUL, value, sem.Broadcast(sem.Const.of(scale, _WIDE), 2))
                narrow, place = sem.Type(result.dtype, 2), self.first + row
                value = value if narrow == _PAIR else sem.Cast(value, narrow)
                there = self.blocks.offsets.scalar(result.offset + place * result.stride + column + start)
                assign = sem.Assign(sem.Subscript(result.array, there, narrow), value)
                if result.rows % self.plan.rows == 0:
                    return (assign,)
                inside = self._op(Op.CMP_LT, self.blocks.offsets.scalar(place), self._number(result.rows))
                return (sem.If(inside, (assign,)),)

            stores.append(self._each(panel.width, store, pairs=True))
        return tuple(stores)
