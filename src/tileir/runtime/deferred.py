"""Commands that wait for foreign events before they enter a driver's queue, and callbacks of driver events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tileir.core.nodes import attrs
from tileir.runtime.events import Failure, PendingEvent, all_ended, failure_of
from tileir.runtime.interface import Event


@attrs.define(eq=False)
class DeferredCommands:
    """Commands that are not submitted yet, as they follow events of others; so none of them blocks a queue."""

    _events: set[PendingEvent] = attrs.field(factory=set, init=False)

    def add(self, submit: Callable[[], Event], others: Sequence[Event]) -> PendingEvent:
        """Call ``submit`` once all of ``others`` have ended, and return an event that ends with the command's event."""
        pending = PendingEvent()
        self._events.add(pending)
        pending.then(lambda: self._events.discard(pending))

        def start() -> None:
            try:
                event = submit()
            except BaseException as error:  # the error belongs to the waiters
                pending.fail(error)
                return
            _follow(event, pending)

        all_ended(others).then(start)
        return pending

    def wait(self) -> None:
        """Wait for all of them."""
        for event in tuple(self._events):
            failure_of(event)

    def forget(self) -> None:
        """Drop them in a forked child, where they belong to the parent."""
        self._events.clear()


@attrs.frozen(eq=False)
class Watchers:
    """Threads that wait for events of a driver and call callbacks; started on demand.

    Drivers call back in threads unknown to Python, which abort the process during its exit; Python joins its own
    threads.
    """

    _threads: ThreadPoolExecutor

    @classmethod
    def of(cls, name: str, most: int) -> Watchers:
        """Return watchers with a thread name and a maximum number of threads."""
        return cls(ThreadPoolExecutor(most, name))

    def call(self, event: Event, callback: Callable[[], None]) -> None:
        """Call ``callback`` in a thread once the event has ended."""
        self._threads.submit(_watch, event, callback)


def failed(failure: Failure) -> PendingEvent:
    """Return an event that has failed."""
    event = PendingEvent()
    event.fail(failure)
    return event


def _watch(event: Event, callback: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):  # the callee tests the event again
        event.wait()
    callback()


def _follow(event: Event, pending: PendingEvent) -> None:
    """Complete ``pending`` like ``event``."""

    def settle() -> None:
        failure = failure_of(event)
        if failure is None:
            pending.complete(event.duration)
        else:
            pending.fail(failure)

    all_ended([event]).then(settle)
