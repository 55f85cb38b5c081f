"""Running threads that share the groups of one launch."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, Protocol

from tileir.core import BackendError, attrs
from tileir.runtime.host_memory import HostBuffer, allocate
from tileir_llvm.run.fixed_code import fixed_code
from tileir_llvm.run.loader import Code
from tileir_llvm.run.pool_code import pool_bytes, pool_code
from tileir_llvm.run.sharing import Costs, measured_costs

SPINS: Final = 4000
"""Spin-wait pauses before an idle thread sleeps, 20 to 70 ns each: longer than gaps between launches of a program."""

CALLER_SPINS: Final = 10_000
"""Spin-wait pauses before a launching thread sleeps; it only waits for the last chunks."""

_ENTRIES: Final = ("setup", "launch", "together", "work", "stop", "count")

_PYTHON_COSTS: Final = Costs(2e-4, 2e-4)
"""Costs of sharing by Python threads."""
_POINTER: Final = ctypes.c_void_p
_NUMBER: Final = ctypes.c_int64

KERNEL_TYPE: Final = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _NUMBER, _NUMBER)
"""C type of the functions of :mod:`tileir_llvm.emit.emitter`; calling one releases the GIL."""


@attrs.frozen
class Job:
    """One launch: run ``groups`` groups of the function at ``function``.

    ``scratch`` points to ``stride`` bytes for each thread.
    """

    function: int
    arguments: bytes
    scratch: int
    stride: int
    groups: int


@attrs.frozen
class Jobs:
    """Launches one after the other: ``count`` entries of a sequence, with the helpers of each.

    ``times`` is the destination of their times in nanoseconds; 0 for none.
    """

    entries: int
    helpers: int
    times: int
    count: int
    arguments: bytes
    scratch: int
    stride: int


class Team(Protocol):
    """Threads ready to help the calling one."""

    def run(self, job: Job, helpers: int) -> None:
        """Run a job with up to ``helpers`` threads beside the calling one; one job at a time."""

    def run_all(self, jobs: Jobs) -> None:
        """Run jobs one after the other, each with its own helpers, or none."""

    def costs(self) -> Costs:
        """Measure the costs of running jobs with helpers; no other job may run meanwhile."""

    def dismiss(self) -> None:
        """Stop and join the threads."""


@attrs.frozen(eq=False, repr=False)
class _Native:
    """Native functions of :mod:`tileir_llvm.run.pool_code`."""

    code: Code
    setup: Callable[[int, int], None]
    launch: Callable[[int, int, bytes, int, int, int, int, int], None]
    together: Callable[[int, int, int, int, int, bytes, int, int, int], None]
    work: Callable[[int, int, int], None]
    stop: Callable[[int], None]
    count: int


@attrs.frozen(eq=False)
class NativeTeam:
    """Python threads that stay in native code, where they synchronise with the launching thread."""

    native: _Native
    memory: HostBuffer
    threads: tuple[threading.Thread, ...]

    def run(self, job: Job, helpers: int) -> None:
        """Run a job; late helpers are not waited for."""
        self.native.launch(
            self.memory.address,
            job.function,
            job.arguments,
            job.scratch,
            job.stride,
            job.groups,
            helpers,
            CALLER_SPINS,
        )

    def run_all(self, jobs: Jobs) -> None:
        """Run jobs without Python in between."""
        self.native.together(
            self.memory.address,
            jobs.entries,
            jobs.helpers,
            jobs.times,
            jobs.count,
            jobs.arguments,
            jobs.scratch,
            jobs.stride,
            CALLER_SPINS,
        )

    def costs(self) -> Costs:
        """Measure launches of a kernel that only counts."""
        count = self.native.count
        kernel = KERNEL_TYPE(count)

        def launch(groups: int, arguments: bytes, helpers: int) -> None:
            self.run(Job(count, arguments, 0, 0, groups), helpers)

        return measured_costs(launch, lambda groups, arguments: kernel(arguments, 0, 0, groups), len(self.threads) + 1)

    def dismiss(self) -> None:
        """Stop and join the threads."""
        self.native.stop(self.memory.address)
        for thread in self.threads:
            thread.join()


@attrs.frozen(eq=False)
class PythonTeam:
    """Team by Python's own means, for systems without POSIX threads."""

    executor: ThreadPoolExecutor

    def run(self, job: Job, helpers: int) -> None:
        """Run a job, each thread a fixed share of the groups."""
        kernel = KERNEL_TYPE(job.function)
        bounds = [job.groups * part // (helpers + 1) for part in range(helpers + 2)]

        def work(thread: int) -> None:
            kernel(job.arguments, job.scratch + thread * job.stride, bounds[thread], bounds[thread + 1])

        helping = [self.executor.submit(work, thread) for thread in range(1, helpers + 1)]
        work(0)
        for helper in helping:
            helper.result()

    def run_all(self, jobs: Jobs) -> None:
        """Run jobs one after the other."""
        entries = (ctypes.c_uint64 * (3 * jobs.count)).from_address(jobs.entries)
        helpers = (ctypes.c_int64 * jobs.count).from_address(jobs.helpers)
        for number in range(jobs.count):
            begin = time.perf_counter_ns()
            function, offset, groups = entries[3 * number : 3 * number + 3]
            self.run(Job(function, jobs.arguments[offset:], jobs.scratch, jobs.stride, groups), helpers[number])
            if jobs.times:
                taken = time.perf_counter_ns() - begin
                ctypes.c_int64.from_address(jobs.times + number * ctypes.sizeof(ctypes.c_int64)).value = taken

    def costs(self) -> Costs:
        """Return the costs of jobs on ordinary machines."""
        return _PYTHON_COSTS

    def dismiss(self) -> None:
        """Stop and join the threads."""
        self.executor.shutdown()


def start_team(helpers: int, features: tuple[str, ...]) -> Team:
    """Start threads that wait for jobs."""
    try:
        native = _native(features)
    except BackendError:
        return PythonTeam(ThreadPoolExecutor(helpers, "tileir"))
    memory = allocate(pool_bytes(helpers + 1))
    memory.array[:] = 0
    native.setup(memory.address, helpers)

    def work(number: int) -> None:
        native.work(memory.address, number, SPINS)  # and keeps code and memory alive

    threads = tuple(
        threading.Thread(target=work, args=(number,), name=f"tileir-{number}", daemon=True)
        for number in range(1, helpers + 1)
    )
    for thread in threads:
        thread.start()
    return NativeTeam(native, memory, threads)


@cache
def _native(features: tuple[str, ...]) -> _Native:
    code = fixed_code(pool_code(), _ENTRIES, features)
    setup, launch, together, work, stop, count = code.addresses
    return _Native(
        code,
        ctypes.CFUNCTYPE(None, _POINTER, _NUMBER)(setup),
        ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _POINTER, _POINTER, _NUMBER, _NUMBER, _NUMBER, _NUMBER)(launch),
        ctypes.CFUNCTYPE(None, *[_POINTER] * 4, _NUMBER, _POINTER, _POINTER, _NUMBER, _NUMBER)(together),
        ctypes.CFUNCTYPE(None, _POINTER, _NUMBER, _NUMBER)(work),
        ctypes.CFUNCTYPE(None, _POINTER)(stop),
        count,
    )
