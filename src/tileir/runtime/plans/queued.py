"""Runs of a plan that are handed over to the queue of a device in one call, on memory of it; nobody waits for them."""

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
    from tileir.runtime.devices.home import Home
    from tileir.runtime.offers import KnownEvent
    from tileir.runtime.plans.resources import Resources
    from tileir.runtime.plans.workspace import Operand


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


MOST_LAUNCHES: Final = 4096
"""Programs of more launches, loops unrolled, are handed over in pieces where the queue takes no loops."""


@attrs.frozen(eq=False)
class QueuedOperand:
    """Requirements on the array of one argument.

    Attributes:
        dtype: Its elements.
        shape: Its extents.
        nbytes: How many bytes that is.
        mask: The bits of its address that must be 0.
        format: The same, as other libraries tell it.

    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    nbytes: int
    mask: int
    format: Format


@attrs.define(eq=False)
class _QueuedWorkspace:
    """Temporaries, and launches bound to them; runs that follow each other in the queue may share it.

    Attributes:
        nbytes: How much memory it holds.
        queue: What launches.
        bound: What makes one launch of a batch of it; None where it takes part in none.
        call: The same as a function of arrays; None where there is none, or nobody asked so far.
        held: Results of runs that a graph of others has; where there are some, it stays as long as its plan.

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
        executor: What has the queue, and allocates.
        alignments: For each input and then each output, what its address is a multiple of.

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
        """Return the runs of a plan; None where the device has no queue, or something is decided on the way."""
        executor: Any = layout.executor
        if layout.decides or not isinstance(executor, QueueingExecutor) or not executor.queues:
            return None
        launches = () if takes_loops(executor) else islice(unrolled(layout.steps), MOST_LAUNCHES + 1)
        if sum(1 for _ in launches) > MOST_LAUNCHES:
            return None
        return cls(executor, tuple(slot.alignment for slot in (*layout.inputs, *layout.outputs)), layout, resources)

    def array_call(self, operands: Sequence[QueuedOperand], read: int, home: Home) -> Callable[..., Any] | None:
        """Return runs as a function of arrays, as :class:`tileir.runtime.offers.ArrayQueue` says; None without one."""
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
        """Hand a run over.

        Args:
            addresses: Where the inputs and then the outputs are; they are aligned.
            stream: One of others in which some of this memory is used; None for none.
            results: Fresh arrays among the outputs, which stay where a graph of others has the run.

        """
        workspace = self._taken()
        event = workspace.queue.launch(addresses, stream)
        if results or self._layout.nbytes:
            self._hold(workspace, results)
        self._give_back(workspace)
        return event

    def run_at(self, addresses: Sequence[int], stream: int) -> bool:
        """Do the same; False, with nothing done, where an address is not aligned, or an array has no memory."""
        if not all(addresses) or any(map(and_, addresses, self._masks)):
            return False
        self.launch(addresses, stream)
        return True

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> bool:
        """Do what :meth:`tileir.runtime.plans.plan.Plan.run` does, as one batch of the device.

        False, with nothing done, where it takes none, or some memory cannot be used as it is, and for arrays of the
        host without a loop, as workspaces bind such launches once.
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
        self._give_back(workspace)  # what fails is not used again, as the device may not be done with it
        return True

    def submit(
        self, inputs: Sequence[Operand], outputs: Sequence[Operand], after: Sequence[Event]
    ) -> RunningEvent | None:
        """Do the same without waiting, behind events that the queue follows; None, with nothing done, for others."""
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
        ends = [*reversed(commands[len(arriving) :])]  # whoever waits for the last has waited for the others
        return RunningEvent.of(Submission(commands, ends, (memory, inputs, outputs)), _nothing)

    def _moved(
        self, inputs: Sequence[Operand], outputs: Sequence[Operand], memory: list[Any]
    ) -> tuple[list[tuple[Array, Any]], list[tuple[Any, Array]]]:
        """Return what has to be copied in and out, and add memory of the device for all; less where some has none."""
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
        """Keep a workspace, and results of a run of it, where a graph of others has that run."""
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
        """Return the only one, which all runs may share at a time."""
        if not self._only:
            self._only.append(self._workspace())
        return self._only[0]


def _nothing() -> None:
    """Keep nothing for the next run: memory that is used in a queue is free for what comes later in it."""
