"""The stream of an executor: work goes in with what it waits for, and comes out as events.

All work of an executor is in one stream, which runs in order. What waits for events of others enters it when they have
completed, so that nothing in the stream ever waits for the host.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import numpy as np
from cuda.bindings import driver

from tileir.core import BackendError, Diagnostic, Renewable
from tileir.runtime import Event, Failure, failure_of
from tileir.runtime.arrays import address_of
from tileir.runtime.postponed import Postponed, Watchers, failed
from tileir_cuda.run.capturing import EVERYTHING, Capture
from tileir_cuda.run.driver import NOT_READY, PROCESS, SUCCESS, checked, enter, fault
from tileir_cuda.run.following import Use

LEAST: Final = 8 << 10
"""The driver takes fewer bytes along with its command."""

MOST: Final = 512 << 10
"""More are as fast by the driver's own stages. On an H200 64 KiB take the host 19 µs so, and 8 from here."""

PIECES: Final = 4
"""Copies under way at the same time, before the oldest one is waited for."""


@attrs.define(eq=False)
class Staging:
    """The pieces of one stream, allocated when they are first needed; callers hold the lock of the stream."""

    _pieces: list[np.ndarray[Any, Any]] = attrs.field(factory=list, init=False)
    _ends: list[Any] = attrs.field(factory=list, init=False)
    _next: int = attrs.field(default=0, init=False)
    _without: bool = attrs.field(default=False, init=False)

    def copy(self, card: int, native: Any, array: np.ndarray[Any, Any], to: int, count: int) -> bool:
        """Put the copy of an array into a stream; the array is free at once. False, with nothing done, where it is not.

        Raises:
            BackendError: TIL808, the driver refuses.

        """
        if not LEAST <= count <= MOST or self._without or not self._allocated(card):
            return False
        number, self._next = self._next, (self._next + 1) % PIECES
        end, piece = self._ends[number], address_of(self._pieces[number])
        checked("a copy", driver.cuEventSynchronize(end))
        ctypes.memmove(piece, address_of(array), count)
        checked("a copy", driver.cuMemcpyHtoDAsync(to, piece, count, native))
        checked("a copy", driver.cuEventRecord(end, native))
        return True

    def forget(self) -> None:
        """Leave what a forked child has of its parent alone."""
        self._without = True

    def _allocated(self, card: int) -> bool:
        if not self._pieces:
            from tileir_cuda.run.memory import page_locked  # it knows streams, which know this

            try:
                room = page_locked(card, PIECES * MOST)
                flag = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
                self._ends = [checked("an event", driver.cuEventCreate(flag)) for _ in range(PIECES)]
            except BackendError:
                self._without = True
                return False
            self._pieces = [room[number * MOST : (number + 1) * MOST] for number in range(PIECES)]
        return True


MILLISECOND: Final = 1e-3
PATIENCE: Final = 8
"""How many pieces of work may be kept without a look at whether they have completed."""

WAITING: Final = 64
"""How many threads may wait for events, to call whoever wants to be called; they start when they are needed."""


@attrs.define(eq=False)
class CudaEvent:
    """A piece of work in a stream, or all of it so far. It fulfils :class:`tileir.runtime.interface.Event`.

    The driver marks the end of a piece at once, and that of all work only when somebody asks for it first: until then
    nobody has to pay for it, and what comes meanwhile belongs to it as well.
    """

    stream: Stream = attrs.field(repr=False)
    what: str
    _begin: Any = attrs.field(repr=False)
    _end: Any = attrs.field(repr=False)
    _held: object = attrs.field(repr=False)
    _settled: bool = attrs.field(default=False, init=False)
    _failure: Failure | None = attrs.field(default=None, init=False)
    _duration: float | None = attrs.field(default=None, init=False)

    @property
    def done(self) -> bool:
        """True if it has completed or failed."""
        if self._settled or not self.stream.end_tail(self):
            return True
        enter(self.stream.card)
        status = driver.cuEventQuery(self._end)[0]
        if status is NOT_READY:
            return False
        self._settle(status)
        return True

    @property
    def failure(self) -> Failure | None:
        """The failure that it ended with; None where it completed, or has not ended."""
        return self._failure if self.done else None

    @property
    def duration(self) -> float | None:
        """Seconds that the device was busy; None before completion, or where nobody asked to measure."""
        return self._duration if self.done else None

    def wait(self) -> None:
        """Block until it completes; raise the error where it, or something before it on the card, failed."""
        if not self._settled and self.stream.end_tail(self):
            enter(self.stream.card)
            self._settle(driver.cuEventSynchronize(self._end)[0])
            self.stream.collect()
        if self._failure is not None:
            self._failure.reraise()

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once it has completed or failed: now, or later in a thread that waits for it."""
        if self.done:
            callback()
        else:
            _watchers.call(self, callback)

    def abandon(self) -> None:
        """Mark it as failed in a forked child, where the driver could not tell any more."""
        if not self._settled:
            message = "the process forked before the device was done; do it again in the child, on another device"
            self._failure = Failure.of(BackendError((Diagnostic("TIL809", message),)))
            self._settled = True

    @property
    def settled(self) -> bool:
        """Completion of the event, as far as somebody has asked."""
        return self._settled

    @property
    def failed(self) -> bool:
        """True if somebody has found out that it failed."""
        return self._failure is not None

    def mark(self, end: Any) -> None:
        """Take the driver's event behind it."""
        self._end = end

    def lose(self, error: BackendError) -> None:
        """Fail with an error, as the card does not tell of its end any more."""
        self._failure, self._settled = Failure.of(error), True

    @property
    def is_marked(self) -> bool:
        """True if the driver has an event behind it."""
        return self._end is not None

    def _settle(self, status: Any) -> None:
        """Keep the error and the time, and give the driver's events back."""
        with self.stream.lock:
            if self._settled:
                return
            if status is not SUCCESS:
                self._failure = Failure.of(fault(self.what, status))
            elif self._begin is not None:
                elapsed = checked("a duration", driver.cuEventElapsedTime(self._begin, self._end))
                self._duration = float(elapsed) * MILLISECOND
            self._settled, self._held = True, None
            self.stream.give_back(self._begin, self._end)


@attrs.define(eq=False)
class Stream(Renewable):
    """One stream of one card. Thread safe.

    Attributes:
        card: The driver's number of the card.
        native: The driver's stream.
        measures: Whether events tell how long the work took.
        lock: Held while work enters the stream, so that the event behind it is its own.
        staging: Through what arrays of the host go into it.
        tail: The event of all work so far whose end is not marked yet; None where nothing has come since.
        capture: What records work that is not done, so that nobody can wait for it; None where it is done.

    """

    card: int
    native: Any
    measures: bool
    lock: threading.RLock = attrs.field(factory=threading.RLock, init=False)
    tail: CudaEvent | None = attrs.field(default=None, init=False)
    capture: Capture | None = attrs.field(default=None, init=False)
    staging: Staging = attrs.field(factory=Staging, init=False, repr=False)
    _crossing: Any = attrs.field(default=None, init=False)
    _in_flight: deque[CudaEvent] = attrs.field(factory=deque, init=False)
    _spare: list[Any] = attrs.field(factory=list, init=False)
    _postponed: Postponed = attrs.field(factory=Postponed, init=False)

    @classmethod
    def of(cls, card: int, *, measures: bool) -> Stream:
        """Make a stream that waits for no other.

        Raises:
            BackendError: TIL808, the driver refuses; TIL809, the process was forked.

        """
        enter(card)
        flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = cls(card, checked("a stream", driver.cuStreamCreate(flag)), measures)
        PROCESS.streams[id(stream)] = stream
        return stream

    def submit(
        self,
        work: Callable[[], object],
        held: object,
        after: Sequence[Event],
        what: str,
        uses: Sequence[Use] = (EVERYTHING,),
    ) -> Event:
        """Put work into the stream, now or when all of ``after`` that are not of this stream have completed.

        Args:
            work: Calls the driver.
            held: What must stay alive until the work has completed.
            after: What it waits for; if one fails, it fails with the same error.
            what: What to call it in messages.
            uses: The memory that it uses.

        Raises:
            BackendError: TIL708, TIL804 or TIL808, the driver refuses it.

        """
        others: list[Event] = []
        for event in after:
            if isinstance(event, CudaEvent) and event.stream is self and not event._settled:
                continue  # the stream runs in order
            if not event.done:
                others.append(event)
            elif (failure := failure_of(event)) is not None:
                return failed(failure)
        if others:
            return self._postponed.add(lambda: self.submit(work, held, after, what, uses), others)
        return self.begin(work, held, what, uses)

    def begin(
        self, work: Callable[[], object], held: object, what: str, uses: Sequence[Use] = (EVERYTHING,)
    ) -> CudaEvent:
        """Put work into the stream now; the errors are those of :meth:`submit`."""
        enter(self.card)
        with self.lock:
            if self.capture is not None:
                with self.capture.following(uses):
                    work()
                return self.tail or self.new_tail()
            begin = self._marked() if self.measures else None
            work()
            event = CudaEvent(self, what, begin, self._marked(), held)
            self._in_flight.append(event)
        if len(self._in_flight) > PATIENCE:
            self.collect()
        return event

    def new_tail(self) -> CudaEvent:
        """Begin a tail; the lock is held, and there is none."""
        self.tail = event = CudaEvent(self, "a run", None, None, None)
        return event

    def end_tail(self, event: CudaEvent) -> bool:
        """Mark the end of an event now, if it is the tail; return False where it failed with that."""
        if event.is_marked:
            return True
        enter(self.card)
        with self.lock:
            if self.capture is not None:
                raise BackendError((Diagnostic("TIL808", "work that is recorded cannot be waited for"),))
            if self.tail is event:
                try:
                    event.mark(self._marked())
                except BackendError as error:  # the card has failed, and with it all that is in the stream
                    event.lose(error)
                else:
                    self._in_flight.append(event)
                self.tail = None
        if len(self._in_flight) > PATIENCE:
            self.collect()
        return event.is_marked

    @property
    def in_use(self) -> bool:
        """True if there is work of which nobody has seen so far that it is done."""
        return self.tail is not None or bool(self._in_flight)

    def unfinished(self) -> tuple[CudaEvent, ...]:
        """Return the event behind all work so far; none where all of it has completed."""
        with self.lock:
            if self.tail is not None:
                return (self.tail,)
            return (self._in_flight[-1],) if self._in_flight else ()

    @property
    def crosses(self) -> bool:
        """True if this stream and another one have followed each other."""
        return self._crossing is not None

    def crossing(self) -> int:
        """Return an event of the driver by which this stream and another one follow each other; the lock is held."""
        if self._crossing is None:
            self._crossing = checked("an event", driver.cuEventCreate(_UNTIMED))
        return int(self._crossing)

    def wait_for(self, other: int) -> None:
        """Make this stream wait for all that is in another one by now, whose handle is a number.

        Raises:
            BackendError: TIL808, the driver refuses.

        """
        enter(self.card)
        with self.lock:
            mark = self._marked(driver.CUstream(other))
            checked("waiting for a stream", driver.cuStreamWaitEvent(self.native, mark, 0))
            self.give_back(mark)

    def precede(self, other: int, events: Sequence[Event]) -> None:
        """Make another stream wait for events of this one, without waiting here; for those of others it is done here.

        It waits for all that is in this stream by now, so that one event of the driver does for any number of them.

        Raises:
            BackendError: TIL808, the driver refuses.

        """
        for event in events:
            if not isinstance(event, CudaEvent) or event.stream is not self or event.settled:
                event.wait()
        if any(isinstance(event, CudaEvent) and event.stream is self and not event.settled for event in events):
            enter(self.card)
            with self.lock:
                self.crossing()
                checked("an event", driver.cuEventRecord(self._crossing, self.native))
                checked("waiting for a stream", driver.cuStreamWaitEvent(driver.CUstream(other), self._crossing, 0))

    def give_back(self, *events: Any) -> None:
        """Keep events of the driver for the next work."""
        self._spare.extend(event for event in events if event is not None)

    def collect(self) -> None:
        """Let go of the memory of the oldest work, up to the first that has not completed."""
        with self.lock:
            while self._in_flight and self._in_flight[0].done:
                self._in_flight.popleft()

    def finish(self) -> None:
        """Wait for all work, also for that which waits for events of others."""
        self._postponed.wait()
        self.drain()

    def drain(self) -> None:
        """Wait for all work that is in the stream."""
        enter(self.card)
        driver.cuStreamSynchronize(self.native)  # what failed tells so itself
        self.collect()

    def renew(self) -> None:
        """Forget the parent's work in a forked child. Nothing of it is released: the driver would wait for it."""
        tails = () if self.tail is None else (self.tail,)
        for event in (*self._in_flight, *tails):
            event.abandon()
        _parents.extend((self.native, self._crossing, *self._in_flight, *self._spare))
        self._in_flight, self._spare, self.tail, self._crossing = deque(), [], None, None
        self._postponed.forget()
        self.staging.forget()
        self.lock = threading.RLock()

    def _marked(self, stream: Any = None) -> Any:
        """Return an event of the driver that is behind all work so far, of this stream or of another one."""
        if self._spare:
            native = self._spare.pop()
        else:
            flag = driver.CUevent_flags.CU_EVENT_DEFAULT if self.measures else _UNTIMED
            native = checked("an event", driver.cuEventCreate(flag))
        checked("an event", driver.cuEventRecord(native, self.native if stream is None else stream))
        return native


_UNTIMED: Final = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
_parents: Final[list[Any]] = []
_watchers: Final = Watchers.of("tileir-cuda-events", WAITING)
