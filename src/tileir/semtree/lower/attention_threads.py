"""The threads of a group that computes attention: where their elements are, and loops over these."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.fragments import FRAGMENTS
from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.stripe.attending import QUAD

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.core.fragments import Fragment
    from tileir.semtree.lower.block import BlockLowering
    from tileir.stripe.attending import Attending

EIGHT = 8
"""How far the rows are apart of which a thread holds elements."""


@attrs.frozen(eq=False, repr=False)
class Threads:
    """The threads of a group.

    Attributes:
        blocks: Names and offsets.
        plan: What is computed.
        first: The first query of the group.
        thread: The number of a thread.
        team: The number of those that run a fragment together.
        row: The first row of a thread in the tile of queries.
        quad: Its number among those that share a row.

    """

    blocks: BlockLowering
    plan: Attending
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
        """Rows of which a thread holds elements."""
        return self.plan.tall * QUAD // self.fragment.threads

    @property
    def scores(self) -> int:
        """How many scores of a tile a thread holds, in the layout of sums; weights lie as the left operand has them."""
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

        ``body`` gets the row in the tile, the number of the row among those of the thread, the column, and where the
        element is; with ``pairs``, of the first of two neighbours.
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
