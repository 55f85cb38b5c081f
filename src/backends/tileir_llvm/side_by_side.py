"""Several modules compiled at the same time.

llvmlite lets one thread at a time into LLVM. LLVM itself works on modules side by side that share no context and no
target machine, and does so when it links programs. Here the two calls that take nearly all the time go past llvmlite's
lock, and all others through it. Nobody holds that lock meanwhile: a thread here may have to collect what belongs to
llvmlite, and needs it then.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from tileir_llvm.forking import PAST_THE_LOCK
from tileir_llvm.modules import can_pass_the_lock, object_code
from tileir_llvm.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def object_codes(texts: Sequence[str], features: tuple[str, ...], threads: int) -> tuple[bytes, ...]:
    """Return what :func:`tileir_llvm.modules.object_code` makes of each module, with so many threads at most.

    An interrupt lets the modules end that are being compiled, and drops the others.

    Raises:
        BackendError: TIL805, LLVM refused the code.

    """
    if len(texts) == 1 or threads == 1 or not can_pass_the_lock():
        return tuple(uninterrupted(partial(object_code, text, features)) for text in texts)
    todo: SimpleQueue[int] = SimpleQueue()
    for number in range(len(texts)):
        todo.put(number)
    made: dict[int, bytes] = {}
    failed: dict[int, BaseException] = {}

    def work() -> None:
        while (number := _next(todo)) is not None:
            try:
                made[number] = object_code(texts[number], features, past_the_lock=True)
            except BaseException as error:  # the first of them is raised when all threads have ended
                failed[number] = error

    def stop() -> None:
        while _next(todo) is not None:
            pass

    def all_of_them() -> None:
        with PAST_THE_LOCK:
            _in_threads(work, min(threads, len(texts)))

    uninterrupted(all_of_them, stop)
    if failed:
        raise failed[min(failed)]
    return tuple(made[number] for number in range(len(texts)))


def _next(todo: SimpleQueue[int]) -> int | None:
    try:
        return todo.get_nowait()
    except Empty:
        return None


def _in_threads(work: Callable[[], None], count: int) -> None:
    """Run ``work`` in this thread, which no signal interrupts, and in others, and wait for all of them."""
    others: list[threading.Thread] = []
    with suppress(RuntimeError):  # where the system has no further threads, those that there are do it all
        while len(others) < count - 1:
            thread = threading.Thread(target=work, name="tileir compiles")
            thread.start()
            others.append(thread)
    work()
    for thread in others:
        thread.join()
