"""The queue of one device: commands go in with what they wait for, and come out as events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, cast

import attrs
import pyopencl as cl

from tileir.core.process.forking import Renewable
from tileir.runtime.postponed import Postponed, failed
from tileir_opencl.run.events import InFlight, OpenCLEvent, sorted_out
from tileir_opencl.run.faults import OUT_OF_MEMORY, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.runtime.interface import Event

    Enqueue: TypeAlias = Callable[[list[cl.Event] | None], cl.Event]

_OUT_OF_ORDER: Final = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
_PROFILING: Final = cl.command_queue_properties.PROFILING_ENABLE

BATCH: Final = 32
"""How many commands are put into a queue at most before the device is told to begin."""


@attrs.define(eq=False)
class Commands(Renewable):
    """Commands of one device. Thread safe.

    The queue is out of order where the driver can do that. A command never enters it before all events of others
    that it waits for have completed, so no command can block another that does not wait for it, whatever the driver
    does.

    Attributes:
        context: Where the queue belongs.
        native: The driver's queue.
        release_memory: Gives spare memory back to the device.

    """

    context: cl.Context
    native: cl.CommandQueue
    release_memory: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    _in_flight: InFlight = attrs.field(factory=InFlight, init=False)
    _entering: dict[object, object] = attrs.field(factory=dict, init=False)
    _unflushed: int = attrs.field(default=0, init=False)
    _postponed: Postponed = attrs.field(factory=Postponed, init=False)

    @classmethod
    def of(cls, context: cl.Context, device: cl.Device, *, profile: bool = False) -> Commands:
        """Make a queue that is out of order, and measures where that is wanted, if the device offers it.

        To measure is not free: on an H200 a call with two inputs took 51 µs instead of 30.
        """
        wanted = device.queue_properties & (_OUT_OF_ORDER | _PROFILING if profile else _OUT_OF_ORDER)
        return cls(context, cl.CommandQueue(context, device, cast("cl.command_queue_properties", wanted)))

    def submit(
        self, enqueue: Enqueue, held: object, after: Sequence[Event], what: str, *, reads_at_once: bool = False
    ) -> Event:
        """Put a command into the queue, now or when all of ``after`` that the driver does not know have completed.

        Args:
            enqueue: Calls the driver, with the driver's events to wait for.
            held: What must stay alive until the command has completed.
            after: What it waits for; if one fails, it fails with the same error.
            what: What to call it in messages.
            reads_at_once: Whether the driver may read an array as soon as the command enters the queue, whatever it
                waits for; then it enters last.

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
        self._entering[entering] = held  # for ever, where an interrupt follows the driver's call at once
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
        """Have the device begin with all commands; drivers may wait for this, or for somebody who waits."""
        if self._unflushed:
            self._unflushed = 0
            self.native.flush()

    def collect(self) -> None:
        """Let go of the memory of completed commands."""
        self._in_flight.collect()

    def drain(self) -> None:
        """Wait for all commands that are in the queue, and let go of their memory."""
        self.native.finish()
        self._in_flight.collect()

    def finish(self) -> None:
        """Wait for all commands, also for those that wait for events of others."""
        self._postponed.wait()
        self.drain()

    def renew(self) -> None:
        """Forget the parent's commands in a forked child."""
        self._in_flight.forget()
        self._postponed.forget()

    def _tried_again(self, enqueue: Enqueue, wait_for: list[cl.Event] | None, what: str, error: cl.Error) -> cl.Event:
        """Give spare memory back where there was not enough: drivers look for it when a command first needs it."""
        if error.code not in OUT_OF_MEMORY:
            raise refused(what, error) from error
        self.release_memory()
        try:
            return enqueue(wait_for)
        except cl.Error as last:
            raise refused(what, last) from last
