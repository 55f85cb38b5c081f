"""Threads of one executor: started on demand, stopped with it."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

import attrs

from tileir.runtime.host_memory import HostBuffer, allocate
from tileir_llvm.run.sharing import PYTHON_SECONDS, Costs, Share, share_of
from tileir_llvm.run.team import Job, Jobs, Team, start_team
from tileir_llvm.run.uninterrupted import uninterrupted

CLOSING_SECONDS: Final = 0.001
"""Polling interval of closing a pool while a launch runs."""

_AGAIN_SECONDS: Final = 0.05
"""Seconds until disturbed measurements of costs are repeated; doubled each time."""


class _Turn:
    """Right to use the threads of a pool, released with its last reference, even after interrupts."""

    __slots__ = ("__weakref__",)


@attrs.define(eq=False)
class ThreadPool:
    """Up to ``threads`` threads, including the calling one.

    After a fork the child starts its own threads. :meth:`close`, garbage collection and the end of the interpreter stop
    them.
    """

    threads: int
    features: tuple[str, ...]
    costs: Costs | None = attrs.field(default=None, init=False)
    _pause: float = attrs.field(default=_AGAIN_SECONDS, init=False)
    _due: float = attrs.field(default=0.0, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _turn: Callable[[], _Turn | None] = attrs.field(default=lambda: None, init=False)
    _scratch: HostBuffer = attrs.field(factory=lambda: allocate(0), init=False)
    _team: Team | None = attrs.field(default=None, init=False)
    _finalizer: weakref.finalize[Any, ThreadPool] | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        _pools.add(self)

    def share(self, seconds: float, groups: int, python: float = PYTHON_SECONDS) -> Share | None:
        """Return the division of a kernel that takes ``seconds`` on one thread; None if sharing does not pay.

        ``python`` is the overhead of a launch in Python.
        """
        return share_of(seconds, groups, self.threads, self._measured, python)

    def _measured(self) -> Costs:
        """Return the costs of sharing: measured for the first kernel for which they matter, and again if disturbed."""
        costs = self.costs
        while costs is None or self._is_due(costs):
            turn = _Turn()
            try:
                if self._takes(turn):
                    costs = self.costs = (self._team or uninterrupted(self._start)).costs()
                    self._due, self._pause = time.monotonic() + self._pause, 2 * self._pause
                elif costs is None:
                    time.sleep(CLOSING_SECONDS)
                else:
                    break
            finally:
                del turn
        return costs

    def _is_due(self, costs: Costs) -> bool:
        return not costs.settled and time.monotonic() >= self._due

    def _takes(self, turn: _Turn) -> bool:
        """Return whether the threads were free; they now belong to the owner of the turn."""
        with self._lock:
            if self._turn() is not None:
                return False
            self._turn = weakref.ref(turn)
        return True

    def launch(self, function: int, arguments: bytes, groups: int, scratch_bytes: int, helpers: int) -> bool:
        """Run all groups of a kernel, divided over the calling thread and this many helpers.

        Returns:
            False, with nothing done, while another thread launches.
        """
        turn = _Turn()
        try:
            if not self._takes(turn):
                return False
            team = self._ready(scratch_bytes)
            team.run(Job(function, arguments, self._scratch.address, scratch_bytes, groups), helpers)
        finally:
            del turn
        return True

    def launch_all(self, jobs: Callable[[int], Jobs], scratch_bytes: int, ended: Callable[[], None]) -> bool:
        """Run several kernels one after the other, each with its own number of helpers.

        Args:
            jobs: Makes the jobs from the address of scratch memory, once no other thread uses the pool.
            scratch_bytes: Scratch memory per thread.
            ended: Called afterwards, before another thread uses the pool.

        Returns:
            False, with nothing done, while another thread launches.
        """
        turn = _Turn()
        try:
            if not self._takes(turn):
                return False
            team = self._ready(scratch_bytes)
            team.run_all(jobs(self._scratch.address))
            ended()
        finally:
            del turn
        return True

    def _ready(self, scratch_bytes: int) -> Team:
        """Return the threads, for the owner of the right to use them, with scratch memory for each."""
        team = self._team
        if team is None:
            team = uninterrupted(self._start)
        if scratch_bytes * self.threads > self._scratch.nbytes:
            self._scratch = allocate(scratch_bytes * self.threads)
        return team

    def _start(self) -> Team:
        team = start_team(self.threads - 1, self.features)
        self._team = team
        self._finalizer = weakref.finalize(self, team.dismiss)
        return team

    def close(self) -> None:
        """Wait for the running launch and stop the threads; a later launch starts them again."""
        turn = _Turn()
        try:
            while True:
                if self._takes(turn):
                    break
                time.sleep(CLOSING_SECONDS)
            if self._finalizer is not None:
                self._finalizer()
            self._team = self._finalizer = None
            self._scratch = allocate(0)
        finally:
            del turn

    def forget_threads(self) -> None:
        """Start anew in a forked child, where the parent's threads do not exist and its locks may be taken."""
        if self._finalizer is not None:
            self._finalizer.detach()
        self._lock = threading.Lock()
        self._turn = lambda: None
        self._team = self._finalizer = None


_pools: Final[weakref.WeakSet[ThreadPool]] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in tuple(_pools):
        pool.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
