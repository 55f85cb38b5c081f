"""Endpoints of copies for executors of drivers: their own buffers, arrays, and buffers of other executors."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import numpy as np

from tileir.core.errors import ArgumentError


def places_of(source: Any, destination: Any, own: type) -> tuple[Any, Any, int]:
    """Return source and destination of a copy, each a buffer or host-visible bytes, and its number of bytes.

    ``own`` is the class of the executor's buffers, which are returned unopened.

    Raises:
        ArgumentError: TIL706, an array has gaps, or the destination array is read-only.
    """
    read, write = _place_of(source, own), _place_of(destination, own)
    if isinstance(write, np.ndarray) and not write.flags.writeable:
        raise ArgumentError.of("TIL706", "the destination of a copy is read-only")
    return read, write, min(read.nbytes, write.nbytes)


def _place_of(memory: Any, own: type) -> Any:
    if isinstance(memory, own):
        return memory
    if not isinstance(memory, np.ndarray):
        if hasattr(memory, "map_current"):
            seen = memory.host()
            return memory if seen is None else seen
        memory = np.asarray(memory)
    if not memory.flags.c_contiguous:
        raise ArgumentError.of("TIL706", "an array with gaps cannot be copied; pass a contiguous one")
    return memory.reshape(-1).view(np.uint8)


def copy_by_host(read: Any, write: Any, count: int) -> None:
    """Copy ``count`` bytes between places of which no single driver knows both; synchronous."""
    with ExitStack() as stack:
        source, destination = stack.enter_context(_view(read)), stack.enter_context(_view(write))
        np.copyto(destination[:count], source[:count])


def _view(place: Any) -> AbstractContextManager[np.ndarray[Any, np.dtype[np.uint8]]]:
    return nullcontext(place) if isinstance(place, np.ndarray) else place.map_current()
