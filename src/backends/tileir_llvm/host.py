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
from tileir_llvm.dots import native_dots
from tileir_llvm.floats import NATIVE
from tileir_llvm.host_model import caches, host_model

DEVICE_ID: Final = "llvm.0"

_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


@cache
def device() -> DeviceInfo:
    """Return the host's processor as a device."""
    name = llvm.get_host_cpu_name()
    features = enabled_features()
    wide = "avx512f" in features
    registers = 32 if wide or platform.machine().lower() in ("aarch64", "arm64") else 16
    width = 64 if wide else 32 if "avx2" in features else 16
    threads, memory, found = usable_threads(), memory_bytes(), caches()
    exact = native_dots(features)
    target = Target(
        name=f"llvm-{name}",
        vector_bytes=width,
        vector_registers=registers,
        threads=threads,
        shuffles=True,
        cache_bytes=tuple(cache.size_bytes for cache in found) or Target().cache_bytes,
        hardware=host_model(f"llvm-{name}", name, threads, width, registers, memory, found) if found else None,
        dots=tuple(sorted(exact)),
        rounded_dots=tuple(sorted(native_dots(features, fast_math=True) - exact)),
        native=tuple(sorted(op.value for op in NATIVE)),
    )
    return DeviceInfo(DEVICE_ID, processor_name() or name, "llvm", memory, features, target)


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
