"""Host's processor, as reported by the C compiler and the system's standard interfaces."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Final

from tileir.core.targets.target import Target
from tileir.runtime.interface import DeviceInfo
from tileir_emit.c_like import NATIVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir_c.toolchain import Toolchain

DEVICE_ID: Final = "c.0"

_WIDTHS: Final = (("__AVX512F__", 64), ("__AVX__", 32))
_FEATURES: Final = (
    ("__SSE4_2__", "sse4.2"),
    ("__AVX__", "avx"),
    ("__AVX2__", "avx2"),
    ("__AVX512F__", "avx512f"),
    ("__FMA__", "fma"),
    ("__F16C__", "f16c"),
    ("__ARM_NEON", "neon"),
    ("__ARM_FEATURE_SVE", "sve"),
    ("__riscv_vector", "rvv"),
)
_MANY_REGISTERS: Final = ("__AVX512F__", "__aarch64__", "__riscv_vector", "__powerpc64__")


def device(toolchain: Toolchain) -> DeviceInfo:
    """Return the host's processor as a device."""
    name = f"{platform.processor() or platform.machine()} through {toolchain.version or toolchain.command[0]}"
    features = tuple(name for macro, name in _FEATURES if macro in toolchain.macros)
    return DeviceInfo(DEVICE_ID, name, "c", memory_bytes(), features, target(toolchain.macros, usable_threads()))


def target(macros: Mapping[str, str], threads: int) -> Target:
    """Return the facts from a compiler's predefined macros, and conservative values for all others."""
    return Target(
        name="c",
        vector_bytes=next((width for macro, width in _WIDTHS if macro in macros), 16),
        vector_registers=32 if any(macro in macros for macro in _MANY_REGISTERS) else 16,
        threads=threads,
        native=tuple(sorted(op.value for op in NATIVE)),
    )


def usable_threads() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int | None:
    """Return the size of the host's memory; None if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
