"""Processors below the host's for which kernels are compiled in tests, from the environment."""

from __future__ import annotations

import os

from tileir_llvm.device.processor import PROCESSORS, VARIABLE, host_processor


def named_is_the_hosts() -> bool:
    """Return whether the named processor has all vectors and units of matrices that this one has."""
    named = os.environ.get(VARIABLE, "")
    if named not in PROCESSORS:
        return False
    return not lacking(PROCESSORS[named], host_processor().features)


def lacking(features: frozenset[str], others: tuple[str, ...]) -> list[str]:
    """Return the vectors and units of matrices that one processor lacks of another's."""
    return sorted(name for name in others if name.startswith(("avx", "amx")) and name not in features)
