"""Stores of products through local memory: threads hold pieces of many rows, and memory wants whole rows.

Four warps hold pairs of adjacent results, a warp those of eight rows. Stored directly, they would fill a part of each
memory line at a time. So some columns at a time go to local memory, and from there as coalesced whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tileir.core import NameScope, attrs
from tileir.core.fragments import OperandMemory
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.groups.matrix.plan import MatrixTiling
from tileir.poly.affine import Affine
from tileir.schedule.nest import Nest, Node, Use
from tileir.stripe import ir as stripe

_LINE: Final = 128
"""Bytes of all banks of local memory together."""

_WIDTHS: Final = (256, 128, 64)
"""Bytes of rows in local memory at a time; wider rows need fewer barriers."""

_VECTOR: Final = 16
"""Bytes of a thread's vector store."""

_ROWS: Final = 8
"""Period, in rows, of the places of vectors in local memory."""

_PIECE: Final = 8
"""Distance, in columns, between pieces of a thread."""

_LEAST_ROW: Final = 32
"""Minimum bytes of a row of a swizzled box."""

_SIDE: Final = 256
_AXES: Final = 5
"""Maximum elements of a box along an axis, and maximum axes."""


def staged_columns(nest: Nest, plan: MatrixTiling, most: int) -> int:
    """Return the columns of a tile written at a time through ``most`` bytes of local memory.

    0 for direct stores from registers.
    """
    fragment, column = plan.fragment, plan.right.index
    written = sch.written_uses(nest)
    if fragment.a.where is not OperandMemory.LOCAL or len(written) != 1:
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
        rows = _at_a_time(plan, width, lanes)
        down = min(rows, plan.across)
        if plan.columns % width == rows % down == plan.across % down == plan.high % (rows // down) == 0:
            return width
    return 0


def stored_boxes(nest: Nest, plan: MatrixTiling, most: int) -> int:
    """Return the boxes of results that fit ``most`` bytes of local memory, at most those of a tile.

    0 if results are not stored as boxes, such as those of windows, and those with rows misaligned to cache lines: on an
    H200, a product at 3000 took 111.5 us with boxes instead of 110.5.
    """
    if not plan.staged or plan.rows > _SIDE or plan.repeats > 1 or plan.constraints:
        return 0
    (out,) = sch.written_uses(nest)
    widths, size = _widths(plan, out), out.dtype.itemsize
    if widths[-1] * size < _LEAST_ROW or _box(nest, plan, out, widths[0]) is None:
        return 0
    whole = widths.count(widths[0])
    rest = sum(widths[whole:])
    return max(0, min(whole, (most // (plan.rows * size) - rest) // widths[0]))


def _widths(plan: MatrixTiling, out: Use) -> tuple[int, ...]:
    """Return the columns of each box of a tile: those of all banks, except for the last box."""
    line = _LINE // out.dtype.itemsize
    whole, rest = divmod(plan.columns, line)
    return (line,) * whole + (rest,) * (rest > 0)


def _box(nest: Nest, plan: MatrixTiling, out: Use, width: int) -> stripe.CopyBack | None:
    """Return how ``width`` columns of a team are stored as a box; None if the layout of results does not allow that."""
    ranges = {index.name: index.range for index in nest.indices}
    sizes = {plan.left.index.name: plan.across // plan.teams, plan.right.index.name: width}
    if plan.above is not None:
        sizes = {plan.above.name: plan.high, **sizes}
    box, extents, moved = [], [], []
    for access in out.access:
        names = [name for name in access.indices if ranges[name] > 1]
        if len(names) > 1 or access.offset or any(access.coefficient(name) != 1 for name in names):
            return None
        (name,) = names or ("",)
        moved += [name] * (name in sizes)
        box.append(sizes.get(name, 1))
        extents.append(ranges.get(name, 1))
    lines = all(each * out.dtype.itemsize % _LINE == 0 < each for each in out.strides[:-1])
    if moved != list(sizes) or len(box) > _AXES or not lines or out.strides[-1] != 1:
        return None
    return stripe.CopyBack(tuple(box), tuple(extents), tuple(out.strides))


def _at_a_time(plan: MatrixTiling, width: int, lanes: int) -> int:
    rows = max(1, plan.threads * lanes // width)
    return rows if plan.rows % rows == 0 else sch.power_of_two_below(rows)


def _stage(out: Use, plan: MatrixTiling, names: NameScope, width: int) -> stripe.Refinement:
    vector, line = _VECTOR // out.dtype.itemsize, _LINE // out.dtype.itemsize
    stage = stripe.allocation(names.fresh(f"{out.root}_stage"), out.dtype, (plan.rows, width), sch.LOCAL)
    shift = (max(width, line) // vector).bit_length() - 1
    mask = (min(_ROWS, width // vector) - 1) * vector
    return attrs.evolve(stage, tags=stripe.Tags.of(**{stripe.SWIZZLE_SHIFT: shift, stripe.SWIZZLE_MASK: mask}))


@attrs.frozen(eq=False)
class Results:
    """Some columns of the results of a tile in local memory.

    Attributes:
        plan: The sizes of the tile.
        out: The output.
        stage: The local memory.
        start: The first of the columns.
        inner: Value of the index of a thread's pieces of a row, within these columns.
        store: The box store; None if threads store.
    """

    plan: MatrixTiling
    out: Use
    stage: stripe.Refinement
    start: Affine
    inner: stripe.Index
    store: stripe.CopyBack | None = None

    @classmethod
    def in_turn(
        cls, nest: Nest, plan: MatrixTiling, names: NameScope
    ) -> tuple[tuple[stripe.Index, ...], list[Results]]:
        """Choose names; return the index of turns and the results of a turn, or the results of each box."""
        (out,) = sch.written_uses(nest)
        column = plan.right.index.name
        if not plan.slots:
            turn = sch.index(names.fresh(f"{column}_turn"), plan.columns // plan.staged, stripe.Binding.UNROLL)
            inner = sch.index(names.fresh(f"{column}_part"), plan.staged // _PIECE, stripe.Binding.UNROLL)
            start = sch.part(turn, plan.staged)
            return sch.present((turn,)), [cls(plan, out, _stage(out, plan, names, plan.staged), start, inner)]
        widths, found = _widths(plan, out), list[Results]()
        stages = [_stage(out, plan, names, widths[0]) for _ in range(plan.slots)]
        for number, width in enumerate(widths):
            own = stages[number % plan.slots] if width == widths[0] else _stage(out, plan, names, width)
            inner = sch.index(names.fresh(f"{column}_part"), width // _PIECE, stripe.Binding.UNROLL)
            found.append(cls(plan, out, own, Affine.constant(number * widths[0]), inner, _box(nest, plan, out, width)))
        if widths[-1] < widths[0]:  # it has its own memory: it is computed while the first one is stored
            found.insert(1, found.pop())
        return (), found

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.inner.range * _PIECE

    @property
    def part(self) -> Affine:
        """The number of a thread's piece in its row."""
        return sch.part(self.inner) + self.start / _PIECE

    def written(self, use: Use, row: Affine, column: Affine) -> Use:
        """Return a use with local memory in place of the output, at a row and a column of it."""
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
        plan, width = self.plan, self.width
        lanes = _VECTOR // self.out.dtype.itemsize
        row, column, above = plan.left.index, plan.right.index, plan.above
        lane = sch.index(names.fresh("lane"), lanes, stripe.Binding.LANE)
        across = sch.index(names.fresh(f"{column.name}_copy"), width // lanes, stripe.Binding.THREAD)
        rows, of_team = _at_a_time(plan, width, lanes) // plan.teams, plan.across // plan.teams
        down = sch.index(names.fresh(f"{row.name}_copy"), min(rows, of_team), stripe.Binding.THREAD)
        more = sch.index(names.fresh(f"{row.name}_more"), of_team // down.range, stripe.Binding.UNROLL)
        team = sch.index(names.fresh(f"{row.name}_team"), plan.teams, stripe.Binding.THREAD)  # each copies its own rows
        top = row if above is None else above
        high = sch.index(names.fresh(f"{top.name}_copy"), rows // down.range, stripe.Binding.THREAD)
        higher = sch.index(names.fresh(f"{top.name}_more"), plan.high // high.range, stripe.Binding.UNROLL)
        up, there = (sch.part(outer, inner.range) + sch.part(inner) for outer, inner in ((higher, high), (more, down)))
        there = there + sch.part(team, of_team)
        first = sch.part(across, lanes)
        place = self.start + first
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
        return Node(sch.present((team, high, down, across)), children=(around,), instruction=self.store)


_IN: Final = stripe.Direction.IN
