"""Arrays for results on the host, in memory that comes back when nobody refers to it any more.

To give a process new pages takes 40 to 80 µs for each MiB, which is as long as many kernels take to fill them, and the
system takes pages of large arrays back each time that one dies.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Final

import numpy as np

from tileir.core import Renewable, attrs

LEAST: Final = 1 << 20
"""Smaller arrays are made by NumPy alone: the memory of such comes back to it, with its pages."""

MOST: Final = 256 << 20
"""How many bytes are kept for results to come, in all."""

PAGE: Final = 4096

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@attrs.define(eq=False)
class Rooms(Renewable):
    """Memory that results have had. Thread safe, also in forked children and without a lock of the interpreter.

    Attributes:
        most: How many bytes it may keep; of more, what came back the longest ago goes first.

    """

    most: int = MOST
    kept_bytes: int = attrs.field(default=0, init=False)
    _kept: list[Bytes] = attrs.field(factory=list, init=False, repr=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)

    def renew(self) -> None:
        """Start with a lock that no thread of the parent holds."""
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array with undefined content, whose memory comes back once no array or view of it is left."""
        nbytes = math.prod(shape) * dtype.itemsize
        if not LEAST <= nbytes <= self.most:
            return np.empty(shape, dtype)
        memory = self._taken(-(-nbytes // PAGE) * PAGE)
        whole: Bytes = np.asarray(_Room(memory, self))
        return whole[:nbytes].view(dtype).reshape(shape)

    def trim(self) -> int:
        """Give all that is kept back to the system, and return how many bytes that was."""
        with self._lock:
            found, self.kept_bytes = self.kept_bytes, 0
            self._kept.clear()
        return found

    def _taken(self, size: int) -> Bytes:
        with self._lock:
            for number in range(len(self._kept) - 1, -1, -1):  # the latest may be in caches
                if len(self._kept[number]) == size:
                    self.kept_bytes -= size
                    return self._kept.pop(number)
        return np.empty(size, np.uint8)

    def give(self, memory: Bytes) -> None:
        """Take memory back, if no thread is busy here: the collector may call in one that is."""
        if self._lock.acquire(blocking=False):
            try:
                self._kept.append(memory)
                self.kept_bytes += len(memory)
                while self.kept_bytes > self.most:
                    self.kept_bytes -= len(self._kept.pop(0))
            finally:
                self._lock.release()


class _Room:
    """What arrays over some memory refer to: it dies with the last of them."""

    __slots__ = ("__array_interface__", "_memory", "_rooms")

    def __init__(self, memory: Bytes, rooms: Rooms) -> None:
        self._memory, self._rooms = memory, rooms
        place = (memory.__array_interface__["data"][0], False)
        self.__array_interface__ = {"shape": memory.shape, "typestr": "|u1", "data": place, "version": 3}

    def __del__(self) -> None:
        self._rooms.give(self._memory)


ROOMS: Final = Rooms()
"""Those of this process."""
