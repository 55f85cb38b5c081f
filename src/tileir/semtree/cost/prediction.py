"""Predicted cost of a program of the semtree on a machine, kernel by kernel.

The model is that of :mod:`tileir_performance.cost.prediction`: counts of all loops, and for each kernel the slowest of
its resources. Counts come from the text of the kernels. The footprint of loops is bounded by the iterations that move
an access and by the size of its array, and memory traffic by the rule that a loop whose data fits in a cache loads it
there once; the rest of cache lines in strided accesses is not counted.

The statements of a kernel are counted in operations, moved elements, and cycles of one unit.

Arithmetic on offsets, trip counts and conditions counts for nothing, as in Stripe programs, where it is not written.
Equal operations of one statement count once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final

from tileir.core import DType, Op, Target, accumulator, attrs
from tileir.core.fragments import FRAGMENTS
from tileir.core.targets.target_file import hardware_of
from tileir.passes.cost.figures import (
    ITERATION_CYCLES,
    BlockCost,
    CacheTraffic,
    Cycles,
    KernelCost,
    Kind,
    Operations,
    bounded,
    kind_of,
)
from tileir.passes.cost.machine import Machine, Storage, machine_of
from tileir.semtree import ir as sem
from tileir.semtree.analysis.effects import introduces, reads, writes
from tileir.semtree.cost.nest import GRID, THREADS, Loop, Nest, addressing, outside_offsets
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
    """Operations of one execution of a statement.

    Attributes:
        dtype: Dtype of the operands.
        kind: Kind of the operations.
        count: Number of operations; 0 for moves in registers.
        instructions: Number of pipeline steps.
        rate: Steps of a unit per cycle.
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
    """Elements moved by one execution of a statement.

    Attributes:
        array: Name of the array.
        region: Region of the array; None for memory.
        place: Identifies equal elements of an array.
        lanes: Number of elements.
        itemsize: Bytes per element.
        pieces: Number of instructions.
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
    """Counter of the work of one kernel's statements on a machine."""

    kernel: KernelFunction
    nest: Nest
    machine: Machine
    regions: Mapping[str, Region]
    places: frozenset[str]

    @classmethod
    def of(cls, kernel: KernelFunction, nest: Nest, machine: Machine) -> Counter:
        """Return a counter for a valid kernel."""
        arrays = (stmt for stmt in statements(kernel.body) if isinstance(stmt, DeclareArray))
        return cls(kernel, nest, machine, {each.name: each.region for each in arrays}, addressing(kernel))

    def work(self, stmt: Stmt) -> Iterator[Work]:
        """Yield the operations of a statement, without nested statements."""
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
        """Return a thread's share of a collective matrix product."""
        rows, columns, depth = stmt.tile
        dtype = stmt.left.start.type.dtype
        threads = self.nest.trips.get(THREADS, 1)
        count = 2 * rows * columns * depth // threads
        rate = self.machine.matrix_rate(dtype)
        return Work(dtype, Kind.MULTIPLY_ADD, count, count, rate, frozenset(self.nest.trips))

    def _vectors(self, lanes: int, dtype: DType) -> float:
        """Return the number of instructions for some lanes."""
        if self.machine.vector_bytes == 0:
            return lanes
        return -(-lanes // self.machine.lanes(accumulator(dtype)))

    def transfers(self, stmt: Stmt) -> Iterator[Transfer]:
        """Yield the reads and writes of a statement outside of registers; hints have none."""
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
        """Yield a thread's share of the operands, which threads of a fragment load together."""
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
        """Return the latency in cycles of a statement that depends on its own result in the last iteration of a loop.

        It does if it updates elements that the loop does not move, or a variable, by a value computed from them.
        """
        if not isinstance(stmt, Assign) or stmt.value.type.dtype is not stmt.target.type.dtype:
            return 0.0
        same = any(node == stmt.target for node in outside_offsets(stmt.value))
        moved = self.nest.moves_with(stmt.target.offset) if isinstance(stmt.target, Subscript) else frozenset()
        dtype = accumulator(stmt.target.type.dtype)
        return self.machine.latency(dtype) if same and loop not in moved else 0.0


def kernel_cost(
    kernel: sem.KernelFunction, machine: Machine, program_bytes: int, *, footprints: bool = True
) -> KernelCost:
    """Return the cost of one kernel, without its declared memory and widest vector.

    Args:
        kernel: A valid kernel.
        machine: The device.
        program_bytes: The size of all memory of the program, which decides the initial content of caches.
        footprints: Whether to compute the footprints of blocks, which times do not depend on.
    """
    nest = Nest.of(kernel)
    counter = Counter.of(kernel, nest, machine)
    data = Traffic.of(kernel, nest, counter)
    costs = _Costs.of(kernel, nest, counter, data)
    blocks = tuple(costs.blocks(nest.grid, 1, 0, footprints=footprints))
    return bounded(blocks, data, machine, nest.grid.trips, data.local_bytes(nest.grid), program_bytes)


def seconds_alone(kernel: sem.KernelFunction, target: Target) -> float:
    """Return the seconds of a valid kernel on one unit of a device, without the launch.

    Caches hold as much of all arguments as fits.
    """
    machine = machine_of(hardware_of(target), attrs.evolve(target, threads=1))
    nbytes = sum(param.size * param.dtype.itemsize for param in kernel.params)
    cost = kernel_cost(kernel, machine, nbytes, footprints=False)
    return max(cost.times.values())


def seconds_at_least(kernel: sem.KernelFunction, target: Target) -> float:
    """Return a lower bound of the seconds of one unit from a kernel's operation estimate alone.

    Half of the operations may be moves, which take no time beside arithmetic. 0 for possible dot products of small
    elements, whose rate exceeds the table.
    """
    kinds = {param.dtype for param in kernel.params}
    if any(kind.itemsize < _WORD_BYTES for kind in kinds):
        return 0.0
    machine = machine_of(hardware_of(target), attrs.evolve(target, threads=1))
    return kernel.operations / (2 * machine.clock * max((machine.rate(kind) for kind in kinds), default=1.0))


_WORD_BYTES: Final = 4


@attrs.frozen(eq=False, repr=False)
class Traffic:
    """Memory traffic of the loops of a kernel.

    Attributes:
        sizes: The elements of each array.
        trips: Iterations of each loop.
        grid: The outermost loop.
        own: Transfers of the statements of each loop, by its number.
    """

    sizes: dict[str, int]
    trips: dict[int, int]
    grid: Loop
    own: dict[int, tuple[Transfer, ...]]

    @classmethod
    def of(cls, kernel: sem.KernelFunction, nest: Nest, counter: Counter) -> Traffic:
        """Return the traffic of the loops of a kernel."""
        sizes = {param.name: param.size for param in kernel.params}
        sizes.update((s.name, s.size) for s in statements(kernel.body) if isinstance(s, sem.DeclareArray))
        own = {
            loop.number: tuple(each for stmt in loop.statements for each in counter.transfers(stmt))
            for loop in nest.grid.walk()
        }
        return cls(sizes, dict(nest.trips), nest.grid, own)

    def into(self, storage: Storage, share: float) -> CacheTraffic:
        """Return the traffic into a cache and out of it."""
        return self._moved(self.grid, share * storage.size_bytes)

    def local_bytes(self, grid: Loop) -> float:
        """Return the bytes that all groups move to and from local memory."""
        return self._local(grid)

    def _local(self, loop: Loop) -> float:
        own = sum(each.lanes * each.itemsize for each in self.own[loop.number] if each.region is sem.Region.LOCAL)
        return loop.trips * (own + sum(map(self._local, loop.inner)))

    def _moved(self, loop: Loop, room: float) -> CacheTraffic:
        """Return the traffic of all iterations: data that fits counts once, other data per iteration."""
        inside = frozenset(each.number for each in loop.walk())
        reads, writes = (self._different(loop, inside, cached=True, written=each) for each in (False, True))
        if reads + writes <= room:
            return CacheTraffic(reads, writes)
        once = CacheTraffic()
        for each in self.own[loop.number]:
            if each.region is not sem.Region.LOCAL:
                nbytes = each.lanes * each.itemsize
                once += CacheTraffic(0, nbytes) if each.written else CacheTraffic(nbytes, 0)
        once = sum((self._moved(inner, room) for inner in loop.inner), once)
        return CacheTraffic(once.read * loop.trips, once.written * loop.trips)

    def touched(self, loop: Loop) -> int:
        """Return a bound of the distinct bytes that all runs of a loop access."""
        return self._different(loop, frozenset(self.trips))

    def _different(
        self, loop: Loop, moving: frozenset[int], *, cached: bool = False, written: bool | None = None
    ) -> int:
        """Return a bound of the distinct bytes that a loop accesses.

        Args:
            loop: The loop.
            moving: The loops of which all iterations count, not one.
            cached: Whether to leave out local memory, which has no cache.
            written: Whether only written, or only read, elements count; None for both.
        """
        places: dict[str, dict[object, int]] = {}
        itemsizes: dict[str, int] = {}
        for inner in loop.walk():
            for each in self.own[inner.number]:
                if cached and each.region is sem.Region.LOCAL:
                    continue
                if written is not None and written is not each.written:
                    continue
                elements = each.lanes * prod(self.trips[number] for number in each.depends & moving)
                found = places.setdefault(each.array, {})
                found[each.place] = max(elements, found.get(each.place, 0))
                itemsizes[each.array] = each.itemsize
        return sum(min(self.sizes[name], sum(found.values())) * itemsizes[name] for name, found in places.items())


@attrs.frozen(eq=False, repr=False)
class _Costs:
    """Costs of the loops of one kernel.

    Attributes:
        kernel: The kernel.
        nest: Its loops.
        counter: Counter of its statements.
        data: Traffic of its loops.
        work: The operations of each direct statement of a loop, by the number of the loop.
        seconds: Seconds of all runs of each finished loop, by its number.
    """

    kernel: sem.KernelFunction
    nest: Nest
    counter: Counter
    data: Traffic
    work: dict[int, tuple[tuple[Work, ...], ...]]
    seconds: dict[int, float] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, kernel: sem.KernelFunction, nest: Nest, counter: Counter, data: Traffic) -> _Costs:
        """Return the costs of a kernel after one pass over its statements."""
        work = {loop.number: tuple(tuple(counter.work(s)) for s in loop.statements) for loop in nest.grid.walk()}
        return cls(kernel, nest, counter, data, work)

    def blocks(self, loop: Loop, around: int, depth: int, *, footprints: bool) -> Iterator[BlockCost]:
        """Yield the costs of a loop and of all nested loops, outer loops first.

        Args:
            loop: The loop.
            around: Number of its executions in one run of the kernel.
            depth: Number of enclosing loops.
            footprints: As in :func:`kernel_cost`.
        """
        points = around * loop.trips
        below = [list(self.blocks(inner, points, depth + 1, footprints=footprints)) for inner in loop.inner]
        operations: dict[tuple[DType, Kind], int] = {}
        for of_statement in self.work[loop.number]:
            for work in of_statement:
                if work.count:
                    known = operations.get((work.dtype, work.kind), 0)
                    operations[work.dtype, work.kind] = known + work.count * points
        accessed = points * sum(each.lanes * each.itemsize for each in self.data.own[loop.number])
        for child in (each[0] for each in below):
            for each in child.operations:
                operations[each.dtype, each.kind] = operations.get((each.dtype, each.kind), 0) + each.count
            accessed += child.accessed_bytes
        yield BlockCost(
            self.kernel.name if depth == 0 else "",
            depth,
            tuple(index for index in loop.indices if index[1] > 1),
            points,
            loop.exact,
            tuple(Operations(dtype, kind, count) for (dtype, kind), count in operations.items()),
            accessed,
            self.data.touched(loop) if footprints else 0,
            footprint_exact=False,
            seconds=self._seconds(loop, around),
        )
        for each_below in below:
            yield from each_below

    def _seconds(self, loop: Loop, around: int) -> float:
        """Return the seconds of one unit for all runs of a loop, after its nested loops."""
        machine = self.counter.machine
        own = self._cycles(loop, frozenset({loop.number}) if loop.unrolled else frozenset(), loop.number)
        issued = around if loop.unrolled else around * loop.trips
        cycles = issued * (max(own.arithmetic, own.transfer, own.latency) + own.overhead)
        nested = sum(self.seconds[inner.number] for inner in _apart(loop))
        return self.seconds.setdefault(loop.number, cycles / machine.clock + nested)

    def _cycles(self, loop: Loop, unrolled: frozenset[int], home: int) -> Cycles:
        """Return the cycles of one iteration of the loop ``home``, including loops unrolled in it."""
        machine = self.counter.machine
        port = max(1.0, machine.storages[0].unit_rate / machine.clock) if machine.storages else 1.0
        arithmetic = transfer = latency = 0.0
        lanes = machine.lanes if loop.vector else None
        for stmt, of_statement in zip(loop.statements, self.work[loop.number], strict=True):
            for work in of_statement:
                steps = work.instructions * self._copies(work.depends, unrolled)
                arithmetic += steps / work.rate / (lanes(work.dtype) if lanes else 1)
            latency = max(latency, self.counter.chained(stmt, home) if machine.vector_bytes else 0.0)
        for each in self.data.own[loop.number]:
            if each.region is not sem.Region.LOCAL:
                transfer += self._copies(each.depends, unrolled) * self._port_bytes(each, together=bool(lanes)) / port
        for inner in loop.inner:
            if inner.unrolled:
                part = self._cycles(inner, unrolled | {inner.number}, home)
                arithmetic, transfer = arithmetic + part.arithmetic, transfer + part.transfer
                latency = max(latency, part.latency)
        counts = loop.number not in (GRID, THREADS) and not loop.unrolled and machine.vector_bytes
        return Cycles(arithmetic, transfer, 0.0, latency, ITERATION_CYCLES if counts and loop.number == home else 0.0)

    def _copies(self, depends: frozenset[int], unrolled: frozenset[int]) -> int:
        return prod(self.nest.trips[number] for number in depends & unrolled)

    def _port_bytes(self, each: Transfer, *, together: bool) -> float:
        """Return the bytes of port capacity of a transfer; less than half a vector takes a full cycle, too."""
        whole = each.lanes * each.itemsize
        vector = self.counter.machine.vector_bytes
        if vector == 0 or together:
            return whole
        return each.pieces * max(whole / each.pieces, vector // 2)


def _apart(loop: Loop) -> Iterator[Loop]:
    for inner in loop.inner:
        if inner.unrolled:
            yield from _apart(inner)
        else:
            yield inner
