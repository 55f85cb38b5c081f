"""Arrays in the memory of a device."""

from __future__ import annotations

from math import prod
from typing import Any, Final, NoReturn, Self

import attrs
import numpy as np

from tileir.core import ArgumentError, DType
from tileir.runtime.arrays import Array
from tileir.runtime.devices.dlpack import CUDA_KINDS, HOST, HOST_KINDS, Place, at, exported, spelt
from tileir.runtime.devices.home import DeviceMemory
from tileir.runtime.events import ends_of
from tileir.runtime.interface import Buffer, DeviceInfo, Event

_LEGACY_STREAM: Final = 1


@attrs.define(eq=False, repr=False)
class DeviceArray:
    """Array in the memory of a device: contiguous, in row-major order.

    :func:`tileir.to_device` makes one; calls with device arrays return device arrays. Other libraries share its memory
    by DLPack, and CUDA libraries by ``__cuda_array_interface__`` as well. They are responsible for ordering their
    accesses against calls that are running.

    Attributes:
        shape: Extents.
        dtype: NumPy dtype of its elements.
        home: Its device, with the executor that manages the memory.
        read_only: Whether it must not be written, as declared by the library that shares its memory.
    """

    _buffer: Buffer | None
    home: DeviceMemory = attrs.field(on_setattr=attrs.setters.frozen)
    dtype: np.dtype[Any] = attrs.field(on_setattr=attrs.setters.frozen)
    shape: tuple[int, ...] = attrs.field(on_setattr=attrs.setters.frozen)
    read_only: bool = attrs.field(default=False, on_setattr=attrs.setters.frozen)
    _host: Array | None = None
    _written: Event | None = attrs.field(default=None, init=False)

    @classmethod
    def of(
        cls, buffer: Buffer, home: DeviceMemory, dtype: DType, shape: tuple[int, ...], *, read_only: bool = False
    ) -> Self:
        """Return an array over a sufficiently large buffer."""
        seen = buffer.host()
        view: Array | None = None
        if seen is not None:
            view = seen[: _nbytes(dtype, shape)].view(dtype.numpy).reshape(shape)
        elif home.works_in_place and not _nbytes(dtype, shape):
            view = np.empty(shape, dtype.numpy)  # the host accesses it like any other array there
        if view is not None and read_only:
            view.flags.writeable = False
        return cls(buffer, home, dtype.numpy, shape, read_only, view)

    @classmethod
    def over(cls, array: Array, home: DeviceMemory) -> Self:
        """Return an array over a contiguous, aligned host array that the device works on in place."""
        return cls(home.executor.wrap(array), home, array.dtype, array.shape, False, array)

    @classmethod
    def fresh(
        cls, buffer: Buffer, home: DeviceMemory, dtype: np.dtype[Any], shape: tuple[int, ...], written: Event | None
    ) -> Self:
        """Return an array over memory invisible to the host that a call writes, or has written.

        Fields are set without attrs' checks, which take as long as a launch.
        """
        made = cls.__new__(cls)
        _put_buffer(made, buffer)
        _put_home(made, home)
        _put_dtype(made, dtype)
        _put_shape(made, shape)
        _put_read_only(made, False)
        _put_host(made, None)
        _put_written(made, written)
        return made

    @property
    def device(self) -> DeviceInfo:
        """Device of the array."""
        return self.home.device

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.nbytes // self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Number of bytes of its elements."""
        return _nbytes(self.dtype, self.shape)

    def __repr__(self) -> str:
        """Return a description without the elements, which would have to be copied to the host."""
        kind = DType.of(self.dtype)
        name = self.dtype if kind is None else kind.value
        state = ", freed" if self._buffer is None else ", read-only" if self.read_only else ""
        return f"DeviceArray({name}[{', '.join(map(str, self.shape))}] on {self.device.id}{state})"

    def numpy(self) -> Array:
        """Return it as a NumPy array: sharing the host's memory if it is there, else a copy.

        Raises:
            ArgumentError: TIL715, it was freed; TIL708, there is not enough memory.
            BaseException: The failure of the submitted call that writes it.
        """
        buffer = self.ready()
        if self._host is not None:
            return self._host
        try:
            copy = np.empty(self.shape, self.dtype)
        except MemoryError as error:
            message = f"there is not enough memory on the host for {self.nbytes} bytes: {error}"
            raise ArgumentError.of("TIL708", message) from error
        self.home.fetch(buffer, copy)
        return copy

    def fill(self, array: Array) -> None:
        """Copy a host array of equal dtype and shape to it.

        Raises:
            ArgumentError: TIL715, it was freed.
            BackendError: TIL807, the context was closed.
        """
        buffer = self.ready()
        if self._host is not None:
            self._host[...] = array
        elif self.nbytes:
            self.home.executor.copy(np.ascontiguousarray(array), buffer).wait()

    def free(self) -> None:
        """Release the memory now, not when the last reference dies; the array cannot be used afterwards.

        Calls that use it finish first.
        """
        self._buffer = self._host = None

    def ready(self) -> Buffer:
        """Wait until its elements are written, and return the memory.

        Raises:
            ArgumentError: TIL715, it was freed.
            BaseException: The failure of the submitted call that writes it.
        """
        written = self._written
        if written is not None:
            written.wait()
            self._written = None
        return self.memory()

    def memory(self) -> Buffer:
        """Return the memory, whose elements may still be pending.

        Raises:
            ArgumentError: TIL715, it was freed.
        """
        if self._buffer is None:
            raise ArgumentError.of("TIL715", f"this {self} was freed; make another one")
        return self._buffer

    def queued(self, executor: Any) -> Any:
        """Return the memory if an executor's queue orders everything it waits for; None if a wait is needed."""
        written, own = self._written, self.home.executor is executor
        return self._buffer if own and (written is None or executor.follows(written)) else None

    def seen(self) -> Array | None:
        """Return its memory as a NumPy array, without waiting; None if the host cannot access it."""
        self.memory()
        return self._host

    def await_call(self, event: Event | None) -> None:
        """Make readers wait for a submitted call that writes it; None if it is written."""
        self._written = event

    def awaited(self) -> Event | None:
        """Return the submitted call that writes it; None if no wait is needed."""
        return self._written

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return it for NumPy, without a copy if its memory is the host's; else only if a copy is requested.

        Raises:
            ArgumentError: TIL714, it would have to be copied to the host without a request.
        """
        if self._host is None and copy is not True:
            message = (
                f"{self} is not copied to the host unless that is said: write array.numpy(), or"
                " numpy.array(array, copy=True)"
            )
            raise ArgumentError.of("TIL714", message)
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ArgumentError.of("TIL714", f"{self} is of another type than {dtype}; allow a copy")
            return array.astype(dtype)
        return array.copy() if copy is True and self._host is not None else array

    def __getitem__(self, key: object) -> NoReturn:
        """Refuse indexing: device arrays are not divisible.

        Raises:
            ArgumentError: TIL714, always.
        """
        message = (
            f"{self} has no parts of its own: take them in a program, as ops.slice does, of array.numpy(), or of what"
            " another library makes of it by from_dlpack"
        )
        raise ArgumentError.of("TIL714", message)

    def __bool__(self) -> bool:
        """Return whether its only element is not 0; raises the errors of :meth:`__array__`."""
        return bool(self.__array__())

    def __int__(self) -> int:
        """Return its only element; raises the errors of :meth:`__array__`."""
        return int(self.__array__())

    def __float__(self) -> float:
        """Return its only element; raises the errors of :meth:`__array__`."""
        return float(self.__array__())

    def __dlpack_device__(self) -> Place:
        """Return the device for DLPack: the host if it can access the memory, so that any library can use it."""
        return HOST if self._host is not None else self.home.place

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Place | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule of its memory.

        Args:
            stream: Stream of the consumer, which is made to wait for pending writes; -1 for no synchronisation. Only
                for devices with streams.
            max_version: Latest version of DLPack that the consumer knows.
            dl_device: Requested device: this one, or the host, which takes a copy unless it can access the memory.
            copy: Whether to copy; None to copy only if necessary.

        Raises:
            BufferError: It cannot be shared in this way.
            ArgumentError: TIL715, it was freed.
        """
        here = self.__dlpack_device__()
        wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if wanted not in (here, self.home.place):
            return self._exported_to_host(wanted, max_version, copy)
        self._order(stream)
        executor: Any = self.home.executor
        buffer, read_only = self.memory(), self.read_only
        if self._host is not None and wanted == HOST:
            array = self._host.copy() if copy else self._host
            return exported(array, wanted, version=max_version, copied=bool(copy))
        if not self.home.shares:
            raise BufferError(f"the memory of {self.device.id} cannot be shared; copy it to the host, by numpy()")
        if copy:
            fresh, read_only = self.home.allocated(self._kind, self.shape), False
            executor.copy(buffer, fresh).wait()
            buffer = fresh
        array = at(executor.lend(buffer), self._kind, self.shape, buffer, read_only=read_only)
        return exported(array, wanted, version=max_version, copied=bool(copy))

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Interface for CUDA libraries without DLPack; AttributeError elsewhere, and for dtypes without a name.

        Its content is complete, so no stream is given.
        """
        executor: Any = self.home.executor
        if self.home.place[0] not in CUDA_KINDS or not self.home.shares:
            raise AttributeError(f"{self.device.id} is no device of CUDA")
        if self.dtype.kind not in "biuf":
            raise AttributeError(f"the CUDA array interface has no elements of type {self.dtype}; use DLPack")
        for event in self.home.handed_over():
            event.wait()
        data = executor.lend(self.ready()) if self.nbytes else 0
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (data, self.read_only),
            "strides": None,
            "version": 3,
            "stream": None,
        }

    @property
    def _kind(self) -> DType:
        kind = DType.of(self.dtype)
        assert kind is not None  # the interface was called for it
        return kind

    def _order(self, stream: int | None) -> None:
        """Make a consumer's stream wait for pending writes.

        Raises:
            BufferError: There is no such stream.
        """
        executor: Any = self.home.executor
        if self.home.streams:
            if stream == 0:
                raise BufferError("stream 0 may mean two things to CUDA; 1 is the default one, 2 that of each thread")
            written = () if self._written is None else ends_of(self._written)
            before = [*written, *self.home.handed_over()]  # and for pending reads: the consumer may write
            if stream != -1 and before:
                executor.precede(_LEGACY_STREAM if stream is None else stream, before)
            return
        if stream is not None and stream != -1:
            raise BufferError(f"{self.device.id} has no streams; pass stream=None")
        self.ready()

    def _exported_to_host(self, wanted: Place, version: object, copy: bool | None) -> object:
        if wanted == HOST and copy is not True and self._host is not None:
            self.ready()
            return exported(self._host, HOST, version=version)
        if wanted[0] not in HOST_KINDS or copy is False:
            how = "without a copy" if wanted[0] in HOST_KINDS else "by DLPack"
            raise BufferError(
                f"this array is on {self.device.id}, and cannot get to {spelt(wanted)} {how}; write array.numpy()"
            )
        array = self.numpy()
        return exported(array if self._host is None else array.copy(), HOST, version=version, copied=True)


_put_buffer, _put_home, _put_dtype, _put_shape, _put_read_only, _put_host, _put_written = (
    getattr(DeviceArray, field.name).__set__ for field in attrs.fields(DeviceArray)
)


def _nbytes(dtype: DType | np.dtype[Any], shape: tuple[int, ...]) -> int:
    return dtype.itemsize * prod(shape)
