"""Results of analyses of kernels, kept while a program is compiled.

All passes that schedule ask the same of each kernel, which they know by identity: it is dear to compare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tileir.stripe import ir as stripe

Found = TypeVar("Found")

_MOST: Final = 1 << 12
"""Kernels of which something is kept; large networks have hundreds, and each is another one after some passes."""

_KNOWN: Final[list[dict[int, Any]]] = []
"""Kernels by identity and their results, for each analysis."""


def remembered(function: Callable[[stripe.Block], Found]) -> Callable[[stripe.Block], Found]:
    """Return a function that computes its result once for each kernel, until :func:`forget_kernels`."""
    known: dict[int, tuple[stripe.Block, Found]] = {}
    _KNOWN.append(known)

    def of(kernel: stripe.Block) -> Found:
        found = known.get(id(kernel))
        if found is None:
            if len(known) >= _MOST:
                known.clear()  # in one step, as threads compile side by side
            found = known[id(kernel)] = kernel, function(kernel)
        return found[1]

    return of


def forget_kernels() -> None:
    """Let go of all kernels and results: a program is compiled. One that is meanwhile has them computed again."""
    for known in _KNOWN:
        known.clear()
