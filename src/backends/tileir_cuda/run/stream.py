"""Stream of an executor: work enters with its dependences and is tracked by events.

All work of an executor is in one stream, which runs in order. Work that depends on foreign events enters it when they
have completed, so that the stream never waits for the host.
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
from tileir.runtime.deferred import DeferredCommands, Watchers, failed
from tileir_cuda.run.capturing import EVERYTHING, Capture
from tileir_cuda.run.driver import NOT_READY, PROCESS, SUCCESS, checked, enter, fault
from tileir_cuda.run.following import Use

LEAST: Final = 8 << 10
"""Minimum size for staging; smaller copies are embedded in the driver's command."""

MOST: Final = 512 << 10
"""Maximum size for staging; larger copies are as fast by the driver. On an H200, 64 KiB take the host 19 µs by the
driver, and 8 from here.
"""

PIECES: Final = 4
"""Maximum number of copies in flight."""


@attrs.define(eq=False)
class Staging:
    """Staging pieces of one stream, allocated on demand; callers hold the lock of the stream."""

    _pieces: list[np.ndarray[Any, Any]] = attrs.field(factory=list, init=False)
    _ends: list[Any] = attrs.field(factory=list, init=False)
    _next: int = attrs.field(default=0, init=False)
    _without: bool = attrs.field(default=False, init=False)

    def copy(self, card: int, native: Any, array: np.ndarray[Any, Any], to: int, count: int) -> bool:
        """Put the copy of an array into a stream and free the array; return False, with nothing done, if unsuitable.

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
        """Forget the parent's pieces in a forked child."""
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
"""Maximum number of pieces of work between checks for completion."""

WAITING: Final = 64
"""Maximum number of threads that wait for events to call callbacks; started on demand."""


@attrs.define(eq=False)
class CudaEvent:
    """Completion of work in a stream, or of all work so far. Implements :class:`tileir.runtime.interface.Event`.

    The driver marks the end of a piece at once, that of all work on first request only: until then it costs nothing,
    and includes later work as well.
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
        """Failure of the work; None on success or before the end."""
        return self._failure if self.done else None

    @property
    def duration(self) -> float | None:
        """Seconds that the device was busy; None before completion or if not measured."""
        return self._duration if self.done else None

    def wait(self) -> None:
        """Block until it completes; raise the error if it, or earlier work on the card, failed."""
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
        """Mark it as failed in a forked child, where the driver is unusable."""
        if not self._settled:
            message = "the process forked before the device was done; do it again in the child, on another device"
            self._failure = Failure.of(BackendError((Diagnostic("TIL809", message),)))
            self._settled = True

    @property
    def settled(self) -> bool:
        """True if completion is known without asking the driver."""
        return self._settled

    @property
    def failed(self) -> bool:
        """True if it is known to have failed."""
        return self._failure is not None

    def mark(self, end: Any) -> None:
        """Set the driver's event that marks its end."""
        self._end = end

    def lose(self, error: BackendError) -> None:
        """Fail with an error, as the card no longer reports its end."""
        self._failure, self._settled = Failure.of(error), True

    @property
    def is_marked(self) -> bool:
        """True if a driver event marks its end."""
        return self._end is not None

    def _settle(self, status: Any) -> None:
        """Store error and duration, and recycle the driver's events."""
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
    """Stream of one card. Thread safe.

    Attributes:
        card: Ordinal of the card in the driver.
        native: Stream of the driver.
        measures: Whether events measure durations.
        lock: Held while work enters the stream, so that its end event directly follows it.
        staging: Staging memory for host arrays.
        tail: Event of all work so far whose end is not marked yet; None if there is no new work.
        capture: Capture in progress, whose work cannot be waited for; None without one.
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
    _postponed: DeferredCommands = attrs.field(factory=DeferredCommands, init=False)

    @classmethod
    def of(cls, card: int, *, measures: bool) -> Stream:
        """Make a stream that does not synchronise with others implicitly.

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
        """Put work into the stream, now or when all foreign events of ``after`` have completed.

        Args:
            work: Calls the driver.
            held: Objects to keep alive until the work has completed.
            after: Events that it waits for; if one fails, it fails with that error.
            what: Description for messages.
            uses: Memory that it uses.

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
        """Put work into the stream now; raises the errors of :meth:`submit`."""
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
        """Begin a tail; the caller holds the lock, and there is none."""
        self.tail = event = CudaEvent(self, "a run", None, None, None)
        return event

    def end_tail(self, event: CudaEvent) -> bool:
        """Mark the end of an event now, if it is the tail; return False if that fails."""
        if event.is_marked:
            return True
        enter(self.card)
        with self.lock:
            if self.capture is not None:
                raise BackendError((Diagnostic("TIL808", "work that is recorded cannot be waited for"),))
            if self.tail is event:
                try:
                    event.mark(self._marked())
                except BackendError as error:  # the card has failed, and with it all work in the stream
                    event.lose(error)
                else:
                    self._in_flight.append(event)
                self.tail = None
        if len(self._in_flight) > PATIENCE:
            self.collect()
        return event.is_marked

    @property
    def in_use(self) -> bool:
        """True if there is work not known to be done."""
        return self.tail is not None or bool(self._in_flight)

    def unfinished(self) -> tuple[CudaEvent, ...]:
        """Return the event after all work so far; none if all of it has completed."""
        with self.lock:
            if self.tail is not None:
                return (self.tail,)
            return (self._in_flight[-1],) if self._in_flight else ()

    @property
    def crosses(self) -> bool:
        """True if this stream and another have been synchronised."""
        return self._crossing is not None

    def crossing(self) -> int:
        """Return a driver event for synchronising streams; the caller holds the lock."""
        if self._crossing is None:
            self._crossing = checked("an event", driver.cuEventCreate(_UNTIMED))
        return int(self._crossing)

    def wait_for(self, other: int) -> None:
        """Make this stream wait for all work so far in another, given by its handle.

        Raises:
            BackendError: TIL808, the driver refuses.
        """
        enter(self.card)
        with self.lock:
            mark = self._marked(driver.CUstream(other))
            checked("waiting for a stream", driver.cuStreamWaitEvent(self.native, mark, 0))
            self.give_back(mark)

    def precede(self, other: int, events: Sequence[Event]) -> None:
        """Make another stream wait for events of this one, without waiting here; foreign events are waited for here.

        It waits for all work so far in this stream, so that one driver event suffices.

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
        """Recycle events of the driver."""
        self._spare.extend(event for event in events if event is not None)

    def collect(self) -> None:
        """Release the memory of completed work, up to the oldest that has not completed."""
        with self.lock:
            while self._in_flight and self._in_flight[0].done:
                self._in_flight.popleft()

    def finish(self) -> None:
        """Wait for all work, including work that waits for foreign events."""
        self._postponed.wait()
        self.drain()

    def drain(self) -> None:
        """Wait for all work in the stream."""
        enter(self.card)
        driver.cuStreamSynchronize(self.native)  # failed work reports itself
        self.collect()

    def renew(self) -> None:
        """Forget the parent's work in a forked child, without releasing it, as the driver would wait for it."""
        tails = () if self.tail is None else (self.tail,)
        for event in (*self._in_flight, *tails):
            event.abandon()
        _parents.extend((self.native, self._crossing, *self._in_flight, *self._spare))
        self._in_flight, self._spare, self.tail, self._crossing = deque(), [], None, None
        self._postponed.forget()
        self.staging.forget()
        self.lock = threading.RLock()

    def _marked(self, stream: Any = None) -> Any:
        """Return a driver event after all work so far, of this stream or another."""
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
