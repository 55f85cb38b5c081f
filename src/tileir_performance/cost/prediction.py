"""Predicted cost of a program on a machine: counts of every block, time of every kernel by its slowest resource.

The figures are defined in :mod:`tileir.passes.cost.figures`.

Traffic into a cache depends on the reuse that its capacity allows. There is reuse along a loop where the data of one
iteration fit, or of several where an access returns to elements that another one touched some iterations ago: the layer
condition (Stengel et al., ICS 2015; Hammer, Eitzinger, Hager and Wellein, "Kerncraft: a tool for analytic performance
modeling of loop kernels", 2017), stated for loop nests of any depth. A subtree whose data fit moves each line once; a
loop of which an iteration fits moves the new lines of each iteration; any other loop moves everything again in every
iteration, as least recently used lines are evicted first. Consecutive blocks reuse lines left by the previous one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import Final

from tileir.core import LOCAL, REGISTER, DType, attrs
from tileir.passes.cost.figures import BlockCost, CacheTraffic, Cycles, KernelCost, Kind, Operations, bounded
from tileir.passes.cost.machine import Machine, Storage
from tileir.stripe import ir as stripe, launched, uses_of
from tileir.stripe.blocks import Binding
from tileir_performance.cost.core import cycles_of, issues_of, operations_of
from tileir_performance.cost.kernels import ProgramCost, works_cost
from tileir_performance.cost.points import Constraint, Count, count_points
from tileir_performance.cost.regions import Region, distinct, lines_of, region_of
from tileir_performance.cost.scopes import Access, Loop, Scope, scope_of

APART: Final = frozenset({REGISTER, LOCAL})
"""Locations that no cache serves."""


@attrs.frozen
class Footprint:
    """Bytes of one root in lines that are read, written, and touched at all."""

    read_bytes: float
    written_bytes: float
    bytes: float


@attrs.frozen
class DistinctBytes:
    """Bytes of distinct elements; an upper bound where inexact."""

    bytes: int
    exact: bool


@attrs.define(eq=False, repr=False)
class Traffic:
    """Memory traffic of one kernel, with memoised answers."""

    kernel: Scope
    line_bytes: int
    _below: dict[int, tuple[Access, ...]] = attrs.field(factory=dict, init=False)
    _footprints: dict[tuple[int, int], Mapping[int, Footprint]] = attrs.field(factory=dict, init=False)
    _ranges: dict[int, int] = attrs.field(factory=dict, init=False)
    _inside: dict[int, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        for scope in self.kernel.walk():
            self._ranges.update((loop.number, loop.range) for loop in scope.loops)
            for access in scope.accesses.values():
                if access.root.inside:
                    self._inside[access.root.number] = access.root.elements * access.dtype.itemsize

    def footprint(self, scope: Scope, depth: int = 0) -> Mapping[int, Footprint]:
        """Return the elements of each root that a subtree touches while its first ``depth`` loops stand still."""
        key = (id(scope), depth)
        found = self._footprints.get(key)
        if found is None:
            found = self._footprints[key] = self._lines(self._accesses(scope), self._still(scope, depth))
        return found

    def different(self, scope: Scope) -> DistinctBytes:
        """Return the bytes of distinct elements that a subtree touches in the whole run of the kernel."""
        total, all_exact = 0, True
        for touched in self._touched(self._accesses(scope), frozenset(), frozenset({REGISTER}), self._ranges):
            elements, exact = distinct(tuple(touched.regions))
            exact = exact and elements <= touched.limit
            total += min(elements, touched.limit) * touched.itemsize
            all_exact = all_exact and exact
        return DistinctBytes(total, all_exact)

    def _lines(
        self, accesses: Iterable[Access], still: frozenset[int], ranges: Mapping[int, int] | None = None
    ) -> Mapping[int, Footprint]:
        """Return the lines of memory behind caches that some accesses touch with some loops standing still.

        Loops have their own ranges where no others are given.
        """
        touched = self._touched(accesses, still, APART, self._ranges if ranges is None else ranges)
        return {each.root: _footprint_of(each, self.line_bytes) for each in touched}

    @staticmethod
    def _still(scope: Scope, depth: int) -> frozenset[int]:
        """Return the loops around a scope and its first own loops, except for threads, as these run in parallel."""
        return frozenset(n.number for n in (*scope.outer, *scope.loops[:depth]) if n.binding is not Binding.THREAD)

    @staticmethod
    def _touched(
        accesses: Iterable[Access], still: frozenset[int], apart: frozenset[str], ranges: Mapping[int, int]
    ) -> Iterable[_TouchedRegions]:
        """Return the elements of each root outside some locations that accesses touch while some loops stand still."""
        found: dict[int, _TouchedRegions] = {}
        for access in accesses:
            root = access.root
            if root.location in apart:
                continue
            steps = [(step, ranges[loop]) for loop, step in access.terms if loop not in still]
            if root.number not in found:
                found[root.number] = _TouchedRegions(root.number, root.elements, access.dtype.itemsize)
            region = region_of(access.offset, (*steps, *access.sizes))
            if access.chosen is not None:
                points = prod(ranges[loop] for loop in access.chosen if loop not in still)
                region = region.limited(points)
            found[root.number].add(region, access)
        return found.values()

    def _accesses(self, scope: Scope) -> tuple[Access, ...]:
        """Return the accesses of a subtree."""
        found = self._below.get(id(scope))
        if found is None:
            inner = (access for child in scope.children for access in self._accesses(child))
            found = self._below[id(scope)] = (*scope.accesses.values(), *inner)
        return found

    def into(self, storage: Storage, share: float = 1.0) -> CacheTraffic:
        """Return the traffic of the kernel into and out of a cache of which it may use ``share``.

        Allocations that fit reuse their addresses, and so stay in the cache.
        """
        capacity = storage.size_bytes * share
        moved = self._moved(self.kernel, 0, capacity)
        kept = {root for root, size in self._inside.items() if size <= capacity}
        return sum((each for root, each in moved.items() if root not in kept), CacheTraffic())

    def _moved(self, scope: Scope, depth: int, capacity: float) -> dict[int, CacheTraffic]:
        loops = [
            (n, loop)
            for n, loop in enumerate(scope.loops)
            if n >= depth and (loop.repeats or loop.binding is Binding.GRID)
        ]
        whole = self.footprint(scope, depth)
        if _size(whole) <= capacity:
            return _once(whole)
        if not loops:
            return self._body(scope, capacity)
        number, loop = loops[0]
        if self._held(scope, number) <= capacity:
            return _once(whole)
        inner = self._moved(scope, number + 1, capacity)
        return {root: moved.times(loop.range) for root, moved in inner.items()}

    def _held(self, scope: Scope, number: int) -> float:
        """Return the bytes that a cache must hold for reuse along a scope's own loop number ``number``.

        These are the lines of one iteration, or of several where one access returns to elements of another, as in
        stencils.
        """
        loop = scope.loops[number]
        window = self._window(scope, loop)
        if window <= 1:
            return _size(self.footprint(scope, number + 1))
        still = self._still(scope, number + 1) - {loop.number}
        return _size(self._lines(self._accesses(scope), still, {**self._ranges, loop.number: window}))

    def _window(self, scope: Scope, loop: Loop) -> int:
        """Return the largest number of iterations of a loop between accesses to the same elements."""
        starts: dict[tuple[int, int], list[int]] = {}
        for access in self._accesses(scope):
            step = abs(access.step(loop.number))
            if step:
                starts.setdefault((access.root.number, step), []).append(access.offset)
        windows = ((max(offsets) - min(offsets)) // step for (_, step), offsets in starts.items() if len(offsets) > 1)
        return max((window for window in windows if window < loop.range), default=1)

    def _body(self, scope: Scope, capacity: float) -> dict[int, CacheTraffic]:
        """Return the traffic of a block's statements in order; its own scalars come first."""
        total: dict[int, CacheTraffic] = {}
        if scope.accesses:
            total = _once(self._lines(scope.accesses.values(), self._still(scope, len(scope.loops))))
        left: Mapping[int, Footprint] = {}
        for child in scope.children:
            footprint = self.footprint(child)
            for root, moved in self._moved(child, 0, capacity).items():
                kept = left[root].bytes if root in left else 0.0
                kept = min(kept, footprint[root].bytes)
                fresh = CacheTraffic(max(0.0, moved.read - kept), moved.written)
                total[root] = total.get(root, CacheTraffic()) + fresh
            left = footprint if _size(footprint) <= capacity else {}
        return total


@attrs.define(eq=False, repr=False)
class _TouchedRegions:
    """The regions of one root that some accesses touch, and which of them are read and written."""

    root: int
    limit: int
    itemsize: int
    regions: dict[Region, tuple[bool, bool]] = attrs.field(factory=dict)

    def add(self, region: Region, access: Access) -> None:
        """Add the elements of an access."""
        reads, writes = self.regions.get(region, (False, False))
        self.regions[region] = reads or access.reads or access.merging is not None, writes or access.writes


def _footprint_of(touched: _TouchedRegions, line_bytes: int) -> Footprint:
    regions = touched.regions
    reads = tuple(region for region, (read, _) in regions.items() if read)
    writes = tuple(region for region, (_, written) in regions.items() if written)
    facts = touched.limit, touched.itemsize, line_bytes
    read, written = _bytes(reads, *facts), _bytes(writes, *facts)
    whole = read if len(reads) == len(regions) else written if len(writes) == len(regions) else None
    return Footprint(read, written, _bytes(tuple(regions), *facts) if whole is None else whole)


@lru_cache(maxsize=4096)
def _bytes(regions: tuple[Region, ...], limit: int, itemsize: int, line_bytes: int) -> float:
    """Return the bytes of the lines that some different regions of one root touch."""
    if not regions:
        return 0.0
    lines = sum(lines_of(region, itemsize, line_bytes) for region in regions)
    if len(regions) > 1:
        elements, _ = distinct(regions)
        lines *= elements / max(1, sum(region.elements for region in regions))
    most = -(-limit * itemsize // line_bytes) + 1
    return min(lines, most) * line_bytes


def _size(footprint: Mapping[int, Footprint]) -> float:
    return sum(each.bytes for each in footprint.values())


def _once(footprint: Mapping[int, Footprint]) -> dict[int, CacheTraffic]:
    return {root: CacheTraffic(each.read_bytes, each.written_bytes) for root, each in footprint.items()}


def predict(program: stripe.Program, machine: Machine) -> ProgramCost:
    """Return the cost of a program after any passes.

    Caches are assumed to be warm: data of a program that fit a cache as a whole are there when a run begins, as in
    repeated calls.
    """
    used = uses_of(program.kernels, program.works)
    memory = {each.name: each for each in program.memory if each.name in used}
    total = sum(each.shape.elements * each.shape.dtype.itemsize for each in memory.values())
    known: dict[int, KernelCost] = {}

    def launch_cost(launch: stripe.Launch) -> KernelCost:
        found = known.get(launch.kernel)
        if found is None:
            block = launched(program.kernels[launch.kernel], launch)
            tensors = {name: memory[name] for name in launch.arguments}
            found = known[launch.kernel] = predict_kernel(block, tensors, machine, total)
        whole, *inner = found.blocks
        return attrs.evolve(found, name=launch.name, blocks=(attrs.evolve(whole, name=launch.name), *inner))

    return works_cost(program.works, launch_cost)


def predict_kernel(
    kernel: stripe.Block, tensors: Mapping[str, stripe.Refinement], machine: Machine, program_bytes: int = 1 << 62
) -> KernelCost:
    """Return the cost of one kernel.

    Args:
        kernel: A block of ``main``.
        tensors: The memory that it sees, by name.
        machine: The device.
        program_bytes: The size of all tensors of the program, which decides the caches' initial content.
    """
    scope = scope_of(kernel, tensors)
    traffic = Traffic(scope, machine.storages[-1].line_bytes if machine.storages else 1)
    blocks = tuple(_blocks(scope, traffic, machine))
    groups = prod([loop.range for loop in scope.loops if loop.binding is stripe.Binding.GRID])
    return bounded(blocks, traffic, machine, groups, _local_bytes(scope, machine), program_bytes)


def _local_bytes(scope: Scope, machine: Machine) -> float:
    if not machine.local_rate:
        return 0.0
    return sum(_executions(each, _points(each).points) * cycles_of(each, machine).local for each in scope.walk())


def _points(scope: Scope, constraints: tuple[Constraint, ...] = ()) -> Count:
    ranges = {loop.number: loop.range for loop in (*scope.outer, *scope.loops)}
    return count_points(ranges, (*constraints, *scope.constraints))


def _executions(scope: Scope, points: int) -> float:
    """Return the number of issues of a block's own statements: once for all points of unrolled and vector indices."""
    return points / issues_of(scope)


def _blocks(
    scope: Scope, traffic: Traffic, machine: Machine, depth: int = 0, constraints: tuple[Constraint, ...] = ()
) -> Iterator[BlockCost]:
    """Yield the costs of a scope and of all below, those of each before those of its children."""
    inner = (*constraints, *scope.constraints)
    below = [list(_blocks(child, traffic, machine, depth + 1, inner)) for child in scope.children]
    counted = _points(scope, constraints)
    operations: dict[tuple[DType, Kind], int] = {}
    for dtype, kind, count in operations_of(scope):
        operations[dtype, kind] = operations.get((dtype, kind), 0) + count * counted.points
    accessed = counted.points * _bytes_of_a_point(scope)
    own = cycles_of(scope, machine)
    seconds = _executions(scope, counted.points) * _issue(own, machine) / machine.clock
    exact = counted.exact and not inner
    for child in (each[0] for each in below):
        for found in child.operations:
            operations[found.dtype, found.kind] = operations.get((found.dtype, found.kind), 0) + found.count
        accessed += child.accessed_bytes
        seconds += child.seconds
        exact = exact and child.footprint_exact
    touched = traffic.different(scope)
    yield BlockCost(
        scope.block.name,
        depth,
        tuple((loop.name, loop.range, "" if loop.binding is None else loop.binding.value) for loop in scope.loops),
        counted.points,
        counted.exact,
        tuple(Operations(dtype, kind, count) for (dtype, kind), count in operations.items()),
        accessed,
        touched.bytes,
        exact and touched.exact,
        seconds,
    )
    for each in below:
        yield from each


def _issue(cycles: Cycles, machine: Machine) -> float:
    latency = cycles.latency if machine.vector_bytes else 0.0  # threads hide it elsewhere
    return max(cycles.arithmetic, cycles.transfer, latency) + cycles.overhead


def _bytes_of_a_point(scope: Scope) -> int:
    """Return the bytes that one point loads and stores."""
    total = 0
    for statement in scope.block.statements:
        match statement:
            case stripe.Load(source=name) | stripe.Store(into=name):
                access = scope.accesses[name]
                total += 0 if access.root.location == REGISTER else access.dtype.itemsize
            case stripe.Special(name="prefetch"):
                pass
            case stripe.Special(inputs=inputs, outputs=outputs):
                for name in (*inputs, *outputs):
                    shape = scope.block.refinement(name).shape
                    total += shape.elements * shape.dtype.itemsize
    return total
