"""Buffers, executors and kernels in host memory, for back ends whose devices use it directly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any

import numpy as np

from tileir.core import ArgumentError, BackendError, attrs
from tileir.runtime.arrays import address_of
from tileir.runtime.checks import memory_size
from tileir.runtime.events import PendingEvent, Scheduler
from tileir.runtime.interface import Event
from tileir.runtime.mapping import map_host
from tileir.semtree.ir import KernelFunction
from tileir.semtree.transform.layout import ALIGNMENT


@attrs.frozen(eq=False)
class HostBuffer:
    """Host memory; ``array`` keeps it alive.

    Attributes:
        array: The contiguous array whose memory this is.
        address: Start of the memory.
        nbytes: Size in bytes.
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
    """Return fresh memory with undefined content, aligned to :data:`tileir.semtree.transform.layout.ALIGNMENT`."""
    room = np.empty(nbytes + ALIGNMENT, np.uint8)
    begin = address_of(room)
    start = -begin % ALIGNMENT
    return HostBuffer(room[start : start + nbytes], begin + start, nbytes)


@attrs.frozen(eq=False)
class Addresses:
    """Signature of a kernel function: the addresses of its arrays, packed.

    Attributes:
        kernel: Name of the kernel.
        sizes: Bytes that each of its parameters needs.
    """

    kernel: str
    sizes: tuple[int, ...]
    _pack: Callable[..., bytes] = attrs.field(repr=False)

    @classmethod
    def of(cls, kernel: KernelFunction) -> Addresses:
        """Return the signature of a kernel."""
        sizes = tuple(param.size * param.dtype.itemsize for param in kernel.params)
        return cls(kernel.name, sizes, Struct(f"{len(sizes)}P").pack)

    def packed(self, buffers: Sequence[HostBuffer]) -> bytes:
        """Return the addresses of buffers.

        Raises:
            ArgumentError: TIL706, the buffers do not fit the parameters.

        """
        sizes = [buffer.nbytes for buffer in buffers]
        if len(sizes) != len(self.sizes) or any(map(int.__lt__, sizes, self.sizes)):
            message = f"kernel {self.kernel} takes buffers of {list(self.sizes)} bytes, not {sizes}"
            raise ArgumentError.of("TIL706", message)
        return self._pack(*[buffer.address for buffer in buffers])


@attrs.define(eq=False)
class HostExecutor:
    """Executor in host memory, except for running kernels.

    Attributes:
        scheduler: Runs submitted work; assigned by the maker of the executor.
        closed: Whether it was closed.
    """

    scheduler: Scheduler = attrs.field(init=False)
    closed: bool = attrs.field(default=False, init=False)
    _spare: deque[HostBuffer] = attrs.field(factory=deque, init=False, repr=False)

    def allocate(self, nbytes: int) -> HostBuffer:
        """Return fresh memory with undefined content, aligned to 64 bytes; TIL707 for a negative size."""
        return allocate(memory_size(nbytes))

    def wrap(self, array: np.ndarray[Any, Any]) -> HostBuffer | None:
        """Return a buffer over an array's own memory; None if it has gaps or is not aligned."""
        flags = array.flags
        return wrap(array) if flags.c_contiguous and flags.aligned else None

    def copy(self, source: Any, destination: Any, after: Sequence[Event] = ()) -> PendingEvent:
        """Copy the smaller number of bytes of both, between buffers or contiguous arrays.

        Raises:
            ArgumentError: TIL706, an array has gaps, or the destination cannot be written.
            BackendError: TIL807, the executor was closed.
        """
        self.check_open()
        read, write = _bytes_of(source), _bytes_of(destination)
        if not write.flags.writeable:
            raise ArgumentError.of("TIL706", "the destination of a copy is read-only")
        count = min(len(read), len(write))
        return self.scheduler.submit(partial(np.copyto, write[:count], read[:count]), after)

    def close(self) -> None:
        """Wait for all work and stop all threads."""
        self.closed = True
        self.scheduler.close()
        self._spare.clear()

    def check_open(self) -> None:
        """Raise TIL807 after :meth:`close`."""
        if self.closed:
            raise BackendError.of("TIL807", "this executor was closed; open another one")

    def take_scratch(self, nbytes: int) -> HostBuffer:
        """Return scratch memory for one launch; :meth:`give_scratch` takes it back."""
        try:
            scratch = self._spare.pop()
        except IndexError:
            return allocate(nbytes)
        return scratch if scratch.nbytes >= nbytes else allocate(nbytes)

    def give_scratch(self, scratch: HostBuffer) -> None:
        """Keep scratch memory for the next launch."""
        self._spare.append(scratch)


@attrs.frozen(eq=False)
class HostKernel:
    """Kernel that is a function of its arrays' addresses and of scratch memory, and runs all groups.

    Attributes:
        executor: Executor of the kernel, which runs kernels in the order of submission.
        function: Function of the packed addresses and the address of the scratch memory.
        addresses: Signature for packing its arrays.
        scratch_bytes: Size of the scratch memory.
    """

    executor: HostExecutor
    function: Callable[[bytes, int], object]
    addresses: Addresses
    scratch_bytes: int = 0

    def launch(self, buffers: Sequence[HostBuffer]) -> None:
        """Run it, and return when the outputs are written; raises the errors of :meth:`run`."""
        self.run(buffers).wait()

    def run(self, buffers: Sequence[HostBuffer], after: Sequence[Event] = ()) -> PendingEvent:
        """Run it once all of ``after`` have completed.

        Raises:
            ArgumentError: TIL706, the buffers do not fit the parameters.
            BackendError: TIL807, the executor was closed.

        """
        self.executor.check_open()
        packed = self.addresses.packed(buffers)
        return self.executor.scheduler.submit(partial(self._start, packed, tuple(buffers)), after)

    def _start(self, packed: bytes, _kept_alive: tuple[HostBuffer, ...]) -> None:
        scratch = self.executor.take_scratch(self.scratch_bytes)
        self.function(packed, scratch.address)
        self.executor.give_scratch(scratch)


def _bytes_of(memory: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if isinstance(memory, HostBuffer):
        return memory.host()
    array = np.asarray(memory)
    if not array.flags.c_contiguous:
        raise ArgumentError.of("TIL706", "an array with gaps cannot be copied; pass a contiguous one")
    return array.reshape(-1).view(np.uint8)
