"""Asynchronous calls in flight, which later calls on the same arrays follow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from tileir.core import Renewable, attrs
from tileir.runtime.devices.overlap import Footprint, overlap
from tileir.runtime.events import PendingEvent, all_ended, ended_in_queue
from tileir.runtime.interface import Event


@attrs.frozen(eq=False, repr=False)
class _Call:
    """Call, and the memory that it uses."""

    event: PendingEvent
    reads: Sequence[Footprint]
    writes: Sequence[Footprint]


@attrs.define(eq=False)
class Calls(Renewable):
    """Calls of one context. Thread safe, also in forked children.

    The lock is reentrant: starting a call may reveal that an earlier call is done, which is then dropped.

    Attributes:
        pending: Calls not known to be done; if empty, no check is necessary.
    """

    _lock: threading.RLock = attrs.field(factory=threading.RLock, init=False)
    pending: list[_Call] = attrs.field(factory=list, init=False)

    def renew(self) -> None:
        """Fail the calls of the parent, whose threads do not exist in a child."""
        self._lock = threading.RLock()
        for call in self.pending:
            call.event.abandon()
        self.pending = []

    def __bool__(self) -> bool:
        if not self.pending:
            return False
        self._look()
        return bool(self.pending)

    def add(
        self,
        reads: Sequence[Footprint],
        writes: Sequence[Footprint],
        after: Sequence[Event],
        start: Callable[[Sequence[Event]], PendingEvent],
    ) -> PendingEvent:
        """Start a call after ``after`` and all calls on which it depends.

        It fails if a call that writes its inputs fails; for other dependences it only waits.
        """
        self._look()
        with self._lock:
            events = [*after]
            for call in tuple(self.pending):
                if _share(call.writes, reads):
                    events.append(call.event)
                elif _share(call.writes, writes) or _share(call.reads, writes):
                    events.extend(ended_in_queue(call.event))
            event = start(events)
            if event.done:
                return event
            call = _Call(event, reads, writes)
            self.pending.append(call)
        event.when_known(partial(self._drop, call))
        return event

    def settle(self, reads: Sequence[Footprint], writes: Sequence[Footprint]) -> None:
        """Wait for all calls that a call on these arrays must follow; raise failures of calls that wrote ``reads``."""
        if not self.pending:
            return
        with self._lock:
            pending = tuple(self.pending)
        for call in pending:
            if _share(call.writes, reads):
                call.event.wait()
            elif _share(call.writes, writes) or _share(call.reads, writes):
                all_ended([call.event]).wait()

    def wait(self) -> None:
        """Wait for all calls, ignoring failures."""
        with self._lock:
            pending = tuple(self.pending)
        for call in pending:
            all_ended([call.event]).wait()

    def _look(self) -> None:
        for call in tuple(self.pending):
            if not call.event.done:
                return
            self._drop(call)

    def _drop(self, call: _Call) -> None:
        with self._lock:
            if call in self.pending:  # in a forked child, or for a second thread, it is not
                self.pending.remove(call)


def _share(some: Sequence[Footprint], others: Sequence[Footprint]) -> bool:
    return any(overlap(one, other) for one in some for other in others)
