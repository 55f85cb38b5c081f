"""Memory of a device that nobody uses at the moment, kept for the next who asks."""

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
"""Sizes are rounded up to multiples of this, so that arrays of about one size share memory."""

LARGE: Final = 1 << 20
LARGE_STEP: Final = 1 << 16

SHARE: Final = 8
"""Spare memory is at most this part of what the device has."""


@attrs.define(eq=False)
class Pool(Renewable):
    """Allocates memory of one context, and keeps what comes back, within a bound.

    Attributes:
        context: Where memory belongs.
        device_bytes: What the device has. Drivers may grant more, and fail when a command needs it.
        closed: Whether nothing is kept any more.
        settle: Waits for the device and lets go of what is no longer in use; called before an allocation fails.

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
            BackendError: TIL708, there is not enough.

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
        """Take memory back that no command uses. It takes no lock: the collector of Python may call at any time."""
        if not self.closed:
            self._returned.append((size, native))

    def close(self) -> None:
        """Do what :meth:`release` does, and keep nothing any more: what comes back later goes to the device."""
        self.closed = True
        self.release()

    def release(self) -> None:
        """Wait for the device, and give all spare memory back to it."""
        self.settle()
        with self._lock:
            self._returned.clear()
            self._spare.clear()
            self.spare_bytes = 0

    def trim(self) -> int:
        """Do the same, and return how many bytes that was."""
        self.settle()
        with self._lock:
            self._sort_in()
            before = self.spare_bytes
        self.release()
        return before

    def renew(self) -> None:
        """Start with a lock that no thread of the parent holds."""
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
