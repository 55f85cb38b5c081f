"""Hardware models of devices of which only the facts of a target are known.

A missing figure gets the usual value for devices of its kind from 2020 on; cost models need ratios, and these differ
less between devices than the figures do. Processors have memories ``DRAM``, caches ``L1`` and so on outwards,
``REGISTER``, and execution units ``CORE``. Devices whose groups have many threads have ``DRAM``, caches ``L2`` and so
on outwards, ``LOCAL``, ``REGISTER``, and execution units ``SM``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from tileir.core.dtype import DType, accumulator
from tileir.core.targets.hardware import LOCAL, REGISTER, Bus, ExecutionUnit, HardwareModel, MemoryUnit
from tileir.core.targets.hardware_verifier import verify
from tileir.core.targets.target import Target

_CPU_MHZ: Final = 3000
_GPU_MHZ: Final = 1500
_MEMORY_KIB: Final = 16 << 20
_LINE: Final = 64
_GPU_LINE: Final = 128
_PIPES: Final = 2
"""Vector units of a processor core, each of at most 32 bytes: all cores of the last decade have at least these."""

_PIPE_BYTES: Final = 32
_MULTIPROCESSOR_LANES: Final = 128
"""f32 lanes of one multiprocessor of NVIDIA and AMD."""

_REGISTER_KIB: Final = 256
"""Registers of one multiprocessor."""

_CPU_LAUNCH_US: Final = 2.0
_GPU_LAUNCH_US: Final = 5.0


@lru_cache(maxsize=64)
def generic_hardware(target: Target) -> HardwareModel:
    """Return a model of the device that ``target`` describes.

    Clock, memory size, rates and the widths of buses are usual values; counts and sizes are the target's.
    """
    return verify(_group_device(target) if target.group_width > 1 else _processor(target))


def processor(
    name: str,
    cores: int,
    caches: Sequence[MemoryUnit],
    *,
    vector_bytes: int,
    registers: int,
    multiply_bytes: int,
    clock_mhz: float = _CPU_MHZ,
    memory_kib: float = _MEMORY_KIB,
) -> HardwareModel:
    """Return the model of a processor whose cores have vector registers and caches.

    Args:
        name: Its name.
        cores: The number of threads that run at a time.
        caches: Its caches, innermost first.
        vector_bytes: Width of a vector register.
        registers: Vector registers of a core.
        multiply_bytes: Bytes of operands that a core multiplies and adds in a cycle.
        clock_mhz: Millions of cycles in a second.
        memory_kib: Size of the memory.
    """
    inner = MemoryUnit(REGISTER, cores, max(1, registers * vector_bytes) / 1024, 0, "CORE")
    memories = [inner]
    buses = _operands("CORE", vector_bytes, cores)
    widths = (2 * vector_bytes, _LINE)  # bytes in a cycle: two loads from the first level, a line from the second
    for level, cache in enumerate(caches):
        width, count = widths[level] if level < len(widths) else _LINE // 2, max(inner.count, cache.count)
        buses += _both_ways(cache.name, inner.name, width, count)
        inner = cache
        memories.append(cache)
    channels = _LINE // 8 * (2 + cores // 4)  # they grow with the number of cores
    return HardwareModel(
        name,
        clock_mhz,
        (MemoryUnit("DRAM", 1, memory_kib), *reversed(memories)),
        (ExecutionUnit("CORE", cores, _core_rates(multiply_bytes)),),
        (),
        (*_both_ways("DRAM", inner.name, channels, 1), *buses),
        _CPU_LAUNCH_US,
    )


def _core_rates(multiply_bytes: int) -> tuple[tuple[DType | None, float], ...]:
    """Return the operations of a core in a cycle: floats are multiplied and added at once, f16 and bf16 as f32."""
    rates: list[tuple[DType | None, float]] = []
    for dtype in DType:
        if dtype.is_storage:
            continue
        lanes = max(1, multiply_bytes // accumulator(dtype).itemsize)
        rates.append((dtype, 2 * lanes if dtype in (DType.F32, DType.F64) else lanes))
    return tuple(rates)


def _processor(target: Target) -> HardwareModel:
    cores = max(1, target.threads)
    private = max(2, len(target.cache_bytes) - 1)
    caches = [
        MemoryUnit(f"L{n}", cores if n <= private else 1, size / 1024, _LINE, "CORE" if n <= private else "")
        for n, size in enumerate(target.cache_bytes, 1)
    ]
    return processor(
        target.name,
        cores,
        caches,
        vector_bytes=target.vector_bytes,
        registers=target.vector_registers,
        multiply_bytes=_PIPES * min(target.vector_bytes, _PIPE_BYTES),
    )


def _group_device(target: Target) -> HardwareModel:
    count = max(1, target.threads)
    inner = REGISTER
    lanes = _MULTIPROCESSOR_LANES
    memories = [MemoryUnit(REGISTER, count, _REGISTER_KIB, 0, "SM")]
    buses = _operands("SM", 4 * lanes, count)
    if target.local_bytes:
        memories.append(MemoryUnit(LOCAL, count, target.local_bytes / 1024, 0, "SM"))
        buses += [Bus((LOCAL,), (inner,), lanes, count), Bus((inner,), (LOCAL,), lanes, count)]
    for level, size in enumerate(target.cache_bytes, 2):
        name = f"L{level}"
        memories.append(MemoryUnit(name, 1, size / 1024, _GPU_LINE))
        buses += _both_ways(name, inner, _LINE, count)
        inner = name
    memories.append(MemoryUnit("DRAM", 1, _MEMORY_KIB))
    width = 8 * count  # about one such device's share for each multiprocessor
    buses += [Bus(("DRAM",), (inner,), width), Bus((inner,), ("DRAM",), width)]
    rates: tuple[tuple[DType | None, float], ...] = (
        (DType.F32, 2 * lanes),
        (DType.F64, lanes // 16),
        (DType.I64, lanes // 4),
        (DType.U64, lanes // 4),
        (None, lanes),
    )
    return HardwareModel(
        target.name,
        _GPU_MHZ,
        tuple(reversed(memories)),
        (ExecutionUnit("SM", count, rates),),
        (),
        tuple(buses),
        _GPU_LAUNCH_US,
    )


def _operands(unit: str, width: int, count: int) -> list[Bus]:
    """Return the buses of a fused multiply-add in each cycle: three operands in, one result out."""
    return [Bus((REGISTER,), (unit,), 3 * width, count), Bus((unit,), (REGISTER,), width, count)]


def _both_ways(outer: str, inner: str, width: int, count: int) -> list[Bus]:
    return [Bus((outer,), (inner,), width, count), Bus((inner,), (outer,), max(1, width // 2), count)]
