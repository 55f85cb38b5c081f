"""Memory, copies and launches on one device.

Includes a test whether a device works on host memory in place.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyopencl as cl

from tileir.core.errors import BackendError
from tileir.runtime import DeviceInfo, Event, Options, Scheduler
from tileir.runtime.arrays import address_of
from tileir.runtime.checks import check_part, kernel_at, memory_size
from tileir.runtime.copies import copy_by_host, places_of
from tileir_opencl.device.capabilities import LEAST_ALIGNMENT, base_alignment
from tileir_opencl.device.devices import device_of
from tileir_opencl.run.buffers import (
    AdoptedBuffer,
    OpenCLBuffer,
    PartialBuffer,
    PooledBuffer,
    SharedBuffer,
    page_locked,
)
from tileir_opencl.run.commands import Commands
from tileir_opencl.run.copies import copy_command, run_batch
from tileir_opencl.run.faults import refused
from tileir_opencl.run.kernels import BoundOpenCLKernel, OpenCLKernel
from tileir_opencl.run.pool import Pool
from tileir_opencl.run.process import context_of, inherited, use_drivers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir_opencl.device.platforms import PlatformDevice
    from tileir_opencl.run.library import OpenCLLibrary


NBYTES: Final = 4096


@cache
def shares_memory(found: PlatformDevice) -> bool:
    """Return whether writes of a processor's driver to a buffer over an array are in the array right away.

    The array starts 16 bytes after the start of a page, like NumPy's large arrays.
    """
    device = found.device
    if found.simulated or device.type != cl.device_type.CPU or not device.host_unified_memory:
        return False
    room = np.zeros(3 * NBYTES, np.uint8)
    start = -room.ctypes.data % NBYTES + 16
    array = room[start : start + NBYTES]
    context = context_of(found)
    try:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        buffer = cl.Buffer(context, flags, hostbuf=array)
        queue = cl.CommandQueue(context, device)
        cl.enqueue_fill_buffer(queue, buffer, np.full(1, 7, np.uint8), 0, NBYTES).wait()
    except cl.Error:
        return False
    return bool((array == 7).all())


IN_PLACE: Final = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
IN_PLACE_READ_ONLY: Final = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR


@attrs.define(eq=False)
class OpenCLExecutor:
    """Owner of a queue and memory of one device; several threads may use it.

    Attributes:
        asynchronous: Launches and copies only submit work.
        part_alignment: Alignment of the offset of each part of a buffer.
        shares: Whether the device works on host memory in place.
        batches: Whether it does not, so that :meth:`run_batch` saves time.
        dlpack_device: DLPack device.
    """

    device: DeviceInfo
    options: Options
    commands: Commands = attrs.field(repr=False)
    pool: Pool = attrs.field(repr=False)
    part_alignment: int
    shares: bool
    dlpack_device: tuple[int, int]
    asynchronous: bool = attrs.field(default=True, init=False)
    batches: bool = attrs.field(init=False)
    _scheduler: Scheduler = attrs.field(factory=lambda: Scheduler("tileir-opencl"), init=False, repr=False)
    _closed: bool = attrs.field(default=False, init=False)

    @batches.default
    def _has_memory_of_its_own(self) -> bool:
        return not self.shares

    @classmethod
    def of(cls, device: DeviceInfo, options: Options) -> OpenCLExecutor:
        """Open a queue on a device.

        Raises:
            BackendError: TIL801, there is no such device; TIL808, its driver refuses; TIL809, the process was forked.

        """
        known = device_of(device)
        found, place = known.found, known.info.dlpack
        assert place is not None  # all of ours have one
        try:
            context = context_of(found)
            commands = Commands.of(context, found.device, profile=options.profile)
        except cl.Error as error:
            raise refused(f"opening {device.id}", error) from error
        pool = Pool(context, found.device.global_mem_size, commands.drain)
        commands.release_memory = pool.release
        return cls(device, options, commands, pool, base_alignment(found.device), shares_memory(found), place)

    def allocate(self, nbytes: int) -> OpenCLBuffer:
        """Return device memory with undefined content.

        Raises:
            ArgumentError: TIL707, the size is negative.
            BackendError: TIL708, there is not enough memory; TIL807, the executor was closed; TIL809, the process was
                forked.
        """
        self.check_open()
        self.commands.collect()
        native, size = self.pool.take(memory_size(nbytes))
        return PooledBuffer(native, nbytes, self.commands, self.pool, size)

    def wrap(self, array: np.ndarray[Any, Any]) -> OpenCLBuffer | None:
        """Return a buffer over an array's own memory; None if the device or its alignment does not allow that."""
        if not self.shares:
            return None
        self.check_open()
        nbytes, flags = array.nbytes, array.flags
        if not nbytes or not flags.c_contiguous or address_of(array) % LEAST_ALIGNMENT:
            return None
        access = IN_PLACE if flags.writeable else IN_PLACE_READ_ONLY
        content = array if array.dtype.kind in "biuf" else array.reshape(-1).view(np.uint8)
        try:
            native = cl.Buffer(self.commands.context, access, nbytes, content)
        except cl.Error:
            return None
        return SharedBuffer(native, nbytes, self.commands, array)

    def stage(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return host memory from and to which the driver copies fastest.

        Raises:
            ArgumentError: TIL707, the size is negative.
            BackendError: TIL708, there is not enough memory; TIL807, the executor was closed; TIL809, the process was
                forked.
        """
        self.check_open()
        return page_locked(self.commands, memory_size(nbytes))

    def part(self, buffer: OpenCLBuffer, offset: int, nbytes: int) -> OpenCLBuffer:
        """Return a buffer over ``nbytes`` bytes of another from ``offset`` on.

        Raises:
            ArgumentError: TIL706, the part is empty, or exceeds the buffer, or its offset is not aligned.
        """
        self.check_open()
        check_part(offset, nbytes, buffer.nbytes, self.part_alignment)
        whole, start = (buffer.whole, buffer.offset) if isinstance(buffer, PartialBuffer) else (buffer, 0)
        try:
            native = whole.region(start + offset, nbytes)
        except cl.Error as error:
            raise refused("a part of a buffer", error) from error
        return PartialBuffer(native, nbytes, self.commands, whole, start + offset)

    def address(self, buffer: OpenCLBuffer) -> int:
        """Return the driver's handle as a number, which DLPack uses as the data of OpenCL buffers."""
        return buffer.native.int_ptr

    def lend(self, buffer: OpenCLBuffer) -> int:
        """Return the handle, and never reuse this memory: the driver knows when its last user is done."""
        if isinstance(buffer, PooledBuffer):
            buffer.lent = True
        return self.address(buffer)

    def adopt(self, address: int, nbytes: int, owner: object, *, read_only: bool) -> OpenCLBuffer | None:  # noqa: ARG002
        """Return a buffer over another library's memory, by its handle; None if it is of another context."""
        self.check_open()
        if not nbytes:
            return self.allocate(0)
        native: Any = cl.Buffer.from_int_ptr(address)
        if native.context != self.commands.context or native.size < nbytes:
            return None
        return AdoptedBuffer(native, nbytes, self.commands, owner)

    def prepare(self, library: OpenCLLibrary, index: int) -> OpenCLKernel:
        """Wait until the driver has built a kernel, and prepare it.

        Raises:
            ArgumentError: TIL707, there is no such kernel.
            BackendError: TIL804, its groups are larger than the device can run; TIL805, the driver refused the code;
                TIL807, the executor was closed; TIL809, the process was forked.
        """
        self.check_open()
        kernel = kernel_at(library, index)
        return OpenCLKernel.of(self, kernel, *library.entry(index))

    def copy(self, source: Any, destination: Any, after: Sequence[Event] = ()) -> Event:
        """Copy the smaller number of bytes of both, between buffers or contiguous arrays, after ``after``.

        Arrays stay alive until then, and must not be changed.

        Raises:
            ArgumentError: TIL706, an array has gaps, or the destination cannot be written.
            BackendError: TIL708 or TIL808, the driver refuses; TIL807, the executor was closed.
        """
        self.check_open()
        read, write, count = places_of(source, destination, OpenCLBuffer)
        enqueue = copy_command(self.commands, read, write, count)
        if enqueue is None:
            return self._scheduler.submit(partial(copy_by_host, read, write, count), after)
        # NVIDIA's driver 580 reads small arrays on submission of a copy, regardless of its dependences.
        return self.commands.submit(enqueue, (read, write), after, "a copy", reads_at_once=isinstance(read, np.ndarray))

    def run_batch(
        self,
        inputs: Sequence[tuple[np.ndarray[Any, Any], OpenCLBuffer]],
        launches: Sequence[BoundOpenCLKernel],
        outputs: Sequence[tuple[OpenCLBuffer, np.ndarray[Any, Any]]],
    ) -> None:
        """Copy arrays in, launch one kernel after the other, copy results out, and return when all is done.

        Raises:
            BackendError: TIL708, TIL804 or TIL808, the driver refuses; TIL807, the executor was closed.

        """
        self.check_open()
        run_batch(self.commands.native, inputs, launches, outputs)

    def trim(self) -> int:
        """Wait for the device, release unused memory to it, and return its size in bytes."""
        return self.pool.trim()

    def close(self) -> None:
        """Wait for all work and release memory; in a forked child both are up to the parent."""
        if self._closed:
            return
        self._closed = True
        if inherited():
            return
        self._scheduler.close()
        self.commands.finish()
        self.pool.close()

    def check_open(self) -> None:
        """Raise TIL807 after :meth:`close`, and TIL809 in a forked child."""
        if self._closed:
            raise BackendError.of("TIL807", "this executor was closed; open another one")
        use_drivers()
