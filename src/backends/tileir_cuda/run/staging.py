"""Page-locked memory through which arrays of the host go to a card, in pieces that are used in turns."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import attrs
import numpy as np
from cuda.bindings import driver

from tileir.core.errors import BackendError
from tileir.runtime.arrays import address_of
from tileir_cuda.run.driver import checked

LEAST: Final = 8 << 10
"""The driver takes fewer bytes along with its command."""

MOST: Final = 512 << 10
"""More are as fast by the driver's own stages. On an H200 64 KiB take the host 19 µs so, and 8 from here."""

PIECES: Final = 4
"""Copies under way at the same time, before the oldest one is waited for."""


@attrs.define(eq=False)
class Staging:
    """The pieces of one stream, allocated when they are first needed; callers hold the lock of the stream."""

    _pieces: list[np.ndarray[Any, Any]] = attrs.field(factory=list, init=False)
    _ends: list[Any] = attrs.field(factory=list, init=False)
    _next: int = attrs.field(default=0, init=False)
    _without: bool = attrs.field(default=False, init=False)

    def copy(self, card: int, native: Any, array: np.ndarray[Any, Any], to: int, count: int) -> bool:
        """Put the copy of an array into a stream; the array is free at once. False, with nothing done, where it is not.

        Raises:
            BackendError: TIL808, the driver refuses.

        """
        if not LEAST <= count <= MOST or self._without or not self._allocated(card):
            return False
        number, self._next = self._next, (self._next + 1) % PIECES
        end, piece = self._ends[number], address_of(self._pieces[number])
        checked("a copy", driver.cuEventSynchronize(end))
        ctypes.memmove(piece, address_of(array), count)
        checked("a copy", driver.cuMemcpyHtoDAsync(to, piece, count, native))
        checked("a copy", driver.cuEventRecord(end, native))
        return True

    def forget(self) -> None:
        """Leave what a forked child has of its parent alone."""
        self._without = True

    def _allocated(self, card: int) -> bool:
        if not self._pieces:
            from tileir_cuda.run.memory import page_locked  # it knows streams, which know this

            try:
                room = page_locked(card, PIECES * MOST)
                flag = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
                self._ends = [checked("an event", driver.cuEventCreate(flag)) for _ in range(PIECES)]
            except BackendError:
                self._without = True
                return False
            self._pieces = [room[number * MOST : (number + 1) * MOST] for number in range(PIECES)]
        return True
