"""Hardware models: memories, execution units and the buses between them, as a value.

The parts and their words are those of Stripe's hardware models (PlaidML, 'Stripe: Hardware Model'). A model has
resources and speeds, and nothing about programs. :mod:`tileir.core.targets.hardware_json` is its text form,
:mod:`tileir.core.targets.hardware_verifier` has the rules of models; queries expect a valid model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

from tileir.core.dtype import DType
from tileir.core.errors import fail
from tileir.core.graphs.grouping import grouped
from tileir.core.nodes import attrs
from tileir.core.text.names import nearest

REGISTER: Final = "REGISTER"
LOCAL: Final = "LOCAL"
SCRATCH: Final = "SCRATCH"
"""Names in locations of the memories that every lowering knows: of a thread, of a group of threads, and of a launch."""

ENDPOINT: Final = re.compile(r"(?P<name>[^\W\d]\w*)(?:\[(?P<number>\d{1,9})\])?\Z")
"""An end of a bus: ``SRAM[0]`` is one unit, ``SRAM`` all units of that name."""


@attrs.frozen(cache_hash=True)
class MemoryUnit:
    """Memories of one kind.

    Attributes:
        name: Its name in locations and buses.
        count: The number of units.
        size_kib: Size of each one, in units of 1024 bytes.
        line_bytes: Bytes that a cache moves at a time; 0 if programs address the memory themselves.
        per: The execution unit that each one serves alone; empty if all units share all of them.
    """

    name: str
    count: int = 1
    size_kib: float = 0
    line_bytes: int = 0
    per: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes of one of them."""
        return int(self.size_kib * 1024)

    @property
    def is_cache(self) -> bool:
        """True if the hardware, and no program, determines its content."""
        return self.line_bytes > 0


@attrs.frozen(cache_hash=True)
class ExecutionUnit:
    """Computing units of one kind.

    Attributes:
        name: Its name in locations and buses.
        count: The number of units.
        ops_per_cycle: Operations that each one finishes in a cycle, by dtype; a fused multiply-add counts 2. None
            stands for every dtype that is not listed; without it, other dtypes cannot run there.
        pipeline_depth: The number of operations that each one has in flight.
        matrix: Whether it multiplies matrices and can do nothing else.
    """

    name: str
    count: int = 1
    ops_per_cycle: tuple[tuple[DType | None, float], ...] = ((None, 1),)
    pipeline_depth: int = 1
    matrix: bool = False

    def rate(self, dtype: DType) -> float:
        """Return the operations on ``dtype`` that one such unit finishes in a cycle; 0 if it has none."""
        rates = dict(self.ops_per_cycle)
        return rates.get(dtype, rates.get(None, 0))


@attrs.frozen(cache_hash=True)
class TransferUnit:
    """Units of one kind that move data and keep none, such as engines of direct memory access."""

    name: str
    count: int = 1


Unit: TypeAlias = MemoryUnit | ExecutionUnit | TransferUnit
U = TypeVar("U", bound=Unit)


@attrs.frozen(cache_hash=True)
class Bus:
    """A connection for data from any of its sources to any of its sinks.

    Attributes:
        sources: The sources, such as ``DRAM[0]``; a name without a number means all units of that name.
        sinks: The sinks.
        bytes_per_cycle: Bytes in a cycle of the model's clock, over all its ends.
        count: The number of parallel buses: 8 for 8 processors that each have their own.
    """

    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    bytes_per_cycle: float
    count: int = 1


@attrs.frozen(cache_hash=True)
class HardwareModel:
    """A machine.

    Attributes:
        name: Its name in messages.
        clock_mhz: Millions of cycles in a second, the unit of all rates.
        memory_units: Its memories, in any order; :meth:`levels` sorts them by distance from the execution units.
        execution_units: Its computing units.
        transfer_units: Its units that move data.
        buses: Their connections.
        launch_us: Microseconds before a kernel starts to work.
        link_gbps: 10^9 bytes in a second that a rank gets from others: twice the size of a message of 64 MiB over the
            time of its round trip to another rank. The default is that of InfiniBand of 100 gigabits.
        link_us: Latency of an exchange in microseconds: half the time of a round trip of 8 bytes to another rank.
    """

    name: str
    clock_mhz: float
    memory_units: tuple[MemoryUnit, ...] = ()
    execution_units: tuple[ExecutionUnit, ...] = ()
    transfer_units: tuple[TransferUnit, ...] = ()
    buses: tuple[Bus, ...] = ()
    launch_us: float = 0
    link_gbps: float = 12.5
    link_us: float = 2

    @property
    def units(self) -> tuple[Unit, ...]:
        """All units: memories, computing units, and those that move data."""
        return (*self.memory_units, *self.execution_units, *self.transfer_units)

    def memory(self, name: str) -> MemoryUnit:
        """Return the memories of that name.

        Raises:
            TileError: TIL545, there are none.
        """
        return _named(name, self.memory_units, "memory")

    def execution(self, name: str) -> ExecutionUnit:
        """Return the execution units of that name.

        Raises:
            TileError: TIL545, there are none.
        """
        return _named(name, self.execution_units, "execution unit")

    def levels(self, unit: str = "") -> tuple[MemoryUnit, ...]:
        """Return the memories from the outermost to the one next to the execution units.

        Args:
            unit: The execution units to start from; by default all that there are. Memories without a path to them are
                left out.
        """
        distance = _distances(self, unit)
        reached = [memory for memory in self.memory_units if memory.name in distance]
        return tuple(sorted(reached, key=lambda memory: (-distance[memory.name], -memory.size_kib * memory.count)))

    def size(self, memory: str) -> int:
        """Return the bytes of one memory of that name; TIL545 if there is none."""
        return self.memory(memory).size_bytes

    def bandwidth(self, source: str, sink: str) -> float:
        """Return the bytes in a second that can go from one unit to another, also through others.

        Ends are written as those of buses: ``SRAM[0]`` is one unit, ``SRAM`` all of that name together. Of several
        paths the widest one counts; each is as wide as its narrowest part. The result is 0 if there is no path.

        Raises:
            TileError: TIL545, there is no such unit.
        """
        _named(_name_of(source), self.units, "unit")
        _named(_name_of(sink), self.units, "unit")
        return _widest(self, source, sink) * self.clock_mhz * 1e6

    def peak(self, dtype: DType, *, matrix: bool = False) -> float:
        """Return the most operations on ``dtype`` in a second, a fused multiply-add counted as 2.

        Args:
            dtype: The dtype of the operands.
            matrix: Whether units that can only multiply matrices count.
        """
        rates = (unit.count * unit.rate(dtype) for unit in self.execution_units if matrix or not unit.matrix)
        return max(rates, default=0) * self.clock_mhz * 1e6

    def balance(self, memory: str, dtype: DType, *, matrix: bool = False) -> float:
        """Return the operations of the machine while one byte comes from ``memory``; inf if none comes."""
        speed = max((self.bandwidth(memory, unit.name) for unit in self.execution_units), default=0)
        return self.peak(dtype, matrix=matrix) / speed if speed else float("inf")

    def exchange_seconds(self, size: float) -> float:
        """Return the price of an exchange in which a rank gets ``size`` bytes from others; 0 for none."""
        return self.link_us * 1e-6 + size / (self.link_gbps * 1e9) if size else 0.0


_START: Final = ""
"""Start of a path: not the first unit itself, so that a path can return to units of its name."""


@lru_cache(maxsize=64)
def _capacities(model: HardwareModel) -> Mapping[str, tuple[tuple[str, Bus], ...]]:
    """Return the sinks of each unit, by name, with their buses."""
    ways: dict[str, list[tuple[str, Bus]]] = {}
    for bus in model.buses:
        for source in dict.fromkeys(map(_name_of, bus.sources)):
            ways.setdefault(source, []).extend((sink, bus) for sink in dict.fromkeys(map(_name_of, bus.sinks)))
    return {source: tuple(sinks) for source, sinks in ways.items()}


@lru_cache(maxsize=256)
def _distances(model: HardwareModel, unit: str) -> Mapping[str, int]:
    """Return for each memory the number of memories on the way to execution units, itself included."""
    feeders = grouped((sink, source) for source, sinks in _capacities(model).items() for sink, _ in sinks)
    memories = {memory.name for memory in model.memory_units}
    starts = [each.name for each in model.execution_units if unit in ("", each.name)]
    distance = dict.fromkeys(starts, 0)
    pending = list(starts)
    while pending:  # few units, and steps of 0 and 1: each is visited again when a shorter path is found
        sink = pending.pop(0)
        for source in feeders.get(sink, ()):
            steps = distance[sink] + (source in memories)
            if steps < distance.get(source, steps + 1):
                distance[source] = steps
                pending.append(source)
    return {name: steps for name, steps in distance.items() if name in memories}


@lru_cache(maxsize=1024)
def _widest(model: HardwareModel, source: str, sink: str) -> float:
    """Return the bytes in a cycle on the widest path, by Dijkstra's algorithm with widths for lengths."""
    last = _name_of(sink)
    width = {_START: float("inf")}
    done: set[str] = set()
    while pending := [name for name in width if name not in done]:
        name = max(pending, key=width.__getitem__)
        if name == last:
            return width[name]
        done.add(name)
        totals: dict[str, float] = {}
        for other, bus in _capacities(model).get(_name_of(source) if name == _START else name, ()):
            copies = bus.count
            if name == _START:
                copies = min(copies, _copies(bus, bus.sources, source))
            if other == last:
                copies = min(copies, _copies(bus, bus.sinks, sink))
            totals[other] = totals.get(other, 0) + bus.bytes_per_cycle * copies
        for other, total in totals.items():
            width[other] = max(width.get(other, 0), min(width[name], total))
    return 0


def _copies(bus: Bus, ends: tuple[str, ...], end: str) -> int:
    """Return the number of parallel buses that have ``end`` among their ``ends``."""
    name = _name_of(end)
    if end == name:
        return bus.count if any(_name_of(each) == name for each in ends) else 0
    return bus.count if end in ends else int(name in ends)


def _name_of(end: str) -> str:
    return end.partition("[")[0]


def _named(name: str, units: Iterable[U], what: str) -> U:
    known = {unit.name: unit for unit in units}
    if name not in known:
        raise fail("TIL545", f"the hardware model has no {what} {name[:64]!r}{nearest(name, known)}")
    return known[name]
