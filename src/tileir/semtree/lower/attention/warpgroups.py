"""Lowering of the special ``attend`` with asynchronous instructions of four warps.

While a tile of weights is multiplied by its values, threads compute the weights of the next tile of keys: each
iteration begins the products of scores for its own tile, then those of values for the previous tile, and requests the
tiles of a later one, which are boxes of tensors, messages of two channels. Four neighbouring threads share a row, and
exchange their maximum scores. Only a thread that copies to a tile waits for other readers. Several parts of a group
take turns: while one computes weights, the other's products run. The overlap of products of one tile with exponentials
of the next, and turns of groups of four warps, are by Shah et al., "FlashAttention-3", 2024.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final

from tileir.core import DType, Op, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.attention.softmax import Softmax
from tileir.semtree.lower.attention.tiles import box, operand
from tileir.stripe.attention import QUAD, STAGES, instruction_of_width

_WIDE: Final = sem.Type(DType.F32)
_SUMMED: Final = 8
"""Pairs of weights added in f16 before the sum continues in f32: weights are at most exp(GROWTH)."""


@attrs.frozen(eq=False, repr=False)
class WarpGroups(Softmax):
    """Builder of the body of one kernel.

    Attributes:
        ready: The channels of queries, keys and values: queries come with the first keys.
        shift: Difference between the number of a tile's message, or of one with its place, and that of the tile.
    """

    joined: ClassVar[bool] = True
    ready: ClassVar[tuple[str, str, str]] = ("keys_ready", "keys_ready", "values_ready")

    shift: Affine = Affine()

    def statements(self) -> tuple[sem.Stmt, ...]:
        """Return the body of the kernel."""
        declared, start, end = self._range()
        step = self.blocks.counter("step")
        number = Affine.index(step.name)
        copies = (*self._tile(2, number), *self._tile(1, number + 1, end))
        return (
            *self._coordinates(),
            *self._shared(),
            *self._declarations(),
            *declared,
            *self._before(start, end),
            *self._first(start),
            sem.For(step, self._second(start), end, 1, self._step(number, *copies)),
            *self._last(Affine.index(end.name) - 1),
            *self._finish(),
        )

    def _range(self) -> tuple[tuple[sem.Stmt, ...], Affine, sem.Var]:
        """Return declarations of the first visible tile of keys of a group, and of the end, and both."""
        begin, end = (self.blocks.counter(word) for word in ("begin", "end"))
        start = Affine.index(begin.name)
        lowest, highest = self.seen_tiles(-(-self.matrices[1].rows // self.plan.keys))
        behind = self._op(Op.MAX, highest, self._second(start))  # one hidden tile does no harm
        return (sem.Declare(begin, lowest), sem.Declare(end, behind)), start, end

    def _second(self, start: Affine) -> sem.Expr:
        return self.blocks.offsets.scalar(start + 1)

    def _declarations(self) -> tuple[sem.Stmt, ...]:
        sizes = {"scores": self.scores, "total": 2 * self.slots}
        arrays = [
            sem.DeclareArray(self.names[word], DType.F32, sizes.get(word, self.slots))
            for word in ("scores", "top", "seen", "total", "factor", "less", "told")
        ]
        arrays.append(sem.DeclareArray(self.names["weights"], self.matrices[0].dtype, self.scores))
        arrays += [sem.DeclareArray(name, DType.F32, size) for name, size in self._sums()]
        if self.matrices[0].dtype is not DType.F16:
            arrays.append(sem.DeclareArray(self.names["powers"], DType.F16, self.scores))
        return tuple(arrays)

    def _shared(self) -> tuple[sem.Stmt, ...]:
        """Return the declarations of shared arrays."""
        stages = [panel.declaration() for stage in self.stages for panel in stage]
        places = {word: 2 * panels[0].stages for word, panels in zip(self.ready, self.stages, strict=True)}
        channels = [
            sem.DeclareArray(self.names[word], DType.U64, size, sem.Region.LOCAL) for word, size in places.items()
        ]
        return (*stages, *channels)

    def _fresh(self) -> tuple[sem.Stmt, ...]:
        """Return the initialisation of sums and maximum scores."""
        slot = self.blocks.counter("slot")
        start = self._unrolled(
            slot, self.slots,
            sem.Assign(self._held("top", slot), sem.Const(-math.inf, _WIDE)),
        )  # fmt: skip
        zeros = [self._zeros(name, size) for name, size in (*self._sums(), (self.names["total"], 2 * self.slots))]
        return (start, *zeros)

    def own_rows(self) -> tuple[Affine, int]:
        """Return the queries of four warps, which run independently."""
        return self.first + Affine.index(self.team.name) * self.plan.tall, self.plan.tall

    def _before(self, start: Affine, end: sem.Var) -> tuple[sem.Stmt, ...]:
        """Return the begin of the copies of queries, and of the tiles needed before the first copying step."""
        queries = self._boxes(0, self.first, Affine())
        return (*self._tile(1, start, None, queries), *self._tile(1, start + 1, end), *self._tile(2, start))

    def _step(self, step: Affine, *copies: sem.Stmt) -> tuple[sem.Stmt, ...]:
        """Return the work on a tile of keys, and on the previous tile of values."""
        return (
            self._step_of(sem.ChannelStep.RECEIVE, 1),
            *self._turn(sem.TurnStep.TAKE),
            self._zeros(self.names["scores"], self.scores),
            *self._scores(step),
            self._step_of(sem.ChannelStep.RECEIVE, 2),
            *self._results(step - 1),
            *self._turn(sem.TurnStep.PASS),
            *copies,
            self._step_of(sem.ChannelStep.RELEASE, 1),
            *self._softmax(step, first=False),
            self._step_of(sem.ChannelStep.RELEASE, 2),
        )

    def _first(self, step: Affine) -> tuple[sem.Stmt, ...]:
        return (
            *self._fresh(),
            self._step_of(sem.ChannelStep.RECEIVE, 1),
            self._zeros(self.names["scores"], self.scores),
            *self._scores(step),
            self._step_of(sem.ChannelStep.RELEASE, 1),
            *self._softmax(step, first=True),
        )

    def _last(self, step: Affine) -> tuple[sem.Stmt, ...]:
        return (self._step_of(sem.ChannelStep.RECEIVE, 2), *self._results(step), *self._all_sums())

    def _turn(self, step: sem.TurnStep) -> tuple[sem.Stmt, ...]:
        """Return a hint that groups of four warps begin products one after another, and compute weights in between."""
        threads = self.fragment.threads
        return (sem.Turn(step, threads),) if self.plan.threads > threads else ()

    def _scores(self, step: Affine) -> tuple[sem.Stmt, ...]:
        rows, start, declared = Affine.index(self.team.name) * self.plan.tall, *self._stage(step)
        return (
            declared,
            *(
                sem.MatrixMultiply(
                    self.fragment.name,
                    (self.plan.tall, self.plan.keys, left.width),
                    sem.Subscript(self.names["scores"], self._number(0), _WIDE),
                    operand(self.blocks, left, rows, across=True),
                    operand(self.blocks, right, start * right.rows, across=False),
                )
                for left, right in zip(self.stages[0], self.stages[1], strict=True)
            ),
        )

    def _results(self, step: Affine) -> tuple[sem.Stmt, ...]:
        """Return the products of weights with values."""
        kind = sem.Type(self.matrices[0].dtype)
        start, declared = self._stage(step)
        weights = sem.MatrixOperand(
            sem.Subscript(self.names["weights"], self._number(0), kind), (0, 0), held=self.scores
        )
        return (
            declared,
            *(
                sem.MatrixMultiply(
                    instruction_of_width(self.fragment, panel.width).name,
                    (self.plan.tall, panel.width, self.plan.keys),
                    sem.Subscript(name, self._number(0), _WIDE),
                    weights,
                    operand(self.blocks, panel, start * panel.rows, across=True),
                )
                for name, panel in zip(self.results, self.stages[2], strict=True)
            ),
        )

    def _stage(self, step: Affine) -> tuple[Affine, sem.Stmt]:
        """Return the stage of a tile, and its declaration."""
        stage = self.blocks.counter("stage")
        value = self._op(Op.BIT_AND, self.blocks.offsets.scalar(step + self.shift), self._number(STAGES - 1))
        return Affine.index(stage.name), sem.Declare(stage, value)

    def _channel(self, matrix: int) -> sem.Subscript:
        return sem.Subscript(self.names[self.ready[matrix]], self._number(0), sem.Type(DType.U64))

    def _step_of(self, step: sem.ChannelStep, matrix: int) -> sem.Stmt:
        return sem.Channel(step, self._channel(matrix))

    def _tile(
        self, matrix: int, step: Affine, end: sem.Var | None = None, more: tuple[sem.Stmt, ...] = ()
    ) -> tuple[sem.Stmt, ...]:
        """Return the message of a tile of keys or values, with ``more`` copies, if it is before ``end``."""
        start, declared = self._stage(step)
        message = (
            declared,
            self._step_of(sem.ChannelStep.ACQUIRE, matrix),
            *more,
            *self._boxes(matrix, step * self.plan.keys, start),
            self._step_of(sem.ChannelStep.SEND, matrix),
        )
        return (
            message if end is None else (sem.If(self._op(Op.CMP_LT, self.blocks.offsets.scalar(step), end), message),)
        )

    def _boxes(self, matrix: int, first: Affine, stage: Affine) -> tuple[sem.Stmt, ...]:
        """Return the copies of rows of a matrix, panel by panel, as part of a message of keys or values."""
        channel = self._channel(matrix)
        return tuple(
            box(self.blocks, self.matrices[matrix], panel, first, stage, channel) for panel in self.stages[matrix]
        )

    def _softmax(self, step: Affine, *, first: bool) -> tuple[sem.Stmt, ...]:
        """Return the computation of weights from scores; sums are rescaled only after that."""
        slot = self.blocks.counter("slot")
        tests, update, lessened = self._growth(slot)
        grown = sem.Var(self.blocks.names.fresh("grown"), sem.Type(DType.BOOL))
        greatest = self._op(Op.MAX, self._held("top", slot), self._held("factor", slot))
        scaled = () if first else (sem.If(grown, tuple(self._scaled())),)
        return (
            *self._masked(step * self.plan.keys),
            *self._maxima(),
            self._unrolled(slot, self.slots, sem.Assign(self._held("seen", slot), greatest)),
            sem.Declare(grown, self._all(tests, Op.BIT_OR)),
            sem.If(grown, (update, self._scaled_total())),
            lessened,
            self._weights(),
            *self._in_f16(),
            *scaled,
        )

    def _maxima(self) -> tuple[sem.Stmt, ...]:
        """Return the computation of the maximum scores of all threads of a row."""
        slot = self.blocks.counter("slot")
        factor, told = self._held("factor", slot), self._held("told", slot)
        greatest = self._op(Op.MAX, factor, told)
        return (
            *self._own_maxima(),
            *(
                self._unrolled(slot, self.slots, sem.Exchange(1 << bit, told, factor), sem.Assign(factor, greatest))
                for bit in range(QUAD.bit_length() - 1)
            ),
        )

    def _sums(self) -> list[tuple[str, int]]:
        """Return the arrays of sums of values, and their sizes."""
        share = self.fragment.threads // self.plan.tall
        return [(name, panel.width // share) for name, panel in zip(self.results, self.stages[2], strict=True)]

    def _scaled_total(self) -> sem.Stmt:
        slot, pair = self.blocks.counter("slot"), sem.Type(DType.F32, 2)
        total = sem.Subscript(self.names["total"], self._op(Op.MUL, slot, self._number(2)), pair)
        scaled = self._op(Op.MUL, total, sem.Broadcast(self._held("factor", slot), 2))
        return self._unrolled(slot, self.slots, sem.Assign(total, scaled))

    def kept(self, place: sem.Expr, weights: sem.Expr) -> tuple[sem.Stmt, ...]:
        """Return statements that keep two weights in f16 until they are summed."""
        return (sem.Assign(sem.Subscript(self.names["powers"], place, weights.type), weights),)

    def _in_f16(self) -> list[sem.Stmt]:
        """Return the addition of a tile's weights to the sums of a thread: first pairs in f16."""
        half, wide = sem.Type(DType.F16, 2), sem.Type(DType.F32, 2)
        name = self.names["weights" if self.matrices[0].dtype is DType.F16 else "powers"]
        result: list[sem.Stmt] = []
        for slot in range(self.slots):
            block, side = divmod(slot, 2)
            first = block * (self.plan.keys // 2) + 2 * side
            pairs: list[sem.Expr] = [
                sem.Subscript(name, self._number(first + 4 * group), half) for group in range(self.plan.keys // 8)
            ]
            total = sem.Subscript(self.names["total"], self._number(2 * slot), wide)
            for start in range(0, len(pairs), _SUMMED):
                some = pairs[start : start + _SUMMED]
                while len(some) > 1:
                    some = [self._op(Op.ADD, *pair) for pair in zip(some[::2], some[1::2], strict=True)]
                result.append(sem.Assign(total, self._op(Op.ADD, total, sem.Cast(some[0], wide))))
        return result

    def _all_sums(self) -> tuple[sem.Stmt, ...]:
        """Return the total of the sums of the threads of a row, in the place of the divisor."""
        slot = self.blocks.counter("slot")
        places = [
            sem.Subscript(self.names["total"], self.blocks.offsets.scalar(Affine.index(slot.name) * 2 + n), _WIDE)
            for n in range(2)
        ]
        told = self._held("told", slot)
        steps: list[sem.Stmt] = [sem.Assign(places[0], self._op(Op.ADD, *places))]
        for bit in range(QUAD.bit_length() - 1):
            steps += [sem.Exchange(1 << bit, told, places[0]), sem.Assign(places[0], self._op(Op.ADD, places[0], told))]
        return (self._unrolled(slot, self.slots, *steps),)
