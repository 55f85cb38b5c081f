"""What the host's processor offers."""

from __future__ import annotations

import math
import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import Final

import llvmlite.binding as llvm

from tileir.core.target import Target
from tileir.runtime.interface import DeviceInfo
from tileir_llvm.floats import NATIVE

DEVICE_ID: Final = "llvm.0"

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_UNITS: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


@cache
def device() -> DeviceInfo:
    """Return the host's processor as a device."""
    name = llvm.get_host_cpu_name()
    features = enabled_features()
    wide = "avx512f" in features
    registers = 32 if wide or platform.machine().lower() in ("aarch64", "arm64") else 16
    target = Target(
        name=f"llvm-{name}",
        vector_bytes=64 if wide else 32 if "avx2" in features else 16,
        vector_registers=registers,
        threads=usable_threads(),
        shuffles=True,
        cache_bytes=cache_sizes() or Target().cache_bytes,
        native=tuple(sorted(op.value for op in NATIVE)),
    )
    return DeviceInfo(DEVICE_ID, processor_name() or name, "llvm", memory_bytes(), features, target)


@cache
def enabled_features() -> tuple[str, ...]:
    """Return the names of the processor's features that LLVM knows, sorted."""
    return tuple(sorted(name for name, enabled in llvm.get_host_cpu_features().items() if enabled))


def usable_threads() -> int:
    """Return how many processors this process may use: by its affinity, and by the quota of its container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = processor_quota()
    return count if quota is None else max(1, min(count, math.ceil(quota)))


def processor_quota() -> float | None:
    """Return how many processors' time the process may take; None where that is not limited."""
    try:
        quota, period = _QUOTA.read_text(encoding="utf-8").split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def cache_sizes() -> tuple[int, ...]:
    """Return the sizes in bytes of the data caches, innermost first; empty where the system does not tell."""
    sizes: dict[int, int] = {}
    try:
        for folder in sorted(_CACHES.glob("index*")):
            if (folder / "type").read_text(encoding="utf-8").strip() in ("Data", "Unified"):
                sizes[int((folder / "level").read_text(encoding="utf-8"))] = _bytes(
                    (folder / "size").read_text(encoding="utf-8")
                )
    except (OSError, ValueError):
        return ()
    return tuple(sizes[level] for level in sorted(sizes))


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)\s*", text)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _UNITS[found[2]]


def processor_name() -> str:
    """Return the processor's name in the system's words; empty where it does not tell."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return platform.processor()
    return found[1].strip() if found else platform.processor()


def memory_bytes() -> int | None:
    """Return the size of the host's memory; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
