"""Arrays for results on the host, with memory that is recycled when nothing refers to it any more.

New pages cost a process 40 to 80 µs per MiB, as long as many kernels take to fill them, and the system takes the pages
of large arrays back when they die.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Final

import numpy as np

from tileir.core import Renewable, attrs

LEAST: Final = 1 << 20
"""Arrays below this size are left to NumPy, which recycles their memory and pages itself."""

MOST: Final = 256 << 20
"""Total bytes kept for future results."""

PAGE: Final = 4096

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@attrs.define(eq=False)
class ResultPool(Renewable):
    """Memory of former results. Thread safe, also in forked children and without the interpreter's lock.

    Attributes:
        most: Maximum number of bytes kept; the least recently returned memory is dropped first.
    """

    most: int = MOST
    kept_bytes: int = attrs.field(default=0, init=False)
    _kept: list[Bytes] = attrs.field(factory=list, init=False, repr=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)

    def renew(self) -> None:
        """Start with a fresh lock; a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array with undefined content; its memory returns here once no array or view of it is left."""
        nbytes = math.prod(shape) * dtype.itemsize
        if not LEAST <= nbytes <= self.most:
            return np.empty(shape, dtype)
        memory = self._taken(-(-nbytes // PAGE) * PAGE)
        whole: Bytes = np.asarray(_ResultMemory(memory, self))
        return whole[:nbytes].view(dtype).reshape(shape)

    def trim(self) -> int:
        """Return all memory to the system, and return its number of bytes."""
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
        """Take memory back unless a thread is busy here, since the garbage collector may call this in that thread."""
        if self._lock.acquire(blocking=False):
            try:
                self._kept.append(memory)
                self.kept_bytes += len(memory)
                while self.kept_bytes > self.most:
                    self.kept_bytes -= len(self._kept.pop(0))
            finally:
                self._lock.release()


class _ResultMemory:
    """Owner of an allocation that arrays refer to: it dies with the last of them."""

    __slots__ = ("__array_interface__", "_memory", "_rooms")

    def __init__(self, memory: Bytes, rooms: ResultPool) -> None:
        self._memory, self._rooms = memory, rooms
        place = (memory.__array_interface__["data"][0], False)
        self.__array_interface__ = {"shape": memory.shape, "typestr": "|u1", "data": place, "version": 3}

    def __del__(self) -> None:
        self._rooms.give(self._memory)


ROOMS: Final = ResultPool()
"""Recycled memory of this process."""
