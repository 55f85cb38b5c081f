"""Work shielded from exceptions of signal handlers.

Python raises KeyboardInterrupt, and other errors of signal handlers, in the main thread, between any two of its
instructions. Inside llvmlite that would leave its lock taken for ever, and free objects that other threads of LLVM
still use. So LLVM is entered in another thread, while the main thread waits, and raises at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def uninterrupted(work: Callable[[], T], stop: Callable[[], object] = lambda: None) -> T:
    """Return the result of ``work``, or raise its error.

    Args:
        work: Runs to its end despite signals; in another thread if the caller is the main thread.
        stop: Called when a signal has raised, so that the work can end earlier; again if interrupted.

    Raises:
        BaseException: Error of a signal handler meanwhile, after the end of the work.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    failures: list[BaseException] = []
    claim, running = threading.Lock(), threading.Lock()
    running.acquire()

    def run() -> None:
        if not claim.acquire(blocking=False):
            return
        try:
            results.append(work())
        except BaseException as error:  # it belongs to the waiting thread
            failures.append(error)
        finally:
            running.release()

    signals: list[BaseException] = []
    try:
        threading.Thread(target=run, name="tileir compiles").start()
    except RuntimeError:  # the system has no further threads
        return work()
    except BaseException as error:  # an interrupt: it is raised when the work has ended
        if claim.acquire(blocking=False):  # the thread did not start, or comes too late
            raise
        signals.append(error)
    stopped = False
    while not (results or failures):
        try:
            if signals and not stopped:
                stop()
                stopped = True
            running.acquire()
        except BaseException as error:  # the thread did not start, or comes too late
            signals.append(error)
    if signals:
        raise signals[0]
    if failures:
        raise failures[0]
    return results[0]
