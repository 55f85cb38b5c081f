"""Events that complete later, and a thread that runs work when the events it depends on have completed."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import BackendError, Diagnostic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tileir.runtime.interface import Event


IDLE_SECONDS: Final = 5.0
"""How long a scheduler's thread stays without work."""


@attrs.define(eq=False)
class PendingEvent:
    """An event that somebody completes: an executor when its work is done, or the user.

    It fulfils :class:`tileir.runtime.interface.Event`.
    """

    _condition: threading.Condition = attrs.field(factory=threading.Condition, init=False, repr=False)
    _done: bool = attrs.field(default=False, init=False)
    _error: BaseException | None = attrs.field(default=None, init=False)
    _duration: float | None = attrs.field(default=None, init=False)
    _callbacks: list[Callable[[], None]] = attrs.field(factory=list, init=False, repr=False)

    @property
    def done(self) -> bool:
        """Whether it has completed or failed."""
        return self._done

    @property
    def duration(self) -> float | None:
        """Seconds that the work took; None before completion or where it is not measured."""
        return self._duration

    def wait(self) -> None:
        """Block until it completes; raise the original error when it, or something it waited for, failed."""
        if not self._done:
            with self._condition:
                self._condition.wait_for(lambda: self._done)
        if self._error is not None:
            raise self._error

    def complete(self, duration: float | None = None) -> None:
        """Mark it as completed; what completed or failed before stays as it is."""
        self._finish(None, duration)

    def fail(self, error: BaseException) -> None:
        """Mark it as failed; what completed or failed before stays as it is."""
        self._finish(error, None)

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once it has completed or failed: now, or later in the thread that completes it."""
        with self._condition:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback()

    def _finish(self, error: BaseException | None, duration: float | None) -> None:
        with self._condition:
            if self._done:
                return
            self._error, self._duration, self._done = error, duration, True
            self._condition.notify_all()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


@attrs.define(eq=False)
class _Task:
    """Work, the events that it waits for, and the event that tells of its end."""

    work: Callable[[], object]
    after: tuple[Event, ...]
    event: PendingEvent
    waiting: int

    def run(self) -> None:
        """Do the work, unless something that it waited for failed: then fail with the same error."""
        try:
            for event in self.after:
                event.wait()
            start = time.perf_counter()
            self.work()
        except BaseException as error:  # the error belongs to whoever waits for the event
            self.event.fail(error)
        else:
            self.event.complete(time.perf_counter() - start)


@attrs.define(eq=False)
class Scheduler:
    """Runs tasks one after the other in a thread of its own, each as soon as all its events have completed.

    The thread starts when there is a task, and ends after :data:`IDLE_SECONDS` without one. In a forked child
    the tasks of the parent are forgotten.
    """

    name: str
    _condition: threading.Condition = attrs.field(factory=threading.Condition, init=False)
    _ready: deque[_Task] = attrs.field(factory=deque, init=False)
    _unfinished: int = attrs.field(default=0, init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        _schedulers.add(self)

    def submit(self, work: Callable[[], object], after: Iterable[Event] = ()) -> PendingEvent:
        """Do ``work`` once all of ``after`` have completed; an event that failed makes the result fail likewise.

        Raises:
            BackendError: TIL807, the scheduler was closed.

        """
        events = tuple(after)
        task = _Task(work, events, PendingEvent(), len(events) + 1)
        with self._condition:
            if self._closed:
                raise BackendError((Diagnostic("TIL807", "this executor was closed; open another one"),))
            self._unfinished += 1
        for event in events:
            _notify(event, lambda: self._release(task))
        self._release(task)
        return task.event

    def close(self) -> None:
        """Wait for all tasks and stop the thread."""
        with self._condition:
            self._closed = True
            self._condition.wait_for(lambda: self._unfinished == 0)
            self._condition.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def forget_tasks(self) -> None:
        """Start anew in a forked child, where the parent's thread does not exist and its locks may be taken."""
        self._condition = threading.Condition()
        self._ready.clear()
        self._unfinished = 0
        self._thread = None

    def _release(self, task: _Task) -> None:
        """Count down the events that a task waits for, and queue it after the last one."""
        with self._condition:
            task.waiting -= 1
            if task.waiting:
                return
            self._ready.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self.name, daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def _serve(self) -> None:
        while True:
            with self._condition:
                if not self._ready and not self._closed:
                    self._condition.wait_for(lambda: self._ready or self._closed, IDLE_SECONDS)
                if not self._ready:
                    self._thread = None
                    return
                task = self._ready.popleft()
            task.run()
            with self._condition:
                self._unfinished -= 1
                self._condition.notify_all()


def _notify(event: Event, callback: Callable[[], None]) -> None:
    """Call ``callback`` once ``event``, which may be of another executor, has completed or failed."""
    if isinstance(event, PendingEvent):
        event.then(callback)
    elif event.done:
        callback()
    else:
        threading.Thread(target=_watch, args=(event, callback), name="tileir-watch", daemon=True).start()


def _watch(event: Event, callback: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):  # the task waits again, and reports the error
        event.wait()
    callback()


_schedulers: Final[weakref.WeakSet[Scheduler]] = weakref.WeakSet()


def _after_fork() -> None:
    for scheduler in tuple(_schedulers):
        scheduler.forget_tasks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
