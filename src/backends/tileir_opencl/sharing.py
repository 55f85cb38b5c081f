"""Whether a device works on the host's memory in place, which is seen by trying."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyopencl as cl

from tileir_opencl.process import context_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tileir_opencl.platforms import Found

NBYTES: Final = 4096

_NOTHING: Final = ctypes.c_byte * 0


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Return where an array's memory starts.

    The buffer protocol is three times as fast as ``array.ctypes``, but refuses arrays that are read-only or
    whose dtype it does not know, such as bf16.
    """
    try:
        return ctypes.addressof(_NOTHING.from_buffer(cast("Buffer", array)))
    except (TypeError, ValueError):
        return int(array.ctypes.data)


@cache
def shares_memory(found: Found) -> bool:
    """Return whether what a processor's driver writes into a buffer over an array is in the array right away.

    The array starts 16 bytes behind the start of a page: where NumPy's large arrays do.
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
