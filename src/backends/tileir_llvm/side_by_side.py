"""Several modules compiled at the same time.

llvmlite lets one thread at a time into LLVM. LLVM itself works on modules side by side that share no context and no
target machine, and does so when it links programs. Here the two calls that take nearly all the time go past llvmlite's
lock, and all others through it. Nobody holds that lock meanwhile: a thread here may have to collect what belongs to
llvmlite, and needs it then.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from ctypes import string_at
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import attrs
from llvmlite.binding import ffi

from tileir_llvm.forking import PAST_THE_LOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import llvmlite.binding as llvm


@attrs.frozen(eq=False)
class Job:
    """A module, the passes that optimise it, and what makes object code of it; nothing is shared with other jobs."""

    module: llvm.ModuleRef
    machine: llvm.TargetMachine
    builder: llvm.PassBuilder
    passes: llvm.ModulePassManager
    complaint: ffi.OutputString


def is_possible() -> bool:
    """Return whether this llvmlite lets calls go past its lock; it has no public name for that."""
    return all(hasattr(call, "_cfn") for call in (_optimise(), _emit()))


def object_codes(jobs: Sequence[Job], threads: int) -> list[bytes]:
    """Optimise modules and return the object code of each, with so many threads at most.

    Raises:
        RuntimeError: LLVM refused one.

    """
    optimise, emit = _optimise()._cfn, _emit()._cfn
    todo: SimpleQueue[int] = SimpleQueue()
    for number in range(len(jobs)):
        todo.put(number)
    made: list[Any] = [None] * len(jobs)

    def work() -> None:
        while (number := _next(todo)) is not None:
            job = jobs[number]
            optimise(job.passes, job.module, job.builder)
            made[number] = emit(job.machine, job.module, 1, job.complaint)

    with PAST_THE_LOCK:
        _in_threads(work, min(threads, len(jobs)))
    return [_content(buffer, job) for buffer, job in zip(made, jobs, strict=True)]


def _next(todo: SimpleQueue[int]) -> int | None:
    try:
        return todo.get_nowait()
    except Empty:
        return None


def _in_threads(work: Callable[[], None], count: int) -> None:
    """Run ``work`` in this thread and in others, and wait for all of them, whatever happens to this one."""
    others: list[threading.Thread] = []
    try:
        with suppress(RuntimeError):  # where the system has no further threads, those that there are do it all
            while len(others) < count - 1:
                thread = threading.Thread(target=work, name="tileir compiles")
                thread.start()
                others.append(thread)
        work()
    finally:
        for thread in others:
            thread.join()


def _content(buffer: Any, job: Job) -> bytes:
    """Return what a buffer of LLVM holds, and free it."""
    if not buffer:
        raise RuntimeError(str(job.complaint))
    try:
        return string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _optimise() -> ffi._lib_fn_wrapper:
    return ffi.lib.LLVMPY_RunNewModulePassManager


def _emit() -> ffi._lib_fn_wrapper:
    return ffi.lib.LLVMPY_TargetMachineEmitToMemory
