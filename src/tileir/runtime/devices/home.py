"""Home of an array: a device, and the executor that has its memory."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from tileir.core import ArgumentError, BackendError, DType, attrs
from tileir.runtime.arrays import Array
from tileir.runtime.devices.dlpack import EXTENSION, HOST, Place
from tileir.runtime.host_memory import allocate as fresh_on_host
from tileir.runtime.interface import Buffer, DeviceInfo, Event, Executor
from tileir.runtime.offers import QueueingExecutor, SharingExecutor, StreamingExecutor

OPAQUE: Final = (4, 7, 8)
"""DLPack device kinds whose memory has handles instead of addresses: OpenCL, Vulkan, Metal."""


@attrs.frozen(eq=False, slots=False)
class DeviceMemory:
    """Device with its memory.

    Attributes:
        device: The device.
        executor: Allocator of its memory.
        check: Raises if data copied to the host may be wrong, as the device may have stopped halfway.
    """

    device: DeviceInfo
    executor: Executor[Any] = attrs.field(repr=False)
    check: Callable[[], None] | None = attrs.field(default=None, repr=False)

    @cached_property
    def is_host(self) -> bool:
        """True if its memory is the host's, so that NumPy arrays are in it already."""
        return not isinstance(self.executor, SharingExecutor) and self.executor.allocate(0).host() is not None

    @cached_property
    def works_in_place(self) -> bool:
        """True if its kernels work on host memory, like processors with a back end that has its own buffers."""
        return not self.is_host and self.executor.wrap(fresh_on_host(1).array) is not None

    @cached_property
    def shares(self) -> bool:
        """True if its memory has addresses that others can use."""
        return isinstance(self.executor, SharingExecutor)

    @cached_property
    def streams(self) -> bool:
        """True if others may use its memory in their streams, before it is written.

        Cached, like all such properties here: testing an object for an optional part takes 20 µs.
        """
        return isinstance(self.executor, StreamingExecutor)

    @cached_property
    def _queues(self) -> bool:
        return isinstance(self.executor, QueueingExecutor)

    def handed_over(self) -> Sequence[Event]:
        """Return events after which all calls in its queue are done; none without a queue."""
        executor: Any = self.executor
        found: Sequence[Event] = executor.handed_over() if self._queues else ()
        return found

    @cached_property
    def place(self) -> Place:
        """DLPack device."""
        if isinstance(self.executor, SharingExecutor):
            return self.executor.dlpack_device
        return HOST if self.is_host else (EXTENSION, 0)

    def allocated(self, dtype: DType, shape: tuple[int, ...]) -> Buffer:
        """Return fresh memory for an array: the host's if the device works on that in place.

        Raises:
            ArgumentError: TIL708, there is not enough memory.
            BackendError: TIL708, there is not enough memory; TIL807, the context was closed.
        """
        nbytes = math.prod(shape) * dtype.itemsize
        try:
            if nbytes > sys.maxsize:
                raise MemoryError
            room = self.executor.wrap(fresh_on_host(nbytes).array) if nbytes and self.works_in_place else None
            return self.executor.allocate(nbytes) if room is None else room
        except MemoryError as error:
            sizes = ", ".join(map(str, shape))
            message = f"there is not enough memory on {self.device.id} for the {nbytes} bytes of {dtype.value}[{sizes}]"
            raise ArgumentError.of("TIL708", f"{message}; make the arrays smaller") from error

    def sent(self, array: Array) -> Buffer:
        """Return fresh memory with the content of a host array; raises the errors of :meth:`allocated`."""
        dtype = DType.of(array.dtype)
        assert dtype is not None  # unsupported dtypes were refused before
        buffer = self.allocated(dtype, array.shape)
        whole = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        self.executor.copy(whole, buffer).wait()
        return buffer

    def fetch(self, buffer: Buffer, array: Array) -> None:
        """Copy device memory to a host array, even if the context was closed meanwhile."""
        try:
            self.executor.copy(buffer, array).wait()
        except BackendError as error:
            if all(each.code != "TIL807" for each in error.diagnostics):
                raise
            with buffer.map_current() as content:
                np.copyto(array.reshape(-1).view(np.uint8), content[: array.nbytes])
        if self.check is not None:
            self.check()

    def wrapped(self, array: Array) -> Buffer | None:
        """Return a buffer over the memory of a host array; None if the device cannot use it in place."""
        flags = array.flags
        return self.executor.wrap(array) if flags.c_contiguous and flags.aligned else None

    def adopted(self, array: Array) -> Buffer | None:
        """Return a buffer over memory of this device that came by DLPack; None if it cannot be used."""
        if not self.shares:
            return None
        executor: Any = self.executor
        address = array.__array_interface__["data"][0]
        found: Buffer | None = executor.adopt(address, array.nbytes, array, read_only=not array.flags.writeable)
        return found
