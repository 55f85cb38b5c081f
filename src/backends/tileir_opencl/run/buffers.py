"""Memory for kernels: of the device, a part of device memory, or the host's own."""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import numpy as np
import pyopencl as cl

from tileir_opencl.run.faults import refused
from tileir_opencl.run.process import use_drivers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tileir.runtime.interface import Event
    from tileir_opencl.run.commands import Commands
    from tileir_opencl.run.pool import Pool

    Bytes = np.ndarray[Any, np.dtype[np.uint8]]


READ_WRITE: Final = cast("cl.map_flags", cl.map_flags.READ | cl.map_flags.WRITE)


@attrs.define(eq=False)
class OpenCLBuffer:
    """Buffer of one context.

    Attributes:
        native: Handle of the driver.
        nbytes: Size in bytes.
        commands: Queue for mapping; commands of the context may use the buffer.
    """

    native: cl.Buffer = attrs.field(repr=False)
    nbytes: int
    commands: Commands = attrs.field(repr=False)
    _parts: list[cl.Buffer] = attrs.field(factory=list, init=False, repr=False)

    def region(self, offset: int, nbytes: int) -> cl.Buffer:
        """Return the driver's handle of a part, which is kept as long as this buffer.

        NVIDIA's driver (580) crashes if, of two overlapping parts, the first one made is released first. So parts are
        released together, the last one first.
        """
        if not self._parts:
            weakref.finalize(self, _release, self._parts)
        part = self.native.get_sub_region(offset, nbytes)
        self._parts.append(part)
        return part

    def host(self) -> Bytes | None:
        """Return None: the host can only access mapped memory."""
        return None

    @contextmanager
    def map_current(self, after: Sequence[Event] = ()) -> Iterator[Bytes]:
        """Map the content for the host, to read and to change, once all of ``after`` have completed.

        Raises:
            BackendError: TIL708 or TIL808, the driver cannot map it.
            BaseException: The failure of an event of ``after``.
        """
        with self._mapped(READ_WRITE, after) as view:
            yield view

    @contextmanager
    def map_discard(self, after: Sequence[Event] = ()) -> Iterator[Bytes]:
        """Map the buffer like :meth:`map_current`, but with undefined content at first, for overwriting."""
        with self._mapped(cl.map_flags.WRITE_INVALIDATE_REGION, after) as view:
            yield view

    @contextmanager
    def _mapped(self, flags: cl.map_flags, after: Sequence[Event]) -> Iterator[Bytes]:
        use_drivers()
        for event in after:
            event.wait()
        if not self.nbytes:
            yield np.empty(0, np.uint8)
            return
        shape = (self.nbytes,)
        try:
            view, _ = cl.enqueue_map_buffer(self.commands.native, self.native, flags, 0, shape, np.dtype(np.uint8))
        except cl.Error as error:
            raise refused(f"mapping {self.nbytes} bytes", error) from error
        try:
            yield view
        finally:
            view.base.release(self.commands.native).wait()


@attrs.define(eq=False)
class PooledBuffer(OpenCLBuffer):
    """Memory from a pool, which gets it back when nothing refers to the buffer any more.

    Attributes:
        lent: Whether others use it too, maybe in commands that outlive the buffer: the pool does not get it back then.
    """

    _pool: Pool = attrs.field(repr=False)
    _size: int = attrs.field(repr=False)
    lent: bool = attrs.field(default=False, init=False)

    def __del__(self) -> None:
        if not self.lent:
            self._pool.give(self.native, self._size)


def page_locked(commands: Commands, nbytes: int) -> Bytes:
    """Return page-locked host memory of the driver, mapped while anything refers to the array.

    Raises:
        BackendError: TIL708 or TIL808, the driver does not give so much.
    """
    use_drivers()
    flags, shape = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR, (max(nbytes, 1),)
    try:
        native = cl.Buffer(commands.context, flags, shape[0])
        view, _ = cl.enqueue_map_buffer(commands.native, native, READ_WRITE, 0, shape, np.dtype(np.uint8))
    except cl.Error as error:
        raise refused(f"{nbytes} bytes of page-locked memory", error) from error
    room: Bytes = view[:nbytes]
    return room


def _release(parts: list[cl.Buffer]) -> None:
    """Release the handles of parts in an order that drivers support."""
    while parts:
        parts.pop().release()


@attrs.define(eq=False)
class PartialBuffer(OpenCLBuffer):
    """Part of another buffer, which it keeps alive.

    Attributes:
        whole: Buffer that is not a part itself, as drivers only support one level.
        offset: Offset of the part.
    """

    whole: OpenCLBuffer = attrs.field(repr=False)
    offset: int


@attrs.define(eq=False)
class AdoptedBuffer(OpenCLBuffer):
    """Memory of another library, whose owner it keeps alive."""

    owner: object = attrs.field(repr=False)


@attrs.define(eq=False)
class SharedBuffer(OpenCLBuffer):
    """Memory of an array, which the device works on in place."""

    array: np.ndarray[Any, Any] = attrs.field(repr=False)

    def host(self) -> Bytes:
        """Return the memory as bytes."""
        return self.array.reshape(-1).view(np.uint8)
