"""The end of a run that a device has in its queue, found out when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Self

import attrs

from tileir.runtime.events import Failure, PendingEvent, all_ended, failure_of
from tileir.runtime.interface import Event
from tileir.runtime.plans.submission import Submission


@attrs.define(eq=False)
class RunningEvent(PendingEvent):
    """The end of a run whose commands are all in a queue of a device.

    Nobody completes it: the events of the device are asked when it is, so that no thread of the host wakes up for each
    run, and takes the interpreter's lock from whoever submits the next one. Only ``then`` has a thread wait.
    """

    _left: list[tuple[Submission, Callable[[], None]]] = attrs.field(factory=list, repr=False)
    _is_watched: bool = attrs.field(default=False, init=False, repr=False)

    @classmethod
    def of(cls, submission: Submission, keep: Callable[[], None]) -> Self:
        """Return the end of what was submitted; ``keep`` is called once if it succeeds."""
        event = cls([(submission, keep)])
        event.ends = submission.ends
        return event

    @property
    def done(self) -> bool:
        """True if it has completed or failed."""
        if not self._done and all(end.done for end in self.ends):
            self._settle()
        return self._done

    @property
    def duration(self) -> float | None:
        """Seconds that the device was busy; None before completion or where it is not measured."""
        return self._duration if self.done else None

    @property
    def failure(self) -> Failure | None:
        """The failure that it ended with; None before, and where it completed."""
        return self._failure if self.done else None

    def wait(self) -> None:
        """Block until it completes; raise the original error when it, or something it waited for, failed."""
        if not self._done:
            for end in self.ends:
                with suppress(Exception):  # it is asked again, and an interrupt is nobody's failure
                    end.wait()
            self._settle()
        super().wait()

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once it has completed or failed: now, or later in a thread that waits for the device."""
        super().then(callback)
        if not self._is_watched and not self.done:
            self._is_watched = True
            all_ended(self.ends).then(self._settle)

    def when_known(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once somebody has found out that it has completed or failed."""
        super().then(callback)

    def _settle(self) -> None:
        """Take over from the device, whose events have all ended; of several threads that do so one is enough."""
        for submission, keep in self._left[:1]:
            failure = _failure_among(self.ends)
            if failure is not None:
                all_ended(submission.commands).then(partial(self._fail_with, failure))
                return
            self.complete(submission.duration)
            with suppress(IndexError):  # another thread was faster
                self._left.pop()
                keep()

    def _fail_with(self, failure: Failure) -> None:
        self.fail(failure)
        self._left.clear()


def _failure_among(events: Sequence[Event]) -> Failure | None:
    return next((failure for failure in map(failure_of, events) if failure is not None), None)
