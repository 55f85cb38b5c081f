"""Counts of the statements of a kernel: operations, elements that move, and cycles of one unit.

Arithmetic that only says where elements are, how often loops run, or what a condition is, counts for nothing, as in
Stripe programs, where it is not written. Equal operations of one statement are done once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tileir.core import DType, Op, accumulator, attrs
from tileir.core.fragments import FRAGMENTS
from tileir.passes.cost.figures import Kind, kind_of
from tileir.passes.cost.machine import Machine
from tileir.semtree.analysis.effects import introduces, reads, writes
from tileir.semtree.cost.nest import THREADS, Nest, addressing, outside_offsets
from tileir.semtree.ir import (
    Apply,
    Assign,
    AsyncCopy,
    Cast,
    DeclareArray,
    Dot,
    Expr,
    Hint,
    KernelFunction,
    MatrixMultiply,
    Reduce,
    Region,
    Shuffle,
    Stmt,
    Subscript,
)
from tileir.semtree.rewrite import mentions, statements

_VALUES: Final = (Apply, Cast, Reduce, Dot, Shuffle)


@attrs.frozen
class Work:
    """Operations that one run of a statement stands for.

    Attributes:
        dtype: Of the operands.
        kind: What sort they are.
        count: How many; none for what only moves elements in registers.
        instructions: How many steps of a pipeline they take.
        rate: How many of these a unit does in a cycle.
        depends: The loops on which they depend.

    """

    dtype: DType
    kind: Kind
    count: int
    instructions: float
    rate: float
    depends: frozenset[int]


@attrs.frozen
class Transfer:
    """Elements that one run of a statement moves.

    Attributes:
        array: From or to which array.
        region: Where that lies; None for memory.
        place: Tells equal elements of an array.
        lanes: How many.
        itemsize: Bytes of one.
        pieces: How many instructions it takes.
        written: Whether they are written.
        depends: The loops on which the place depends.

    """

    array: str
    region: Region | None
    place: object
    lanes: int
    itemsize: int
    pieces: int
    written: bool
    depends: frozenset[int]


@attrs.frozen(eq=False, repr=False)
class Counter:
    """Counts what statements of one kernel do on a machine."""

    kernel: KernelFunction
    nest: Nest
    machine: Machine
    regions: Mapping[str, Region]
    places: frozenset[str]

    @classmethod
    def of(cls, kernel: KernelFunction, nest: Nest, machine: Machine) -> Counter:
        """Return a counter for a kernel that obeys the rules."""
        arrays = (stmt for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray))
        return cls(kernel, nest, machine, {each.name: each.region for each in arrays}, addressing(kernel))

    def work(self, stmt: Stmt) -> Iterator[Work]:
        """Yield the operations of a statement, nested ones left out."""
        if isinstance(stmt, MatrixMultiply):
            yield self._product(stmt)
            return
        if isinstance(stmt, Hint) or any(name in self.places for name in introduces(stmt)):
            return
        nodes = (node for root in mentions(stmt) for node in outside_offsets(root) if isinstance(node, _VALUES))
        yield from map(self._value, dict.fromkeys(nodes))

    def _value(self, node: Expr) -> Work:
        depends = self.nest.moves_with(node)
        match node:
            case Apply(op=op, args=args):
                kind = args[-1].type
                weight = op.info.weight_in(kind.dtype)
                computing = accumulator(kind.dtype)
                fused = op is Op.FMA
                rate = self.machine.instructions(computing) if fused else self.machine.plain_instructions(computing)
                steps = weight * self._vectors(kind.lanes, kind.dtype)
                return Work(kind.dtype, kind_of(op), kind.lanes * weight * (1 + fused), steps, rate, depends)
            case Cast(operand=operand, type=kind):
                wide = max(kind.dtype, operand.type.dtype, key=lambda each: each.itemsize)
                rate = self.machine.plain_instructions(wide)
                return Work(kind.dtype, Kind.CONVERSION, kind.lanes, self._vectors(kind.lanes, wide), rate, depends)
            case Reduce(operand=operand):
                lanes, dtype = operand.type.lanes, operand.type.dtype
                steps = 2 * (lanes - 1).bit_length()
                return Work(dtype, Kind.ARITHMETIC, lanes - 1, steps, self.machine.plain_instructions(dtype), depends)
            case Dot(left=left, total=total):
                lanes, dtype = left.type.lanes, total.type.dtype
                steps = self._vectors(lanes, left.type.dtype)
                rate = self.machine.instructions(accumulator(dtype))
                return Work(dtype, Kind.MULTIPLY_ADD, 2 * lanes, steps, rate, depends)
            case _:
                dtype = node.type.dtype
                steps = self._vectors(node.type.lanes, dtype)
                return Work(dtype, Kind.ARITHMETIC, 0, steps, self.machine.plain_instructions(dtype), depends)

    def _product(self, stmt: MatrixMultiply) -> Work:
        """Return a thread's share of a product that all threads of its group do together."""
        rows, columns, depth = stmt.tile
        dtype = stmt.left.start.type.dtype
        threads = self.nest.trips.get(THREADS, 1)
        count = 2 * rows * columns * depth // threads
        rate = self.machine.matrix_rate(dtype)
        return Work(dtype, Kind.MULTIPLY_ADD, count, count, rate, frozenset(self.nest.trips))

    def _vectors(self, lanes: int, dtype: DType) -> float:
        """Return how many instructions some lanes take."""
        if self.machine.vector_bytes == 0:
            return lanes
        return -(-lanes // self.machine.lanes(accumulator(dtype)))

    def transfers(self, stmt: Stmt) -> Iterator[Transfer]:
        """Yield what a statement reads and writes outside of registers; hints move nothing of their own."""
        if isinstance(stmt, Hint):
            return
        if isinstance(stmt, MatrixMultiply):
            yield from self._operands(stmt)
            return
        loaded = stmt.source if isinstance(stmt, AsyncCopy) else None
        found = dict.fromkeys(reads(stmt))
        if loaded is not None:
            found.setdefault(loaded)
        for place, written in (*((each, False) for each in found), *((each, True) for each in writes(stmt))):
            region = self.regions.get(place.array)
            if region is not Region.PRIVATE:
                yield self._transfer(place, region, written=written)

    def _transfer(self, place: Subscript, region: Region | None, *, written: bool) -> Transfer:
        lanes, apart = place.type.lanes, place.offset.type.lanes
        depends = self.nest.moves_with(place.offset)
        itemsize = place.type.dtype.itemsize
        return Transfer(place.array, region, place.offset, lanes, itemsize, apart, written, depends)

    def _operands(self, stmt: MatrixMultiply) -> Iterator[Transfer]:
        """Yield a thread's share of the operands, which threads of a fragment have together."""
        rows, columns, depth = stmt.tile
        threads = FRAGMENTS[stmt.fragment].threads
        for operand, elements in ((stmt.left, rows * depth), (stmt.right, columns * depth)):
            start = operand.start
            region = self.regions.get(start.array)
            if region is Region.PRIVATE:
                continue
            depends, itemsize = self.nest.moves_with(start.offset), start.type.dtype.itemsize
            share = -(-elements // threads)
            yield Transfer(start.array, region, start.offset, share, itemsize, 1, written=False, depends=depends)

    def chained(self, stmt: Stmt, loop: int) -> float:
        """Return the cycles that a statement waits for what it made in the last iteration of a loop.

        It waits where it updates elements or a variable by a value made of them, which the loop does not move.
        """
        if not isinstance(stmt, Assign) or stmt.value.type.dtype is not stmt.target.type.dtype:
            return 0.0
        same = any(node == stmt.target for node in outside_offsets(stmt.value))
        moved = self.nest.moves_with(stmt.target.offset) if isinstance(stmt.target, Subscript) else frozenset()
        dtype = accumulator(stmt.target.type.dtype)
        return self.machine.latency(dtype) if same and loop not in moved else 0.0
