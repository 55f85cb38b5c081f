"""Compiles in a process whose address space has room for single pages only, gigabytes apart, and then far below.

Run as a program. A linker that asks for memory for each section gets the constants of a function further from its code
than 32 bits reach; processes that hold a graphics card's address space look like that.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

import tileir
from tileir.runtime.context import Context

STEP = 3 << 30
HOLES = 100
NO_RESERVE = 0x4000  # Linux: these pages are never used
TEXT = "function (A) -> (B) { B = exp(A) + sin(A); }"

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def reserve(size: int) -> int:
    """Take addresses, the highest that are free."""
    address = libc.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE, -1, 0)
    if address in (None, 2**64 - 1):
        raise OSError(ctypes.get_errno(), "mmap")
    return int(address)


def main() -> None:
    """Leave such room, and compile."""
    context = Context(device_id="llvm", disk_cache=None)
    tileir.compile(TEXT, [(1,)], context=context)
    arena = reserve(HOLES * STEP)
    for size in (16 * mmap.PAGESIZE, mmap.PAGESIZE):
        while reserve(size) > arena:
            pass
    for hole in range(1, HOLES):
        libc.munmap(arena + hole * STEP, mmap.PAGESIZE)
    for size in range(2, 8):
        values = np.linspace(-1, 1, size, dtype=np.float32)
        found = tileir.compile(TEXT, [(size,)], context=context)(values)
        np.testing.assert_allclose(found, np.exp(values) + np.sin(values), rtol=1e-5)


if __name__ == "__main__":
    main()
