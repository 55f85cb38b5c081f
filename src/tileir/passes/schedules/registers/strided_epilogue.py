"""Epilogues of a reduction in registers with accesses that are strided along the lanes.

Each vector access would take an instruction per lane. If rows of the tile are contiguous in memory instead, as with
columns of a channels-first picture whose channels are lanes, squares of the finished sums are transposed in vector
registers, and lanes run along the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tileir.core import NameScope, attrs
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.registers.panels import Columns
from tileir.poly.affine import Affine
from tileir.schedule.emission import nodes_of
from tileir.schedule.nest import Node, Segment, Use, leaf, product
from tileir.schedule.steps.tensors import turned_tile
from tileir.stripe import ir as stripe

_LEAST_TURNED: Final = 4
_MOST_TURNED: Final = 8
"""Maximum rows of transposed squares, which take half the vector registers of the smallest set."""

_LONG: Final = 8
"""Minimum weight of the operations of an epilogue that is computed before sums are transposed."""

_APART: Final = 12.0
"""Cost of a strided store or load of a lane after a reduction: a cache line for each."""


def apart(uses: Sequence[Use], count: int, lanes: int, rows: Mapping[str, int], *, overlaps: bool) -> float:
    """Return the cost, in vector multiply-adds, of a point's accesses that are strided along the lanes.

    Args:
        uses: The accesses before and after the reductions.
        count: The number of those that are strided.
        lanes: Lanes of a vector.
        rows: Number of values of each index in a tile.
        overlaps: Whether elements may be stored twice.
    """
    sizes = [square(lanes, height, overlaps=overlaps) for height in _runs(uses, rows)]
    size = max(sizes, default=0)  # vectors of a square are loaded, shuffled for each bit of its size, and stored
    return count * ((1 + size.bit_length()) / size if size else _APART)


def _runs(uses: Sequence[Use], rows: Mapping[str, int]) -> Iterator[int]:
    """Yield the numbers of contiguous rows of a tile: those along an index, or along two that form one run."""
    for name, height in rows.items():
        if all(use.stride(name) in (0, 1) for use in uses):
            yield height
            for other, beside in rows.items():
                if all(use.stride(other) == height * use.stride(name) for use in uses):
                    yield height * beside


def square(lanes: int, height: int, *, overlaps: bool) -> int:
    """Return the size of the squares that a tile of some height is split into; 0 if it is not.

    The last squares overlap others if ``overlaps`` lets elements be stored twice.
    """
    size = min(_MOST_TURNED, lanes, sch.power_of_two_below(height))
    return size if size >= _LEAST_TURNED and (overlaps or height % size == 0) else 0


def is_spread(segment: Segment, sums: frozenset[str], vector: str) -> bool:
    """Return whether a segment reads finished sums, and has accesses that are strided along the lanes.

    Unrolled for all rows, an instruction per lane would be most of the code, and of the compile time, of a convolution
    whose channels are not innermost.
    """
    reads = [use for use in segment.uses if use.root in sums]
    if segment.loops or not reads or any(use.direction is not stripe.Direction.IN for use in reads):
        return False
    return any(use.stride(vector) not in (0, 1) for use in segment.uses if use.root not in sums)


@attrs.frozen
class StridedSums:
    """A segment for which :func:`is_spread` holds, at one tile of sums.

    Attributes:
        segment: The segment; it reads sums from the registers of the tile.
        registers: The sums, by name.
        values: The indices of the nest in terms of loops.
        rows: The loops over rows of the tile.
        vector: The index along its columns.
        columns: Its columns.
        names: All names of the kernel.
        overlaps: Whether elements may be stored twice.
    """

    segment: Segment
    registers: Mapping[str, stripe.Refinement]
    values: Mapping[str, Affine]
    rows: tuple[stripe.Index, ...]
    vector: str
    columns: Columns
    names: NameScope
    overlaps: bool

    def nodes(self) -> tuple[tuple[stripe.Refinement, ...], tuple[Node, ...]]:
        """Return the segment as loops over the tile, with memory for the sums.

        Sums are first copied to memory: a loop cannot index registers, and sums that it indexed would be in memory
        during the reduction, too.
        """
        spilled: list[stripe.Refinement] = []
        uses: list[Use] = []
        nodes: list[Node] = []
        unrolled = (*self.rows, *self.columns.vectors, *self.columns.lanes)
        # Where these fail, sums were never set.
        tests = tuple(c.substitute(self.values) for c in self.segment.constraints)
        for use in self.segment.uses:
            if use.root not in self.registers:
                uses.append(use)
                continue
            memory = attrs.evolve(self.registers[use.root], name=self.names.fresh(f"{use.root}_tile"))
            into = attrs.evolve(use, name=memory.name, root=memory.name, direction=stripe.Direction.OUT)
            copy = (stripe.Load(use.name, "sum"), stripe.Store("sum", into.name))
            moved = (use.substitute(self.values), into.substitute(self.values))
            nodes.append(Node(unrolled, statements=copy, uses=moved, constraints=tests))
            spilled.append(memory)
            uses.append(attrs.evolve(use, root=memory.name))
        segment = attrs.evolve(self.segment, uses=tuple(uses))
        if self._is_long(segment, frozenset(memory.name for memory in spilled)):
            computing, segment, results = self._ahead(segment, spilled)
            nodes.append(
                leaf(computing, self.values, (*(i.bound(None) for i in self.rows), *unrolled[len(self.rows) :]))
            )
            spilled.extend(results)
        segment = self._moved(segment)
        memories = frozenset(memory.name for memory in spilled)
        rows, along = self._joined(segment)
        row = self._row(along, memories, rows)
        if row is not None:
            nodes.extend(self._squares(along, memories, rows, row))
        else:
            loops = tuple(index.bound(None) for index in self.rows or self.columns.vectors)
            inner = self.columns.vectors if self.rows else ()
            nodes.append(leaf(segment, {}, (*loops, *inner, *self.columns.lanes)))
        return tuple(spilled), tuple(nodes)

    def _is_long(self, segment: Segment, memories: frozenset[str]) -> bool:
        """Return whether results are long to compute, from sums and operands that are contiguous or shared along lanes.

        Whole vectors of these take as long as the squares' shorter vectors, or single elements.
        """
        if not self.columns.lanes or sch.indirect_names(segment):
            return False
        others = [use for use in segment.uses if use.root not in memories]
        plain = all(size == 1 for use in segment.uses for size in use.sizes) and not any(use.merges for use in others)
        near = all(use.stride(self.vector) in (0, 1) for use in others if not use.direction.writes)
        operations = (s for s in segment.statements if isinstance(s, stripe.Intrinsic))
        return plain and near and sum(s.op.info.weight_in(s.dtype) for s in operations) >= _LONG

    def _ahead(
        self, segment: Segment, sums: Sequence[stripe.Refinement]
    ) -> tuple[Segment, Segment, list[stripe.Refinement]]:
        """Return a segment that computes results in the lanes of sums, one that copies them, and memory for them."""
        place = next(use for use in segment.uses if use.root == sums[0].name)
        computing: list[Use] = []
        copied: list[Use] = []
        copies: list[stripe.Statement] = []
        results: list[stripe.Refinement] = []
        for use in segment.uses:
            if not use.direction.writes:
                computing.append(use)
                continue
            shape = stripe.TensorShape.dense(use.dtype, sums[0].shape.sizes)
            memory = attrs.evolve(sums[0], name=self.names.fresh(f"{use.root}_tile"), shape=shape)
            there = attrs.evolve(place, name=use.name, root=memory.name, dtype=use.dtype, direction=use.direction)
            computing.append(there)
            read = attrs.evolve(there, name=memory.name, direction=stripe.Direction.IN)
            copied += (read, use)
            copies += (
                stripe.Load(read.name, f"result_{len(results)}"),
                stripe.Store(f"result_{len(results)}", use.name),
            )
            results.append(memory)
        first = attrs.evolve(segment, uses=tuple(computing))
        return first, attrs.evolve(segment, uses=tuple(copied), statements=tuple(copies)), results

    def _moved(self, segment: Segment) -> Segment:
        moved = leaf(segment, self.values, ())
        return attrs.evolve(segment, statements=moved.statements, uses=moved.uses, constraints=moved.constraints)

    def _joined(self, segment: Segment) -> tuple[tuple[stripe.Index, ...], Segment]:
        """Return the loops over rows, two joined if they are one along all axes, and the segment with these."""
        looked_at = segment.constraints or any(isinstance(each, stripe.LoadIndex) for each in segment.statements)
        if looked_at or len(self.rows) != len(("outer", "inner")):
            return self.rows, segment
        places = [place for use in segment.uses for place in use.access]
        for outer, inner in (self.rows, self.rows[::-1]):
            if all(each.coefficient(outer.name) == inner.range * each.coefficient(inner.name) for each in places):
                both = attrs.evolve(inner, name=self.names.fresh(inner.name), range=outer.range * inner.range)
                place = {outer.name: Affine(), inner.name: Affine.index(both.name)}
                return (both,), attrs.evolve(segment, uses=tuple(use.substitute(place) for use in segment.uses))
        return self.rows, segment

    def _row(self, segment: Segment, memories: frozenset[str], rows: tuple[stripe.Index, ...]) -> stripe.Index | None:
        """Return the loop along which lanes run after transposition; None if that has no benefit."""
        plain = not segment.constraints and not sch.indirect_names(segment)
        plain = plain and all(size == 1 for use in segment.uses for size in use.sizes)
        sums = [use for use in segment.uses if use.root in memories]
        if not plain or any(use.dtype.is_bool for use in sums):
            return None
        for row in rows:
            strides = [use.stride(row.name) for use in segment.uses if use.root not in memories]
            if self._size(row) and 1 in strides and all(stride in (0, 1) for stride in strides):
                return row
        return None

    def _size(self, row: stripe.Index) -> int:
        lanes = product(index.range for index in self.columns.lanes)
        return square(lanes, row.range, overlaps=self.overlaps)

    def _squares(
        self, segment: Segment, memories: frozenset[str], rows: tuple[stripe.Index, ...], row: stripe.Index
    ) -> Iterator[Node]:
        """Yield the segment over squares with lanes along a row, in one loop if equal steps reach its end.

        Squares overlap if necessary. A separate loop for the last one would take as long to compile as all the others.
        """
        size = self._size(row)
        count, rest = -(-row.range // size), row.range - size
        step = rest // max(count - 1, 1)
        if step * (count - 1) == rest:
            yield self._square(segment, memories, rows, row, count, step, 0)
        else:
            yield self._square(segment, memories, rows, row, count - 1, size, 0)
            yield self._square(segment, memories, rows, row, 1, size, rest)

    def _square(
        self,
        segment: Segment,
        memories: frozenset[str],
        rows: tuple[stripe.Index, ...],
        row: stripe.Index,
        count: int,
        step: int,
        start: int,
    ) -> Node:
        size = self._size(row)
        (lane,) = self.columns.lanes
        across, down = (
            (sch.index(self.names.fresh(f"{index.name}_square"), number), self.names.fresh(f"{index.name}_turned"))
            for index, number in ((lane, self.columns.width // size), (row, count))
        )
        column, inside = (
            sch.index(across[1], size, stripe.Binding.UNROLL),
            sch.index(down[1], size, stripe.Binding.LANE),
        )
        moved = {
            **{vector.name: Affine() for vector in self.columns.vectors},
            lane.name: sch.part(across[0], size) + sch.part(column),
            row.name: sch.part(down[0], step) + sch.part(inside) + start,
        }
        allocations: list[stripe.Refinement] = []
        fills: list[Node] = []
        uses: list[Use] = []
        for use in segment.uses:
            if use.root in memories:
                source = use.substitute(moved)
                memory, items, use = turned_tile(source, column.name, inside.name, size, self.names)
                allocations.extend(memory)
                fills.extend(nodes_of(items))
            uses.append(use)
        last = leaf(attrs.evolve(segment, uses=tuple(uses)), moved, (column, inside))
        around = (*(i.bound(None) for i in rows if i is not row), *sch.present((down[0], across[0])))
        return Node(around, tuple(allocations), (*fills, last))
