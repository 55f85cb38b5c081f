"""Device memory, and copies from, to and on it."""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
from cuda.bindings import driver

from tileir.core.errors import BackendError, Diagnostic
from tileir.runtime.arrays import address_of
from tileir_cuda.architectures import ALIGNMENT
from tileir_cuda.run.capturing import EVERYTHING
from tileir_cuda.run.driver import SUCCESS, checked, enter, inherited, uncaptured
from tileir_cuda.run.following import Use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tileir.runtime.interface import Event
    from tileir_cuda.run.stream import Stream

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

STEP: Final = 512
"""Granularity of sizes in bytes, so that arrays of similar size share memory."""

LARGE: Final = 1 << 20
LARGE_STEP: Final = 1 << 18

SHARE: Final = 8
"""Reciprocal of the maximum share of the card's memory that may be spare."""

RETURNED: Final = 64
"""Number of returned shared pieces from which the pool waits for the card to reuse them."""

RETURNED_SHARE: Final = 32
"""Reciprocal of their maximum share of the card's memory, beyond one piece."""


@attrs.define(eq=False)
class CudaBuffer:
    """Device memory.

    Attributes:
        address: Start of the memory.
        nbytes: Size in bytes.
        stream: Stream of its copies.
        shared: Whether other libraries may use the memory, in their own streams.
    """

    address: int
    nbytes: int
    stream: Stream = attrs.field(repr=False)
    _owner: object = attrs.field(default=None, repr=False)
    shared: bool = attrs.field(default=False, repr=False)

    def used(self, *, writes: bool) -> Use:
        """Return a use of all of it."""
        return Use(-1, self.address, self.address + self.nbytes, writes)

    def host(self) -> Bytes | None:
        """Return None: the memory is invisible to the host."""
        return None

    @contextmanager
    def map_current(self, after: Sequence[Event] = ()) -> Iterator[Bytes]:
        """Map the content for the host, to read and to change, once all of ``after`` have completed.

        Raises:
            BackendError: TIL808, the driver cannot copy it.
            BaseException: The failure of an event of ``after``.
        """
        for event in after:
            event.wait()
        content = np.empty(self.nbytes, np.uint8)
        copy(self.stream, self, content, self.nbytes, ()).wait()
        yield content
        copy(self.stream, content, self, self.nbytes, ()).wait()

    @contextmanager
    def map_discard(self, after: Sequence[Event] = ()) -> Iterator[Bytes]:
        """Map the buffer like :meth:`map_current`, but with undefined content at first, for overwriting."""
        for event in after:
            event.wait()
        content = np.empty(self.nbytes, np.uint8)
        yield content
        copy(self.stream, content, self, self.nbytes, ()).wait()

    def part(self, offset: int, nbytes: int) -> CudaBuffer:
        """Return a buffer over a part, which keeps this one alive."""
        return CudaBuffer(self.address + offset, nbytes, self.stream, self, self.shared)

    def lend(self) -> int:
        """Mark the memory as shared with others, and return its address."""
        self.shared = True
        if isinstance(self._owner, CudaBuffer):
            self._owner.lend()
        return self.address


@attrs.define(eq=False)
class PooledCudaBuffer(CudaBuffer):
    """Memory that returns to its pool by ``__del__``, since a finalizer takes longer than a launch."""

    pool: Pool | None = attrs.field(default=None, repr=False)
    size: int = attrs.field(default=0, repr=False)

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        """Return the memory to its pool; at exit, the driver frees it."""
        pool = self.pool
        if pool is not None and not ends():
            pool.give(self.address, self.size, self.shared)


@attrs.define(eq=False)
class AdoptedCudaBuffer(CudaBuffer):
    """Memory of another library, with any alignment."""

    @property
    def alignment(self) -> int:
        """A number that divides its address."""
        return self.address & -self.address or ALIGNMENT


@attrs.define(eq=False)
class Loan:
    """Memory of a pool on loan to recorded work.

    Attributes:
        pieces: Lent and newly allocated pieces: sizes by addresses.
        kept: Addresses of other spare memory, by sizes, including memory returned meanwhile.
        missing: Addresses of pieces that had not come back in the end.
    """

    pieces: dict[int, int]
    kept: dict[int, list[int]]
    missing: set[int] = attrs.field(factory=set)


_POOLS: Final[weakref.WeakSet[Pool]] = weakref.WeakSet()
_POOLS_LOCK: Final = threading.Lock()
"""Lock of all pools of this process."""


@attrs.define(eq=False)
class Pool:
    """Memory pool of one card, with bounded spare memory.

    Pending work in the stream may still use a returned piece: work of its next user is ordered behind. The list of a
    size is a fixed object, as users of that size keep it and pop from it without a lock: so spare memory is only
    counted when it seems to be too much. Memory that was shared is not reused before the card was idle, as it may be in
    use in unknown streams. Spare memory is freed with the pool, and when any pool of the card runs out of memory.
    """

    stream: Stream
    device_bytes: int
    _at_most: int = attrs.field(default=0, init=False)
    _returned: list[tuple[int, int]] = attrs.field(factory=list, init=False)
    _returned_bytes: int = attrs.field(default=0, init=False)
    _spare: dict[int, list[int]] = attrs.field(factory=dict, init=False)
    _lock: threading.RLock = attrs.field(factory=threading.RLock, init=False)
    _loan: Loan | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, _free_all, self._spare, self._returned, self.stream.card).atexit = False
        with _POOLS_LOCK:
            _POOLS.add(self)

    def take(self, nbytes: int) -> CudaBuffer:
        """Return at least ``nbytes`` bytes of memory, with undefined content.

        Raises:
            BackendError: TIL708, there is not enough memory.
        """
        return self.taker(nbytes)()

    def taker(self, nbytes: int) -> Callable[[], CudaBuffer]:
        """Return a function that repeats :meth:`take` for a size."""
        size, stream = rounded(nbytes), self.stream
        spare = self.spare_of(size)

        def take() -> CudaBuffer:
            try:
                address = spare.pop()
            except IndexError:
                address = self._allocated(size, nbytes)
            return PooledCudaBuffer(address, nbytes, stream, None, False, self, size)

        return take

    def spare_of(self, size: int) -> list[int]:
        """Return the list of spare addresses of a rounded size, to pop from."""
        return self._spare.setdefault(size, [])

    @contextmanager
    def lent(self, pieces: dict[int, int]) -> Iterator[Loan]:
        """Restrict spare memory to pieces, sizes by addresses, that do not belong to the pool, nor do new allocations.

        Lists stay the same objects, as their users keep them.
        """
        with self._lock:
            kept = {size: addresses[:] for size, addresses in self._spare.items()}
            for addresses in self._spare.values():
                addresses.clear()
            for address, size in pieces.items():
                self.spare_of(size).append(address)
            self._loan = loan = Loan(dict(pieces), kept)
        try:
            yield loan
        finally:
            with self._lock:
                self._loan = None
                loan.missing = set(loan.pieces)
                for size, addresses in self._spare.items():
                    loan.missing.difference_update(addresses)
                    addresses[:] = kept.get(size, ())

    @property
    def spare_bytes(self) -> int:
        """Bytes of spare memory."""
        return sum(size * len(addresses) for size, addresses in tuple(self._spare.items()))

    def give(self, address: int, size: int, shared: bool) -> None:
        """Take memory back that has no references; work of other libraries may still use shared memory."""
        with self._lock:  # reentrant: Python's garbage collector may call at any time
            if shared:
                self._returned.append((address, size))
                self._returned_bytes += size
                few = self._returned_bytes <= self.device_bytes // RETURNED_SHARE
                if few and len(self._returned) < RETURNED:
                    return
            elif self._loan is not None or self._has_room(size):
                self._at_most += size
                loan = self._loan
                spare = self._spare if loan is None or address in loan.pieces else loan.kept
                spare.setdefault(size, []).append(address)
                return
        if inherited():
            return
        if shared:
            self._settle()
        else:
            self._free(address)

    def _settle(self) -> None:
        """Wait for the card, and make returned shared memory available."""
        with self._lock:
            pieces, self._returned_bytes = tuple(self._returned), 0
            self._returned.clear()
        if not pieces:
            return
        enter(self.stream.card)
        if driver.cuCtxSynchronize()[0] is SUCCESS:  # otherwise the card has failed, or its stream is being captured
            for address, size in pieces:
                self.give(address, size, False)
        else:
            with self._lock:
                self._returned += pieces

    def release(self) -> None:
        """Wait for the stream, and free all spare memory."""
        self.stream.drain()
        self._release_spare()

    def trim(self) -> int:
        """Release memory like :meth:`release`, and return its number of bytes."""
        before = self.spare_bytes + self._returned_bytes
        self.release()
        return before - self.spare_bytes

    def _release_spare(self) -> None:
        """Free spare memory without the lock of the stream; freeing waits for work that uses it."""
        self._settle()
        for addresses in tuple(self._spare.values()):
            while addresses:
                with suppress(IndexError):  # other threads take meanwhile
                    self._free(addresses.pop())

    def _has_room(self, size: int) -> bool:
        """Return whether this much more may be kept."""
        most = self.device_bytes // SHARE - size
        if self._at_most > most:
            self._at_most = self.spare_bytes
        return self._at_most <= most

    def _allocated(self, size: int, nbytes: int) -> int:
        what = f"{nbytes} bytes of memory"
        if nbytes > self.device_bytes:
            message = f"{nbytes} bytes are more than the {self.device_bytes} of the device; make the arrays smaller"
            raise BackendError((Diagnostic("TIL708", message),))
        enter(self.stream.card)
        try:
            with uncaptured():
                address = int(checked(what, driver.cuMemAlloc(size)))
            if self._loan is not None:
                self._loan.pieces[address] = size
            return address
        except BackendError:
            if self._loan is not None:  # the stream must not be waited for
                raise
            self.release()
            with _POOLS_LOCK:
                others = [pool for pool in _POOLS if pool is not self and pool.stream.card == self.stream.card]
            for pool in others:  # their streams may be locked by threads that wait for memory of this pool
                pool._release_spare()
            return int(checked(what, driver.cuMemAlloc(size)))

    def _free(self, address: int) -> None:
        enter(self.stream.card)
        driver.cuMemFree(address)  # it waits for the card; if that has failed, there is nothing to free


def _free_all(spare: dict[int, list[int]], returned: list[tuple[int, int]], card: int) -> None:
    """Free and forget the unreferenced memory of a pool; buffers may die after their pool."""
    if inherited():
        return
    enter(card)
    while returned:
        driver.cuMemFree(returned.pop()[0])
    for addresses in spare.values():
        while addresses:
            driver.cuMemFree(addresses.pop())


def page_locked(card: int, nbytes: int) -> Bytes:
    """Return page-locked host memory, which the card copies without staging by the driver.

    It is freed with the last array over it.

    Raises:
        BackendError: TIL708 or TIL808, the driver does not give so much.
    """
    enter(card)
    size = max(nbytes, 1)
    address = int(checked(f"{nbytes} bytes of page-locked memory", driver.cuMemAllocHost(size)))
    room = (ctypes.c_uint8 * size).from_address(address)
    weakref.finalize(room, _unlock, address, card).atexit = False
    whole: Bytes = np.frombuffer(memoryview(room), np.uint8)
    return whole[:nbytes]


def _unlock(address: int, card: int) -> None:
    if not inherited():
        enter(card)
        driver.cuMemFreeHost(address)


def rounded(nbytes: int) -> int:
    """Return the size of memory for ``nbytes`` bytes; at least one byte, as no memory is empty."""
    step = STEP if nbytes < LARGE else LARGE_STEP
    return max(-(-nbytes // step), 1) * step


def copy(stream: Stream, read: Any, write: Any, count: int, after: Sequence[Event]) -> Event:
    """Copy ``count`` bytes between places, of which at least one is on the card, after ``after``.

    Raises:
        BackendError: TIL808, the driver refuses.
    """

    def work() -> None:
        if count:
            enqueue(stream, read, write, count)

    buffers = [place for place in (read, write) if isinstance(place, CudaBuffer)]
    uses = [place.used(writes=place is write) for place in buffers] if len(buffers) > 1 else (EVERYTHING,)
    return stream.submit(work, (read, write), after, "a copy", uses)


def enqueue(stream: Stream, read: Any, write: Any, count: int) -> None:
    """Put a copy into a stream."""
    native = stream.native
    if isinstance(read, np.ndarray):
        if stream.staging.copy(stream.card, native, read, write.address, count):
            return
        result = driver.cuMemcpyHtoDAsync(write.address, address_of(read), count, native)
    elif isinstance(write, np.ndarray):
        result = driver.cuMemcpyDtoHAsync(address_of(write), read.address, count, native)
    else:
        result = driver.cuMemcpyDtoDAsync(write.address, read.address, count, native)
    checked("a copy", result)
