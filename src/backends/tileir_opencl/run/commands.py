"""Queue of one device: commands enter with their dependences and are tracked by events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs
import pyopencl as cl

from tileir.core.process.forking import Renewable
from tileir.runtime.deferred import DeferredCommands, failed
from tileir_opencl.run.events import InFlight, OpenCLEvent, sorted_out
from tileir_opencl.run.faults import OUT_OF_MEMORY, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.runtime.interface import Event

    Enqueue: TypeAlias = Callable[[list[cl.Event] | None], cl.Event]

_OUT_OF_ORDER: Final = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
_PROFILING: Final = cl.command_queue_properties.PROFILING_ENABLE

BATCH: Final = 32
"""Maximum number of commands put into a queue before it is flushed."""


@attrs.define(eq=False)
class Commands(Renewable):
    """Commands of one device. Thread safe.

    The queue is out of order if the driver supports that. A command only enters it after all foreign events that it
    waits for have completed, so no command can block an independent one, whatever the driver does.

    Attributes:
        context: Context of the queue.
        native: Queue of the driver.
        release_memory: Releases spare memory to the device.
    """

    context: cl.Context
    native: cl.CommandQueue
    release_memory: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    _in_flight: InFlight = attrs.field(factory=InFlight, init=False)
    _entering: dict[object, object] = attrs.field(factory=dict, init=False)
    _unflushed: int = attrs.field(default=0, init=False)
    _postponed: DeferredCommands = attrs.field(factory=DeferredCommands, init=False)

    @classmethod
    def of(cls, context: cl.Context, device: cl.Device, *, profile: bool = False) -> Commands:
        """Make an out-of-order queue, with profiling if requested, as far as the device supports it.

        Profiling is not free: on an H200 a call with two inputs took 51 µs instead of 30.
        """
        wanted = device.queue_properties & (_OUT_OF_ORDER | _PROFILING if profile else _OUT_OF_ORDER)
        return cls(context, cl.CommandQueue(context, device, cast("cl.command_queue_properties", wanted)))

    def submit(
        self, enqueue: Enqueue, held: object, after: Sequence[Event], what: str, *, reads_at_once: bool = False
    ) -> Event:
        """Put a command into the queue, now or when all foreign events of ``after`` have completed.

        Args:
            enqueue: Calls the driver, with the driver's events to wait for.
            held: Objects to keep alive until the command has completed.
            after: Events that it waits for; if one fails, it fails with that error.
            what: Description for messages.
            reads_at_once: Whether the driver may read an array as soon as the command enters the queue, despite its
                dependences; then it enters last.

        Raises:
            BackendError: TIL708, TIL804 or TIL808, the driver refuses it.
        """
        own: list[OpenCLEvent] = []
        if after:
            own, others, failure = sorted_out(after, self.context)
            if failure is not None:
                return failed(failure)
            if reads_at_once:
                others.extend(own)
            if others:
                return self._postponed.add(lambda: self.submit(enqueue, held, after, what), others)
            for event in own:
                if event.queue is not self:
                    event.queue.flush()
        wait_for = [event.native for event in own] or None
        entering = object()
        self._entering[entering] = held  # for ever, if an interrupt directly follows the driver's call
        try:
            native = enqueue(wait_for)
        except cl.Error as error:
            del self._entering[entering]
            failures = [event.failure for event in own if event.failure is not None]
            if failures:  # some drivers take no commands that wait for these
                return failed(failures[0])
            native = self._tried_again(enqueue, wait_for, what, error)
        event = OpenCLEvent(native, self, tuple(own), held)
        self._in_flight.add(event)
        self._entering.pop(entering, None)
        self._unflushed += 1
        if self._unflushed > BATCH:
            self.flush()
        return event

    def flush(self) -> None:
        """Flush the queue, as drivers may not begin before that or before a wait."""
        if self._unflushed:
            self._unflushed = 0
            self.native.flush()

    def collect(self) -> None:
        """Release the memory of completed commands."""
        self._in_flight.collect()

    def drain(self) -> None:
        """Wait for all commands in the queue, and release their memory."""
        self.native.finish()
        self._in_flight.collect()

    def finish(self) -> None:
        """Wait for all commands, including those that wait for foreign events."""
        self._postponed.wait()
        self.drain()

    def renew(self) -> None:
        """Forget the parent's commands in a forked child."""
        self._in_flight.forget()
        self._postponed.forget()

    def _tried_again(self, enqueue: Enqueue, wait_for: list[cl.Event] | None, what: str, error: cl.Error) -> cl.Event:
        """Retry after releasing spare memory if memory ran out: drivers allocate when a command first needs it."""
        if error.code not in OUT_OF_MEMORY:
            raise refused(what, error) from error
        self.release_memory()
        try:
            return enqueue(wait_for)
        except cl.Error as last:
            raise refused(what, last) from last
