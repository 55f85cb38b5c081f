"""OpenCL contexts of this process: one for each device, unusable in forked children."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

import attrs
import pyopencl as cl

from tileir.core.errors import BackendError

if TYPE_CHECKING:
    from tileir_opencl.device.platforms import PlatformDevice


@attrs.define(eq=False, repr=False)
class _Process:
    """State of drivers in this process: their use by it or its parent, and the contexts."""

    used: bool = False
    forked: bool = False
    contexts: dict[int, cl.Context] = attrs.field(factory=dict)
    lock: threading.Lock = attrs.field(factory=threading.Lock)


_process: Final = _Process()


def use_drivers() -> None:
    """Record that drivers are about to be used.

    Raises:
        BackendError: TIL809, the parent of this forked process used them before: their threads and their hold on the
            device are the parent's, and calls would hang or crash.
    """
    if _process.forked:
        message = (
            "OpenCL was used before this process was forked, and drivers do not survive that; "
            "start processes with the method 'spawn' or 'forkserver', or use OpenCL only after the fork"
        )
        raise BackendError.of("TIL809", message)
    _process.used = True


def inherited() -> bool:
    """Return whether the drivers in use are the parent's, which this process must not touch."""
    return _process.forked


def context_of(found: PlatformDevice) -> cl.Context:
    """Return the context of a device, made once and kept for the lifetime of the process."""
    use_drivers()
    with _process.lock:
        key = found.device.int_ptr
        if key not in _process.contexts:
            _process.contexts[key] = cl.Context([found.device])
        return _process.contexts[key]


def _after_fork() -> None:
    _process.forked = _process.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
