"""Card of a rank: its communicators, and a watchdog that ends the card's wait if another rank fails."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
from cuda.core import Device
from nccl.bindings import nccl
from nccl.core import Communicator, UniqueId, get_unique_id

from tileir.core import BackendError
from tileir.runtime import Event
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.offers import QueueingExecutor, RecordingExecutor
from tileir.runtime.transports import LostError, told
from tileir_nccl.meeting import Lateness, Meeting

_LOOK: Final = 0.2
"""Seconds between checks of the card."""

_ENQUEUED: Final = 0.5
"""Seconds after which a submitting call of NCCL is assumed to wait for another rank."""

_ABORTED: Final = 2.0
"""Seconds in which NCCL ends work in progress."""


@attrs.define(eq=False)
class Card:
    """Rank and its card, as long as no program fails.

    Attributes:
        meeting: Meeting of the ranks.
        device: Id of the device.
        number: Ordinal of the card in CUDA.
        running: Lock held while a program runs, so that collectives of two are not mixed.
        busy: Whether a thread submits to a stream, which blocks when full.
        agreed: Common facts of ranks, by turn: the texts of programs, and their numbers of ranks.
        alike: Whether all ranks have cards of one target.
    """

    meeting: Meeting
    device: str
    number: int
    running: threading.RLock = attrs.field(factory=threading.RLock, init=False)
    busy: bool = attrs.field(default=False, init=False)
    _communicators: dict[tuple[int, ...], Communicator] = attrs.field(factory=dict, init=False)
    _executors: set[QueueingExecutor] = attrs.field(factory=set, init=False)
    agreed: dict[int, frozenset[str]] = attrs.field(factory=dict, init=False)
    alike: bool = attrs.field(default=False, init=False)
    _watched: bool = attrs.field(default=False, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _stopped: bool = attrs.field(default=False, init=False)

    def communicator(self, group: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
        """Return the communicator of a group, and its ranks in order; all of them make it on first use."""
        ranks, meeting = tuple(sorted(group)), self.meeting
        if ranks not in self._communicators:
            own = bytes(get_unique_id()).hex() if meeting.rank == ranks[0] else ""
            first, *_ = meeting.share(f"communicator {ranks}", own, ranks)
            Device(self.number).set_current()
            made = Communicator.init(len(ranks), ranks.index(meeting.rank), UniqueId.from_bytes(bytes.fromhex(first)))
            self._communicators[ranks] = made
        return nccl.Comm(self._communicators[ranks].ptr), ranks

    @contextlib.contextmanager
    def enqueued(self, read: Sequence[DeviceArray], written: Sequence[DeviceArray]) -> Iterator[int]:
        """Submit work to the stream of arrays, after everything that they wait for, by calls in the ``with`` statement.

        Args:
            read: Arrays that it reads.
            written: Arrays that it writes.

        Raises:
            BackendError: TIL808, NCCL refuses; TIL814, another rank failed.
        """
        meeting = self.meeting
        meeting.check(())
        arrays = [*read, *written]
        executor: Any = arrays[0].home.executor
        others: dict[int, Any] = {id(each.home.executor): each.home.executor for each in arrays}
        for other in others.values():
            if other is not executor:
                executor.follow(other.dlpack_stream)
        queues = executor in self._executors or isinstance(executor, QueueingExecutor)
        for array in arrays:
            if not queues or array.queued(array.home.executor) is None:
                array.ready()
        stream = int(getattr(executor, "dlpack_stream", 0))
        with self._lock:
            if self._stopped:
                meeting.check(meeting.others)
            meeting.count += 1
            if queues:
                self._executors.add(executor)
            self.busy = True
            try:
                with contextlib.ExitStack() as stack:
                    if isinstance(executor, RecordingExecutor):
                        buffers = [[array.memory() for array in each] for each in (read, written)]
                        stack.enter_context(executor.recorded_beside(*buffers))
                    yield stream
            except nccl.NCCLError as error:
                meeting.check(())
                message = f"{meeting.place}: NCCL failed: {error}; NCCL_DEBUG=INFO tells more"
                raise BackendError.of("TIL808", message) from error
            finally:
                self.busy = False

    def begin(self) -> None:
        """Begin a program: from now on the card is watched."""
        self.meeting.stop, self._stopped = self.stop, False
        if not self._watched:
            self._watched = True
            atexit.register(self.settle)  # a process that ended earlier would take its part of messages with it
            threading.Thread(target=self._watch, name="tileir-nccl-watch", daemon=True).start()

    def settle(self) -> None:
        """Wait until the card has done all work in its streams."""
        for event in self._handed_over():
            with contextlib.suppress(BackendError):  # readers of its results are told
                event.wait()

    def hand_over_again(self) -> None:
        """Count a replayed recording as one more collective; raises the errors of :meth:`check`."""
        self.meeting.check(())
        self.meeting.count += 1
        self.busy = True

    def stop(self, turn: int) -> None:
        """End all NCCL work on the card in a turn, including calls that wait for other ranks."""
        held = self._lock.acquire(timeout=_ENQUEUED)
        try:
            if turn == self.meeting.turn:
                self._abort()
        finally:
            if held:
                self._lock.release()

    def failure(self, error: BaseException) -> BackendError:
        """Return this rank's error, and notify the others of it unless they sent it."""
        self.meeting.fail(told(error))
        self._abort()
        if isinstance(error, LostError):
            return LostError(error.diagnostics)
        return BackendError.of("TIL814", f"rank {self.meeting.rank} failed: {told(error)}")

    def _abort(self) -> None:
        """End all NCCL work, without waiting if that waits for a dead rank."""
        self._stopped = True
        found = [threading.Thread(target=made.abort, daemon=True) for made in self._communicators.values()]
        self._communicators.clear()
        for thread in found:
            thread.start()
        for thread in found:
            thread.join(_ABORTED)

    def _handed_over(self) -> list[Event]:
        """Return events after which the card has done all work in its streams."""
        return [event for executor in tuple(self._executors) for event in executor.handed_over()]

    def _watch(self) -> None:
        """Stop waiting when others fail or have ended, and report late ranks, while this process lives."""
        meeting = self.meeting
        wait, count = Lateness(meeting), meeting.count
        begun: list[Event] = []
        while True:
            time.sleep(_LOOK)
            if self.busy:  # the driver may be locked
                begun = []
                idle = self._stopped or meeting.count != count
            else:
                idle = self._stopped or all(event.done for event in begun)
                if idle:
                    begun = [] if self._stopped or meeting.count == count else self._handed_over()
            if idle:
                wait, count = Lateness(meeting), meeting.count
                continue
            try:
                meeting.check(meeting.others)
                wait.look(meeting.others)
            except LostError as error:
                meeting.give_up(error.diagnostics[0].code, told(error))
                self.stop(meeting.turn)


def address(array: DeviceArray) -> int:
    """Return the address of an array's elements."""
    executor: Any = array.home.executor
    if array.home.shares:
        found: int = executor.address(array.memory())
        return found
    return int(array.numpy().ctypes.data)
