"""Hardware model of the host's processor: caches from the system, the rest by the kind of processor."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tileir.core import HardwareModel, MemoryUnit, attrs
from tileir.core.targets.generic_hardware import processor

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_FREQUENCY: Final = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
_UNITS: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_LINE: Final = 64

_USUAL_MHZ: Final = 3000
_USUAL_KIB: Final = 16 << 20

_WIDEST: Final = 64
_TWO_WIDE: Final = (
    "cascadelake",
    "cooperlake",
    "diamondrapids",
    "emeraldrapids",
    "graniterapids",
    "icelake-server",
    "sapphirerapids",
    "skylake-avx512",
    "znver5",
)
"""Processors, by LLVM's names, with two multipliers of 64 bytes; others combine their two of 32 into one."""


@attrs.frozen
class Cache:
    """Data cache of the first processor.

    Attributes:
        level: Level, from 1.
        size_bytes: Size.
        line_bytes: Line size.
        shared: Number of processors that share it.
    """

    level: int
    size_bytes: int
    line_bytes: int = _LINE
    shared: int = 1


def caches() -> tuple[Cache, ...]:
    """Return the data caches, innermost first; none if unknown."""
    found: dict[int, Cache] = {}
    try:
        for folder in sorted(_CACHES.glob("index*")):
            if _text(folder / "type") in ("Data", "Unified"):
                level = int(_text(folder / "level"))
                found[level] = Cache(level, _bytes(_text(folder / "size")), _line(folder), _shared(folder))
    except (OSError, ValueError):
        return ()
    return tuple(found[level] for level in sorted(found))


def host_model(
    name: str,
    kind: str,
    cores: int,
    vector_bytes: int,
    registers: int,
    memory_bytes: int | None,
    found: Iterable[Cache],
) -> HardwareModel:
    """Return a model of the host.

    Args:
        name: Name of the model.
        kind: LLVM's name of the processor.
        cores: Number of concurrent threads.
        vector_bytes: Width of a vector register.
        registers: Number of vector registers.
        memory_bytes: Size of the memory, if known.
        found: The caches.
    """
    units = []
    for cache in found:
        count = max(1, math.ceil(cores / cache.shared))
        per = "CORE" if count == cores and cache.shared == 1 else ""
        units.append(MemoryUnit(f"L{cache.level}", count, cache.size_bytes / 1024, cache.line_bytes, per))
    return processor(
        name,
        cores,
        units,
        vector_bytes=vector_bytes,
        registers=registers,
        multiply_bytes=vector_bytes if vector_bytes >= _WIDEST and kind not in _TWO_WIDE else 2 * vector_bytes,
        clock_mhz=clock_mhz(),
        memory_kib=_USUAL_KIB if memory_bytes is None else memory_bytes / 1024,
    )


def clock_mhz() -> float:
    """Return the maximum clock of the processor, or a typical one if unknown.

    The current clock is not used: models of one machine must be equal, as they are part of cache keys.
    """
    try:
        return int(_text(_FREQUENCY)) / 1000
    except (OSError, ValueError):
        return _USUAL_MHZ


def _line(folder: Path) -> int:
    try:
        return int(_text(folder / "coherency_line_size"))
    except (OSError, ValueError):
        return _LINE


def _shared(folder: Path) -> int:
    """Return the number of processors in a list such as ``0-3,8``; 1 if there is none."""
    try:
        ranges = [part.split("-") for part in _text(folder / "shared_cpu_list").split(",")]
        return max(1, sum(int(each[-1]) - int(each[0]) + 1 for each in ranges))
    except (OSError, ValueError):
        return 1


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _UNITS[found[2]]
