"""The special ``attend`` in roles: one warp copies tiles, and teams of four warps multiply and weigh.

Teams wait for copies, and for their turns, but not until the others have read a tile: who copies does that, and gets
each tile back as soon as its products are done. Where groups take tiles of queries in turns, what is needed first for
the next one is copied beside the end of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from tileir.core import Op, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.attention.tiles import Panel, box_back, tile
from tileir.semtree.lower.attention.warpgroups import WarpGroups
from tileir.semtree.lower.turns import Turns
from tileir.semtree.swizzles import PLAIN

_REGISTERS: Final = {2: (40, 232), 3: (32, 160)}
"""Those of a thread that copies, and of one that multiplies, by the teams that do."""


@attrs.frozen(eq=False, repr=False)
class Roles(WarpGroups):
    """Builds the body of one kernel.

    Attributes:
        turns: Which tiles of queries a group takes; None where it has one.
        back: Tiles of results in local memory, one for each team, of which boxes are stored; none where threads store.
        starts: Where the first results of a thread are in each of these.

    """

    turns: Turns | None = None
    back: tuple[Panel, ...] = ()
    starts: tuple[sem.Var, ...] = ()
    ready: ClassVar[tuple[str, str, str]] = ("queries_ready", "keys_ready", "values_ready")

    def taking(self, turns: Turns | None) -> Roles:
        """Return the roles of groups that take tiles in turns, and store boxes where results can be stored so."""
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
        """Return what is done for a tile of queries, given its tiles of keys, or a loop over all that a group takes."""
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
        """Return what divides by the sums of weights and stores the results, as boxes while threads go on."""
        if not self.back:
            return super()._finish()
        team, result = Affine.index(self.team.name), self.matrices[3]
        row = self.first + team * self.plan.tall
        boxes = (box_back(self.blocks, result, panel, row, team) for panel in self.back)
        return (sem.BulkWait(), sem.Barrier(), *super()._finish(), sem.Barrier(), *boxes)

    def stored(self, number: int, row: Affine, column: Affine, value: sem.Expr) -> sem.Stmt:
        """Return what stores two results of a row, or puts them where boxes are stored from.

        A thread has its own swizzle in all rows, which are eight apart: it is part of where the first results are.
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
        """Return what declares where the first results of a thread are, panel by panel."""
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
