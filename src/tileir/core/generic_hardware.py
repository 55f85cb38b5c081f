"""Hardware models of devices of which only the facts of a target are known.

Where a fact is missing a figure is taken that is ordinary for such devices in the years from 2020; cost models need
ratios, and these differ less from one device to the next than the figures do. Processors have memories ``DRAM``,
caches ``L1`` and so on outwards, ``REGISTER``, and execution units ``CORE``. Devices whose groups have many threads
have ``DRAM``, caches ``L2`` and so on outwards, ``LOCAL``, ``REGISTER``, and execution units ``SM``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tileir.core.dtype import DType
from tileir.core.hardware import Bus, ExecutionUnit, HardwareModel, MemoryUnit
from tileir.core.hardware_verifier import verify

if TYPE_CHECKING:
    from tileir.core.target import Target

_CPU_MHZ: Final = 3000
_GPU_MHZ: Final = 1500
_MEMORY_KIB: Final = 16 << 20
_LINE: Final = 64
_GPU_LINE: Final = 128
_PIPES: Final = 2
"""Vector units of a processor core, each of at most 32 bytes: what all cores of the last decade have at least."""

_PIPE_BYTES: Final = 32
_MULTIPROCESSOR_LANES: Final = 128
"""f32 lanes of one multiprocessor, as NVIDIA and AMD build them."""

_REGISTER_KIB: Final = 256
"""Registers of one multiprocessor."""

_CPU_LAUNCH_US: Final = 2.0
_GPU_LAUNCH_US: Final = 5.0


@lru_cache(maxsize=64)
def generic_hardware(target: Target) -> HardwareModel:
    """Return a model of the device that ``target`` describes.

    Clock, memory size, rates and the widths of buses are ordinary ones; counts and sizes are the target's.
    """
    return verify(_group_device(target) if target.group_width > 1 else _processor(target))


def _processor(target: Target) -> HardwareModel:
    cores = max(1, target.threads)
    registers = max(1, target.vector_registers * target.vector_bytes) / 1024
    caches, buses = [], []
    inner = "REGISTER"
    widths = (2 * target.vector_bytes, _LINE)  # bytes in a cycle: two loads from the first level, a line from the next
    for level, size in enumerate(target.cache_bytes, 1):
        private = level <= len(widths) or level < len(target.cache_bytes)
        name, count = f"L{level}", cores if private else 1
        caches.append(MemoryUnit(name, count, size / 1024, _LINE, "CORE" if private else ""))
        width = widths[level - 1] if level <= len(widths) else _LINE // 2
        buses += [Bus((name,), (inner,), width, cores), Bus((inner,), (name,), max(1, width // 2), cores)]
        inner = name
    memory = _LINE // 8 * (2 + cores // 4)  # channels grow with the number of cores
    buses += [Bus(("DRAM",), (inner,), memory), Bus((inner,), ("DRAM",), max(1, memory // 2))]
    buses += _operands("CORE", target.vector_bytes, cores)
    pipe = min(target.vector_bytes, _PIPE_BYTES)
    rates = tuple((dtype, 2 * _PIPES * max(1, pipe // dtype.itemsize)) for dtype in (DType.F32, DType.F64))
    half = tuple((dtype, _PIPES * max(1, pipe // 4)) for dtype in (DType.F16, DType.BF16))  # computed in f32
    whole = tuple((dtype, _PIPES * max(1, pipe // dtype.itemsize)) for dtype in DType if not dtype.is_float)
    return HardwareModel(
        target.name,
        _CPU_MHZ,
        (
            MemoryUnit("DRAM", 1, _MEMORY_KIB),
            *reversed(caches),
            MemoryUnit("REGISTER", cores, registers, 0, "CORE"),
        ),
        (ExecutionUnit("CORE", cores, (*rates, *half, *whole)),),
        (),
        tuple(buses),
        _CPU_LAUNCH_US,
    )


def _group_device(target: Target) -> HardwareModel:
    count = max(1, target.threads)
    inner = "REGISTER"
    lanes = _MULTIPROCESSOR_LANES
    memories = [MemoryUnit("REGISTER", count, _REGISTER_KIB, 0, "SM")]
    buses = _operands("SM", 4 * lanes, count)
    if target.local_bytes:
        memories.append(MemoryUnit("LOCAL", count, target.local_bytes / 1024, 0, "SM"))
        buses += [Bus(("LOCAL",), (inner,), lanes, count), Bus((inner,), ("LOCAL",), lanes, count)]
    for level, size in enumerate(target.cache_bytes, 2):
        name = f"L{level}"
        memories.append(MemoryUnit(name, 1, size / 1024, _GPU_LINE))
        ends = ((inner,), (name,))
        buses += [Bus(ends[1], ends[0], _LINE, count), Bus(*ends, _LINE // 2, count)]
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
    return [Bus(("REGISTER",), (unit,), 3 * width, count), Bus((unit,), ("REGISTER",), width, count)]
