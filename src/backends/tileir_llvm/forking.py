"""A process forks only while no thread of it is inside llvmlite.

llvmlite guards LLVM by one lock. A child that is forked while another thread holds it would wait, at its first call,
for a thread that does not exist there.
"""

from __future__ import annotations

import os
from functools import cache

from llvmlite.binding import ffi


@cache
def guard_forks() -> None:
    """Let forks wait for llvmlite's lock from now on; called before LLVM is used."""
    if hasattr(os, "register_at_fork"):
        # llvmlite has no public name for its lock, and takes no care of forks itself.
        os.register_at_fork(before=ffi.lib._lock.__enter__, after_in_parent=_leave, after_in_child=_leave)


def _leave() -> None:
    ffi.lib._lock.__exit__()
