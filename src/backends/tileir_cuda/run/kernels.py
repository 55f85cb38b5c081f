"""Kernels loaded by the driver, and their launches."""

from __future__ import annotations

import math
from ctypes import addressof, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from tileir.core import BackendError, Diagnostic, attrs
from tileir.runtime.checks import check_buffers, check_group
from tileir.semtree.ir import Await, KernelFunction
from tileir.semtree.rewrite import statements
from tileir_cuda.devices import architecture_of
from tileir_cuda.emit.emitter import blocks, has_maps, launch_bytes, settled, threads
from tileir_cuda.run.driver import SUCCESS, checked
from tileir_cuda.run.maps import Maps
from tileir_cuda.run.memory import CudaBuffer
from tileir_llvm.emit.spelling import symbol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir.runtime.interface import Event
    from tileir_cuda.run.executor import CudaExecutor
    from tileir_cuda.run.stream import Stream


@attrs.frozen(eq=False)
class CudaKernel:
    """Kernel that any thread may run.

    Attributes:
        kernel: The kernel.
        shape: Blocks and threads along each axis, and dynamic shared memory in bytes.
        maps: Tensor maps that it takes after the arrays.
        awaits: Whether its groups wait for each other, so that all of them have to be resident.
    """

    kernel: KernelFunction
    _executor: CudaExecutor = attrs.field(repr=False)
    _module: object = attrs.field(repr=False)
    _function: Any = attrs.field(repr=False)
    _sizes: tuple[int, ...] = attrs.field(repr=False)
    shape: tuple[int, ...] = attrs.field(repr=False)
    maps: Maps | None = attrs.field(repr=False)
    awaits: bool = attrs.field(default=False, repr=False)

    @classmethod
    def of(cls, executor: CudaExecutor, kernel: KernelFunction, module: Any, index: int) -> CudaKernel:
        """Prepare the function of kernel number ``index`` in a module.

        Raises:
            GroupLimitError: TIL804, its groups have more threads than the card can run of this kernel.
            BackendError: TIL808, the driver does not find it.
        """
        architecture = architecture_of(executor.device)
        kernel = settled(kernel, architecture)
        name = symbol(index, kernel)
        function = checked(f"kernel {kernel.name}", driver.cuModuleGetFunction(module.native, name.encode()))
        which = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        check_group(kernel, int(checked(f"kernel {kernel.name}", driver.cuFuncGetAttribute(which, function))))
        shared = launch_bytes(kernel, architecture)
        if shared:
            which = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(f"kernel {kernel.name}", driver.cuFuncSetAttribute(function, which, shared))
        awaits = any(isinstance(stmt, Await) for stmt in statements(kernel.body))
        if awaits:
            _check_room(executor, kernel, function, shared)
        sizes = tuple(param.size * param.dtype.itemsize for param in kernel.params)
        shape = (*blocks(kernel), *threads(kernel), shared)
        maps = Maps.of(kernel) if has_maps(kernel, architecture) else None
        return cls(kernel, executor, module, function, sizes, shape, maps, awaits)

    @property
    def fits(self) -> bool:
        """True if the groups of a cluster can be resident together, which not all parts of a card support.

        If there are no more groups than multiprocessors, all have to be resident: the remaining groups would otherwise
        take as long again.
        """
        if self.kernel.cluster == 1:
            return True
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = self.shape[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ, config.sharedMemBytes = self.shape[3:]
        status, clusters = driver.cuOccupancyMaxActiveClusters(self._function, config)
        groups, room = math.prod(self.shape[:3]), clusters * self.kernel.cluster
        return status is SUCCESS and room >= (groups if groups <= self._executor.device.target.threads else 1)

    @property
    def function(self) -> int:
        """The driver's function as a number."""
        return int(self._function)

    def run(self, buffers: Sequence[CudaBuffer], after: Sequence[Event] = ()) -> Event:
        """Launch once all of ``after`` have completed.

        Raises:
            ArgumentError: TIL706, the buffers do not fit the parameters.
            BackendError: TIL804 or TIL808, the driver refuses the launch; TIL807, the executor was closed.

        """
        return self.bind(buffers).run(after)

    def launch(self, buffers: Sequence[CudaBuffer]) -> None:
        """Launch now, and return when the outputs are written; raises the errors of :meth:`run`."""
        self.run(buffers).wait()

    def bind(self, buffers: Sequence[CudaBuffer]) -> BoundCudaKernel:
        """Return a launch on these buffers."""
        self._executor.check_open()
        given: tuple[object, ...] = tuple(buffers)
        held = tuple([b for b in given if isinstance(b, CudaBuffer) and b.stream.card == self._executor.stream.card])
        check_buffers(self.kernel.name, given, held, self._sizes)
        addresses = (c_uint64 * max(1, len(held)))(*(buffer.address for buffer in held))
        first = addressof(addresses)
        places = list(range(first, first + 8 * len(held), 8))
        maps = () if self.maps is None else self.maps.at([buffer.address for buffer in held])
        places.extend(map(addressof, maps))
        pointers = (c_void_p * max(1, len(places)))(*places)
        first_pointer = addressof(pointers)
        kept = (self, held, addresses, pointers, maps)
        return BoundCudaKernel(self.kernel, self._function, self.shape, self._executor.stream, kept, first_pointer)


def _check_room(executor: CudaExecutor, kernel: KernelFunction, function: Any, shared: int) -> None:
    """Refuse a kernel whose groups wait for each other but cannot all be resident."""
    found = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, math.prod(kernel.group), shared)
    room = int(checked(f"kernel {kernel.name}", found)) * executor.device.target.threads
    if math.prod(kernel.grid) > room:
        message = (
            f"kernel {kernel.name} has {math.prod(kernel.grid)} groups that await flags, and the device runs {room} of "
            "them at a time; compile with fewer groups"
        )
        raise BackendError((Diagnostic("TIL804", message),))


@attrs.frozen(eq=False)
class BoundCudaKernel:
    """Launch with checked and packed buffers. It may run again while an earlier run has not completed."""

    kernel: KernelFunction
    _function: Any = attrs.field(repr=False)
    _shape: tuple[int, ...] = attrs.field(repr=False)
    _stream: Stream = attrs.field(repr=False)
    _held: object = attrs.field(repr=False)
    _pointers: int = attrs.field(repr=False)

    def run(self, after: Sequence[Event] = ()) -> Event:
        """Launch like :meth:`CudaKernel.run`."""
        return self._stream.submit(self.enqueue, self._held, after, f"kernel {self.kernel.name}")

    def launch(self) -> None:
        """Launch like :meth:`CudaKernel.launch`."""
        self.run().wait()

    def enqueue(self) -> None:
        """Put a launch into the stream, unless its grid is empty."""
        if all(self._shape[:-1]):
            result = driver.cuLaunchKernel(self._function, *self._shape, self._stream.native, self._pointers, 0)
            checked(f"kernel {self.kernel.name}", result)
