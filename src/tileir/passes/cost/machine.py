"""Machine parameters of the cost model, from a hardware model and a target."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tileir.core import LOCAL, DType, ExecutionUnit, HardwareModel, MemoryUnit, Target, attrs

PIPES: Final = 2
"""Minimum number of vector instructions that a processor core issues per cycle, even if only one may multiply."""

LATENCY: Final = 4.0
"""Default latency of a multiply-add in cycles: x86 and Arm cores since 2015, within one cycle (Fog, "Instruction
tables", 2022).
"""

MATRIX_SPEEDUP: Final = 8
"""Default speed of matrix instructions relative to others on narrow floats, if the model has no unit for them."""


@attrs.frozen
class Storage:
    """A cache, or the memory behind all caches.

    Attributes:
        name: Its name in the hardware model.
        size_bytes: Capacity of one of them; main memory is unlimited.
        line_bytes: Size of a cache line.
        shared: Whether all units share one.
        unit_rate: Bandwidth of one unit, in bytes per second.
        total_rate: Bandwidth of all units together, in bytes per second.
    """

    name: str
    size_bytes: int
    line_bytes: int
    shared: bool
    unit_rate: float
    total_rate: float


@attrs.frozen
class Machine:
    """A device.

    Attributes:
        clock: Cycles per second.
        units: Number of execution units that run groups in parallel.
        vector_bytes: Width of a vector of one unit; 0 if the lanes of a unit are threads.
        registers: Vector registers of a unit; 0 for no limit.
        width: Threads that run in lock-step; 1 if groups have one thread.
        depth: Instructions in flight in one unit; 1 if unknown.
        rates: Operations of one unit per cycle, by dtype; a fused multiply-add counts 2.
        matrix_rates: Operations of matrix instructions of one unit per cycle, by dtype.
        storages: Caches from the innermost outwards, main memory last.
        local_rate: Bandwidth between one unit and its local memory, in bytes per second; 0 if it has none.
        launch_seconds: Launch latency of a kernel.
        writes_allocate: Whether a store reads the cache line first (write-allocate).
    """

    clock: float
    units: int
    vector_bytes: int
    registers: int
    width: int
    depth: int
    rates: tuple[tuple[DType, float], ...]
    matrix_rates: tuple[tuple[DType, float], ...]
    storages: tuple[Storage, ...]
    local_rate: float
    launch_seconds: float
    writes_allocate: bool

    def rate(self, dtype: DType) -> float:
        """Return the operations on ``dtype`` per cycle of one unit."""
        return next(rate for each, rate in self.rates if each is dtype)

    def matrix_rate(self, dtype: DType) -> float:
        """Return the operations on ``dtype`` per cycle of one unit with matrix instructions."""
        return next(rate for each, rate in self.matrix_rates if each is dtype)

    def latency(self, dtype: DType) -> float:
        """Return the latency in cycles of a dependent sum of ``dtype``."""
        return self.depth / self.instructions(dtype) if self.depth > 1 else LATENCY

    def lanes(self, dtype: DType) -> int:
        """Return the number of elements per instruction; 1 if lanes are threads."""
        return max(1, self.vector_bytes // dtype.itemsize)

    def instructions(self, dtype: DType) -> float:
        """Return the multiply-adds on full vectors of ``dtype`` per cycle of one unit."""
        return self.rate(dtype) / (2 * self.lanes(dtype))

    def plain_instructions(self, dtype: DType) -> float:
        """Return the other instructions on full vectors of ``dtype`` that one unit issues per cycle."""
        return max(self.instructions(dtype), PIPES) if self.vector_bytes else self.instructions(dtype)


@lru_cache(maxsize=64)
def machine_of(model: HardwareModel, target: Target) -> Machine:
    """Return the parameters of a device."""
    unit = _unit_of(model)
    grouped = target.group_threads > 1
    count = min(unit.count, max(1, target.threads))
    levels = model.levels(unit.name)
    caches = [memory for memory in reversed(levels) if memory.is_cache]
    storages = [*caches, *levels[:1]] if levels and not levels[0].is_cache else caches
    local = next((m for m in levels if not m.is_cache and m is not levels[0] and m.name == LOCAL), None)
    return Machine(
        clock=model.clock_mhz * 1e6,
        units=count,
        vector_bytes=0 if grouped else target.vector_bytes,
        registers=0 if grouped else target.vector_registers,
        width=max(1, target.group_width),
        depth=unit.pipeline_depth,
        rates=tuple((dtype, unit.rate(dtype) or 1.0) for dtype in DType),
        matrix_rates=tuple((dtype, _matrix_rate(model, unit, dtype)) for dtype in DType),
        storages=tuple(_storage(model, unit, memory, caches) for memory in storages),
        local_rate=0.0 if local is None else model.bandwidth(f"{local.name}[0]", f"{unit.name}[0]"),
        launch_seconds=model.launch_us * 1e-6,
        writes_allocate=not grouped,
    )


def _unit_of(model: HardwareModel) -> ExecutionUnit:
    """Return the general-purpose units: those with the highest rate of all that are not for matrices alone."""
    general = [unit for unit in model.execution_units if not unit.matrix]
    return max(general or model.execution_units, key=lambda unit: unit.count * unit.rate(DType.F32))


def _matrix_rate(model: HardwareModel, unit: ExecutionUnit, dtype: DType) -> float:
    """Return the matrix operations per cycle for each general-purpose unit."""
    rates = [each.count * each.rate(dtype) / unit.count for each in model.execution_units if each.matrix]
    return max(rates, default=0.0) or MATRIX_SPEEDUP * (unit.rate(DType.F32) or 1.0)


def _storage(model: HardwareModel, unit: ExecutionUnit, memory: MemoryUnit, caches: list[MemoryUnit]) -> Storage:
    shared = memory.count == 1
    source = memory.name if shared else f"{memory.name}[0]"
    line = memory.line_bytes or max((cache.line_bytes for cache in caches), default=1)
    return Storage(
        memory.name,
        memory.size_bytes,
        line,
        shared,
        model.bandwidth(source, f"{unit.name}[0]"),
        model.bandwidth(memory.name, unit.name),
    )
