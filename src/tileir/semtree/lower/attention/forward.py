"""Lowering of the special ``attend``: groups of threads that iterate over tiles of keys, with running maxima and sums.

The threads of a fragment hold the scores of some queries and their rows of the result; four threads share a row. For
each tile of keys, they multiply, update the maximum of each row, rescale the sums if it has grown by much, and add
the values of the tile, weighted by exponentials. Tiles that a mask excludes are skipped, and the next tile is copied
in the meantime. Weights are summed by products with ones. Sources: Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018; Dao et al., "FlashAttention", 2022; Zadouri et al., "FlashAttention-4", 2026.

With warp specialisation, one warp copies tiles, and teams of four warps compute. Teams wait for copies and for their
turn; the copying warp reuses a tile as soon as the products with it are done. In persistent kernels, it copies the
first tiles of the next queries before the current ones are finished.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Final

from tileir.core import DType, Op, attrs
from tileir.core.fragments import FRAGMENTS
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.attention.backward import BackwardBuilder
from tileir.semtree.lower.attention.softmax import SUMS, Softmax
from tileir.semtree.lower.attention.tiles import Matrix, Panel, box_back, copies, operand, tile
from tileir.semtree.lower.attention.warpgroups import WarpGroups
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.loops import grid_indices
from tileir.semtree.lower.turns import Turns
from tileir.semtree.lower.views import View
from tileir.semtree.swizzles import PLAIN
from tileir.stripe import ir as stripe
from tileir.stripe.attention import ATTEND_BACK, QUAD, STAGES, AttentionParameters, axes_of

_REGISTERS: Final = {2: (40, 232), 3: (32, 160)}
"""Registers of a copying and of a multiplying thread, by the number of multiplying teams."""


@attrs.frozen(eq=False, repr=False)
class Roles(WarpGroups):
    """Builder of the body of one kernel with warp roles.

    Attributes:
        turns: Tiles of queries of a group; None if it has one.
        back: Tiles of results in local memory, one for each team, for box stores; none if threads store.
        starts: Place of a thread's first results in each of these.
    """

    turns: Turns | None = None
    back: tuple[Panel, ...] = ()
    starts: tuple[sem.Var, ...] = ()
    ready: ClassVar[tuple[str, str, str]] = ("queries_ready", "keys_ready", "values_ready")

    def taking(self, turns: Turns | None) -> Roles:
        """Return the roles of groups that take tiles in turns, and store boxes if possible."""
        result, plan = self.matrices[3], self.plan
        back: tuple[Panel, ...] = ()
        if result.is_boxes:
            teams = plan.rows // plan.tall
            back = tile(self.blocks, "results", result.dtype, plan.tall, result.columns, teams, joined=self.joined)
        return attrs.evolve(self, turns=turns, back=back, starts=tuple(self.blocks.counter("start") for _ in back))

    def statements(self) -> tuple[sem.Stmt, ...]:
        """Return the body of the kernel."""
        warps, own = self.plan.threads // sem.WARP, self.fragment.threads // sem.WARP
        few, many = _REGISTERS[warps // own]
        multiplying = (*self._declarations(), *self._starts(), *self._in_turns(Roles._multiplying))
        return (
            *(() if self.turns is None else (self.turns.first,)),
            *self._coordinates(),
            *self._shared(),
            *(panel.declaration() for panel in self.back),
            sem.WarpRole(0, own, multiplying, many, warps // own),
            sem.WarpRole(warps, 1, self._in_turns(Roles._copying), few),
        )

    def _in_turns(self, body: Callable[[Roles, Affine, sem.Var], tuple[sem.Stmt, ...]]) -> tuple[sem.Stmt, ...]:
        """Return the work on a tile of queries, given its tiles of keys, or a loop over all tiles of a group."""
        declared, start, end = self._range()
        if self.turns is None:
            return (*declared, *body(self, start, end))
        done, shift = self.blocks.counter("done"), self.blocks.counter("shift")
        moved = attrs.evolve(self, shift=Affine.index(shift.name))
        after = Affine.of({done.name: 1, end.name: 1}) - start
        scalar = self.blocks.offsets.scalar
        inside = [
            *declared,
            sem.Declare(shift, scalar(Affine.index(done.name) - start)),
            *body(moved, start, end),
            sem.Assign(done, scalar(after)),
        ]
        return (sem.Declare(done, self._number(0)), *self.turns.around(inside))

    def _multiplying(self, start: Affine, end: sem.Var) -> tuple[sem.Stmt, ...]:
        step = self.blocks.counter("step")
        return (
            self._step_of(sem.ChannelStep.RECEIVE, 0),
            *self._first(start),
            sem.For(step, self._second(start), end, 1, self._step(Affine.index(step.name))),
            self._step_of(sem.ChannelStep.RELEASE, 0),
            *self._last(Affine.index(end.name) - 1),
            self._step_of(sem.ChannelStep.RELEASE, 2),
            *self._finish(),
        )

    def _finish(self) -> tuple[sem.Stmt, ...]:
        """Return the division by the sums of weights and the stores of results, asynchronous for boxes."""
        if not self.back:
            return super()._finish()
        team, result = Affine.index(self.team.name), self.matrices[3]
        row = self.first + team * self.plan.tall
        boxes = (box_back(self.blocks, result, panel, row, team) for panel in self.back)
        return (sem.BulkWait(), sem.Barrier(), *super()._finish(), sem.Barrier(), *boxes)

    def stored(self, number: int, row: Affine, column: Affine, value: sem.Expr) -> sem.Stmt:
        """Return the stores of two results of a row, to memory or to the source of boxes.

        A thread has one swizzle in all rows, which are eight apart: it is part of the place of the first results.
        """
        if not self.back:
            return super().stored(number, row, column, value)
        panel, scalar = self.back[number], self.blocks.offsets.scalar
        width = self._number(panel.piece or panel.width)
        across = scalar(column - self._column)
        within = self._op(Op.BIT_XOR, self.starts[number], self._op(Op.MOD, across, width))
        piece = self._op(Op.MUL, self._op(Op.DIV, across, width), self._op(Op.MUL, width, self._number(panel.rows)))
        below = self._op(Op.MUL, scalar(row - Affine.index(self.row.name)), width)
        place = self._op(Op.ADD, self._op(Op.ADD, within, below), piece)
        return sem.Assign(sem.Subscript(panel.array, place, value.type), value)

    @property
    def _column(self) -> Affine:
        return Affine.index(self.quad.name) * 2

    def _starts(self) -> tuple[sem.Stmt, ...]:
        """Return declarations of the places of a thread's first results, panel by panel."""
        team = Affine.index(self.team.name) * self.plan.tall
        declared = []
        for start, panel in zip(self.starts, self.back, strict=True):
            width = panel.piece or panel.width
            own = (Affine.index(self.row.name) - team) * width + self._column
            place = self.blocks.offsets.swizzled(own, *panel.swizzle, PLAIN)
            declared.append(sem.Declare(start, self._op(Op.ADD, self.blocks.offsets.scalar(team * panel.width), place)))
        return tuple(declared)

    def _copying(self, start: Affine, end: sem.Var) -> tuple[sem.Stmt, ...]:
        step = self.blocks.counter("step")
        number = Affine.index(step.name)
        return (
            *self._tile(1, start),
            self._step_of(sem.ChannelStep.ACQUIRE, 0),
            *self._boxes(0, self.first, Affine()),
            self._step_of(sem.ChannelStep.SEND, 0),
            sem.For(step, self._second(start), end, 1, (*self._tile(1, number), *self._tile(2, number - 1))),
            *self._tile(2, Affine.index(end.name) - 1),
        )


_WIDE: Final = sem.Type(DType.F32)

_OF_KEYS: Final = (1, 2)
"""The matrices whose tiles are copied repeatedly, each by a group of copies: keys and values."""


def attention_kernel(
    blocks: BlockLowering,
    block: stripe.Block,
    buffers: dict[str, View],
    special: stripe.Special,
    plan: AttentionParameters,
) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
    """Return the grid and the body of a kernel; the grid has an additional axis over tiles of queries."""
    rows = axes_of(next(view for view in block.refinements if view.name == special.inputs[0]))[0][0]
    count = -(-rows // plan.rows)
    number = stripe.Index(blocks.names.fresh("tile"), count, binding=stripe.Binding.GRID)
    split = stripe.Index(blocks.names.fresh("part"), plan.parts or 1, binding=stripe.Binding.GRID)
    more = (number, split) if plan.parts else (number,)
    kind, turns = _kind(blocks, special, plan), None
    whole = grid_indices(attrs.evolve(block, indices=(*block.indices, *more)))
    if kind is Roles:
        # Under a triangle the longest rows of all matrices come first; otherwise the rows of one, which share keys.
        order = (number, *(index for index in whole if index is not number)) if plan.is_triangle else whole
        turns = Turns.among(blocks, order, plan.groups or 0, alternating=plan.is_triangle)
    if turns is None:
        grid, start, values = blocks.grid(attrs.evolve(block, indices=whole))
    else:
        grid, start, values = (turns.groups,), [], turns.values
    views = blocks.views(block, buffers, values)
    tile_number = values[number.name] if count > 1 else Affine()
    back = special.name == ATTEND_BACK
    numbers = special.inputs[4:] if back else special.outputs[1:]
    names = (*special.inputs, *special.outputs)
    variables = {
        name: index.range for index in (*block.indices, *more) for name in values.get(index.name, Affine()).indices
    }
    matrices = [Matrix.of(views[name], variables, numbers=name in numbers) for name in names]
    part = values.get(split.name, Affine())
    if plan.parts:
        matrices = [*matrices[:3], *(each.of_head(part) for each in matrices[3:])]
    # Under a triangle, the longest rows come first: those of the last queries, and of the first keys.
    first = (tile_number if back and len(special.outputs) > 1 else count - 1 - tile_number) * plan.rows
    made = kind.of(blocks, plan, matrices, first, part)
    return grid, (*start, *(made.taking(turns) if isinstance(made, Roles) else made).statements())


def _kind(
    blocks: BlockLowering, special: stripe.Special, plan: AttentionParameters
) -> type[BackwardBuilder | _Warps | WarpGroups]:
    """Return the builder of the body of a kernel."""
    if special.name == ATTEND_BACK:
        return BackwardBuilder
    threads = FRAGMENTS[plan.fragment].threads
    if threads == sem.WARP:
        return _Warps
    return Roles if blocks.target.bulk_copies and plan.threads > threads else WarpGroups


@attrs.frozen(eq=False, repr=False)
class _Warps(Softmax):
    """Builder of the body of one kernel without roles."""

    def statements(self) -> tuple[sem.Stmt, ...]:
        """Return the body of the kernel."""
        plan, keys = self.plan, self.matrices[1]
        begin, end = (self.blocks.counter(word) for word in ("begin", "end"))
        step = self.blocks.counter("step")
        lowest, highest = self.seen_tiles(-(-keys.rows // plan.keys))
        return (
            *self._coordinates(),
            *self._declarations(),
            sem.Declare(begin, lowest),
            sem.Declare(end, highest),
            *self._copies(0, self.first, Affine()),
            *self._copies_of_keys(begin, 0),
            *(self._copies_before(end, begin, ahead) for ahead in range(1, plan.depth - 1)),
            sem.For(step, begin, end, 1, self._step(step, end)),
            *self._finish(),
        )

    def _declarations(self) -> tuple[sem.Stmt, ...]:
        wide, scores = DType.F32, self.scores
        sizes = {"scores": scores, "total": SUMS * self.plan.tall // self.fragment.threads}
        arrays = [
            sem.DeclareArray(self.names[word], wide, sizes.get(word, self.slots))
            for word in ("scores", "top", "seen", "total", "factor", "less")
        ]
        weights = sem.DeclareArray(self.names["weights"], self.matrices[0].dtype, scores)
        sums = [sem.DeclareArray(name, wide, size) for name, size in self._sums()[1:]]
        shared = sem.DeclareArray(self.names["shared"], wide, self.plan.rows * QUAD, sem.Region.LOCAL)
        slot = self.blocks.counter("slot")
        start = self._unrolled(
            slot, self.slots,
            sem.Assign(self._held("top", slot), sem.Const(-math.inf, _WIDE)),
        )  # fmt: skip
        stages = [panel.declaration() for stage in self.stages for panel in stage]
        one = sem.DeclareArray(self.names["one"], weights.dtype, 1, sem.Region.LOCAL)
        place = sem.Subscript(one.name, self._number(0), sem.Type(one.dtype))
        first = self._op(Op.CMP_EQ, self.thread, self._number(0))
        unit = sem.If(first, (sem.Assign(place, sem.Const(1.0, place.type)),))
        zeros = [self._zeros(name, size) for name, size in self._sums()]
        return (*stages, shared, one, unit, *arrays, weights, *sums, start, *zeros)

    def _step(self, step: sem.Var, end: sem.Var) -> tuple[sem.Stmt, ...]:
        """Return the work on a tile of keys."""
        place = Affine.index(step.name) * self.plan.keys
        stage = self.blocks.counter("stage")
        return (
            sem.Declare(stage, self._op(Op.BIT_AND, step, self._number(self.plan.depth - 1))),
            sem.AsyncWait(len(_OF_KEYS) * (self.plan.depth - STAGES)),
            sem.Barrier(),  # keys and values have arrived, and the previous tiles are no longer read
            self._copies_before(end, step, self.plan.depth - 1),
            self._zeros(self.names["scores"], self.scores),
            *self._products_of_keys(stage),
            *self._masked(place),
            *self._shared_maxima(),
            sem.Barrier(),  # maxima have been exchanged
            *self._running(),
            self._weights(),
            *self._products_of_weights(stage),
        )

    def _products_of_keys(self, stage: sem.Var) -> tuple[sem.Stmt, ...]:
        rows = Affine.index(self.team.name) * self.plan.tall
        return tuple(
            sem.MatrixMultiply(
                self.fragment.name,
                (self.plan.tall, self.plan.keys, left.width),
                sem.Subscript(self.names["scores"], self._number(0), _WIDE),
                operand(self.blocks, left, rows, across=True),
                operand(self.blocks, right, Affine.index(stage.name) * right.rows, across=False),
            )
            for left, right in zip(self.stages[0], self.stages[1], strict=True)
        )

    def _products_of_weights(self, stage: sem.Var) -> tuple[sem.Stmt, ...]:
        """Return the products of weights with values, and with a vector of 1, which sums the weights."""
        kind = sem.Type(self.matrices[0].dtype)
        weights = sem.MatrixOperand(
            sem.Subscript(self.names["weights"], self._number(0), kind), (0, 0), held=self.scores
        )
        start = Affine.index(stage.name) * self.plan.keys
        values = [(panel.width, operand(self.blocks, panel, start, across=True)) for panel in self.stages[2]]
        ones = sem.MatrixOperand(sem.Subscript(self.names["one"], self._number(0), kind), (0, 0))
        return tuple(
            sem.MatrixMultiply(
                self.fragment.name,
                (self.plan.tall, width, self.plan.keys),
                sem.Subscript(name, self._number(0), _WIDE),
                weights,
                right,
            )
            for (name, _), (width, right) in zip(self._sums(), [(SUMS, ones), *values], strict=True)
        )

    def _copies_before(self, end: sem.Var, step: sem.Var, ahead: int) -> sem.Stmt:
        """Return the copies of a tile before the end; the number of copy groups is the same otherwise."""
        more = self._op(Op.CMP_LT, self.blocks.offsets.scalar(Affine.index(step.name) + ahead), end)
        none = () if self.plan.depth == STAGES else tuple(sem.AsyncCommit() for _ in _OF_KEYS)
        return sem.If(more, self._copies_of_keys(step, ahead), none)

    def _copies_of_keys(self, step: sem.Var, ahead: int) -> tuple[sem.Stmt, ...]:
        """Return the begin of the copy of a tile's keys and values, ``ahead`` tiles after ``step``."""
        number, stage = Affine.index(step.name) + ahead, self.blocks.counter("next_stage")
        place = self._op(Op.BIT_AND, self.blocks.offsets.scalar(number), self._number(self.plan.depth - 1))
        first, there = number * self.plan.keys, Affine.index(stage.name)
        copied = (statement for matrix in _OF_KEYS for statement in self._copies(matrix, first, there))
        return (sem.Declare(stage, place), *copied)

    def _copies(self, matrix: int, first: Affine, stage: Affine) -> tuple[sem.Stmt, ...]:
        staged = self.stages[matrix]
        return copies(self.blocks, self.matrices[matrix], staged, first, self.plan.threads, self.thread, stage)
