"""Runs of a plan that are submitted to a device queue in one call on device memory, without waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import and_
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from tileir.core.nodes import attrs
from tileir.runtime.events import Failure, PendingEvent, all_ended, failure_of
from tileir.runtime.interface import Event
from tileir.runtime.offers import ArrayQueue, BatchedQueue, Queue, QueueingExecutor, RecordingExecutor, takes_loops
from tileir.runtime.plans.resources import Spare
from tileir.runtime.plans.submission import Submission
from tileir.runtime.plans.workspace import Layout, Step, all_of_host, bound, unrolled

if TYPE_CHECKING:
    from tileir.runtime.arrays import Array
    from tileir.runtime.devices.exchange import Format
    from tileir.runtime.devices.home import DeviceMemory
    from tileir.runtime.offers import KnownEvent
    from tileir.runtime.plans.resources import Resources
    from tileir.runtime.plans.workspace import Operand


@attrs.define(eq=False)
class RunningEvent(PendingEvent):
    """Completion of a run whose commands are all in a device queue.

    It polls the device's events on demand, so that no host thread wakes up for each run and takes the interpreter's
    lock from the thread that submits the next run. Only ``then`` uses a waiting thread.
    """

    _left: list[tuple[Submission, Callable[[], None]]] = attrs.field(factory=list, repr=False)
    _is_watched: bool = attrs.field(default=False, init=False, repr=False)

    @classmethod
    def of(cls, submission: Submission, keep: Callable[[], None]) -> Self:
        """Return the completion of a submission; ``keep`` is called once if it succeeds."""
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
        """Seconds that the device was busy; None before completion or if not measured."""
        return self._duration if self.done else None

    @property
    def failure(self) -> Failure | None:
        """Failure of the run; None before the end and after success."""
        return self._failure if self.done else None

    def wait(self) -> None:
        """Block until it completes; raise the original error if it, or an event that it waited for, failed."""
        if not self._done:
            for end in self.ends:
                with suppress(Exception):  # waited for again below; an interrupt is not a failure of the run
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
        """Call ``callback`` once its completion or failure is known."""
        super().then(callback)

    def _settle(self) -> None:
        """Take over the result of the device events, which have all ended; concurrent calls have one effect."""
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


MOST_LAUNCHES: Final = 4096
"""Longer programs, counted with unrolled loops, are submitted in pieces if the queue takes no loops."""


@attrs.frozen(eq=False)
class QueuedOperand:
    """Requirements on the array of one argument.

    Attributes:
        dtype: Element type.
        shape: Extents.
        nbytes: Size in bytes.
        mask: Bits of its address that must be 0.
        format: These requirements for DLPack's exchange functions.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    nbytes: int
    mask: int
    format: Format


@attrs.define(eq=False)
class _QueuedWorkspace:
    """Temporaries, and launches bound to them; consecutive runs in the queue may share it.

    Attributes:
        nbytes: Size of its memory.
        queue: Queue of the bound launches.
        bound: Returns the launches as one launch of a batch; None if unsupported.
        call: The launches as a function of arrays; None if unsupported or not requested yet.
        held: Results of runs captured in graphs of others; if there are any, it lives as long as its plan.
    """

    nbytes: int
    queue: Queue
    bound: Callable[[Sequence[int]], object] | None
    call: Callable[..., Any] | None = None
    held: list[object] = attrs.field(factory=list)

    @classmethod
    def of(cls, layout: Layout, executor: QueueingExecutor) -> Self:
        """Allocate the temporaries; the arrays of a run are its inputs, then its outputs."""
        arguments = layout.memory()
        slots = (*layout.inputs, *layout.outputs)
        for position, slot in enumerate(slots):
            arguments[slot.number] = position
        steps = layout.steps if takes_loops(executor) else unrolled(layout.steps)
        works: list[Any] = [bound(step, arguments) for step in steps]
        queue = executor.queue(works, len(slots))
        return cls(layout.nbytes, queue, queue.bound if isinstance(queue, BatchedQueue) else None)


@attrs.frozen(eq=False)
class QueuedRuns:
    """Runs of one plan through the queue of its device. Several threads may launch at a time.

    Attributes:
        executor: Owner of the queue and the memory.
        alignments: Required alignment of the address of each input, then of each output.
    """

    executor: Any
    alignments: tuple[int, ...]
    _layout: Layout = attrs.field(repr=False)
    _resources: Resources = attrs.field(repr=False)
    _loops: bool = attrs.field(init=False, repr=False)
    _records: bool = attrs.field(init=False, repr=False)
    _masks: tuple[int, ...] = attrs.field(init=False, repr=False)
    _spare: Spare[_QueuedWorkspace] = attrs.field(factory=Spare, init=False, repr=False)
    _only: list[_QueuedWorkspace] = attrs.field(factory=list, init=False, repr=False)

    @_loops.default
    def _has_loops(self) -> bool:
        return any(not isinstance(step, Step) for step in self._layout.steps)

    @_records.default
    def _knows_who_records(self) -> bool:
        return isinstance(self.executor, RecordingExecutor)

    @_masks.default
    def _bits_that_are_0(self) -> tuple[int, ...]:
        return tuple(alignment - 1 for alignment in self.alignments)

    @classmethod
    def of(cls, layout: Layout, resources: Resources) -> QueuedRuns | None:
        """Return the runs of a plan; None if the device has no queue, or the plan has conditions."""
        executor: Any = layout.executor
        if layout.decides or not isinstance(executor, QueueingExecutor) or not executor.queues:
            return None
        launches = () if takes_loops(executor) else islice(unrolled(layout.steps), MOST_LAUNCHES + 1)
        if sum(1 for _ in launches) > MOST_LAUNCHES:
            return None
        return cls(executor, tuple(slot.alignment for slot in (*layout.inputs, *layout.outputs)), layout, resources)

    def array_call(self, operands: Sequence[QueuedOperand], read: int, home: DeviceMemory) -> Callable[..., Any] | None:
        """Return runs as a function of arrays, like :class:`tileir.runtime.offers.ArrayQueue`; None if unsupported."""
        spare, resources = self._spare, self._resources

        def ready(workspace: _QueuedWorkspace) -> Callable[..., Any] | None:
            queue = workspace.queue
            call = queue.array_call(operands, read, home) if isinstance(queue, ArrayQueue) else None
            workspace.call = call
            return call

        def called(workspace: _QueuedWorkspace, arrays: Sequence[Any]) -> Any:
            run = workspace.call or ready(workspace)
            found = None if run is None else run(*arrays)
            if found is not None:
                self._hold(workspace, found if len(arrays) == read else ())
            return found

        if not self._layout.nbytes:
            only = self._without_temporaries()
            run = ready(only)
            return run if run is None or not self._records else lambda *arrays: called(only, arrays)
        first = self._workspace()
        if ready(first) is None:
            return None
        resources.keep(first, spare)

        def call(*arrays: Any) -> Any:
            workspace = resources.borrow(spare)
            if workspace is None:
                workspace = self._workspace()
            try:
                return called(workspace, arrays)
            finally:
                if workspace.held:
                    resources.forget(workspace)
                    spare.append(workspace)
                else:
                    resources.give_back(workspace, spare)

        return call

    def launch(self, addresses: Sequence[int], stream: int | None = None, results: Sequence[Any] = ()) -> KnownEvent:
        """Submit a run.

        Args:
            addresses: Aligned addresses of the inputs and then the outputs.
            stream: Stream of another library that uses some of this memory; None for no stream.
            results: Fresh arrays among the outputs, which stay alive if another library's graph captures the run.
        """
        workspace = self._taken()
        event = workspace.queue.launch(addresses, stream)
        if results or self._layout.nbytes:
            self._hold(workspace, results)
        self._give_back(workspace)
        return event

    def run_at(self, addresses: Sequence[int], stream: int) -> bool:
        """Submit a run; False, with nothing done, if an address is not aligned, or an array has no memory."""
        if not all(addresses) or any(map(and_, addresses, self._masks)):
            return False
        self.launch(addresses, stream)
        return True

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> bool:
        """Run like :meth:`tileir.runtime.plans.plan.Plan.run`, as one batch of the device.

        False, with nothing done, if batches are not supported, if some memory cannot be used in place, and for host
        arrays without a loop, for which other workspaces bind launches once.
        """
        memory: list[Any] = []
        if not self._loops and all_of_host(inputs) and all_of_host(outputs):
            return False
        arriving, leaving = self._moved(inputs, outputs, memory)
        workspace = self._taken()
        if len(memory) < len(inputs) + len(outputs) or workspace.bound is None:
            self._give_back(workspace)
            return False
        launches = [workspace.bound([buffer.address for buffer in memory])]
        self.executor.run_batch(arriving, launches, leaving)
        self._give_back(workspace)  # not reused after a failure, as the device may still be busy with it
        return True

    def submit(
        self, inputs: Sequence[Operand], outputs: Sequence[Operand], after: Sequence[Event]
    ) -> RunningEvent | None:
        """Submit a run without waiting, after events that the queue follows; None, with nothing done, for others."""
        executor, memory = self.executor, list[Any]()
        if not all(executor.follows(event) or (event.done and failure_of(event) is None) for event in after):
            return None
        arriving, leaving = self._moved(inputs, outputs, memory)
        if len(memory) < len(inputs) + len(outputs):
            return None
        commands: list[Event] = []
        try:
            commands += [executor.copy(array, buffer) for array, buffer in arriving]
            commands.append(self.launch([buffer.address for buffer in memory]))
            commands += [executor.copy(buffer, array) for buffer, array in leaving]
        except BaseException:
            all_ended(commands).wait()  # the device may still use the memory
            raise
        ends = [*reversed(commands[len(arriving) :])]  # waiting for the last includes all others
        return RunningEvent.of(Submission(commands, ends, (memory, inputs, outputs)), _nothing)

    def _moved(
        self, inputs: Sequence[Operand], outputs: Sequence[Operand], memory: list[Any]
    ) -> tuple[list[tuple[Array, Any]], list[tuple[Any, Array]]]:
        """Return the copies in and out, and append the device memory of all operands; fewer if some have none."""
        arriving: list[tuple[Array, Any]] = []
        leaving: list[tuple[Any, Array]] = []
        layout = self._layout
        for number, (slot, operand) in enumerate(
            zip((*layout.inputs, *layout.outputs), (*inputs, *outputs), strict=True)
        ):
            placed: Any = layout.in_place(slot, operand)
            if placed is None and isinstance(operand, np.ndarray):
                placed = self.executor.allocate(operand.nbytes)
                if number < len(inputs):
                    arriving.append((operand, placed))
                else:
                    leaving.append((placed, operand))
            if placed is not None:
                memory.append(placed)
        return arriving, leaving

    def _taken(self) -> _QueuedWorkspace:
        if not self._layout.nbytes:
            return self._without_temporaries()
        return self._resources.take(self._spare) or self._workspace()

    def _hold(self, workspace: _QueuedWorkspace, results: object) -> None:
        """Keep a workspace, and results of its run, if another library's graph captures the run."""
        if self._records and self.executor.captures():
            workspace.held.append(results)

    def _give_back(self, workspace: _QueuedWorkspace) -> None:
        if workspace.held:
            self._spare.append(workspace)
        elif self._layout.nbytes:
            self._resources.keep(workspace, self._spare)

    def _workspace(self) -> _QueuedWorkspace:
        self._resources.make_room(self._layout.nbytes)
        return _QueuedWorkspace.of(self._layout, self.executor)

    def _without_temporaries(self) -> _QueuedWorkspace:
        """Return the only workspace, which all runs may share at a time."""
        if not self._only:
            self._only.append(self._workspace())
        return self._only[0]


def _nothing() -> None:
    """Keep nothing for the next run: later work in the queue may reuse its memory."""
