"""Copies: by the driver between its buffers and arrays, by the host between all others."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import pyopencl as cl

from tileir.core.errors import ArgumentError, Diagnostic
from tileir_opencl.run.buffers import OpenCLBuffer

if TYPE_CHECKING:
    from tileir.runtime.interface import Buffer
    from tileir_opencl.run.buffers import Bytes
    from tileir_opencl.run.commands import Commands, Enqueue

    Place: TypeAlias = Bytes | OpenCLBuffer | Buffer


def place_of(memory: Any) -> Place:
    """Return what to copy from or to: the bytes of an array or of a buffer that the host sees, or the buffer.

    Raises:
        ArgumentError: TIL706, an array has gaps.

    """
    if isinstance(memory, OpenCLBuffer):
        return memory
    if not isinstance(memory, np.ndarray):
        if hasattr(memory, "map_current"):
            seen = memory.host()
            return memory if seen is None else seen  # type: ignore[no-any-return]
        memory = np.asarray(memory)
    if not memory.flags.c_contiguous:
        raise ArgumentError((Diagnostic("TIL706", "an array with gaps cannot be copied; pass a contiguous one"),))
    content: Bytes = memory.reshape(-1).view(np.uint8)
    return content


def copy_command(commands: Commands, read: Place, write: Place, count: int) -> Enqueue | None:
    """Return what puts a copy of ``count`` bytes into a queue; None where the driver cannot do it.

    Raises:
        ArgumentError: TIL706, the destination is an array that cannot be written.

    """
    queue = commands.native
    if isinstance(write, np.ndarray) and not write.flags.writeable:
        raise ArgumentError((Diagnostic("TIL706", "the destination of a copy is read-only"),))
    if not count:
        return lambda wait_for: cl.enqueue_marker(queue, wait_for)
    if isinstance(read, np.ndarray):
        if not _owned(write, commands):
            return None
        to, whole = write.native, read if read.nbytes == count else read[:count]
        return lambda wait_for: cl.enqueue_copy(queue, to, whole, wait_for=wait_for, is_blocking=False)
    if not _owned(read, commands):
        return None
    from_ = read.native
    if isinstance(write, np.ndarray):
        room = write if write.nbytes == count else write[:count]
        return lambda wait_for: cl.enqueue_copy(queue, room, from_, wait_for=wait_for, is_blocking=False)
    if not _owned(write, commands):
        return None
    to = write.native
    return lambda wait_for: cl.enqueue_copy(queue, to, from_, byte_count=count, wait_for=wait_for)


def _owned(place: Place, commands: Commands) -> TypeGuard[OpenCLBuffer]:
    return isinstance(place, OpenCLBuffer) and place.commands.context is commands.context


def copy_by_host(read: Place, write: Place, count: int) -> None:
    """Copy ``count`` bytes between places that no driver knows both of, and return when that is done."""
    with ExitStack() as stack:
        source, destination = stack.enter_context(_view(read)), stack.enter_context(_view(write))
        np.copyto(destination[:count], source[:count])


def _view(place: Place) -> AbstractContextManager[Bytes]:
    return nullcontext(place) if isinstance(place, np.ndarray) else place.map_current()
