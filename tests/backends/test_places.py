"""Workers that share a processor with the launching thread leave it, and may run everywhere as before."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tileir.runtime.host_memory import allocate
from tileir_llvm.device.host import device
from tileir_llvm.run.fixed_code import fixed_code
from tileir_llvm.run.places_code import MEETINGS
from tileir_llvm.run.pool_code import pool_bytes, pool_code
from tileir_llvm.run.team import Job, NativeTeam, start_team

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "linux":
    pytest.skip("only Linux says and changes where threads run", allow_module_level=True)


class Places:
    """The functions of the pool that look at processors, for one thread."""

    def __init__(self) -> None:
        self.code = fixed_code(pool_code(), ("say_place", "leave_place"), device().features)
        say, leave = self.code.addresses
        self._say = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(say)
        self._leave = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(leave)
        self.memory = allocate(pool_bytes(1))
        self.memory.array[:] = 0
        self.met = ctypes.c_int64(0)

    def say(self) -> None:
        self._say(self.memory.address)

    def leave(self) -> int:
        """Leave, and return where the thread is then."""
        self._leave(self.memory.address, ctypes.addressof(self.met))
        return int(ctypes.CDLL(None).sched_getcpu())


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    """Give a thread whose processors may be changed: it goes after the test."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


def processors(count: int) -> set[int]:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < count:
        pytest.skip("this process may run on one processor only")
    return set(allowed[:count])


def met_on(one: int, both: set[int]) -> Places:
    """Say that the launching thread is on a processor, on which this thread is, too, although it may run on others."""
    places = Places()
    os.sched_setaffinity(0, {one})
    places.say()
    os.sched_setaffinity(0, both)
    return places


def test_a_thread_leaves_and_may_come_back(thread: ThreadPoolExecutor) -> None:
    both = processors(2)
    one, other = sorted(both)

    def leaves() -> bool:
        places = met_on(one, both)
        found = places.leave()
        assert os.sched_getaffinity(0) == both
        return found == other

    assert any(thread.submit(leaves).result() for _ in range(100))  # the system may move it back at once


def test_a_thread_that_may_run_nowhere_else_stays(thread: ThreadPoolExecutor) -> None:
    (one,) = processors(1)

    def stays() -> None:
        places = met_on(one, {one})
        assert places.leave() == one
        assert places.met.value == 1
        assert os.sched_getaffinity(0) == {one}

    thread.submit(stays).result()


def test_a_thread_that_was_sent_back_waits_before_it_leaves_again(thread: ThreadPoolExecutor) -> None:
    both = processors(2)
    one, other = sorted(both)

    def waits() -> None:
        places = met_on(one, {one})
        for meeting in range(1, MEETINGS + 1):
            assert places.leave() == one
            assert places.met.value == meeting
        os.sched_setaffinity(0, {other})
        places.leave()
        assert places.met.value == MEETINGS

    thread.submit(waits).result()


def comes_to_run_everywhere(native_id: int) -> bool:
    """Look again while a worker that found no part left is between leaving a processor and taking it back."""
    for _ in range(30_000):
        if os.sched_getaffinity(native_id) == os.sched_getaffinity(0):
            return True
        time.sleep(0.001)
    return False


def test_workers_may_run_everywhere_after_launches() -> None:
    team = start_team(2, device().features)
    assert isinstance(team, NativeTeam)
    try:
        for _ in range(500):
            team.run(Job(team.native.count, (1000).to_bytes(8, sys.byteorder), 0, 0, 16), 2)
        for worker in team.threads:
            assert worker.native_id is not None
            assert comes_to_run_everywhere(worker.native_id)
    finally:
        team.dismiss()
