"""Mapping of host-visible memory, without copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from tileir.runtime.interface import Event


class HostVisible(Protocol):
    """Buffer whose memory is always visible to the host."""

    def host(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the memory as bytes."""


@contextmanager
def map_host(buffer: HostVisible, after: Sequence[Event] = ()) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Wait for all of ``after``, then yield the memory itself, so that nothing has to be copied back.

    A class of host buffers sets ``map_current = map_discard = map_host``.

    Raises:
        BaseException: The failure of an event of ``after``.
    """
    for event in after:
        event.wait()
    yield buffer.host()
