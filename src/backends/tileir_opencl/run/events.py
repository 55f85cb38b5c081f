"""Events of the driver, and waiting for foreign events without blocking a thread."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs
import pyopencl as cl

from tileir.core.errors import BackendError
from tileir.runtime import Event, Failure, failure_of
from tileir.runtime.deferred import Watchers
from tileir_opencl.run.faults import failed_command

STATUS: Final = cl.event_info.COMMAND_EXECUTION_STATUS
COMPLETE: Final = cl.command_execution_status.COMPLETE
NANOSECOND: Final = 1e-9

WAITING: Final = 256
"""Maximum number of threads that wait for events to call callbacks; started on demand."""

PATIENCE: Final = 8
"""Maximum number of commands between checks for completion."""


class Queue(Protocol):
    """Interface of a queue to its events."""

    context: cl.Context

    def flush(self) -> None:
        """Make the device begin with all commands."""

    def collect(self) -> None:
        """Release the memory of completed commands."""


@attrs.define(eq=False)
class OpenCLEvent:
    """Completion of a command in a queue. Implements :class:`tileir.runtime.interface.Event`.

    Attributes:
        native: Event of the driver.
        queue: Its queue; commands of the context can wait for it.
    """

    native: cl.Event = attrs.field(repr=False)
    queue: Queue = attrs.field(repr=False)
    _after: tuple[OpenCLEvent, ...] = attrs.field(repr=False)
    _held: object = attrs.field(repr=False)
    _number: int = attrs.field(factory=itertools.count().__next__, init=False)
    _settled: bool = attrs.field(default=False, init=False)
    _failure: Failure | None = attrs.field(default=None, init=False)

    @property
    def done(self) -> bool:
        """True if it has completed or failed."""
        if self._settled:
            return True
        self.queue.flush()  # the device may not begin without a wait
        return self.ended()

    @property
    def failure(self) -> Failure | None:
        """Failure of the command; None on success or before the end."""
        return self._failure if self.ended() else None

    @property
    def duration(self) -> float | None:
        """Seconds that the device was busy; None before completion or if the driver does not measure."""
        if not self.done or self._failure is not None:
            return None
        try:
            start = self.native.get_profiling_info(cl.profiling_info.START)
            end = self.native.get_profiling_info(cl.profiling_info.END)
        except cl.Error:
            return None
        return (end - start) * NANOSECOND if isinstance(start, int) and isinstance(end, int) else None

    def ended(self) -> bool:
        """Return :attr:`done`, without flushing the queue."""
        if self._settled:
            return True
        status = _status(self.native)
        if status > COMPLETE:
            return False
        self._settle(status)
        return True

    def wait(self) -> None:
        """Block until it completes; raise the original error if it, or an event that it waited for, failed."""
        if not self._settled:
            status: int = COMPLETE
            try:
                self.native.wait()
            except cl.Error as error:
                status = error.code
            self._settle(min(status, _status(self.native)))
            self.queue.collect()
        if self._failure is not None:
            self._failure.reraise()

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once it has completed or failed: now, or later in a thread that waits for it."""
        if self.done:
            callback()
        else:
            _watchers.call(self, callback)

    def abandon(self) -> None:
        """Mark it as failed in a forked child, where the driver is unusable."""
        if not self._settled:
            message = "the process forked before the device was done; do it again in the child, on another device"
            self._failure = Failure.of(BackendError.of("TIL809", message))
            self._settled = True

    def _settle(self, status: int) -> None:
        """Store the error, and drop everything else: chains of events must not keep their past."""
        if status < COMPLETE:
            for event in sorted(self._unsettled_past(), key=lambda event: event._number):
                event._finish(_status(event.native))
        elif status == COMPLETE:
            for event in self._unsettled_past():
                event._finish(COMPLETE)  # it has completed, or this could not have; asking the driver takes longer
        self._finish(status)

    def _finish(self, status: int) -> None:
        after = self._after
        if self._settled or status > COMPLETE:
            return
        if status < COMPLETE:
            causes = (event._failure for event in after if event._failure is not None)
            self._failure = next(causes, None) or Failure.of(failed_command(status))
        self._settled = True
        self._after, self._held = (), None

    def _unsettled_past(self) -> list[OpenCLEvent]:
        """Return its direct and transitive dependences with unknown status."""
        past: dict[int, OpenCLEvent] = {}
        stack = list(self._after)
        while stack:
            event = stack.pop()
            if not event._settled and id(event) not in past:
                past[id(event)] = event
                stack.extend(event._after)
        return list(past.values())


@attrs.define(eq=False)
class InFlight:
    """Commands that may not have completed, in queue order.

    It keeps their memory alive, so that nobody has to keep events.
    """

    _events: deque[OpenCLEvent] = attrs.field(factory=deque, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def add(self, event: OpenCLEvent) -> None:
        """Keep a command until it completes, and occasionally drop earlier commands."""
        self._events.append(event)
        if len(self._events) > PATIENCE:
            self.collect()

    def collect(self) -> None:
        """Drop the oldest commands, up to the first one that has not completed."""
        if self._lock.locked():  # another thread is doing it
            return
        with self._lock:
            while self._events and self._events[0].ended():
                self._events.popleft()

    def forget(self) -> None:
        """Start anew in a forked child. The parent's events are never released: their driver would wait for them."""
        for event in self._events:
            event.abandon()
        _parents.extend(self._events)
        self._events = deque()
        self._lock = threading.Lock()


_parents: Final[list[OpenCLEvent]] = []


def sorted_out(after: Sequence[Event], context: cl.Context) -> tuple[list[OpenCLEvent], list[Event], Failure | None]:
    """Partition events into those that the driver can wait for and foreign events, and find a failed one.

    Completed events are dropped. A failed event must not reach the driver: PoCL would wait for it for ever.
    """
    own: list[OpenCLEvent] = []
    others: list[Event] = []
    for event in after:
        if isinstance(event, OpenCLEvent) and event.queue.context is context:
            if not event.ended():
                own.append(event)
            elif event.failure is not None:
                return [], [], event.failure
        elif not event.done:
            others.append(event)
        elif (failure := failure_of(event)) is not None:
            return [], [], failure
    return own, others, None


_watchers: Final = Watchers.of("tileir-opencl-events", WAITING)


def _status(native: cl.Event) -> int:
    status = native.get_info(STATUS)
    return status if isinstance(status, int) else COMPLETE
