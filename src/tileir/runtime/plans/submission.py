"""Run of a plan on an asynchronous device: all commands are submitted at once, ordered by events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileir.core.nodes import attrs
from tileir.runtime.arrays import Array
from tileir.runtime.events import all_ended
from tileir.runtime.interface import BatchingExecutor, BindingKernel, BoundKernel, Buffer as Memory, Event, Executor
from tileir.runtime.plans.workspace import Layout, Operand, Slot, Step, all_of_host, executed, unrolled


@attrs.frozen(eq=False)
class Submission:
    """Submitted work.

    Attributes:
        commands: Events of all copies and launches.
        ends: Events after which all is done on success; an end fails as soon as an event that it waits for fails.
        held: Objects that the device uses meanwhile.
    """

    commands: Sequence[Event]
    ends: Sequence[Event]
    held: object = attrs.field(default=None, repr=False)

    @property
    def duration(self) -> float | None:
        """Seconds that the device was busy; None if not measured."""
        measured = [event.duration for event in self.commands]
        known = [seconds for seconds in measured if seconds is not None]
        return sum(known) if len(known) == len(measured) else None


@attrs.frozen(eq=False, repr=False)
class _Batch:
    """Run as one call of the device: staging memory of each array, and all launches in order."""

    executor: BatchingExecutor
    inputs: Sequence[Memory]
    launches: Sequence[BoundKernel]
    outputs: Sequence[Memory]

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Copy the inputs, launch, and copy the outputs."""
        arriving = list(zip(inputs, self.inputs, strict=True))
        self.executor.run_batch(arriving, self.launches, list(zip(self.outputs, outputs, strict=True)))


@attrs.define(eq=False, repr=False)
class _Chain:
    """Commands of one work, each of which waits for the previous.

    Attributes:
        executor: Executor of the commands.
        memory: All buffers, by number.
        waits: Events that the next command waits for.
        submitted: All commands of the run so far.
    """

    executor: Executor[Any]
    memory: Sequence[Any]
    waits: Sequence[Event]
    submitted: list[Event]

    def add(self, command: Event) -> None:
        """Record a submitted command."""
        self.submitted.append(command)
        self.waits = (command,)

    def holds(self, buffer: int) -> bool:
        """Wait for the commands so far, and return whether the byte in a buffer is not 0."""
        byte = np.empty(1, np.uint8)
        self.add(self.executor.copy(self.memory[buffer], byte, self.waits))
        self.waits[0].wait()
        # A loop may have any number of iterations, so completed commands are dropped.
        self.submitted[:] = [command for command in self.submitted if not command.done] or self.waits
        return bool(byte[0])


@attrs.define(eq=False)
class SubmittingWorkspace:
    """Temporaries, staging memory for arrays that the device cannot use in place, and launches bound to both.

    Attributes:
        nbytes: Size of its memory; at least 1, as only one thread may use it at a time.
    """

    _layout: Layout
    _memory: list[Any]
    nbytes: int
    _staging: dict[int, Any] = attrs.field(factory=dict, init=False)
    _bound: dict[Step, BoundKernel] = attrs.field(factory=dict, init=False)
    _binding: dict[int, bool] = attrs.field(factory=dict, init=False)
    _batch: _Batch | None = attrs.field(default=None, init=False)
    _is_chain: bool = attrs.field(init=False)

    @classmethod
    def of(cls, layout: Layout) -> SubmittingWorkspace:
        """Allocate the temporaries."""
        return cls(layout, layout.memory(), layout.nbytes + 1)

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> None:
        """Submit all launches, and return when the outputs are written."""
        if self._batch is not None and all_of_host(inputs) and all_of_host(outputs):
            self._batch.run(inputs, outputs)
            return
        if not (all_of_host(inputs) and all_of_host(outputs)) and self._run_on_device(inputs, outputs):
            return
        submission = self.submit(inputs, outputs)
        try:
            for event in submission.ends:
                event.wait()
        except BaseException:
            all_ended(submission.commands).wait()  # the device may still use the memory
            raise
        self._batch = self._batch or self._as_batch()

    @_is_chain.default
    def _follows_one_order(self) -> bool:
        """Return whether the device takes all launches as one batch, each following the previous.

        Cached, since testing an object for an optional part takes 20 µs.
        """
        layout = self._layout
        if layout.decides or not isinstance(layout.executor, BatchingExecutor) or not layout.executor.batches:
            return False
        kernels = {id(step.kernel): step.kernel for step in unrolled(layout.steps)}
        if not all(isinstance(kernel, BindingKernel) for kernel in kernels.values()):
            return False
        return all(step.after == ((number - 1,) if number else ()) for number, step in enumerate(layout.steps))

    def _run_on_device(self, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> bool:
        """Run as one batch of the device on its memory; False, with nothing done, if not possible.

        Launches are bound anew each time, as bound launches would keep callers' memory alive.
        """
        if not self._is_chain:
            return False
        executor: Any = self._layout.executor
        memory, in_place = self._memory.copy(), set[int]()
        arriving: list[tuple[Array, Any]] = []
        leaving: list[tuple[Any, Array]] = []
        for slot, operand in zip(self._layout.inputs, inputs, strict=True):
            if not self._enter(slot, operand, memory, in_place):
                if not isinstance(operand, np.ndarray):
                    return False
                arriving.append((operand, memory[slot.number]))
        for slot, operand in zip(self._layout.outputs, outputs, strict=True):
            if not self._enter(slot, operand, memory, in_place):
                if not isinstance(operand, np.ndarray):
                    return False
                leaving.append((memory[slot.number], operand))
        launches: list[BoundKernel] = []
        for step in unrolled(self._layout.steps):
            kernel: Any = step.kernel
            launches.append(self._bound_to(step, kernel, memory, in_place))
        executor.run_batch(arriving, launches, leaving)
        return True

    def _bound_to(self, step: Step, kernel: BindingKernel, memory: Sequence[Any], in_place: set[int]) -> BoundKernel:
        """Return a launch on memory; if it only uses memory of this object, it is bound once for all runs."""
        if not in_place.isdisjoint(step.arguments):
            return kernel.bind([memory[buffer] for buffer in step.arguments])
        if step not in self._bound:
            self._bound[step] = kernel.bind([memory[buffer] for buffer in step.arguments])
        return self._bound[step]

    def _as_batch(self) -> _Batch | None:
        """Return later runs as a batch, if all arrays are copied and the launches form a chain."""
        layout, staging = self._layout, self._staging
        slots = (*layout.inputs, *layout.outputs)
        if not isinstance(layout.executor, BatchingExecutor) or not self._is_chain:
            return None
        bound = [self._bound.get(step) for step in unrolled(layout.steps)]
        launches = [launch for launch in bound if launch is not None]
        copied = all(slot.number in staging and staging[slot.number].nbytes for slot in slots)
        if len(launches) < len(bound) or not copied:
            return None
        inputs, outputs = ([staging[slot.number] for slot in slots] for slots in (layout.inputs, layout.outputs))
        return _Batch(layout.executor, inputs, launches, outputs)

    def submit(self, inputs: Sequence[Operand], outputs: Sequence[Operand], after: Sequence[Event] = ()) -> Submission:
        """Submit all copies and launches; until their end nobody else may use this object."""
        submitted: list[Event] = []
        try:
            ends = self._submit(inputs, outputs, after, submitted)
        except BaseException:
            all_ended(submitted).wait()  # the device may still use the memory
            raise
        return Submission(submitted, ends, (self, inputs, outputs))

    def _submit(
        self, inputs: Sequence[Operand], outputs: Sequence[Operand], after: Sequence[Event], submitted: list[Event]
    ) -> list[Event]:
        executor, memory = self._layout.executor, self._memory.copy()
        arrived: dict[int, Event] = {}
        in_place: set[int] = set()
        for slot, array in zip(self._layout.inputs, inputs, strict=True):
            if self._enter(slot, array, memory, in_place):
                continue
            arrived[slot.number] = executor.copy(array, memory[slot.number], after)
            submitted.append(arrived[slot.number])
        leaving = [
            (slot.number, array)
            for slot, array in zip(self._layout.outputs, outputs, strict=True)
            if not self._enter(slot, array, memory, in_place)
        ]
        launched: list[Event] = []
        for work in self._layout.steps:
            waits = [launched[earlier] for earlier in work.after]
            waits += [arrived[buffer] for buffer in work.reads_first if buffer in arrived]
            waits += [] if work.after else after
            if isinstance(work, Step):
                submitted.append(self._launch(work, memory, in_place, waits))
                launched.append(submitted[-1])
                continue
            chain = _Chain(executor, memory, waits, submitted)
            for step in executed((work,), chain.holds):
                chain.add(self._launch(step, memory, in_place, chain.waits))
            launched.append(chain.waits[0])
        ends: list[Event] = []  # last first: waiting for it mostly includes the others
        for number, array in leaving:
            ends.append(executor.copy(memory[number], array, [launched[step] for step in self._layout.writers[number]]))
            submitted.append(ends[-1])
        ends += [launched[number] for number in self._layout.ends]
        return ends + list(arrived.values())

    def _enter(self, slot: Slot, array: Operand, memory: list[Any], in_place: set[int]) -> bool:
        """Assign device memory to an array of the caller; return whether it is the array's own."""
        placed = self._layout.in_place(slot, array)
        if placed is None:
            memory[slot.number] = self._staged(slot.number, array.nbytes)
            return False
        memory[slot.number] = placed
        in_place.add(slot.number)
        return True

    def _staged(self, number: int, nbytes: int) -> Any:
        if number not in self._staging:
            self._staging[number] = self._layout.executor.allocate(nbytes)
            self.nbytes += nbytes
        return self._staging[number]

    def _launch(self, step: Step, memory: list[Any], in_place: set[int], after: Sequence[Event]) -> Event:
        """Submit one launch, bound once for all runs if it only uses memory of this object."""
        kernel: Any = step.kernel
        if not in_place.isdisjoint(step.arguments) or not self._binds(kernel):
            event: Event = kernel.run([memory[buffer] for buffer in step.arguments], after)
            return event
        return self._bound_to(step, kernel, memory, in_place).run(after)

    def _binds(self, kernel: object) -> bool:
        """Return whether a kernel can be bound; cached."""
        if id(kernel) not in self._binding:
            self._binding[id(kernel)] = isinstance(kernel, BindingKernel)
        return self._binding[id(kernel)]
