"""Predicted cost of a program of the semtree on a machine, kernel by kernel.

The model is that of :mod:`tileir_performance.cost.prediction`: counts of all loops, and for each kernel the slowest of
its resources. Counts come from the text of the kernels. What loops touch is bounded by the iterations that move an
access and by the size of its array, and what moves between memories by the rule that a loop whose data fits in a cache
brings it there once; whole lines that strides or threads apart bring along are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from tileir.core import DType, Target, attrs
from tileir.core.targets.target_file import hardware_of
from tileir.passes.cost.figures import (
    ITERATION_CYCLES,
    BlockCost,
    Cycles,
    KernelCost,
    Kind,
    Moved,
    Operations,
    bounded,
)
from tileir.passes.cost.machine import Machine, Storage, machine_of
from tileir.semtree import ir as sem
from tileir.semtree.cost.counting import Counter, Transfer, Work
from tileir.semtree.cost.nest import GRID, THREADS, Loop, Nest
from tileir.semtree.rewrite import statements


def kernel_cost(kernel: sem.KernelFunction, machine: Machine, program_bytes: int) -> KernelCost:
    """Return what one kernel costs, but for the memory that it declares and its widest vector.

    Args:
        kernel: A kernel that obeys the rules.
        machine: The device.
        program_bytes: The size of all memory of the program, which decides what caches hold at the start.
    """
    nest = Nest.of(kernel)
    counter = Counter.of(kernel, nest, machine)
    data = Traffic.of(kernel, nest, counter)
    costs = _Costs.of(kernel, nest, counter, data)
    blocks = tuple(costs.blocks(nest.grid, 1, 0))
    return bounded(blocks, data, machine, nest.grid.trips, data.local_bytes(nest.grid), program_bytes)


def seconds_alone(kernel: sem.KernelFunction, target: Target) -> float:
    """Return the seconds that one unit of a device takes for a kernel that obeys the rules, without the launch.

    Caches are taken to hold what fits of all arguments.
    """
    machine = machine_of(hardware_of(target), attrs.evolve(target, threads=1))
    cost = kernel_cost(kernel, machine, sum(param.size * param.dtype.itemsize for param in kernel.params))
    return max(cost.times.values())


def seconds_at_least(kernel: sem.KernelFunction, target: Target) -> float:
    """Return seconds that one unit of a device takes at least for the operations of a kernel, without a look at them.

    Half of these may be elements that are moved, which takes no time beside arithmetic. It is 0 where there may be dot
    products of small elements, which do more in a cycle than the rates tell.
    """
    kinds = {param.dtype for param in kernel.params}
    if any(kind.itemsize < _WORD_BYTES for kind in kinds):
        return 0.0
    machine = machine_of(hardware_of(target), attrs.evolve(target, threads=1))
    return kernel.operations / (2 * machine.clock * max((machine.rate(kind) for kind in kinds), default=1.0))


_WORD_BYTES: Final = 4


@attrs.frozen(eq=False, repr=False)
class Traffic:
    """Memory that the loops of a kernel read and write.

    Attributes:
        sizes: The elements of each array.
        trips: How often each loop runs.
        grid: The outermost loop.
        own: What the statements of each loop move, by its number.

    """

    sizes: dict[str, int]
    trips: dict[int, int]
    grid: Loop
    own: dict[int, tuple[Transfer, ...]]

    @classmethod
    def of(cls, kernel: sem.KernelFunction, nest: Nest, counter: Counter) -> Traffic:
        """Return what the loops of a kernel read and write."""
        sizes = {param.name: param.size for param in kernel.params}
        sizes.update((s.name, s.size) for s in statements(kernel.body) if isinstance(s, sem.DeclareArray))
        own = {
            loop.number: tuple(each for stmt in loop.statements for each in counter.transfers(stmt))
            for loop in nest.grid.walk()
        }
        return cls(sizes, dict(nest.trips), nest.grid, own)

    def into(self, storage: Storage, share: float) -> Moved:
        """Return what moves into a cache and out of it."""
        return self._moved(self.grid, share * storage.size_bytes)

    def local_bytes(self, grid: Loop) -> float:
        """Return what all groups move to and from the memory that their threads share."""
        return self._local(grid)

    def _local(self, loop: Loop) -> float:
        own = sum(each.lanes * each.itemsize for each in self.own[loop.number] if each.region is sem.Region.LOCAL)
        return loop.trips * (own + sum(map(self._local, loop.inner)))

    def _moved(self, loop: Loop, room: float) -> Moved:
        """Return what all iterations move: once what fits as a whole, else what each one moves."""
        inside = frozenset(each.number for each in loop.walk())
        reads, writes = (self._different(loop, inside, cached=True, written=each) for each in (False, True))
        if reads + writes <= room:
            return Moved(reads, writes)
        once = Moved()
        for each in self.own[loop.number]:
            if each.region is not sem.Region.LOCAL:
                nbytes = each.lanes * each.itemsize
                once += Moved(0, nbytes) if each.written else Moved(nbytes, 0)
        once = sum((self._moved(inner, room) for inner in loop.inner), once)
        return Moved(once.read * loop.trips, once.written * loop.trips)

    def touched(self, loop: Loop) -> int:
        """Return at most how many bytes of different elements all runs of a loop touch."""
        return self._different(loop, frozenset(self.trips))

    def _different(
        self, loop: Loop, moving: frozenset[int], *, cached: bool = False, written: bool | None = None
    ) -> int:
        """Return at most how many bytes of different elements a loop touches.

        Args:
            loop: The loop.
            moving: The loops of which all iterations count; of others there is one.
            cached: Whether to leave out the memory of groups, which no cache serves.
            written: Whether only those that are written, or read, count.
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
        kernel: What is asked about.
        nest: Its loops.
        counter: What its statements do.
        data: What its loops move.
        work: The operations of each statement of a loop itself, by the number of the loop.
        seconds: Those of all runs of each loop, once they are known, by its number.

    """

    kernel: sem.KernelFunction
    nest: Nest
    counter: Counter
    data: Traffic
    work: dict[int, tuple[tuple[Work, ...], ...]]
    seconds: dict[int, float] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, kernel: sem.KernelFunction, nest: Nest, counter: Counter, data: Traffic) -> _Costs:
        """Return the costs of a kernel, each of whose statements is looked at once."""
        work = {loop.number: tuple(tuple(counter.work(s)) for s in loop.statements) for loop in nest.grid.walk()}
        return cls(kernel, nest, counter, data, work)

    def blocks(self, loop: Loop, around: int, depth: int) -> Iterator[BlockCost]:
        """Yield the costs of a loop and of all inside it, those of each before those inside it.

        Args:
            loop: The loop.
            around: How often it is begun in one run of the kernel.
            depth: How many loops are around it.
        """
        points = around * loop.trips
        below = [list(self.blocks(inner, points, depth + 1)) for inner in loop.inner]
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
            self.data.touched(loop),
            footprint_exact=False,
            seconds=self._seconds(loop, around),
        )
        for each_below in below:
            yield from each_below

    def _seconds(self, loop: Loop, around: int) -> float:
        """Return the seconds of one unit for all runs of a loop; those of the loops in it are known."""
        machine = self.counter.machine
        own = self._cycles(loop, frozenset({loop.number}) if loop.unrolled else frozenset(), loop.number)
        issued = around if loop.unrolled else around * loop.trips
        cycles = issued * (max(own.arithmetic, own.transfer, own.latency) + own.overhead)
        nested = sum(self.seconds[inner.number] for inner in _apart(loop))
        return self.seconds.setdefault(loop.number, cycles / machine.clock + nested)

    def _cycles(self, loop: Loop, unrolled: frozenset[int], home: int) -> Cycles:
        """Return the cycles of one iteration of a loop ``home``, or of all that are unrolled together in it."""
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
        """Return what a transfer takes of a port, which is busy for a cycle with less than half a vector, too."""
        whole = each.lanes * each.itemsize
        vector = self.counter.machine.vector_bytes
        if vector == 0 or together:
            return whole
        return each.pieces * max(whole / each.pieces, vector // 2)


def _apart(loop: Loop) -> Iterator[Loop]:
    """Yield the loops that are not unrolled into a loop."""
    for inner in loop.inner:
        if inner.unrolled:
            yield from _apart(inner)
        else:
            yield inner
