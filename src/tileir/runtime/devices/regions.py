"""Memory regions of a device as objects: its own, and the host memory that it copies from and to fastest."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tileir.core import ArgumentError, DType, attrs, dtype_meant, with_short_traceback
from tileir.runtime.arrays import Array
from tileir.runtime.context import Context, owner_of
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.devices.home import DeviceMemory
from tileir.runtime.host_memory import allocate as fresh_on_host
from tileir.runtime.interface import DeviceInfo
from tileir.runtime.offers import StagingExecutor

_NAMES: Final = frozenset(dtype.value for dtype in DType)


@attrs.frozen(eq=False)
class DeviceRegion:
    """Memory that kernels of a device work on.

    Attributes:
        home: The device, with the executor that manages its memory.
    """

    home: DeviceMemory = attrs.field(repr=lambda home: str(home.device.id))

    @property
    def nbytes(self) -> int | None:
        """Bytes of the device's memory; None if unknown."""
        return self.home.device.memory_bytes

    @property
    def seen_by_host(self) -> bool:
        """True if the host can access its arrays, so that nothing is copied between this and the shared region."""
        return self.home.is_host or self.home.works_in_place

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "f32") -> DeviceArray:
        """Return an array with undefined elements.

        Raises:
            ArgumentError: TIL702, there is no such dtype; TIL707, it is not a shape; TIL708, there is not enough
                memory.
            BackendError: TIL708, there is not enough memory; TIL807, the context was closed.
        """
        kind, sizes = _dtype(dtype), _shape(shape)
        return DeviceArray.of(self.home.allocated(kind, sizes), self.home, kind, sizes)


@attrs.frozen(eq=False)
class SharedRegion:
    """Host memory with the fastest copies from and to the device: page-locked for cards.

    Its arrays are NumPy arrays, usable as inputs and ``out=`` like all others.

    Attributes:
        home: The device.
    """

    home: DeviceMemory = attrs.field(repr=lambda home: str(home.device.id))

    @property
    def pinned(self) -> bool:
        """True if the memory is the driver's and page-locked."""
        return isinstance(self.home.executor, StagingExecutor) and not self.home.works_in_place

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "f32") -> Array:
        """Return an array with undefined elements; raises the errors of :meth:`DeviceRegion.empty`."""
        kind, sizes = _dtype(dtype), _shape(shape)
        nbytes = math.prod(sizes) * kind.itemsize
        executor: object = self.home.executor
        try:
            room: Array
            if self.pinned and isinstance(executor, StagingExecutor):
                room = executor.stage(nbytes)
            else:
                room = fresh_on_host(nbytes).array
        except (MemoryError, OverflowError, ValueError) as error:  # NumPy has several errors for too large sizes
            message = f"there is not enough memory on the host for {nbytes} bytes; make the array smaller"
            raise ArgumentError.of("TIL708", message) from error
        found: Array = room.view(kind.numpy).reshape(sizes)
        return found


@attrs.frozen(eq=False)
class MemoryRegions:
    """Memory that a device works with; copies go between its two regions.

    Attributes:
        device: Memory that its kernels work on.
        shared: Memory that the host works on, and the device copies from and to.
    """

    device: DeviceRegion
    shared: SharedRegion


@with_short_traceback
def memory(device: str | DeviceInfo | None = None, *, context: Context | None = None) -> MemoryRegions:
    """Return the memory regions of a device; by default of the context's device.

    Raises:
        BackendError: TIL801, there is no such device.
    """
    owner = owner_of(context)
    home = owner.home(owner.device(device))
    return MemoryRegions(DeviceRegion(home), SharedRegion(home))


def _dtype(value: Any) -> DType:
    try:
        found = DType(value) if isinstance(value, str) and value in _NAMES else DType.of(np.dtype(value))
    except TypeError:
        found = value if isinstance(value, DType) else None
    if found is None:
        raise ArgumentError.of("TIL702", f"{value!r} is not a dtype; {dtype_meant(value)}")
    return found


def _shape(value: Any) -> tuple[int, ...]:
    sizes = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not all(isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0 for size in sizes):
        raise ArgumentError.of("TIL707", f"a shape is made of sizes of 0 and more, not {value!r}")
    return tuple(map(int, sizes))
