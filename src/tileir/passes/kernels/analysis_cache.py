"""Cache of kernel analyses during a compilation.

All scheduling passes ask for the same analyses of each kernel; kernels are compared by identity, which is cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tileir.stripe import ir as stripe

Found = TypeVar("Found")

_MOST: Final = 1 << 12
"""Maximum number of cached kernels; large networks have hundreds, and many passes replace each."""

_KNOWN: Final[list[dict[int, Any]]] = []
"""Results of each analysis, by the identity of the kernel."""


def remembered(function: Callable[[stripe.Block], Found]) -> Callable[[stripe.Block], Found]:
    """Return a function that computes its result once for each kernel, until :func:`forget_kernels`."""
    known: dict[int, tuple[stripe.Block, Found]] = {}
    _KNOWN.append(known)

    def of(kernel: stripe.Block) -> Found:
        found = known.get(id(kernel))
        if found is None:
            if len(known) >= _MOST:
                known.clear()  # in one step, as threads compile concurrently
            found = known[id(kernel)] = kernel, function(kernel)
        return found[1]

    return of


def forget_kernels() -> None:
    """Clear the cache after a compilation. A concurrent one computes its results again."""
    for known in _KNOWN:
        known.clear()
