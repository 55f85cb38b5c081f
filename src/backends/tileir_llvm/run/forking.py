"""Fork safety: a process forks only while none of its threads is inside LLVM.

llvmlite guards LLVM by one lock. A child forked while another thread holds it would wait, at its first call, for a
thread that does not exist there. This also applies to LLVM's own locks, when threads are inside without llvmlite's.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Final

from llvmlite.binding import ffi


class _Gate:
    """Gate for threads: closing it waits for those inside, and blocks others until it is opened."""

    def __init__(self) -> None:
        self._entrance = threading.RLock()  # an interrupt on the way into a fork must only free its own
        self._left = threading.Condition()
        self._inside = 0

    def __enter__(self) -> None:
        with self._entrance, self._left:
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._left:
            self._inside -= 1
            self._left.notify_all()

    def close(self) -> None:
        """Wait until no thread is inside."""
        self._entrance.acquire()
        try:
            with self._left:
                self._left.wait_for(lambda: not self._inside)
        except BaseException:  # an interrupt
            self._entrance.release()
            raise

    def open(self) -> None:
        """Undo :meth:`close` in the thread that closed it, or in that thread's copy in a child."""
        self._entrance.release()


PAST_THE_LOCK: Final = _Gate()
"""Gate of threads inside LLVM without llvmlite's lock, which they may take there."""


@cache
def guard_forks() -> None:
    """Make forks wait for both locks from now on; called before LLVM is used."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_enter, after_in_parent=_leave, after_in_child=_leave)


def _enter() -> None:
    PAST_THE_LOCK.close()
    ffi.lib._lock.__enter__()  # llvmlite has no public name for its lock, and does not handle forks itself


def _leave() -> None:
    ffi.lib._lock.__exit__()
    PAST_THE_LOCK.open()
