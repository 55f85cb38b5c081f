"""Persistent groups, which take the points of the grid in turns.

Instead of one group for each point, a group loops over points. It prefetches the inputs of its next point before it
finishes the current one (:mod:`tileir.semtree.lower.pipeline`), and no other group has to be started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from tileir.core import Op, Target, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.loops import grid_indices
from tileir.stripe import ir as stripe


@attrs.frozen(eq=False)
class Turns:
    """Points of the grid that a group takes in turns.

    Attributes:
        blocks: Provides variables.
        indices: The indices of the grid, the last one fastest.
        groups: Number of groups.
        group: The number of a group, which is that of its first point.
        turn: Number of finished points.
        values: Values of the indices in a turn.
        declarations: Declarations of the variables in these values, for the begin of a turn.
        alternating: Whether the order of groups is reversed in every other turn: this balances points of decreasing
            work.
    """

    blocks: BlockLowering
    indices: tuple[stripe.Index, ...]
    groups: int
    group: sem.Var
    turn: sem.Var
    values: dict[str, Affine]
    declarations: tuple[sem.Stmt, ...]
    alternating: bool = False

    @classmethod
    def of(cls, blocks: BlockLowering, block: stripe.Block) -> Turns | None:
        """Return the turns of a kernel; None if each point of the grid has its own group."""
        return cls.among(blocks, grid_indices(block), _groups_of(block) if blocks.target.bulk_copies else 0)

    @classmethod
    def among(
        cls, blocks: BlockLowering, indices: tuple[stripe.Index, ...], groups: int, *, alternating: bool = False
    ) -> Turns | None:
        """Return the turns of ``groups`` groups; None if each point has its own group."""
        if not 0 < groups < prod(index.range for index in indices):
            return None
        group, turn = blocks.counter("first"), blocks.counter("turn")
        start = cls(blocks, indices, groups, group, turn, {}, (), alternating)
        declarations, values = start.point(start.number(turn))
        return attrs.evolve(start, values=values, declarations=tuple(declarations))

    @property
    def points(self) -> int:
        """Number of points of the grid."""
        return prod(index.range for index in self.indices)

    @property
    def first(self) -> sem.Declare:
        """The declaration of :attr:`group`."""
        return sem.Declare(self.group, sem.GridIndex(sem.GridLevel.GROUP, 0, self.group.type))

    def number(self, turn: sem.Expr) -> sem.Expr:
        """Return the number of a group's point in a turn."""
        before = sem.Apply(Op.MUL, (turn, self.blocks.offsets.constant(self.groups)))
        return sem.Apply(Op.ADD, (self._place(turn), before))

    def _place(self, turn: sem.Expr) -> sem.Expr:
        """Return the place of a group among all in a turn."""
        if not self.alternating:
            return self.group
        constant = self.blocks.offsets.constant
        odd = sem.Apply(Op.CMP_EQ, (sem.Apply(Op.BIT_AND, (turn, constant(1))), constant(1)))
        return sem.Apply(Op.COND, (odd, sem.Apply(Op.SUB, (constant(self.groups - 1), self.group)), self.group))

    def point(self, number: sem.Expr) -> tuple[list[sem.Stmt], dict[str, Affine]]:
        """Return declarations for the point of that number, and the values of the indices there."""
        place = self.blocks.counter("point")
        digits, values = self.blocks.digits(place, [index for index in self.indices if index.range > 1])
        return [sem.Declare(place, number), *digits], {**{index.name: Affine() for index in self.indices}, **values}

    def moved(self, values: Mapping[str, Affine]) -> dict[str, Affine]:
        """Return replacements for the variables of :attr:`values` at a point with other values of indices."""
        return {name: values[index] for index, own in self.values.items() for name in own.indices}

    def around(self, body: list[sem.Stmt]) -> list[sem.Stmt]:
        """Return the loop over the points of a group, with ``body`` for each."""
        constant, last = self.blocks.offsets.constant, (self.points - 1) // self.groups
        rest = sem.Apply(Op.SUB, (constant(self.points - 1), self._place(constant(last))))
        count = sem.Apply(Op.ADD, (sem.Apply(Op.DIV, (rest, constant(self.groups))), constant(1)))
        return [sem.For(self.turn, constant(0), count, 1, (*self.declarations, *body))]


def cluster_of(block: stripe.Block, target: Target) -> int:
    """Return the cluster size, in neighbours of the grid, that the pipeline of a kernel requests; 1 if not possible."""
    cluster, indices = _largest(block, lambda pipeline: pipeline.cluster), grid_indices(block)
    whole = indices and indices[-1].range % max(1, cluster) == _groups_of(block) % max(1, cluster) == 0
    return cluster if cluster > 1 and whole and target.bulk_copies else 1


def _groups_of(block: stripe.Block) -> int:
    return _largest(block, lambda pipeline: pipeline.groups)


def _largest(block: stripe.Block, asked: Callable[[stripe.Pipeline], int]) -> int:
    found = [asked(block.instruction)] if isinstance(block.instruction, stripe.Pipeline) else []
    return max([*found, *(_largest(each, asked) for each in block.blocks)], default=0)
