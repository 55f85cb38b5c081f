"""A process forks only while no thread of it is inside LLVM.

llvmlite guards LLVM by one lock. A child that is forked while another thread holds it would wait, at its first call,
for a thread that does not exist there. The same holds for locks of LLVM's own, where threads are inside without
llvmlite's.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Final

from llvmlite.binding import ffi

PAST_THE_LOCK: Final = threading.RLock()
"""Held while threads are inside LLVM without llvmlite's lock; taken before that, never inside it.

Only the thread that took it can give it back, so that an interrupt on the way into a fork frees nobody else's."""


@cache
def guard_forks() -> None:
    """Let forks wait for both locks from now on; called before LLVM is used."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_enter, after_in_parent=_leave, after_in_child=_leave)


def _enter() -> None:
    PAST_THE_LOCK.acquire()
    ffi.lib._lock.__enter__()  # llvmlite has no public name for its lock, and takes no care of forks itself


def _leave() -> None:
    ffi.lib._lock.__exit__()
    PAST_THE_LOCK.release()
