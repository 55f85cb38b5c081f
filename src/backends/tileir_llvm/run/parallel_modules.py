"""Parallel compilation of modules, while later modules are written.

llvmlite lets one thread at a time into LLVM. LLVM itself can process modules without common context and target machine
in parallel, and does so when it links programs. Here the two calls that take nearly all the time bypass llvmlite's
lock, and all others take it. Nobody holds that lock meanwhile: a thread here may have to collect garbage of llvmlite,
which needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TypeVar

import attrs

from tileir_llvm.run.forking import PAST_THE_LOCK
from tileir_llvm.run.modules import can_pass_the_lock, object_code
from tileir_llvm.run.uninterrupted import uninterrupted

T = TypeVar("T")


def object_codes(
    texts: Iterable[str], features: tuple[str, ...], threads: int, *, quick: bool = False
) -> tuple[bytes, ...]:
    """Return the results of :func:`tileir_llvm.run.modules.object_code` of modules, by :func:`made_side_by_side`."""
    return made_side_by_side(partial(object_code, features=features, quick=quick), texts, threads)


def made_side_by_side(make: Callable[..., T], texts: Iterable[str], threads: int) -> tuple[T, ...]:
    """Return the results of a function for all modules, with a maximum number of threads.

    Each text is requested by a free thread. After an interrupt the modules in progress are completed, and the others
    dropped.

    Args:
        make: Function of a text, and of whether to bypass llvmlite's lock, like ``past_the_lock``.
        texts: LLVM IR.
        threads: Maximum number of threads.

    Raises:
        BackendError: TIL805, LLVM refused the code.
        Exception: Errors of requesting a text.
    """
    if threads == 1 or not can_pass_the_lock():
        return tuple(uninterrupted(partial(make, text)) for text in texts)
    todo = _Numbered(iter(texts))
    made: dict[int, T] = {}
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while (following := todo.take()) is not None:
                number, text = following
                with PAST_THE_LOCK:
                    made[number] = make(text, past_the_lock=True)
        except BaseException as error:  # the first of them is raised when all threads have ended
            failed.append(error)
            todo.stop()

    uninterrupted(lambda: _in_threads(work, threads), todo.stop)
    if failed:
        raise failed[0]
    return tuple(made[number] for number in range(len(made)))


@attrs.define(eq=False, repr=False)
class _Numbered:
    """Texts with their numbers, for several threads."""

    source: Iterator[str]
    taken: int = 0
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def take(self) -> tuple[int, str] | None:
        """Return the next text; None if there is none."""
        with self._lock:
            text = next(self.source, None)
            if text is None:
                return None
            self.taken += 1
            return self.taken - 1, text

    def stop(self) -> None:
        """Drop the remaining texts, without a lock, as signal handlers call this."""
        self.source = iter(())


def _in_threads(work: Callable[[], None], count: int) -> None:
    """Run ``work`` in this thread, shielded from signals, and in others, and wait for all of them."""
    others: list[threading.Thread] = []
    with suppress(RuntimeError):  # if the system has no further threads, the existing ones do it all
        while len(others) < count - 1:
            thread = threading.Thread(target=work, name="tileir compiles")
            thread.start()
            others.append(thread)
    work()
    for thread in others:
        thread.join()
