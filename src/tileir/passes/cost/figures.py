"""Cost figures of blocks, kernels and programs at each stage, and the time bounds that follow from them.

The time of a kernel is a bound: the slowest of computing, data transfer into each cache, and local memory, as in the
roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009) with a roof for each level; plus the launch.

Conditions are data and so unknown: a loop on a condition counts one step, and a branch its costlier side.

An operation counts as the weight in its row of :mod:`tileir.core.ops`: 1 for a single processor instruction, and for
functions the number of elementary operations in their expansions.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from tileir.core import DType, Op, attrs
from tileir.passes.cost.machine import Machine, Storage
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(enum.Enum):
    """Kind of an operation."""

    MULTIPLY_ADD = "multiply-add"
    ARITHMETIC = "arithmetic"
    DIVISION = "division"
    FUNCTION = "function"
    CONVERSION = "conversion"

    __hash__ = object.__hash__


_DIVISIONS: Final = frozenset({Op.DIV, Op.MOD, Op.SQRT})


_MEMORY: Final = 48
"""Weight of the operations that a card does while it stores an element and loads it again."""


def takes_less_than_memory(operations: Iterable[Op], dtype: DType) -> bool:
    """Return whether recomputing operations on a card is faster than storing an element and loading it again."""
    return sum(op.info.weight_in(dtype) for op in operations) <= _MEMORY


def weights_of(block: stripe.Block) -> int:
    """Return the number of operations per point of a block, by weight, without nested blocks."""
    return sum(s.op.info.weight_in(s.dtype) for s in block.statements if isinstance(s, stripe.Intrinsic))


def kind_of(op: Op) -> Kind:
    """Return the kind of ``op``."""
    if op.info.approximates:
        return Kind.FUNCTION
    return Kind.MULTIPLY_ADD if op is Op.FMA else Kind.DIVISION if op in _DIVISIONS else Kind.ARITHMETIC


COMPUTE: Final = "compute"
LOCAL: Final = "local memory"
LAUNCH: Final = "launch"

SHARE: Final = 0.5
"""Share of a cache available for reuse: the rule of thumb for layer conditions (Stengel et al., ICS 2015), since
caches are not fully associative and hold other data too.
"""

ITERATION_CYCLES: Final = 1.0
"""Cycles of loop overhead (count, compare, jump) per iteration that is not unrolled."""


@attrs.frozen
class Cycles:
    """Work of one unit in one iteration of a block's own statements, in cycles.

    Attributes:
        arithmetic: Cycles of the arithmetic pipelines.
        transfer: Cycles of the ports to the first-level cache.
        local: Bytes to and from the unit's local memory.
        latency: Cycles of the longest chain of dependent sums.
        overhead: Cycles of the loop itself.
    """

    arithmetic: float = 0.0
    transfer: float = 0.0
    local: float = 0.0
    latency: float = 0.0
    overhead: float = 0.0


@attrs.frozen
class CacheTraffic:
    """Bytes read into a cache, and written out of it."""

    read: float = 0.0
    written: float = 0.0

    def __add__(self, other: CacheTraffic) -> CacheTraffic:
        return CacheTraffic(self.read + other.read, self.written + other.written)

    def times(self, count: float) -> CacheTraffic:
        """Return these bytes ``count`` times."""
        return CacheTraffic(self.read * count, self.written * count)


@attrs.frozen
class Operations:
    """Operations of one dtype and kind."""

    dtype: DType
    kind: Kind
    count: int


@attrs.frozen
class BlockCost:
    """Cost of a block and of all blocks inside it, over the whole run of the kernel.

    Attributes:
        name: Name of the block; empty for none.
        depth: Nesting depth; 0 for the kernel itself.
        indices: (name, range, tag) of its own indices with more than one value.
        points: Number of executions of its statements.
        exact: Whether ``points`` is exact; otherwise, it is a bound.
        operations: Operations, weighted by dtype and kind.
        accessed_bytes: Bytes of loads and stores, except registers.
        footprint_bytes: Footprint of the run in bytes, except registers.
        footprint_exact: Whether the footprint is exact; otherwise, as with constraints, it is a bound.
        seconds: Compute time on one unit.
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
        """Number of accesses to each byte of the footprint."""
        return self.accessed_bytes / self.footprint_bytes if self.footprint_bytes else 0.0


@attrs.frozen
class LevelCost:
    """Bytes transferred between a level of memory and the next inner one, and the seconds that takes."""

    name: str
    read_bytes: float
    written_bytes: float
    seconds: float


@attrs.frozen
class KernelCost:
    """Cost of a kernel.

    Attributes:
        name: Name of its block.
        blocks: Its blocks, each before those inside it, starting with the kernel itself.
        levels: Memories from the innermost outwards.
        units: Number of busy units.
        times: Seconds of each resource, by name.
        seconds: The predicted time.
        bound: Name of the limiting resource.
        runs: Number of executions in one run of the program: more than one in a loop. A loop on a condition counts one
            step.
        conditions: Conditions for its execution, from outside in: "while go", "if odd" or "unless odd".
        counted: Whether it is part of the program's time; only the costlier side of a branch is.
        held: Bytes allocated per thread or group, by location; empty if unknown yet.
        lanes: Maximum number of elements of one operation; 0 if unknown yet.
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
        """Operations per byte transferred to or from main memory, or else per byte accessed."""
        moved = self.levels[-1].read_bytes + self.levels[-1].written_bytes if self.levels else 0.0
        return self.whole.total_operations / (moved or max(1, self.whole.footprint_bytes))


class Data(Protocol):
    """Data of a kernel, for the cache model."""

    def into(self, storage: Storage, share: float) -> CacheTraffic:
        """Return the traffic of a cache in which reuse may use ``share`` of the capacity."""


def bounded(
    blocks: tuple[BlockCost, ...], data: Data, machine: Machine, groups: int, local: float, program_bytes: int
) -> KernelCost:
    """Return the cost of a kernel: its slowest resource decides.

    Args:
        blocks: Its blocks, each before those inside it; the kernel itself first.
        data: Its inputs and outputs.
        machine: The device.
        groups: Points of its grid.
        local: Bytes that move to and from local memory.
        program_bytes: The size of all memory of the program, which decides the initial content of caches.
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
        moved = CacheTraffic() if warm else data.into(inner, SHARE)
        transferred = moved.read + moved.written * (2 if machine.writes_allocate else 1)
        rate = min(outer.total_rate, outer.unit_rate * units)
        yield LevelCost(outer.name, moved.read, moved.written, transferred / rate if rate else 0.0)
