"""Processor that kernels are compiled for: the host's own, or a lesser one named by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import llvmlite.binding as llvm

from tileir.core import BackendError, attrs

VARIABLE: Final = "TILEIR_LLVM_PROCESSOR"
"""Environment variable that names the processor; it is read once."""


@attrs.frozen
class Processor:
    """Facts about the processor that LLVM may rely on.

    Attributes:
        name: LLVM's name, which also selects its cost model.
        features: LLVM's names of its features, sorted.
    """

    name: str
    features: tuple[str, ...]


_V2: Final = """\
64bit cmov crc32 cx16 cx8 fxsr mmx popcnt sahf sse sse2 sse3 sse4.1 sse4.2 ssse3
"""
_V3: Final = f"""\
{_V2} avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave
"""
_V4: Final = f"""\
{_V3} avx512bw avx512cd avx512dq avx512f avx512vl
"""
_SERVER: Final = f"""\
{_V4} adx aes avx512bf16 avx512bitalg avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512vpopcntdq fsgsbase gfni pclmul
rdrnd rdseed sha vaes vpclmulqdq xsavec xsaveopt xsaves
"""

PROCESSORS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        name: frozenset(features.split())
        for name, features in (
            ("x86-64-v2", _V2),
            ("x86-64-v3", _V3),
            ("x86-64-v4", _V4),
            ("znver4", f"{_SERVER} sse4a"),
            ("emeraldrapids", f"{_SERVER} avx512fp16 avxvnni"),
        )
    }
)
"""Processors that the host can emulate, and features that kernels may use, which exclude matrix units."""


@cache
def processor() -> Processor:
    """Return the processor to compile for.

    Raises:
        BackendError: TIL801, the environment names an unknown one, or one with features that the host lacks.
    """
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return host_processor()
    own = frozenset(host_processor().features)
    features = PROCESSORS.get(wanted)
    if features is None:
        known = ", ".join(PROCESSORS)
        raise BackendError.of(
            "TIL801", f"{VARIABLE} names the processor {wanted!r}, which is not among {known}; unset it for the host's"
        )
    missing = features - own
    if missing:
        raise BackendError.of(
            "TIL801",
            f"{VARIABLE} names the processor {wanted!r}, and this one lacks {', '.join(sorted(missing))}; "
            f"choose {_possible(own)}, or unset it for the host's own",
        )
    return Processor(wanted, tuple(sorted(features)))


@cache
def host_processor() -> Processor:
    """Return the host's own."""
    found = llvm.get_host_cpu_features()
    return Processor(llvm.get_host_cpu_name(), tuple(sorted(name for name, enabled in found.items() if enabled)))


def _possible(own: frozenset[str]) -> str:
    return ", ".join(name for name, features in PROCESSORS.items() if features <= own) or "none"
