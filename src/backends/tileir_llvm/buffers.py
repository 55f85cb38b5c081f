"""Host memory that kernels work on."""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np

from tileir.runtime.arrays import address_of
from tileir.runtime.mapping import map_host

ALIGNMENT: Final = 64
"""Alignment in bytes of fresh memory: a cache line, and the widest vector register."""


@attrs.frozen(eq=False)
class HostBuffer:
    """Host memory; ``array`` keeps it alive.

    Attributes:
        array: The contiguous array whose memory this is.
        address: Where it starts.
        nbytes: Its size in bytes.

    """

    array: np.ndarray[Any, Any] = attrs.field(repr=False)
    address: int
    nbytes: int

    def host(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the memory as bytes."""
        return self.array.reshape(-1).view(np.uint8)

    map_current = map_discard = map_host


def wrap(array: np.ndarray[Any, Any]) -> HostBuffer:
    """Return a buffer over the memory of a contiguous array."""
    return HostBuffer(array, address_of(array), array.nbytes)


def allocate(nbytes: int) -> HostBuffer:
    """Return fresh memory with undefined content, aligned to :data:`ALIGNMENT`."""
    room = np.empty(nbytes + ALIGNMENT, np.uint8)
    begin = address_of(room)
    start = -begin % ALIGNMENT
    return HostBuffer(room[start : start + nbytes], begin + start, nbytes)
