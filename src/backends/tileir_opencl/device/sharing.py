"""Test of whether a device works on the host's memory in place."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyopencl as cl

from tileir_opencl.run.process import context_of

if TYPE_CHECKING:
    from tileir_opencl.device.platforms import Found

NBYTES: Final = 4096


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
