"""Running a piece of a test in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 60.0


def in_forked_child(check: Callable[[], bool]) -> bool:
    """Return what ``check`` returns in a forked child; False where that crashes or hangs."""
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    tracer = sys.gettrace()
    sys.settrace(None)  # another thread may hold the lock of a coverage measurement, in the child for ever
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what these tests are about
        child = os.fork()
    if child == 0:
        status = 1
        try:
            threading.settrace(None)  # for the threads that it starts
            status = 0 if check() else 2
        finally:
            os._exit(status)
    sys.settrace(tracer)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False
