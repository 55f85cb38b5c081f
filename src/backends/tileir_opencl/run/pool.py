"""Pool of unused device memory, kept for reuse."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import attrs
import pyopencl as cl

from tileir.core import BackendError, Renewable
from tileir_opencl.run.faults import OUT_OF_MEMORY, refused

STEP: Final = 256
"""Granularity of sizes in bytes, so that arrays of similar size share memory."""

LARGE: Final = 1 << 20
LARGE_STEP: Final = 1 << 16

SHARE: Final = 8
"""Reciprocal of the maximum share of the device's memory that may be spare."""


@attrs.define(eq=False)
class Pool(Renewable):
    """Memory pool of one context, with bounded spare memory.

    Attributes:
        context: Context of the memory.
        device_bytes: Memory of the device. Drivers may grant more, and fail when a command needs it.
        closed: Whether memory is no longer kept.
        settle: Waits for the device and releases unused memory; called before an allocation fails.
    """

    context: cl.Context
    device_bytes: int
    settle: Callable[[], None]
    spare_bytes: int = attrs.field(default=0, init=False)
    closed: bool = attrs.field(default=False, init=False)
    _spare: dict[int, list[cl.Buffer]] = attrs.field(factory=dict, init=False)
    _returned: deque[tuple[int, cl.Buffer]] = attrs.field(factory=deque, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def take(self, nbytes: int) -> tuple[cl.Buffer, int]:
        """Return memory of at least ``nbytes`` bytes and its size, with undefined content.

        Raises:
            BackendError: TIL708, there is not enough memory.
        """
        size = rounded(nbytes)
        if nbytes > self.device_bytes:
            message = f"{nbytes} bytes are more than the {self.device_bytes} of the device; make the arrays smaller"
            raise BackendError.of("TIL708", message)
        with self._lock:
            self._sort_in()
            kept = self._spare.get(size)
            if kept:
                self.spare_bytes -= size
                return kept.pop(), size
        try:
            return self._allocate(size), size
        except cl.Error as error:
            if error.code not in OUT_OF_MEMORY:
                raise refused(f"{nbytes} bytes of memory", error) from error
        self.release()
        try:
            return self._allocate(size), size
        except cl.Error as error:
            raise refused(f"{nbytes} bytes of memory", error) from error

    def give(self, native: cl.Buffer, size: int) -> None:
        """Take memory back that no command uses, without a lock: Python's garbage collector may call at any time."""
        if not self.closed:
            self._returned.append((size, native))

    def close(self) -> None:
        """Release spare memory like :meth:`release`, and also memory that comes back later."""
        self.closed = True
        self.release()

    def release(self) -> None:
        """Wait for the device, and release all spare memory to it."""
        self.settle()
        with self._lock:
            self._returned.clear()
            self._spare.clear()
            self.spare_bytes = 0

    def trim(self) -> int:
        """Release memory like :meth:`release`, and return its number of bytes."""
        self.settle()
        with self._lock:
            self._sort_in()
            before = self.spare_bytes
        self.release()
        return before

    def renew(self) -> None:
        """Start with a fresh lock; a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def _sort_in(self) -> None:
        while self._returned:
            size, native = self._returned.popleft()
            if self.spare_bytes + size <= self.device_bytes // SHARE:
                self._spare.setdefault(size, []).append(native)
                self.spare_bytes += size

    def _allocate(self, size: int) -> cl.Buffer:
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, size)


def rounded(nbytes: int) -> int:
    """Return the size of memory for ``nbytes`` bytes; at least one byte, as no buffer is empty."""
    step = STEP if nbytes < LARGE else LARGE_STEP
    return max(-(-nbytes // step), 1) * step
