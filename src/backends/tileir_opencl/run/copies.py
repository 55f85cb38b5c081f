"""Copies by the driver between its buffers and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np
import pyopencl as cl

from tileir_opencl.run.buffers import OpenCLBuffer

if TYPE_CHECKING:
    from tileir.runtime.interface import Buffer
    from tileir_opencl.run.buffers import Bytes
    from tileir_opencl.run.commands import Commands, Enqueue

    Place: TypeAlias = Bytes | OpenCLBuffer | Buffer


def copy_command(commands: Commands, read: Place, write: Place, count: int) -> Enqueue | None:
    """Return what puts a copy of ``count`` bytes into a queue; None where the driver cannot do it."""
    queue = commands.native
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
