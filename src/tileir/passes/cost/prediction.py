"""What a program costs on a machine: counts for every block, and the time of every kernel by its slowest resource.

The time of a kernel is a bound: the slowest of computing, of moving data into each cache, of local memory, as in the
roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009) with a roof for each level; plus the launch.

Conditions are data, which nobody has here: one step of each loop on a condition counts, and the dearer side of each
branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, assert_never

import attrs

from tileir.core.targets.hardware import REGISTER
from tileir.passes.cost.core import Cycles, cycles_of, issues_of
from tileir.passes.cost.operations import Kind, operations_of
from tileir.passes.cost.points import Constraint, Count, count_points
from tileir.passes.cost.scopes import Scope, scope_of
from tileir.passes.cost.traffic import Moved, Traffic
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding
from tileir.stripe.lower.kernel_table import launched
from tileir.stripe.works import uses_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tileir.core.dtype import DType
    from tileir.passes.cost.machine import Machine, Storage

COMPUTE: Final = "compute"
LOCAL: Final = "local memory"
LAUNCH: Final = "launch"

SHARE: Final = 0.5
"""The part of a cache that reuse may count on: the rule of thumb for layer conditions (Stengel et al., ICS 2015), since
caches are not fully associative and hold other things too."""


@attrs.frozen
class Operations:
    """Operations of one dtype and kind."""

    dtype: DType
    kind: Kind
    count: int


@attrs.frozen
class BlockCost:
    """What a block and all blocks inside it cost, over the whole run of the kernel.

    Attributes:
        name: Of the block; empty where it has none.
        depth: 0 for the kernel itself.
        indices: (name, range, tag) of its own indices of more than a point.
        points: How often its statements run.
        exact: Whether ``points`` is exact; it is a bound otherwise.
        operations: Weighted, by dtype and kind.
        accessed_bytes: What loads and stores ask for, registers left out.
        footprint_bytes: Different elements that the run touches, in bytes, registers left out.
        footprint_exact: Whether that is exact; it is a bound otherwise, as it is where constraints cut points off.
        seconds: Time to compute, on one unit.

    """

    name: str
    depth: int
    indices: tuple[tuple[str, int, str], ...]
    points: int
    exact: bool
    operations: tuple[Operations, ...]
    accessed_bytes: int
    footprint_bytes: int
    footprint_exact: bool
    seconds: float

    @property
    def total_operations(self) -> int:
        """All operations together."""
        return sum(each.count for each in self.operations)

    @property
    def reuse(self) -> float:
        """How often each byte of the footprint is asked for."""
        return self.accessed_bytes / self.footprint_bytes if self.footprint_bytes else 0.0


@attrs.frozen
class LevelCost:
    """Bytes that move between a level of memory and the one inside it, and the seconds that takes."""

    name: str
    read_bytes: float
    written_bytes: float
    seconds: float


@attrs.frozen
class KernelCost:
    """A kernel.

    Attributes:
        name: Of its block.
        blocks: Its blocks, each before those inside it; the kernel itself first.
        levels: Memories from the innermost outwards.
        units: How many units it keeps busy.
        times: The seconds of each resource, by name.
        seconds: The predicted time.
        bound: The name of the resource that decides.
        runs: How often it runs in one run of the program: more than once where it stands in a loop. A loop on a
            condition counts one step.
        conditions: What decides whether it runs, from outside in: "while go", "if odd" or "unless odd".
        counted: Whether the time of the program has it; only the dearer side of a branch is counted.
        held: The bytes that it declares for each thread or group, by where they lie; empty where nobody knows yet.
        lanes: The most elements that one operation works on; 0 where nobody knows yet.

    """

    name: str
    blocks: tuple[BlockCost, ...]
    levels: tuple[LevelCost, ...]
    units: float
    times: Mapping[str, float]
    seconds: float
    bound: str
    runs: int = 1
    conditions: tuple[str, ...] = ()
    counted: bool = True
    held: Mapping[str, int] = attrs.field(factory=dict)
    lanes: int = 0

    @property
    def whole(self) -> BlockCost:
        """The kernel as one block."""
        return self.blocks[0]

    @property
    def intensity(self) -> float:
        """Operations for each byte that moves to or from the memory behind all caches, else for each one touched."""
        moved = self.levels[-1].read_bytes + self.levels[-1].written_bytes if self.levels else 0.0
        return self.whole.total_operations / (moved or max(1, self.whole.footprint_bytes))


@attrs.frozen
class ProgramCost:
    """A program.

    Attributes:
        kernels: Those of its launches, in the order of the text.
        seconds: The predicted time of one run, with one step of each loop on a condition, and of each branch the dearer
            side; less than that of all kernels where some run side by side.

    """

    kernels: tuple[KernelCost, ...]
    seconds: float


def predict(program: stripe.Program, machine: Machine) -> ProgramCost:
    """Return what a program costs, whatever passes it has been through.

    Caches are taken as warm: data of a program that fits in a cache as a whole is there when a run begins, as it is
    when a function is called again and again.
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


def works_cost(works: Iterable[stripe.Work], launch_cost: Callable[[stripe.Launch], KernelCost]) -> ProgramCost:
    """Return what works cost that follow one another; nesting is bounded, so recursion is.

    Args:
        works: In their order.
        launch_cost: Tells what one launch costs.
    """
    parts = [_work_cost(work, launch_cost) for work in works]
    return ProgramCost(tuple(kernel for part in parts for kernel in part.kernels), sum(part.seconds for part in parts))


def _work_cost(work: stripe.Work, launch_cost: Callable[[stripe.Launch], KernelCost]) -> ProgramCost:
    match work:
        case stripe.Launch():
            kernel = launch_cost(work)
            return ProgramCost((kernel,), kernel.seconds)
        case stripe.Loop(times=times, works=inner):
            step = works_cost(inner, launch_cost)
            if isinstance(times, stripe.While):
                return _under(f"while {times.memory}", step)
            kernels = (attrs.evolve(each, runs=each.runs * times) for each in step.kernels)
            return ProgramCost(tuple(kernels), step.seconds * times)
        case stripe.Branch(condition=memory, then=then, otherwise=otherwise):
            sides = (
                _under(f"if {memory}", works_cost(then, launch_cost)),
                _under(f"unless {memory}", works_cost(otherwise, launch_cost)),
            )
            seconds = max(side.seconds for side in sides)
            dearer = next(side for side in sides if side.seconds == seconds)
            return ProgramCost(
                tuple(
                    each if side is dearer else attrs.evolve(each, counted=False)
                    for side in sides
                    for each in side.kernels
                ),
                seconds,
            )
        case _:
            assert_never(work)


def _under(condition: str, cost: ProgramCost) -> ProgramCost:
    """Return the cost of what runs on a condition."""
    kernels = (attrs.evolve(each, conditions=(condition, *each.conditions)) for each in cost.kernels)
    return attrs.evolve(cost, kernels=tuple(kernels))


def predict_kernel(
    kernel: stripe.Block, tensors: Mapping[str, stripe.Refinement], machine: Machine, program_bytes: int = 1 << 62
) -> KernelCost:
    """Return what one kernel costs.

    Args:
        kernel: A block of ``main``.
        tensors: The memory that it sees, by name.
        machine: The device.
        program_bytes: The size of all tensors of the program, which decides what caches hold at the start.
    """
    scope = scope_of(kernel, tensors)
    traffic = Traffic(scope, machine.storages[-1].line_bytes if machine.storages else 1)
    blocks = tuple(_blocks(scope, traffic, machine))
    groups = 1
    for loop in scope.loops:
        groups *= loop.range if loop.binding is Binding.GRID else 1
    return bounded(blocks, traffic, machine, groups, _local_bytes(scope, machine), program_bytes)


class Data(Protocol):
    """The data of a kernel, of which caches want to know."""

    def into(self, storage: Storage, share: float) -> Moved:
        """Return what moves into a cache of which reuse may count on a share, and out of it."""


def bounded(
    blocks: tuple[BlockCost, ...], data: Data, machine: Machine, groups: int, local: float, program_bytes: int
) -> KernelCost:
    """Return the cost of a kernel: its slowest resource decides.

    Args:
        blocks: Its blocks, each before those inside it; the kernel itself first.
        data: What it reads and writes.
        machine: The device.
        groups: Points of its grid.
        local: Bytes that move to and from local memory.
        program_bytes: The size of all memory of the program, which decides what caches hold at the start.
    """
    rounds = -(-groups // machine.units)
    units = groups / rounds if rounds else 1.0
    levels = tuple(_levels(data, machine, min(units, machine.units), program_bytes))
    times = {COMPUTE: blocks[0].seconds / max(1.0, units)}
    times.update((level.name, level.seconds) for level in levels)
    if local and machine.local_rate:
        times[LOCAL] = local / machine.local_rate / max(1.0, units)
    bound = max(times, key=lambda name: times[name])
    seconds = machine.launch_seconds + times[bound]
    bound = LAUNCH if machine.launch_seconds > times[bound] else bound
    return KernelCost(blocks[0].name, blocks, levels, units, times, seconds, bound)


def _levels(data: Data, machine: Machine, units: float, program_bytes: int) -> Iterator[LevelCost]:
    for inner, outer in zip(machine.storages, machine.storages[1:], strict=False):
        warm = program_bytes <= SHARE * inner.size_bytes and (inner.shared or units <= 1)
        moved = Moved() if warm else data.into(inner, SHARE)
        transferred = moved.read + moved.written * (2 if machine.writes_allocate else 1)
        rate = min(outer.total_rate, outer.unit_rate * units)
        yield LevelCost(outer.name, moved.read, moved.written, transferred / rate if rate else 0.0)


def _local_bytes(scope: Scope, machine: Machine) -> float:
    if not machine.local_rate:
        return 0.0
    return sum(_executions(each, _points(each).points) * cycles_of(each, machine).local for each in scope.walk())


def _points(scope: Scope, constraints: tuple[Constraint, ...] = ()) -> Count:
    ranges = {loop.number: loop.range for loop in (*scope.outer, *scope.loops)}
    return count_points(ranges, (*constraints, *scope.constraints))


def _executions(scope: Scope, points: int) -> float:
    """Return how often a block's own statements are issued: once for all points of unrolled and vector indices."""
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
    """Return what the loads and stores of one point ask for."""
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
            case _:
                pass
    return total
