"""Memory that many compilations, calls and errors leave behind."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from tileir.core import TileError, attrs
from tileir.driver.calls.stepper import stepper
from tileir.driver.executable import compile as compile_function
from tileir.driver.jit import jit
from tileir.runtime.caches.cache import Cache
from tileir.runtime.context import Context

KEPT: Final = 16
"""Programs that the context keeps, so that soon each compilation drops one."""

_WIDTH: Final = 40
_RESIDENT: Final = Path("/proc/self/statm")
_PAGE: Final = 4096
_SIZE: Final = ctypes.c_size_t

INCREMENT: Final = "function (A) -> (B) { B = A + 1; }"
ACCUMULATE: Final = "function (S, X) -> (T) { T = S + X; }"


class _Usage(ctypes.Structure):
    """glibc's figures of its heap, its ``struct mallinfo2``: memory of mappings, and memory in use beside them."""

    _fields_ = (("_", _SIZE * 4), ("mapped", _SIZE), ("__", _SIZE * 2), ("used", _SIZE), ("___", _SIZE * 2))
    mapped: int
    used: int


@attrs.frozen
class Growth:
    """Growth of memory with each repetition.

    Attributes:
        native_bytes: What libraries hold of the C library's heap; that of the process where the system cannot tell.
        python_blocks: Objects of Python.
        resident_bytes: What the system counts, with gaps between what is used; 0 where it cannot tell.

    """

    native_bytes: float
    python_blocks: float
    resident_bytes: float


def growth(repeat: Callable[[int], object], count: int, warm_up: int) -> Growth:
    """Call ``repeat`` with 0, 1, … and return how memory grew for each call after the first ``warm_up`` ones."""
    for number in range(warm_up):
        repeat(number)
    before = _used()
    for number in range(warm_up, warm_up + count):
        repeat(number)
    native, blocks, resident = ((now - then) / count for now, then in zip(_used(), before, strict=True))
    return Growth(native, blocks, resident)


def growth_of_compilations(device: str, count: int, warm_up: int) -> Growth:
    """Compile and call a function for distinct shapes."""
    with Context(device_id=device, disk_cache=None, programs=Cache(KEPT)) as context:
        function = jit(INCREMENT, context=context)
        return growth(lambda number: function(np.zeros(_shape(number), np.float32)), count, warm_up)


def growth_of_calls(device: str, count: int, warm_up: int) -> Growth:
    """Call one executable."""
    with Context(device_id=device, disk_cache=None) as context:
        array = np.zeros(_shape(0), np.float32)
        executable = compile_function(INCREMENT, [array], context=context)
        return growth(lambda _: executable(array), count, warm_up)


def growth_of_steps(device: str, count: int, warm_up: int) -> Growth:
    """Call a stepper."""
    with Context(device_id=device, disk_cache=None) as context:
        state = np.zeros(_shape(1), np.float32)
        step = stepper(ACCUMULATE, {"S": "T"}, {"S": state}, context=context)
        return growth(lambda _: step(state), count, warm_up)


def growth_of_errors(device: str, count: int, warm_up: int) -> Growth:
    """Call an executable with arrays that do not fit."""
    with Context(device_id=device, disk_cache=None) as context:
        executable = compile_function(INCREMENT, [np.zeros(_shape(0), np.float32)], context=context)
        wrong = np.zeros(_shape(1), np.float32)

        def fail(_: int) -> None:
            try:
                executable(wrong)
            except TileError:
                return
            raise AssertionError("an array of another shape was taken")

        return growth(fail, count, warm_up)


def _shape(number: int) -> tuple[int, int]:
    """Return a shape that no other number has."""
    return number // _WIDTH + 1, number % _WIDTH + 1


def _used() -> tuple[int, int, int]:
    """Return bytes of the heap, Python's objects, and resident bytes."""
    gc.collect()
    library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
    resident = int(_RESIDENT.read_text(encoding="ascii").split()[1]) * _PAGE if _RESIDENT.exists() else 0
    if not hasattr(library, "mallinfo2"):
        return resident, sys.getallocatedblocks(), resident
    library.mallinfo2.restype = _Usage
    usage = library.mallinfo2()
    return usage.used + usage.mapped, sys.getallocatedblocks(), resident
