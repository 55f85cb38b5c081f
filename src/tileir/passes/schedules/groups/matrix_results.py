"""Results of products on their way to memory: threads hold pieces of many rows, and memory wants rows.

What four warps hold of a product are pairs of neighbours, of which a warp has those of eight rows. Written as they are,
they fill a part of each line of memory at a time. So some columns at a time go to local memory, and from there whole
vectors to where neighbouring threads write neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core import attrs
from tileir.core.fragments import Where
from tileir.passes.kernels import schedule as sch
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Use
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding
from tileir.stripe.tags import SWIZZLE_MASK, SWIZZLE_SHIFT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.core.text.names import NameScope
    from tileir.passes.schedules.groups.matrix_plan import MatrixTiling

_LINE: Final = 128
"""Bytes of all banks of local memory."""

_WIDTHS: Final = (256, 128, 64)
"""Bytes of the rows that lie in local memory at a time: threads meet less often where these are more."""

_VECTOR: Final = 16
"""Bytes that a thread writes at a time."""

_ROWS: Final = 8
"""Rows after which the places of vectors in local memory are the same again."""

_PIECE: Final = 8
"""Columns after which a thread has its next ones."""


def staged_columns(nest: Nest, plan: MatrixTiling, most: int) -> int:
    """Return how many columns of a tile may be written at a time through ``most`` bytes of local memory.

    0 says that results are written as threads hold them.
    """
    fragment, column = plan.fragment, plan.right.index
    written = sch.written_uses(nest)
    if fragment.a.where is not Where.LOCAL or len(written) != 1:
        return 0
    (out,) = written
    size = out.dtype.itemsize
    lanes = _VECTOR // size
    single = plan.wide == plan.columns == fragment.mnk[1] and plan.tall == fragment.mnk[0]
    plain = out.direction is stripe.Direction.OUT and out.aggregation is None
    own = any(out in segment.uses and not segment.loops for segment in nest.segments)
    indirect = any(segment.has_indirect_store for segment in nest.segments)
    again = any(use.root == out.root for use in nest.uses if use is not out)
    narrow = plan.columns * size < _LINE
    if not (single and plain and own) or indirect or again or narrow or size > 2 or plan.masks:
        return 0
    if column.range % lanes or sch.aligned_lanes((out,), column.name, lanes) != lanes:
        return 0
    for width in (width // size for width in _WIDTHS if plan.rows * width <= most):
        rows = max(1, plan.threads * lanes // width)
        down = min(rows, plan.across)
        if plan.columns % width == rows % down == plan.across % down == plan.high % (rows // down) == 0:
            return width
    return 0


@attrs.frozen(eq=False)
class Results:
    """Some columns of the results of a tile in local memory.

    Attributes:
        plan: The sizes of the tile.
        out: What is written.
        stage: The local memory.
        turn: Which columns these are.
        inner: What stands for the index of a thread's pieces of a row, within these.

    """

    plan: MatrixTiling
    out: Use
    stage: stripe.Refinement
    turn: stripe.Index
    inner: stripe.Index

    @classmethod
    def of(cls, nest: Nest, plan: MatrixTiling, names: NameScope) -> Results:
        """Choose names."""
        (out,) = sch.written_uses(nest)
        width = plan.staged
        stage = stripe.allocation(names.fresh(f"{out.root}_stage"), out.dtype, (plan.rows, width), sch.LOCAL)
        piece = _VECTOR // out.dtype.itemsize
        shift = (max(width, _LINE // out.dtype.itemsize) // piece).bit_length() - 1
        mask = (min(_ROWS, width // piece) - 1) * piece
        stage = attrs.evolve(stage, tags=stripe.Tags.of(**{SWIZZLE_SHIFT: shift, SWIZZLE_MASK: mask}))
        column = plan.right.index.name
        turn = sch.index(names.fresh(f"{column}_turn"), plan.columns // width, Binding.UNROLL)
        inner = sch.index(names.fresh(f"{column}_part"), width // _PIECE, Binding.UNROLL)
        return cls(plan, out, stage, turn, inner)

    @property
    def part(self) -> Affine:
        """The number of a thread's piece in its row."""
        return sch.part(self.inner) + sch.part(self.turn, self.inner.range)

    def written(self, use: Use, row: Affine, column: Affine) -> Use:
        """Return a use with local memory in place of what is written, at a row and a column of it."""
        if use.name != self.out.name:
            return use
        return attrs.evolve(use, root=self.stage.name, access=(row, column), strides=self.stage.shape.strides, sizes=())

    def copied(
        self,
        names: NameScope,
        starts: Mapping[str, Affine],
        inside: Callable[[stripe.Index, int, Affine], tuple[Affine, ...]],
    ) -> Node:
        """Return the block that copies the columns; the tile begins at ``starts``, and ``inside`` tests for its end."""
        plan, width = self.plan, self.plan.staged
        lanes = _VECTOR // self.out.dtype.itemsize
        row, column, above = plan.left.index, plan.right.index, plan.above
        lane = sch.index(names.fresh("lane"), lanes, Binding.LANE)
        across = sch.index(names.fresh(f"{column.name}_copy"), width // lanes, Binding.THREAD)
        rows, of_team = plan.threads // plan.teams // across.range, plan.across // plan.teams
        down = sch.index(names.fresh(f"{row.name}_copy"), min(rows, of_team), Binding.THREAD)
        more = sch.index(names.fresh(f"{row.name}_more"), of_team // down.range, Binding.UNROLL)
        team = sch.index(names.fresh(f"{row.name}_team"), plan.teams, Binding.THREAD)  # each copies its own rows
        top = row if above is None else above
        high = sch.index(names.fresh(f"{top.name}_copy"), rows // down.range, Binding.THREAD)
        higher = sch.index(names.fresh(f"{top.name}_more"), plan.high // high.range, Binding.UNROLL)
        up, there = (sch.part(outer, inner.range) + sch.part(inner) for outer, inner in ((higher, high), (more, down)))
        there = there + sch.part(team, of_team)
        first = sch.part(across, lanes)
        place = sch.part(self.turn, width) + first
        values = {**starts, row.name: starts[row.name] + there}
        values[column.name] = starts[column.name] + place + sch.part(lane)
        if above is not None:
            values[above.name] = starts[above.name] + up
        access = (there + up * plan.across, first + sch.part(lane))
        held = Use(self.stage.name, self.stage.name, access, self.stage.shape.strides, self.out.dtype, _IN)
        statements = (stripe.Load(held.name, "value"), stripe.Store("value", self.out.name))
        move = Node(sch.present((lane,)), statements=statements, uses=(held, self.out.substitute(values)))
        tests = (*inside(row, plan.across, there), *inside(column, plan.columns, place))
        tests = (*(() if above is None else inside(above, plan.high, up)), *tests)
        around = Node(sch.present((higher, more)), children=(Node(children=(move,), constraints=tests),))
        return Node(sch.present((team, high, down, across)), children=(around,))


_IN: Final = stripe.Direction.IN
