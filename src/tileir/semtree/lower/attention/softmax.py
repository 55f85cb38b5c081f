"""The softmax of attention, tile by tile: masks, running maxima and sums, weights, and the final division."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Final, Self

from tileir.core import DType, Op, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.attention.tiles import Matrix, Panel, Threads, tile
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.transform.expansions import LEAST_EXPONENT
from tileir.stripe.attention import QUAD, AttentionParameters

_WIDE: Final = sem.Type(DType.F32)

WORDS: Final = ("scores", "weights", "powers", "shared", "top", "seen", "total", "factor", "less", "one", "told",
         "queries_ready", "keys_ready", "values_ready")  # fmt: skip
"""The arrays: scores, and weights made of them, also in f16 for their sums; numbers exchanged by the threads of a row;
for each row of a thread the reference score of weights, the running maximum, the sum of weights, its scaling factor,
and the term added to scores before the exponential; the number 1; and channels of tiles.
"""

SUMS: Final = 8
"""Columns of the sums of weights, all equal: the minimum of an instruction."""

GROWTH: Final = 6.0
"""Maximum growth of an exponent before weights get another reference score: exp(6) is far below the maximum of f16."""


@attrs.frozen(eq=False, repr=False)
class Softmax(Threads):
    """Work of the threads on scores.

    Attributes:
        matrices: Queries, keys, values and the result, and optionally logarithms.
        stages: Tiles of queries, keys and values in local memory.
        names: Of the arrays of :data:`WORDS`.
        results: The sums of a thread, by panels of values.
        part: The number of the part of the keys, if they are split.
        joined: Whether to make one panel of all columns of values, if possible.
    """

    joined: ClassVar[bool] = False

    matrices: list[Matrix]
    stages: tuple[tuple[Panel, ...], ...]
    names: dict[str, str]
    results: tuple[str, ...]
    part: Affine

    @classmethod
    def of(
        cls, blocks: BlockLowering, plan: AttentionParameters, matrices: list[Matrix], first: Affine, part: Affine
    ) -> Self:
        """Choose names."""
        queries, keys, values, *_ = matrices
        dtype = queries.dtype
        stages = (
            tile(blocks, "queries", dtype, plan.rows, queries.columns),
            tile(blocks, "keys", dtype, plan.keys, keys.columns, plan.depth),
            tile(blocks, "values", dtype, plan.keys, values.columns, plan.depth, joined=cls.joined),
        )
        thread, team, row, quad = (blocks.counter(word) for word in ("tid", "team", "own_row", "quad"))
        return cls(
            blocks, plan, first, thread, team, row, quad, matrices, stages,
            {word: blocks.names.fresh(word) for word in WORDS},
            tuple(blocks.names.fresh("result") for _ in stages[2]), part,
        )  # fmt: skip

    def kept(self, place: sem.Expr, weights: sem.Expr) -> tuple[sem.Stmt, ...]:  # noqa: ARG002  # products add them
        """Return statements that keep two weights in f16 after further rounding."""
        return ()

    def _zeros(self, name: str, size: int) -> sem.Stmt:
        counter = self.blocks.counter("element")
        return self._unrolled(counter, size, sem.Assign(sem.Subscript(name, counter, _WIDE), sem.Const(0.0, _WIDE)))

    def seen_tiles(self, tiles: int) -> tuple[sem.Expr, sem.Expr]:
        """Return the visible tiles of keys, out of ``tiles``, for the queries of a group."""
        plan = self.plan
        lowest: sem.Expr = self._number(0)
        highest: sem.Expr = self._number(tiles)
        if plan.finite and plan.after is not None:
            reach = self.blocks.offsets.scalar(self.first + (plan.rows + plan.after + plan.keys - 1))
            seen = self._op(Op.DIV, self._op(Op.MAX, reach, self._number(0)), self._number(plan.keys))
            highest = self._op(Op.MIN, seen, highest)
        if plan.finite and plan.before is not None:
            reach = self.blocks.offsets.scalar(self.first - plan.before)
            seen = self._op(Op.DIV, self._op(Op.MAX, reach, self._number(0)), self._number(plan.keys))
            lowest = self._op(Op.MIN, seen, self._number(tiles - 1))
        if plan.parts is not None:
            share = plan.share(self.matrices[1].rows) // plan.keys
            lowest = self.blocks.offsets.scalar(self.part * share)
            highest = self._op(Op.MIN, self.blocks.offsets.scalar((self.part + 1) * share), highest)
        return lowest, highest

    def own_rows(self) -> tuple[Affine, int]:
        """Return the first query, and the number of queries, whose tiles are masked together."""
        return self.first, self.plan.rows

    def _masked(self, place: Affine) -> tuple[sem.Stmt, ...]:
        """Return the masking of hidden scores; empty if a query sees the whole tile."""
        plan, keys = self.plan, self.matrices[1]
        tests: list[tuple[Affine, Callable[[Affine, Affine], Affine]]] = []
        last, (first, count) = plan.keys - 1, self.own_rows()
        if (after := plan.after) is not None:
            tests.append((first + after - last - place, lambda query, key: query + after - key))
        if (before := plan.before) is not None:
            tests.append((place - (first + (count - 1)) + before, lambda query, key: key - query + before))
        beyond: list[tuple[Affine, Callable[[Affine, Affine], Affine]]] = []
        if keys.rows % plan.keys:
            beyond.append((keys.rows - 1 - last - place, lambda _, key: keys.rows - 1 - key))
        if plan.hidden is None:
            return self._hidden(place, [*beyond, *tests], None)
        return (*self._hidden(place, tests, plan.hidden / plan.scale), *self._hidden(place, beyond, None))

    def _hidden(
        self, place: Affine, tests: list[tuple[Affine, Callable[[Affine, Affine], Affine]]], more: float | None
    ) -> tuple[sem.Stmt, ...]:
        """Return statements that add a number to scores where a test is negative, or make them minus infinity.

        The first part of a test is negative if the second one, for a query and a key, may be.
        """
        if not tests:
            return ()
        zero = self._number(0)
        whole = self._all([self._op(Op.CMP_LT, self.blocks.offsets.scalar(test), zero) for test, _ in tests], Op.BIT_OR)

        def mask(slot_row: Affine, column: Affine, element: sem.Expr) -> sem.Stmt:
            query, key = self.first + slot_row, place + column
            seen = [self._op(Op.CMP_GE, self.blocks.offsets.scalar(test(query, key)), zero) for _, test in tests]
            score = sem.Subscript(self.names["scores"], element, _WIDE)
            blind: sem.Expr = sem.Const(-math.inf, _WIDE)
            if more is not None:
                blind = self._op(Op.ADD, score, sem.Const.of(more, _WIDE))
            return sem.Assign(score, self._op(Op.COND, self._all(seen, Op.BIT_AND), score, blind))

        return (sem.If(whole, (self._each(self.plan.keys, lambda row, _, column, at: (mask(row, column, at),)),)),)

    def _shared_maxima(self) -> tuple[sem.Stmt, ...]:
        """Return the computation of a thread's maximum scores, row by row, and their exchange within the row."""
        return (*self._own_maxima(), self._told("factor"))

    def _own_maxima(self) -> tuple[sem.Stmt, ...]:
        """Return the computation of a thread's maximum scores, row by row."""
        factor, slot = self.names["factor"], self.blocks.counter("slot")
        least = self._unrolled(slot, self.slots, sem.Assign(self._held("factor", slot), sem.Const(-math.inf, _WIDE)))

        def merge(_: Affine, number: Affine, __: Affine, at: sem.Expr) -> tuple[sem.Stmt, ...]:
            target = sem.Subscript(factor, self.blocks.offsets.scalar(number), _WIDE)
            return (sem.Assign(target, self._op(Op.MAX, target, sem.Subscript(self.names["scores"], at, _WIDE))),)

        return (least, self._each(self.plan.keys, merge))

    def _told_by(self, slot: sem.Var, op: Op) -> sem.Expr:
        """Return the aggregate of the numbers from the threads of a row."""
        places = [self._slot_row(slot) * QUAD + number for number in range(QUAD)]
        told = [sem.Subscript(self.names["shared"], self.blocks.offsets.scalar(place), _WIDE) for place in places]
        return self._op(op, self._op(op, told[0], told[1]), self._op(op, told[2], told[3]))

    def _told(self, word: str) -> sem.Stmt:
        """Return the publication of a number for each row of a thread to the other threads of the row."""
        slot = self.blocks.counter("slot")
        place = self._slot_row(slot) * QUAD + Affine.index(self.quad.name)
        target = sem.Subscript(self.names["shared"], self.blocks.offsets.scalar(place), _WIDE)
        return self._unrolled(slot, self.slots, sem.Assign(target, self._held(word, slot)))

    def _running(self) -> tuple[sem.Stmt, ...]:
        """Return the update of running maxima and, if one grew by much, the rescaling of sums.

        Threads that share rows have equal maxima, and act alike.
        """
        slot = self.blocks.counter("slot")
        grown, update, lessened = self._growth(slot)
        greatest = self._op(Op.MAX, self._held("top", slot), self._told_by(slot, Op.MAX))
        return (
            self._unrolled(slot, self.slots, sem.Assign(self._held("seen", slot), greatest)),
            sem.If(self._all(grown, Op.BIT_OR), (update, *self._scaled())),
            lessened,
        )

    def _growth(self, slot: sem.Var) -> tuple[list[sem.Expr], sem.Stmt, sem.Stmt]:
        """Return whether maxima grew by much, their update in that case, and the reduction of weights."""
        scale = sem.Const.of(self.plan.scale, _WIDE)
        top, seen, factor, less = (self._held(word, slot) for word in ("top", "seen", "factor", "less"))
        shrunk = self._op(Op.EXP, self._op(Op.MUL, self._op(Op.SUB, top, self._finite(seen)), scale))
        limit = sem.Const.of(GROWTH / self.plan.scale, _WIDE)
        grown = [
            self._op(Op.CMP_GT, self._op(Op.SUB, self._held("seen", number), self._held("top", number)), limit)
            for number in map(self._number, range(self.slots))
        ]
        update = self._unrolled(slot, self.slots, sem.Assign(factor, shrunk), sem.Assign(top, seen))
        twos = sem.Const.of(self.plan.scale / math.log(2.0), _WIDE)
        added = self._op(Op.NEG, self._op(Op.MUL, self._finite(top), twos))
        return grown, update, self._unrolled(slot, self.slots, sem.Assign(less, added))

    def _sums(self) -> list[tuple[str, int]]:
        """Return the arrays of summed products of weights, and their sizes; the sum of weights first."""
        widths = (SUMS, *(panel.width for panel in self.stages[2]))
        share = self.fragment.threads // self.plan.tall
        names = (self.names["total"], *self.results)
        return [(name, width // share) for name, width in zip(names, widths, strict=True)]

    def _scaled(self) -> list[sem.Stmt]:
        def scaled(name: str) -> Callable[[Affine, Affine, Affine, sem.Expr], tuple[sem.Stmt, ...]]:
            def scale_one(_: Affine, number: Affine, __: Affine, at: sem.Expr) -> tuple[sem.Stmt, ...]:
                factor = sem.Subscript(self.names["factor"], self.blocks.offsets.scalar(number), _WIDE)
                target = sem.Subscript(name, at, _WIDE)
                return (sem.Assign(target, self._op(Op.MUL, target, factor)),)

            return scale_one

        share = self.fragment.threads // self.plan.tall
        return [self._each(size * share, scaled(name)) for name, size in self._sums()]

    def _weights(self) -> sem.Stmt:
        """Return the computation of weights from scores."""
        dtype, scale = self.matrices[0].dtype, sem.Const.of(self.plan.scale / math.log(2.0), _WIDE)
        base = sem.Broadcast(sem.Const.of(math.log(2.0), _WIDE), 2)
        least, none = (sem.Broadcast(sem.Const.of(value, _WIDE), 2) for value in (LEAST_EXPONENT, 0.0))
        wide, narrow, half = sem.Type(DType.F32, 2), sem.Type(dtype, 2), sem.Type(DType.F16, 2)

        def weigh(_: Affine, number: Affine, __: Affine, at: sem.Expr) -> tuple[sem.Stmt, ...]:
            scores, slot = sem.Subscript(self.names["scores"], at, wide), self.blocks.offsets.scalar(number)
            less = sem.Subscript(self.names["less"], slot, _WIDE)
            exponents = self._op(Op.FMA, scores, sem.Broadcast(scale, 2), sem.Broadcast(less, 2))
            exponents = self._op(Op.MUL, exponents, base)
            powers = self._op(Op.EXP, exponents)
            target = sem.Subscript(self.names["weights"], at, narrow)
            if dtype is DType.F16:
                return (sem.Assign(target, sem.Cast(powers, narrow)),)
            normal = self._op(Op.COND, self._op(Op.CMP_LT, exponents, least), none, powers)
            return (sem.Assign(target, sem.Cast(normal, narrow)), *self.kept(at, sem.Cast(powers, half)))

        return self._each(self.plan.keys, weigh, pairs=True)

    def _finish(self) -> tuple[sem.Stmt, ...]:
        """Return the division by the sums of weights and the stores of results."""
        slot = self.blocks.counter("slot")
        whole = sem.Var(self.blocks.names.fresh("sum"), _WIDE)
        divisor: sem.Expr = whole
        if self.plan.zeros or self.plan.parts is not None:
            zero, one = (sem.Const(value, _WIDE) for value in (0.0, 1.0))
            divisor = self._op(Op.COND, self._op(Op.CMP_EQ, whole, zero), one, whole)
        inverse = self._unrolled(
            slot, self.slots,
            sem.Declare(whole, sem.Subscript(self.names["total"], self._op(Op.MUL, slot, self._number(2)), _WIDE)),
            sem.Assign(self._held("factor", slot), self._op(Op.DIV, sem.Const(1.0, _WIDE), divisor)),
        )  # fmt: skip
        return (*self._logarithms(), inverse, *map(self._divided, range(len(self.results))))

    def _divided(self, number: int) -> sem.Stmt:
        """Return the stores of the columns of a panel of values, divided by the sums."""
        kind = sem.Type(DType.F32, 2)
        narrow = sem.Type(self.matrices[3].dtype, 2)

        def store(row: Affine, slot: Affine, column: Affine, at: sem.Expr) -> tuple[sem.Stmt, ...]:
            factor = sem.Subscript(self.names["factor"], self.blocks.offsets.scalar(slot), _WIDE)
            sums = sem.Subscript(self.results[number], at, kind)
            value = self._op(Op.MUL, sums, sem.Broadcast(factor, 2))
            return (self.stored(number, row, column, value if narrow == kind else sem.Cast(value, narrow)),)

        return self._each(self.stages[2][number].width, store, pairs=True)

    def stored(self, number: int, row: Affine, column: Affine, value: sem.Expr) -> sem.Stmt:
        """Return the stores of two results of a row, in the columns of a panel of values."""
        result, query = self.matrices[3], self.first + row
        place = result.offset + query * result.stride + column + self.stages[2][number].first
        assign = sem.Assign(sem.Subscript(result.array, self.blocks.offsets.scalar(place), value.type), value)
        if result.rows % self.plan.rows == 0:
            return assign
        return sem.If(self._op(Op.CMP_LT, self.blocks.offsets.scalar(query), self._number(result.rows)), (assign,))

    def _logarithms(self) -> tuple[sem.Stmt, ...]:
        """Return the stores of the logarithms of the sums of exponentials of each row, for gradients."""
        if len(self.matrices) < 5:
            return ()
        slot, target = self.blocks.counter("slot"), self.matrices[4]
        whole = sem.Var(self.blocks.names.fresh("sum"), _WIDE)
        twos = sem.Const.of(1.0 / math.log(2.0), _WIDE)
        top = self._op(Op.MUL, self._finite(self._held("top", slot)), sem.Const.of(self.plan.scale, _WIDE))
        value = self._op(Op.MUL, self._op(Op.ADD, top, self._op(Op.LOG, whole)), twos)
        if self.plan.zeros and self.plan.parts is None:  # weights are 0 then
            blind = self._op(Op.CMP_EQ, whole, sem.Const(0.0, _WIDE))
            value = self._op(Op.COND, blind, sem.Const(math.inf, _WIDE), value)
        query = self.first + self._slot_row(slot)
        place = self.blocks.offsets.scalar(target.offset + query * target.stride)
        first = self._op(Op.CMP_EQ, self.quad, self._number(0))
        if target.rows % self.plan.rows:
            inside = self._op(Op.CMP_LT, self.blocks.offsets.scalar(query), self._number(target.rows))
            first = self._op(Op.BIT_AND, first, inside)
        total = sem.Subscript(self.names["total"], self._op(Op.MUL, slot, self._number(2)), _WIDE)
        store = sem.If(first, (sem.Assign(sem.Subscript(target.array, place, _WIDE), value),))
        return (self._unrolled(slot, self.slots, sem.Declare(whole, total), store),)

    def _finite(self, value: sem.Expr) -> sem.Expr:
        """Return a maximum, with 0 instead of minus infinity, which cannot be subtracted."""
        blind = self._op(Op.CMP_EQ, value, sem.Const(-math.inf, _WIDE))
        return self._op(Op.COND, blind, sem.Const(0.0, _WIDE), value)

    def _held(self, word: str, slot: sem.Expr) -> sem.Subscript:
        return sem.Subscript(self.names[word], slot, _WIDE)
