"""Lowering of the special ``add_segments``: threads, each with some columns and a part of the keys, add up segments.

A thread loads several keys and updates before it adds any of them, so that their loads are in flight together. If a
key differs from the previous one, the sum so far is stored: in the table or, for the first and the last segment of
the part, in the carried sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.loops import grid_indices
from tileir.semtree.lower.views import View, cast, clamped
from tileir.stripe import ir as stripe
from tileir.stripe.segments import SegmentParameters

_AHEAD: Final = 8
"""Number of updates that a thread reads before it adds them."""


def adding_kernel(
    blocks: BlockLowering,
    block: stripe.Block,
    buffers: Mapping[str, View],
    special: stripe.Special,
    plan: SegmentParameters,
) -> tuple[tuple[int, ...], tuple[sem.Stmt, ...]]:
    """Return the grid and the body of a kernel; the grid has additional axes over columns and parts."""
    size = block.refinement(special.inputs[0]).shape.elements
    columns = block.refinement(special.inputs[1]).shape.elements // size
    rows = [block.refinement(name) for name in (special.inputs[1], special.outputs[0], *special.outputs[2:])]
    lanes = _lanes(blocks, columns, rows)
    team = min(plan.threads, columns // lanes)
    beside = plan.threads // team
    along = stripe.Index(blocks.names.fresh("columns"), -(-columns // (team * lanes)), binding=stripe.Binding.GRID)
    parts = stripe.Index(blocks.names.fresh("parts"), -(-plan.parts(size) // beside), binding=stripe.Binding.GRID)
    indices = tuple(index for index in (*grid_indices(block), along, parts) if index.range > 1)
    grid, start, values = blocks.grid(attrs.evolve(block, indices=indices))
    views = blocks.views(block, dict(buffers), values)
    adding = _SegmentSums.of(
        blocks, plan, [[views[name] for name in names] for names in (special.inputs, special.outputs)], lanes
    )
    tid, part, column = (blocks.counter(word) for word in ("tid", "part", "column"))
    own = (tid, adding.number(team))
    body: list[sem.Stmt] = [*start, sem.Declare(tid, sem.GridIndex(sem.GridLevel.LOCAL, 0, tid.type))]
    body.append(sem.Declare(part, adding.sum(values.get(parts.name, Affine()) * beside, sem.Apply(Op.DIV, own))))
    first = sem.Apply(Op.ADD, (adding.at(values.get(along.name, Affine()) * team), sem.Apply(Op.MOD, own)))
    body.append(sem.Declare(column, sem.Apply(Op.MUL, (first, adding.number(lanes)))))
    inside = [(part, plan.parts(size)), (column, columns), (tid, team * beside)]
    tests = [sem.Apply(Op.CMP_LT, (each, adding.number(most))) for each, most in inside]
    both = sem.Apply(Op.BIT_AND, (sem.Apply(Op.BIT_AND, (tests[0], tests[1])), tests[2]))
    body.append(sem.If(both, tuple(adding.part(part, column, size, columns))))
    return grid, tuple(body)


def _lanes(blocks: BlockLowering, columns: int, rows: list[stripe.Refinement]) -> int:
    """Return the columns of a row that are read at once: a vector that divides rows."""
    lanes = min(blocks.target.lanes(view.shape.dtype) for view in rows)
    steps = [_row_stride(view.shape, columns) for view in rows]
    for view in rows:
        for affine, dim in zip(view.access, view.shape.dims, strict=True):
            steps += [int(step) * dim.stride for step in (affine.offset, *(each for _, each in affine.terms))]
    while lanes > 1 and any(step % lanes for step in (columns, *steps)):
        lanes //= 2
    return lanes


@attrs.frozen(eq=False, repr=False)
class _SegmentSums:
    """Inputs, outputs and state of a thread.

    Attributes:
        blocks: Names and offsets.
        plan: The parameters, with the keys of a part.
        inputs: Keys, updates, and optionally places.
        outputs: The table, and optionally carried keys and sums.
        lanes: Columns of a thread.
        key: The key of the current segment.
        total: The sum of the segment so far.
        later: Whether the segment is not the first one of the part.
    """

    blocks: BlockLowering
    plan: SegmentParameters
    inputs: list[View]
    outputs: list[View]
    lanes: int
    key: sem.Var
    total: sem.Var
    later: sem.Var

    @classmethod
    def of(cls, blocks: BlockLowering, plan: SegmentParameters, views: list[list[View]], lanes: int) -> _SegmentSums:
        """Choose names."""
        inputs, outputs = views
        key = sem.Type(blocks.offsets.dtype)
        total = sem.Type(outputs[0].shape.dtype, lanes)
        names = [
            sem.Var(blocks.names.fresh(w), k)
            for w, k in (("key", key), ("total", total), ("later", sem.Type(DType.BOOL)))
        ]
        return cls(blocks, plan, inputs, outputs, lanes, names[0], names[1], names[2])

    def part(self, part: sem.Var, column: sem.Var, size: int, columns: int) -> list[sem.Stmt]:
        """Return the work of a thread."""
        begin, end, whole = (self.blocks.counter(word) for word in ("begin", "end", "whole"))
        step = self.plan.part or size
        first = sem.Apply(Op.MUL, (part, self.number(step)))
        behind = sem.Apply(Op.MIN, (sem.Apply(Op.ADD, (begin, self.number(step))), self.number(size)))
        count = sem.Apply(Op.SUB, (end, begin))
        even = sem.Apply(Op.SUB, (count, sem.Apply(Op.MOD, (count, self.number(_AHEAD)))))
        zero = sem.Const.of(0, self.total.type)
        body: list[sem.Stmt] = [
            sem.Declare(begin, first),
            sem.Declare(end, behind),
            sem.Declare(whole, sem.Apply(Op.ADD, (begin, even))),
            sem.Declare(self.key, self.key_at(begin)),
            sem.Declare(self.total, zero),
            sem.Declare(self.later, sem.Const(not self.plan.part, self.later.type)),
        ]
        for start, stop, ahead in ((begin, whole, _AHEAD), (whole, end, 1)):
            counter = self.blocks.counter("k")
            body.append(sem.For(counter, start, stop, ahead, tuple(self.steps(counter, column, part, columns, ahead))))
        if not self.plan.part:
            return [*body, *self.stored(column, part, columns)]
        keys, both = self.outputs[1], sem.Apply(Op.MUL, (part, self.number(2)))
        own = [(both, self.key_at(begin)), (sem.Apply(Op.ADD, (both, self.number(1))), self.key)]
        told = [sem.Assign(self.element(keys, place, 1), cast(key, keys.shape.dtype)) for place, key in own]
        body.append(sem.If(sem.Apply(Op.CMP_EQ, (column, self.number(0))), tuple(told)))
        last = (sem.Assign(self.carried(part, 1, column, columns), self.total),)
        alone = (
            sem.Assign(self.carried(part, 0, column, columns), self.total),
            sem.Assign(self.carried(part, 1, column, columns), zero),
        )
        return [*body, sem.If(self.later, last, alone)]

    def steps(self, counter: sem.Var, column: sem.Var, part: sem.Var, columns: int, ahead: int) -> list[sem.Stmt]:
        """Return the work of a thread on some keys: it first reads all of them and their updates."""
        loads: list[sem.Stmt] = []
        read: list[tuple[sem.Var, sem.Var]] = []
        keys = self.neighbours("own", self.inputs[0], counter, ahead, loads)
        rows: list[sem.Expr] = [sem.Apply(Op.ADD, (counter, self.number(n))) if n else counter for n in range(ahead)]
        if self.plan.placed:
            rows = [*self.neighbours("row", self.inputs[2], counter, ahead, loads)]
        for key, row in zip(keys, rows, strict=True):
            place = self.row_of(self.inputs[1], row, columns, column)
            update = cast(self.element(self.inputs[1], place, self.lanes), self.total.type.dtype)
            read.append((key, self.declared("update", update, loads)))
        zero = sem.Const.of(0, self.total.type)
        for key, update in read:
            other = sem.Apply(Op.CMP_NE, (key, self.key))
            fresh = (*self.stored(column, part, columns), sem.Assign(self.total, zero), sem.Assign(self.key, key))
            loads += [sem.If(other, fresh), sem.Assign(self.total, sem.Apply(Op.ADD, (self.total, update)))]
        return loads

    def neighbours(self, word: str, view: View, first: sem.Var, count: int, loads: list[sem.Stmt]) -> list[sem.Var]:
        """Return ``count`` contiguous row numbers, read as vectors."""
        limit = self.outputs[0].shape.dims[0].size if view is self.inputs[0] else self.inputs[0].shape.elements
        index = self.blocks.offsets.dtype
        lanes = min(self.blocks.target.lanes(view.shape.dtype), count)
        found: list[sem.Var] = []
        for start in range(0, count, lanes):
            place = sem.Apply(Op.ADD, (first, self.number(start))) if start else first
            read = self.declared("read", self.element(view, place, lanes), loads)
            parts = [sem.Shuffle((read,), (lane,)) for lane in range(lanes)] if lanes > 1 else [read]
            found += [self.declared(word, clamped(part, limit, index), loads) for part in parts]
        return found

    def stored(self, column: sem.Var, part: sem.Var, columns: int) -> list[sem.Stmt]:
        """Return the store of the sum of a segment that is followed by another."""
        table = self.outputs[0]
        put = sem.Assign(self.element(table, self.row_of(table, self.key, columns, column), self.lanes), self.total)
        if not self.plan.part:
            return [put]
        first = sem.Assign(self.carried(part, 0, column, columns), self.total)
        return [
            sem.If(self.later, (put,), (first, sem.Assign(self.later, sem.Const(value=True, type=self.later.type))))
        ]

    def carried(self, part: sem.Var, which: int, column: sem.Var, columns: int) -> sem.Subscript:
        """Return the place of the first, or the last, carried sum of a part."""
        number = sem.Apply(Op.ADD, (sem.Apply(Op.MUL, (part, self.number(2))), self.number(which)))
        return self.element(self.outputs[2], self.row_of(self.outputs[2], number, columns, column), self.lanes)

    def row_of(self, view: View, row: sem.Expr, columns: int, column: sem.Var) -> sem.Expr:
        """Return the place of a column in a row: rows are at the stride of the innermost axis of rows."""
        step = _row_stride(view.shape, columns)
        return sem.Apply(Op.ADD, (sem.Apply(Op.MUL, (row, self.number(step))), column))

    def key_at(self, place: sem.Expr) -> sem.Expr:
        """Return a key as the number of a row."""
        rows = self.outputs[0].shape.dims[0].size
        return clamped(self.element(self.inputs[0], place, 1), rows, self.blocks.offsets.dtype)

    def element(self, view: View, place: sem.Expr, lanes: int) -> sem.Subscript:
        """Return ``lanes`` elements of a view, ``place`` elements after its first."""
        offset = self.sum(view.offset, place)
        return sem.Subscript(view.array, offset, sem.Type(view.shape.dtype, lanes))

    def declared(self, word: str, value: sem.Expr, body: list[sem.Stmt]) -> sem.Var:
        """Return a variable for a value."""
        variable = sem.Var(self.blocks.names.fresh(word), value.type)
        body.append(sem.Declare(variable, value))
        return variable

    def sum(self, affine: Affine, value: sem.Expr) -> sem.Expr:
        """Return the sum of an affine and a value."""
        return value if affine == Affine() else sem.Apply(Op.ADD, (self.at(affine), value))

    def at(self, affine: Affine) -> sem.Expr:
        """Return an affine as a number."""
        return self.blocks.offsets.scalar(affine)

    def number(self, value: int) -> sem.Const:
        """Return a number."""
        return self.blocks.offsets.constant(value)


def _row_stride(shape: stripe.TensorShape, columns: int) -> int:
    """Return the stride of the rows of a view, which are ``columns`` elements long."""
    inner = 1
    for dim in reversed(shape.dims):
        if dim.size > 1 and inner >= columns:
            return dim.stride
        inner *= dim.size
    return columns
