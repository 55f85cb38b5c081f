"""The special ``attend`` as a kernel: groups of threads that go along the keys, with running maxima and sums.

The threads of a fragment hold the scores of some queries and as many rows of the result; four of them share a row. For
one tile of keys after the other, they multiply, find the greatest score of each row so far, scale what they have added
up by how much it grew, and add the values of the tile, weighted by exponentials of scores less the greatest one. Tiles
that no query of the group sees are not visited; keys are copied while values are multiplied, and values while keys are.
The running maxima are those of Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; that nothing
but tiles is in memory is by Dao et al., "FlashAttention", 2022.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.attention_softmax import WORDS, Softmax
from tileir.semtree.lower.attention_tiles import Matrix, copies, operand, tile
from tileir.stripe import ir as stripe
from tileir.stripe.attending import QUAD, matrix_of
from tileir.stripe.blocks import Binding

if TYPE_CHECKING:
    from tileir.semtree.lower.block import BlockLowering
    from tileir.semtree.lower.views import View
    from tileir.stripe.attending import Attending

_WIDE: Final = sem.Type(DType.F32)


def attention_kernel(
    blocks: BlockLowering, block: stripe.Block, buffers: dict[str, View], plan: Attending
) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
    """Return the grid and the body of a kernel; a grid has one group more for each tile of queries."""
    (special,) = (s for s in block.statements if isinstance(s, stripe.Special))
    rows = next(view for view in block.refinements if view.name == special.outputs[0])
    shape = matrix_of(rows)
    assert shape is not None  # the verifier saw to it
    count = -(-shape[0][0] // plan.rows)
    number = stripe.Index(blocks.names.fresh("tile"), count, binding=Binding.GRID)
    grid, start, values = blocks.grid(attrs.evolve(block, indices=(*block.indices, number)))
    views = blocks.views(block, buffers, values)
    matrices = [_matrix(views[name]) for name in (*special.inputs, *special.outputs)]
    tile_number = values[number.name] if count > 1 else Affine()
    first = (count - 1 - tile_number) * plan.rows  # where the mask is a triangle, the longest rows come first
    return grid, (*start, *_Builder.of(blocks, plan, matrices, first).statements())


def _matrix(view: View) -> Matrix:
    found = matrix_of(stripe.Refinement("", stripe.Direction.IN, "", (), view.shape))
    assert found is not None
    (rows, stride), (columns, _) = found
    return Matrix(view.array, view.offset, rows, stride, columns, view.shape.dtype)


@attrs.frozen(eq=False, repr=False)
class _Builder(Softmax):
    """Builds the body of one kernel."""

    @classmethod
    def of(cls, blocks: BlockLowering, plan: Attending, matrices: list[Matrix], first: Affine) -> _Builder:
        """Choose names."""
        queries, keys, values, _ = matrices
        dtype = queries.dtype
        stages = (
            tile(blocks, "queries", dtype, plan.rows, queries.columns),
            tile(blocks, "keys", dtype, plan.keys, keys.columns),
            tile(blocks, "values", dtype, plan.keys, values.columns),
        )
        thread, team, row, quad = (blocks.counter(word) for word in ("tid", "team", "own_row", "quad"))
        return cls(
            blocks, plan, first, thread, team, row, quad, matrices, stages,
            {word: blocks.names.fresh(word) for word in WORDS},
            tuple(blocks.names.fresh("result") for _ in stages[2]),
        )  # fmt: skip

    def statements(self) -> tuple[sem.Stmt, ...]:
        """Return the body of the kernel."""
        plan, keys = self.plan, self.matrices[1]
        begin, end = (self.blocks.counter(word) for word in ("begin", "end"))
        step = self.blocks.counter("step")
        lowest, highest = self._range(-(-keys.rows // plan.keys))
        return (
            *self._coordinates(),
            *self._declarations(),
            sem.Declare(begin, lowest),
            sem.Declare(end, highest),
            *self._copies(0, 0, self.first),
            *self._copies(1, 1, Affine.index(begin.name) * plan.keys),
            sem.For(step, begin, end, 1, self._step(step, end)),
            *self._finish(),
        )

    def _declarations(self) -> tuple[sem.Stmt, ...]:
        wide, scores = DType.F32, self.scores
        sizes = {"scores": scores}
        arrays = [
            sem.DeclareArray(self.names[word], wide, sizes.get(word, self.slots))
            for word in ("scores", "top", "total", "factor", "less")
        ]
        weights = sem.DeclareArray(self.names["weights"], self.matrices[0].dtype, scores)
        sums = [
            sem.DeclareArray(name, wide, panel.width * self.plan.tall // self.fragment.threads)
            for name, panel in zip(self.results, self.stages[2], strict=True)
        ]
        shared = sem.DeclareArray(self.names["shared"], wide, self.plan.rows * QUAD, sem.Region.LOCAL)
        slot = self.blocks.counter("slot")
        start = self._unrolled(
            slot, self.slots,
            sem.Assign(self._held("top", slot), sem.Const(-math.inf, _WIDE)),
            sem.Assign(self._held("total", slot), sem.Const(0.0, _WIDE)),
        )  # fmt: skip
        stages = [panel.declaration() for stage in self.stages for panel in stage]
        zeros = [self._zeros(each.name, each.size) for each in sums]
        return (*stages, shared, *arrays, weights, *sums, start, *zeros)

    def _range(self, tiles: int) -> tuple[sem.Expr, sem.Expr]:
        """Return the tiles of keys that the queries of a group see, of all that there are."""
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
        return lowest, highest

    def _step(self, step: sem.Var, end: sem.Var) -> tuple[sem.Stmt, ...]:
        """Return what is done for a tile of keys."""
        place = Affine.index(step.name) * self.plan.keys
        more = self._op(Op.CMP_LT, self.blocks.offsets.scalar(Affine.index(step.name) + 1), end)
        return (
            sem.AsyncWait(0),
            sem.Barrier(),  # keys are there, and nobody reads the values before any more
            *self._copies(2, 2, place),
            self._zeros(self.names["scores"], self.scores),
            *self._products_of_keys(),
            *self._masked(place),
            *self._shared_maxima(),
            sem.AsyncWait(0),
            sem.Barrier(),  # values and maxima are there, and nobody reads the keys any more
            sem.If(more, self._copies(1, 1, place + self.plan.keys)),
            self._running(),
            *self._weights(),
            *self._products_of_values(),
        )

    def _products_of_keys(self) -> tuple[sem.Stmt, ...]:
        rows = Affine.index(self.team.name) * self.plan.tall
        return tuple(
            sem.MatrixMultiply(
                self.fragment.name,
                (self.plan.tall, self.plan.keys, left.width),
                sem.Subscript(self.names["scores"], self._number(0), _WIDE),
                operand(self.blocks, left, rows, across=True),
                operand(self.blocks, right, Affine(), across=False),
            )
            for left, right in zip(self.stages[0], self.stages[1], strict=True)
        )

    def _products_of_values(self) -> tuple[sem.Stmt, ...]:
        kind = sem.Type(self.matrices[0].dtype)
        weights = sem.MatrixOperand(
            sem.Subscript(self.names["weights"], self._number(0), kind), (0, 0), held=self.scores
        )
        return tuple(
            sem.MatrixMultiply(
                self.fragment.name,
                (self.plan.tall, right.width, self.plan.keys),
                sem.Subscript(name, self._number(0), _WIDE),
                weights,
                operand(self.blocks, right, Affine(), across=True),
            )
            for name, right in zip(self.results, self.stages[2], strict=True)
        )

    def _copies(self, matrix: int, stage: int, first: Affine) -> tuple[sem.Stmt, ...]:
        staged = self.stages[stage]
        return copies(self.blocks, self.matrices[matrix], staged, first, self.plan.threads, self.thread)

    def _zeros(self, name: str, size: int) -> sem.Stmt:
        counter = self.blocks.counter("element")
        return self._unrolled(counter, size, sem.Assign(sem.Subscript(name, counter, _WIDE), sem.Const(0.0, _WIDE)))
