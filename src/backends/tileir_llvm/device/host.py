"""Features of the processor that kernels are compiled for."""

from __future__ import annotations

import math
import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import Final

from tileir.core import BackendError, Target
from tileir.runtime.interface import DeviceInfo
from tileir_llvm.device.host_model import caches, host_model
from tileir_llvm.device.processor import host_processor, processor
from tileir_llvm.emit.dots import SPELT, native_dots
from tileir_llvm.emit.floats import NATIVE

DEVICE_ID: Final = "llvm.0"

_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


@cache
def device() -> DeviceInfo:
    """Return the host's processor as a device, with its usable features."""
    try:
        chosen = processor()
    except BackendError:  # compiling reports it
        chosen = host_processor()
    name, features = chosen.name, chosen.features
    wide = "avx512f" in features
    registers = 32 if wide or platform.machine().lower() in ("aarch64", "arm64") else 16
    width = 64 if wide else 32 if "avx2" in features else 16
    threads, memory, found = usable_threads(), memory_bytes(), caches()
    target = Target(
        name=f"llvm-{name}",
        vector_bytes=width,
        vector_registers=registers,
        threads=threads,
        shuffles=True,
        cache_bytes=tuple(cache.size_bytes for cache in found) or Target().cache_bytes,
        hardware=host_model(f"llvm-{name}", name, threads, width, registers, memory, found) if found else None,
        fragments=tuple(name for name in SPELT if name in native_dots(features)),
        native=tuple(sorted(op.value for op in NATIVE)),
    )
    described = processor_name() or host_processor().name
    if chosen != host_processor():
        described += f" as {name}"
    return DeviceInfo(DEVICE_ID, described, "llvm", memory, features, target)


def usable_threads() -> int:
    """Return the number of processors available to this process, by its affinity and container quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = processor_quota()
    return count if quota is None else max(1, min(count, math.ceil(quota)))


def processor_quota() -> float | None:
    """Return the number of processors' time that the process may take; None if unlimited."""
    try:
        quota, period = _QUOTA.read_text(encoding="utf-8").split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def processor_name() -> str:
    """Return the processor's name from the system; empty if unknown."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return platform.processor()
    return found[1].strip() if found else platform.processor()


def memory_bytes() -> int | None:
    """Return the size of the host's memory; None if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
