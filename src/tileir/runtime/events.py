"""Events that complete later, and threads that run work once its events have completed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, NoReturn

from tileir.core import BackendError, Renewable, attrs
from tileir.runtime.interface import Event
from tileir.runtime.offers import NotifyingEvent

IDLE_SECONDS: Final = 5.0
"""Seconds that a scheduler's thread stays without work."""


@attrs.frozen(eq=False)
class Failure:
    """Caught error with its traceback and context at that time.

    Raising an exception object extends its traceback and sets its context. All waiters raise one object, so each of
    them resets both.
    """

    error: BaseException
    _traceback: TracebackType | None
    _context: BaseException | None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Record the state of an error."""
        return cls(error, error.__traceback__, error.__context__)

    def reraise(self) -> NoReturn:
        """Raise the error."""
        try:
            raise self.error.with_traceback(self._traceback)
        finally:
            self.error.__context__ = self._context  # not the error that the waiter happens to handle


@attrs.define(eq=False)
class PendingEvent:
    """Event that an executor completes at the end of its work, or that the user completes.

    Implements :class:`tileir.runtime.interface.Event`, with ``then``.

    Attributes:
        ends: Events of a device that the work's end follows, if they are known before the host knows of the end.
    """

    ends: Sequence[Event] = attrs.field(default=(), init=False, repr=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)
    _done: bool = attrs.field(default=False, init=False)
    _failure: Failure | None = attrs.field(default=None, init=False)
    _duration: float | None = attrs.field(default=None, init=False)
    _gates: list[threading.Lock] = attrs.field(factory=list, init=False, repr=False)
    _callbacks: list[Callable[[], None]] = attrs.field(factory=list, init=False, repr=False)

    @property
    def done(self) -> bool:
        """True if it has completed or failed."""
        return self._done

    @property
    def duration(self) -> float | None:
        """Seconds that the work took; None before completion or if not measured."""
        return self._duration

    @property
    def failure(self) -> Failure | None:
        """Failure of the event; None before the end and after success."""
        return self._failure

    def wait(self) -> None:
        """Block until it completes; raise the original error if it, or an event that it waited for, failed."""
        if not self._done:
            gate = threading.Lock()  # a condition could be interrupted with its lock taken
            gate.acquire()
            with self._lock:
                if self.done:  # meanwhile
                    gate.release()
                else:
                    self._gates.append(gate)
            gate.acquire()
        if self._failure is not None:
            self._failure.reraise()

    def complete(self, duration: float | None = None) -> None:
        """Mark it as completed, unless it has completed or failed already."""
        self._finish(None, duration)

    def fail(self, error: BaseException | Failure) -> None:
        """Mark it as failed, unless it has completed or failed already."""
        self._finish(error if isinstance(error, Failure) else Failure.of(error), None)

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once it has completed or failed: now, or later in the thread that completes it."""
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback()

    def when_known(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` like :meth:`then`, but without a thread that only waits for the event."""
        self.then(callback)

    def abandon(self) -> None:
        """Mark it as failed, with TIL809, in a forked child, where the thread that would complete it does not exist.

        No callback runs, as the parent's events are all abandoned there. A thread of the parent may have held the lock.
        """
        self._lock = threading.Lock()
        if not self._done:
            message = "the process forked before this was done; do it again in the child"
            self._failure, self._done = Failure.of(BackendError.of("TIL809", message)), True
            self._callbacks.clear()

    def _finish(self, failure: Failure | None, duration: float | None) -> None:
        with self._lock:
            if not self._done:
                self._failure, self._duration, self._done = failure, duration, True
                self.ends = ()
        for waiting in (self._gates, self._callbacks):
            while waiting:  # after an interrupt here, completing it again calls the rest
                one = waiting.pop(0)
                one() if callable(one) else one.release()


def failure_of(event: Event) -> Failure | None:
    """Wait for an event, and return its failure."""
    if isinstance(event, PendingEvent) and event.done:
        return event.failure
    try:
        event.wait()
    except BaseException as error:  # the caller decides how to handle it
        return Failure.of(error)
    return None


def ends_of(event: Event) -> Sequence[Event]:
    """Return device events that precede the completion of an event; the event itself if only the host knows its end."""
    ends = event.ends if isinstance(event, PendingEvent) else ()
    return ends or (event,)


def ended_in_queue(event: Event) -> Sequence[Event]:
    """Return events that tell the end of an event, by success or failure: device events if its work is all in a queue.

    Once work is in a queue, only the device itself can fail, and then all later work fails too.
    """
    ends = ends_of(event)
    return (all_ended([event]),) if any(isinstance(end, PendingEvent) for end in ends) else ends


def all_ended(events: Sequence[Event]) -> PendingEvent:
    """Return an event that completes when all ``events`` have completed or failed."""
    end = PendingEvent()
    left = [*events]
    lock = threading.Lock()

    def count_down() -> None:
        with lock:
            left.pop()
            last = not left
        if last:
            end.complete()

    for event in events:
        _notify(event, count_down)
    if not events:
        end.complete()
    return end


@attrs.define(eq=False, repr=False)
class _Task:
    """Work, the events that it waits for, and its completion event."""

    work: Callable[[], object]
    after: tuple[Event, ...]
    event: PendingEvent
    waiting: int

    def run(self) -> None:
        """Do the work; if an event that it waits for failed, fail with that error."""
        for event in self.after:
            failure = failure_of(event)
            if failure is not None:
                self.event.fail(failure)
                return
        start = time.perf_counter()
        try:
            self.work()
        except BaseException as error:  # the error belongs to the waiters of the event
            self.event.fail(error)
        else:
            self.event.complete(time.perf_counter() - start)


@attrs.define(eq=False)
class Scheduler(Renewable):
    """Scheduler that runs tasks in up to ``threads`` threads, each once its events have completed.

    Threads start on demand, and end after :data:`IDLE_SECONDS` without a task. Tasks hold no thread while they wait for
    events, so dependent tasks cannot block each other. In a forked child the parent's tasks fail, as its threads do not
    exist there.
    """

    name: str
    threads: int = 1
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _condition: threading.Condition = attrs.field(init=False)
    _ready: deque[_Task] = attrs.field(factory=deque, init=False)
    _unfinished: set[_Task] = attrs.field(factory=set, init=False)
    _workers: set[threading.Thread] = attrs.field(factory=set, init=False)
    _idle: int = attrs.field(default=0, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    @_condition.default
    def _condition_of_lock(self) -> threading.Condition:
        return threading.Condition(self._lock)

    def submit(self, work: Callable[[], object], after: Iterable[Event] = ()) -> PendingEvent:
        """Do ``work`` once all of ``after`` have completed; if one of them fails, so does the result.

        Raises:
            BackendError: TIL807, the scheduler was closed.
        """
        events = tuple(after)
        task = _Task(work, events, PendingEvent(), len(events) + 1)
        try:
            with self._lock:
                if self._closed:
                    raise BackendError.of("TIL807", "this executor was closed; open another one")
                self._unfinished.add(task)
            for event in events:
                _notify(event, lambda: self._release(task))
            self._release(task)
        except BaseException:  # a task that is interrupted here would never start
            with self._lock:
                self._unfinished.discard(task)
            raise
        return task.event

    def wait_until_idle(self) -> None:
        """Wait until no task runs or could run, except tasks that wait for events. Tasks must not call it."""
        with self._lock:
            self._condition.wait_for(lambda: not self._ready and self._idle == len(self._workers))

    def close(self) -> None:
        """Wait for all tasks and stop the threads; a task may call it as its last action."""
        own = threading.current_thread()
        with self._lock:
            self._closed = True
            others = 1 if own in self._workers else 0
            self._condition.wait_for(lambda: len(self._unfinished) <= others)
            self._condition.notify_all()
            workers = tuple(self._workers)
        for worker in workers:
            if worker is not own:
                worker.join()

    def renew(self) -> None:
        """Start anew in a forked child: fail tasks that only a thread of the parent could finish."""
        self._lock = threading.Lock()
        self._condition = threading.Condition(self._lock)
        lost = tuple(self._unfinished)
        self._ready.clear()
        self._unfinished.clear()
        self._workers.clear()
        self._idle = 0
        for task in lost:
            task.event.abandon()

    def _release(self, task: _Task) -> None:
        with self._lock:
            task.waiting -= 1
            if task.waiting or task not in self._unfinished:
                return
            self._ready.append(task)
            if self._idle < len(self._ready) and len(self._workers) < self.threads:
                self._start_worker()
            self._condition.notify_all()

    def _start_worker(self) -> None:
        worker = threading.Thread(target=self._serve, name=self.name, daemon=True)
        try:
            self._workers.add(worker)
            worker.start()
        except BaseException as error:  # from 3.12 on a Python that ends starts no threads: others do the work
            self._workers.discard(worker)  # if it starts nevertheless, it adds itself
            if not isinstance(error, RuntimeError) or not self._workers:
                raise

    def _serve(self) -> None:
        with self._lock:
            self._workers.add(threading.current_thread())
        while True:
            with self._lock:
                if not self._ready and not self._closed:
                    self._idle += 1
                    self._condition.notify_all()
                    self._condition.wait_for(lambda: self._ready or self._closed, IDLE_SECONDS)
                    self._idle -= 1
                if not self._ready:
                    self._workers.discard(threading.current_thread())
                    self._condition.notify_all()
                    return
                task = self._ready.popleft()
            task.run()
            with self._lock:
                self._unfinished.discard(task)
                self._condition.notify_all()
            del task  # an idle thread keeps no memory alive


def _notify(event: Event, callback: Callable[[], None]) -> None:
    """Call ``callback`` once ``event``, which may be of another executor, has completed or failed."""
    if isinstance(event, NotifyingEvent):
        event.then(callback)
    elif event.done:
        callback()
    else:
        threading.Thread(target=_watch, args=(event, callback), name="tileir-watch", daemon=True).start()


def _watch(event: Event, callback: Callable[[], None]) -> None:
    failure_of(event)  # the task asks again, and passes it on
    callback()
