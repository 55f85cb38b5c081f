"""The threads of one executor: started when they are first needed, stopped when it goes."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Final

import attrs

from tileir_llvm.buffers import HostBuffer, allocate
from tileir_llvm.team import Job, Team, start_team


@attrs.define(eq=False)
class ThreadPool:
    """Up to ``threads`` threads, of which the calling one is the first.

    After a fork the child starts threads of its own. :meth:`close`, garbage collection and the end of the interpreter
    stop them.
    """

    threads: int
    features: tuple[str, ...]
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _scratch: HostBuffer = attrs.field(factory=lambda: allocate(0), init=False)
    _team: Team | None = attrs.field(default=None, init=False)
    _finalizer: weakref.finalize[Any, ThreadPool] | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        _pools.add(self)

    def launch(self, function: int, arguments: bytes, groups: int, scratch_bytes: int) -> bool:
        """Run all groups of a kernel, split over the threads.

        Returns:
            False, with nothing done, while another thread launches.

        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            team = self._team
            if team is None:
                team = self._start()
            if scratch_bytes * self.threads > self._scratch.nbytes:
                self._scratch = allocate(scratch_bytes * self.threads)
            job = Job(function, arguments, self._scratch.address, scratch_bytes, groups)
            team.run(job, min(self.threads, groups) - 1)
        finally:
            self._lock.release()
        return True

    def _start(self) -> Team:
        team = start_team(self.threads - 1, self.features)
        self._team = team
        self._finalizer = weakref.finalize(self, team.dismiss)
        return team

    def close(self) -> None:
        """Wait for the running launch and stop the threads; a later launch starts them again."""
        with self._lock:
            if self._finalizer is not None:
                self._finalizer()
            self._team = self._finalizer = None
            self._scratch = allocate(0)

    def forget_threads(self) -> None:
        """Start anew in a forked child, where the parent's threads do not exist and its locks may be taken."""
        if self._finalizer is not None:
            self._finalizer.detach()
        self._lock = threading.Lock()
        self._team = self._finalizer = None


_pools: Final[weakref.WeakSet[ThreadPool]] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in tuple(_pools):
        pool.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
