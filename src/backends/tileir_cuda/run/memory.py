"""Memory of a card, and copies from, to and on it."""

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
"""Sizes are rounded up to multiples of this, so that arrays of about one size share memory."""

LARGE: Final = 1 << 20
LARGE_STEP: Final = 1 << 18

SHARE: Final = 8
"""Spare memory is at most this part of what the card has."""

RETURNED: Final = 64
"""So many pieces that were shared come back before the card is waited for, to use them again."""

RETURNED_SHARE: Final = 32
"""They are at most this part of what the card has, and one piece."""


@attrs.define(eq=False)
class CudaBuffer:
    """Memory of a card.

    Attributes:
        address: Where it starts.
        nbytes: Its size in bytes.
        stream: The stream in which it is copied.
        shared: Whether somebody else may use the memory, in streams of their own.

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
        """Return None: the host does not see the memory."""
        return None

    @contextmanager
    def map_current(self, after: Sequence[Event] = ()) -> Iterator[Bytes]:
        """Give the host the content, to read and to change, once all of ``after`` have completed.

        Raises:
            BackendError: TIL808, the driver cannot copy it.
            BaseException: What an event of ``after`` failed with.

        """
        for event in after:
            event.wait()
        content = np.empty(self.nbytes, np.uint8)
        copy(self.stream, self, content, self.nbytes, ()).wait()
        yield content
        copy(self.stream, content, self, self.nbytes, ()).wait()

    @contextmanager
    def map_discard(self, after: Sequence[Event] = ()) -> Iterator[Bytes]:
        """Do the same where nobody needs the content so far: the bytes are undefined at first."""
        for event in after:
            event.wait()
        content = np.empty(self.nbytes, np.uint8)
        yield content
        copy(self.stream, content, self, self.nbytes, ()).wait()

    def part(self, offset: int, nbytes: int) -> CudaBuffer:
        """Return a buffer over a part, which keeps this one alive."""
        return CudaBuffer(self.address + offset, nbytes, self.stream, self, self.shared)

    def lend(self) -> int:
        """Note that others use the memory, and return where it is."""
        self.shared = True
        if isinstance(self._owner, CudaBuffer):
            self._owner.lend()
        return self.address


@attrs.define(eq=False)
class PooledCudaBuffer(CudaBuffer):
    """Memory that goes back to its pool, by a method of its own: a finalizer takes longer than a launch."""

    pool: Pool | None = attrs.field(default=None, repr=False)
    size: int = attrs.field(default=0, repr=False)

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        """Give the memory back; when Python ends, the driver does that."""
        pool = self.pool
        if pool is not None and not ends():
            pool.give(self.address, self.size, self.shared)


@attrs.define(eq=False)
class AdoptedCudaBuffer(CudaBuffer):
    """Memory of somebody else, which may lie anywhere."""

    @property
    def alignment(self) -> int:
        """A number that its address is a multiple of."""
        return self.address & -self.address or ALIGNMENT


@attrs.define(eq=False)
class Loan:
    """Memory of a pool that somebody keeps for work that is recorded.

    Attributes:
        pieces: What was lent, and what was allocated meanwhile: sizes by addresses.
        kept: Addresses of what is spare beside these, by sizes, and of what others give back meanwhile.
        missing: Addresses of those that had not come back in the end.

    """

    pieces: dict[int, int]
    kept: dict[int, list[int]]
    missing: set[int] = attrs.field(factory=set)


_POOLS: Final[weakref.WeakSet[Pool]] = weakref.WeakSet()
_POOLS_LOCK: Final = threading.Lock()
"""The pools of this process, of all cards."""


@attrs.define(eq=False)
class Pool:
    """Allocates memory of one card, and keeps what comes back, within a bound.

    A piece that comes back may still be used by work that is in the stream: whoever gets it next puts work behind that.
    The list of a size stays the same, as who takes that size often keeps it, and takes from it without a lock: so what
    is spare is counted when it seems to be too much. What was shared is given to nobody before the card was seen to
    have nothing left to do, as nobody knows in which streams others used it. What is kept goes back to the card with
    the pool, and when any pool of it finds no more.
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
        """Return memory of at least ``nbytes`` bytes, with undefined content.

        Raises:
            BackendError: TIL708, there is not enough.

        """
        return self.taker(nbytes)()

    def taker(self, nbytes: int) -> Callable[[], CudaBuffer]:
        """Return what does the same again and again."""
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
        """Return the addresses of spare memory of a rounded size; who takes the last one has it."""
        return self._spare.setdefault(size, [])

    @contextmanager
    def lent(self, pieces: dict[int, int]) -> Iterator[Loan]:
        """Have nothing spare but some pieces, sizes by addresses, which are not the pool's, as what is allocated is.

        Lists stay the same, as who takes memory keeps them.
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
        """Bytes of memory that is spare."""
        return sum(size * len(addresses) for size, addresses in tuple(self._spare.items()))

    def give(self, address: int, size: int, shared: bool) -> None:
        """Take memory back that nobody refers to any more; work of those who shared it may outlive that."""
        with self._lock:  # reentrant: the collector of Python may call at any time
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
        """Wait for the card, and keep what was shared as other memory that came back."""
        with self._lock:
            pieces, self._returned_bytes = tuple(self._returned), 0
            self._returned.clear()
        if not pieces:
            return
        enter(self.stream.card)
        if driver.cuCtxSynchronize()[0] is SUCCESS:  # else the card has failed, or somebody records what it does
            for address, size in pieces:
                self.give(address, size, False)
        else:
            with self._lock:
                self._returned += pieces

    def release(self) -> None:
        """Wait for the stream, and give all spare memory back to the card."""
        self.stream.drain()
        self._release_spare()

    def trim(self) -> int:
        """Do the same, and return how many bytes that was."""
        before = self.spare_bytes + self._returned_bytes
        self.release()
        return before - self.spare_bytes

    def _release_spare(self) -> None:
        """Give it back without the lock of the stream; freeing waits for what still uses it."""
        self._settle()
        for addresses in tuple(self._spare.values()):
            while addresses:
                with suppress(IndexError):  # others take meanwhile
                    self._free(addresses.pop())

    def _has_room(self, size: int) -> bool:
        """Return whether so much more may be kept."""
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
            if self._loan is not None:  # the stream is not to be waited for
                raise
            self.release()
            with _POOLS_LOCK:
                others = [pool for pool in _POOLS if pool is not self and pool.stream.card == self.stream.card]
            for pool in others:  # their streams may be locked by threads that wait for memory of this pool
                pool._release_spare()
            return int(checked(what, driver.cuMemAlloc(size)))

    def _free(self, address: int) -> None:
        enter(self.stream.card)
        driver.cuMemFree(address)  # it waits for the card; where that has failed, there is nothing to give back


def _free_all(spare: dict[int, list[int]], returned: list[tuple[int, int]], card: int) -> None:
    """Free what a pool has kept that nobody refers to any more, and forget it: buffers may die after their pool."""
    if inherited():
        return
    enter(card)
    while returned:
        driver.cuMemFree(returned.pop()[0])
    for addresses in spare.values():
        while addresses:
            driver.cuMemFree(addresses.pop())


def page_locked(card: int, nbytes: int) -> Bytes:
    """Return memory of the host that is never paged out, so that the card copies without a stage of the driver's.

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
    """Copy ``count`` bytes between places, of which at least one is on the card, once ``after`` have completed.

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
