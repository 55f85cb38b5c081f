"""Executable program of kernels on one device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, TypeGuard, assert_never

import numpy as np

from tileir.core.nodes import attrs
from tileir.runtime.arrays import Array, Format, fit_as_they_are, formats_of
from tileir.runtime.events import Failure, PendingEvent, all_ended, ends_of
from tileir.runtime.interface import Condition, Event, Kernel, Library, PartingExecutor, SequencingExecutor
from tileir.runtime.offers import decides
from tileir.runtime.plans.dependencies import GRAPH_LAUNCHES, ancestors, chain, dependencies, merged_accesses
from tileir.runtime.plans.placement import Placement, place
from tileir.runtime.plans.preparation import KeptBy, Preparation, memory_of_constant
from tileir.runtime.plans.queued import QueuedRuns, RunningEvent
from tileir.runtime.plans.resources import Resources, Spare
from tileir.runtime.plans.submission import Submission, SubmittingWorkspace
from tileir.runtime.plans.workspace import (
    AnyStep,
    BranchStep,
    ClosableWorkspace,
    Layout,
    LoopStep,
    Operand,
    SequencedWorkspace,
    Slot,
    Step,
    SteppingWorkspace,
    Workspace,
)
from tileir.runtime.results import ROOMS
from tileir.semtree.analysis.constant_works import constant_works, without_constant_works
from tileir.semtree.ir import Branch, Buffer, BufferRole, Launch, Loop, ParamAccess, Program, Work
from tileir.semtree.launches import has_conditions, launches, used_buffers


def loops_together(program: Program) -> Program:
    """Move counted loops next to later independent loops; return ``program`` itself if there are none.

    A work between two such loops moves behind both if it follows one of them, otherwise before both.
    """
    works = program.works
    if not _has_several(program):
        return program
    before = ancestors(dependencies(program))
    order: list[int] = []
    rest = list(range(len(works)))
    while rest:
        group = rest[:1]
        if _is_counted(works[rest[0]]):
            for number in rest[1:]:
                if _is_counted(works[number]) and not any(before[number] >> other & 1 for other in group):
                    group.append(number)
        ahead = [n for n in rest if n < group[-1] and not any(n == other or before[n] >> other & 1 for other in group)]
        order += [*ahead, *group]
        done = {*ahead, *group}
        rest = [number for number in rest if number not in done]
    if order == list(range(len(works))):
        return program
    return attrs.evolve(program, works=tuple(works[number] for number in order))


def in_turns(program: Program) -> tuple[tuple[int, ...], ...]:
    """Return the predecessors of each work for sequential order, with neighbouring independent loops in parallel."""
    if not _has_several(program):
        return chain(len(program.works))
    needed = dependencies(program)
    found: list[tuple[int, ...]] = []
    last: tuple[int, ...] = ()
    turn: tuple[int, ...] = ()
    for number, work in enumerate(program.works):
        joins = turn and _is_counted(work) and _is_counted(program.works[turn[0]])
        if joins and not any(other in turn for other in needed[number]):
            turn = (*turn, number)
        else:
            last, turn = turn, (number,)
        found.append(last)
    return tuple(found)


def _has_several(program: Program) -> bool:
    return sum(map(_is_counted, program.works)) > 1 and len(program.works) <= GRAPH_LAUNCHES


def _is_counted(work: Work) -> bool:
    return isinstance(work, Loop) and isinstance(work.times, int)


SHORT_OPERATIONS: Final = 100_000
"""Estimated operations up to which a submitted program runs in the calling thread, faster than waking another."""


@attrs.frozen
class MemoryUse:
    """Bytes of memory of a call.

    Attributes:
        inputs: Arrays that it reads.
        outputs: Arrays that it writes.
        constants: Constants and values computed from them, which the executable keeps between calls.
        temporaries: Total size of the temporaries, without sharing.
        peak: Memory of the temporaries, with sharing.
    """

    inputs: int
    outputs: int
    constants: int
    temporaries: int
    peak: int


@attrs.frozen(eq=False)
class Plan:
    """Launches with their memory. Several threads may run one plan at a time: each gets separate temporaries.

    Works that only depend on constants run once, in the first run, and their results are kept.

    Attributes:
        program: The program.
        running: The part of it that each run executes.
        inputs: Inputs, in the order of the arguments of :meth:`run`.
        outputs: Outputs, in the order of the arguments of :meth:`run`.
        after: Predecessors of each launch, if launches may overlap.
        placement: Place of each temporary.
        input_formats: Dtype and shape of each input.
        output_formats: Dtype and shape of each output.
        queued: Runs through the device queue; None if it has none.
    """

    program: Program
    running: Program
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    after: tuple[tuple[int, ...], ...] = attrs.field(repr=False)
    placement: Placement = attrs.field(repr=False)
    resources: Resources = attrs.field(repr=False)
    _layout: Layout = attrs.field(repr=False)
    input_formats: tuple[Format, ...] = attrs.field(init=False, repr=False)
    output_formats: tuple[Format, ...] = attrs.field(init=False, repr=False)
    queued: QueuedRuns | None = attrs.field(init=False, repr=False)
    _is_short: bool = attrs.field(init=False, repr=False)
    _spare: Spare[Workspace] = attrs.field(factory=Spare, init=False, repr=False)
    _shared: list[Workspace] = attrs.field(factory=list, init=False, repr=False)

    @input_formats.default
    def _formats_of_inputs(self) -> tuple[Format, ...]:
        return formats_of(self.inputs)

    @output_formats.default
    def _formats_of_outputs(self) -> tuple[Format, ...]:
        return formats_of(self.outputs)

    @queued.default
    def _runs_by_queue(self) -> QueuedRuns | None:
        return QueuedRuns.of(self._layout, self.resources)

    @_is_short.default
    def _takes_little_time(self) -> bool:
        program = self.running
        if not all(isinstance(work, Launch) for work in program.works):
            return False
        costs = [program.kernels[launch.kernel].operations for launch in launches(program.works)]
        return all(costs) and sum(costs) <= SHORT_OPERATIONS

    @classmethod
    def of(
        cls,
        program: Program,
        library: Library,
        resources: Resources,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        kept_by: KeptBy | None = None,
    ) -> Plan:
        """Prepare the kernels of ``program``, which ``library`` holds in program order.

        Args:
            program: The program.
            library: Its kernels.
            resources: Executor and shared memory.
            inputs: Names of inputs in errors; by default their names in the program.
            outputs: Names of outputs in errors; by default their names in the program.
            kept_by: Finds the cache entry for results that only depend on constants.

        Raises:
            BackendError: The device cannot load the kernels.
        """
        once = constant_works(program)
        running = without_constant_works(program, once) if once else program
        concurrent = resources.asynchronous and resources.parts and len(running.works) <= GRAPH_LAUNCHES
        in_order = chain(len(running.works))
        after = dependencies(running) if concurrent else in_order
        if resources.parts and not concurrent:
            running = loops_together(running)
            after = in_turns(running)
        overlapping = None if after == in_order else after
        alignment = _part_alignment(running, resources)
        placement = place(running, overlapping, parts=resources.parts, alignment=alignment)
        first = tuple(work for number, work in enumerate(program.works) if number in once)
        return cls(
            program,
            running,
            _called(_with_role(program, BufferRole.INPUT), inputs),
            _called(_with_role(program, BufferRole.OUTPUT), outputs),
            after,
            placement,
            resources,
            _layout(program, running, first, library, resources, after, placement, kept_by),
        )

    @property
    def temporary_bytes(self) -> int:
        """Total size of its temporaries in bytes, without sharing."""
        return self.placement.temporary_bytes

    @property
    def peak_bytes(self) -> int:
        """Bytes of memory for its temporaries."""
        return self.placement.peak_bytes

    @property
    def memory(self) -> MemoryUse:
        """Memory of one run."""
        constants = _nbytes(_with_role(self.running, BufferRole.CONSTANT))
        return MemoryUse(_nbytes(self.inputs), _nbytes(self.outputs), constants, self.temporary_bytes, self.peak_bytes)

    def accepts(self, values: Sequence[object]) -> TypeGuard[Sequence[Array]]:
        """Return whether :meth:`run` takes these arrays as they are."""
        return fit_as_they_are(values, self.input_formats)

    def fills(self, out: object, inputs: Sequence[Array]) -> bool:
        """Return whether :meth:`run` can write its only output to this array, beside these inputs."""
        if not fit_as_they_are((out,), self.output_formats):
            return False
        array: Any = out
        return array.flags.carray and not any(map(np.may_share_memory, repeat(array), inputs))

    def run_as_they_are(self, inputs: Sequence[object], outputs: Sequence[object]) -> bool | None:
        """Run like :meth:`run` if the arrays fit, checked without Python; return whether they did.

        None, with nothing done, before the first run, for a wrong number of inputs, which could be taken for outputs,
        and if checks or launches need Python.
        """
        resources, shared = self.resources, self._shared
        if resources.closed or resources.asynchronous or len(inputs) != len(self.inputs):
            return None
        workspace = shared[0] if shared else resources.borrow(self._spare)
        if workspace is None:
            return None
        function = workspace.array_call if isinstance(workspace, SequencedWorkspace) else None
        done = None if function is None else function(*inputs, *outputs)
        if not shared:
            resources.give_back(workspace, self._spare)
        return None if done is None else bool(done)

    def run_at(self, addresses: list[int], stream: int | None) -> bool:
        """Run on memory at addresses, inputs before outputs, on the host or used by others in a device stream.

        False, with nothing done, if the device does not take addresses, or an address is not aligned as a kernel
        requires.
        """
        if stream is not None:
            return self.queued is not None and self.queued.run_at(addresses, stream)
        if self.queued is not None or self.resources.asynchronous:
            return False
        workspace = self._shared[0] if self._shared else self._take()
        done = isinstance(workspace, SequencedWorkspace) and workspace.run_at(addresses)
        if not self._shared:
            self._keep(workspace)
        return done

    def fresh_outputs(self) -> list[Array]:
        """Return arrays for the outputs, with undefined content."""
        return [ROOMS.empty(shape, dtype) for dtype, shape in self.output_formats]

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> None:
        """Run all launches, and return when the outputs are written.

        Args:
            inputs: Contiguous arrays with the inputs' dtypes and shapes, or sufficiently large buffers of the device.
            outputs: Arrays or buffers for the outputs; none shares memory with another array.
        """
        if self.queued is not None and self.queued.run(inputs, outputs):
            return
        if self._shared:
            self._shared[0].run(inputs, outputs)
            return
        workspace = self._take()
        workspace.run(inputs, outputs)  # not reused after a failure, as the device may still be busy with it
        self._keep(workspace)

    def submit(
        self, inputs: Sequence[Operand], outputs: Sequence[Operand], after: Sequence[Event] = ()
    ) -> PendingEvent:
        """Run all launches once all of ``after`` have completed, and return their completion event.

        The arrays are those of :meth:`run`; the inputs must not change before the end. A thread tests conditions
        between launches, and the event fails with TIL807 if the context is closed before the end. Work that takes less
        time than waking a thread is done at once.
        """
        resources = self.resources
        if self._layout.decides:
            run = partial(resources.run_stoppable, partial(self.run, inputs, outputs))
            return resources.scheduler.submit(run, after)
        if not resources.asynchronous:
            if self._is_short and all(event.done for event in after):
                return _run_now(partial(self.run, inputs, outputs), after)
            return resources.scheduler.submit(partial(self.run, inputs, outputs), after)
        ends = [end for event in after for end in ends_of(event)]
        if self.queued is not None and (queued := self.queued.submit(inputs, outputs, ends)) is not None:
            return queued
        workspace = self._take()
        assert isinstance(workspace, SubmittingWorkspace)
        submission = workspace.submit(inputs, outputs, ends)
        if resources.streams and not any(isinstance(end, PendingEvent) for end in submission.ends):
            return RunningEvent.of(submission, partial(self._keep, workspace))
        ended = resources.scheduler.submit(partial(self._keep, workspace), submission.ends)
        event = PendingEvent()
        event.ends = submission.ends

        def tell() -> None:
            if ended.failure is None:
                event.complete(submission.duration)
            else:  # an end fails as soon as an event that it waits for fails: others may still run
                all_ended(submission.commands).then(partial(_fail, event, ended.failure, submission))

        ended.then(tell)
        return event

    @property
    def ends_at_once(self) -> bool:
        """True if a call takes less time than handing it to a thread, so that submitting it may run it."""
        return self._is_short and not self._layout.decides

    def _keep(self, workspace: Workspace) -> None:
        if self.peak_bytes or self.resources.asynchronous:
            self.resources.keep(workspace, self._spare)
        elif not self._shared:
            self._shared.append(workspace)

    def _take(self) -> Workspace:
        found = self.resources.take(self._spare) if self._spare else None
        if found is not None:
            return found
        self.resources.make_room(self.peak_bytes)
        made = self._fresh()
        return ClosableWorkspace(made, lambda: self.resources.closed) if self._layout.decides else made

    def _fresh(self) -> Workspace:
        """Return a workspace with new temporaries."""
        if self.resources.asynchronous:
            return SubmittingWorkspace.of(self._layout)
        executor = self._layout.executor
        in_one_call = not self._layout.decides or decides(executor)
        if in_one_call and isinstance(executor, SequencingExecutor):
            return SequencedWorkspace.of(self._layout, executor, (*self.input_formats, *self.output_formats))
        return SteppingWorkspace.of(self._layout)


def _run_now(work: Callable[[], None], after: Sequence[Event]) -> PendingEvent:
    event = PendingEvent()
    start = time.perf_counter()
    try:
        for before in after:
            before.wait()
        work()
    except Exception as error:  # the error belongs to the waiters of the event
        event.fail(error)
    else:
        event.complete(time.perf_counter() - start)
    return event


def _fail(event: PendingEvent, failure: Failure, _held: Submission) -> None:
    event.fail(failure)


def _layout(
    whole: Program,
    program: Program,
    first: tuple[Work, ...],
    library: Library,
    resources: Resources,
    after: tuple[tuple[int, ...], ...],
    placement: Placement,
    kept_by: KeptBy | None,
) -> Layout:
    """Return the layout of a program without its first works, which only depend on constants."""
    executor = resources.executor
    numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
    kernels = [executor.prepare(library, index) for index in range(len(program.kernels))]
    reads = _first_reads(program, after)
    steps = tuple(
        _step(work, kernels, numbers, after[number], tuple(numbers[name] for name in reads[number]))
        for number, work in enumerate(program.works)
    )
    known = {buffer.name for buffer in _with_role(whole, BufferRole.CONSTANT)}
    alignments = _alignments(program)
    slots = {name: Slot(number, alignments.get(name, 1)) for name, number in numbers.items()}
    followed = {earlier for direct in after for earlier in direct}
    constants = _with_role(program, BufferRole.CONSTANT)
    wanted = {buffer.name: numbers[buffer.name] for buffer in constants if buffer.name not in known}
    prepared = Preparation.of(executor, whole, first, lambda work, own: _step(work, kernels, own), wanted, kept_by)
    return Layout(
        executor,
        steps,
        has_conditions(program.works),
        tuple(slots[buffer.name] for buffer in _with_role(program, BufferRole.INPUT)),
        tuple(slots[buffer.name] for buffer in _with_role(program, BufferRole.OUTPUT)),
        len(program.buffers),
        {numbers[buffer.name]: memory_of_constant(executor, buffer) for buffer in constants if buffer.name in known},
        prepared if first else None,
        placement.sizes,
        {numbers[name]: found for name, found in placement.places.items()},
        tuple(number for number in range(len(steps)) if number not in followed),
        {numbers[name]: writers for name, writers in _writers(program).items()},
    )


def _step(
    work: Work,
    kernels: Sequence[Kernel],
    numbers: Mapping[str, int],
    after: tuple[int, ...] = (),
    reads_first: tuple[int, ...] = (),
) -> AnyStep:
    def steps(works: tuple[Work, ...]) -> tuple[AnyStep, ...]:
        return tuple(_step(inner, kernels, numbers) for inner in works)

    match work:
        case Launch(kernel=kernel, arguments=arguments):
            return Step(kernels[kernel], tuple(numbers[name] for name in arguments), after, reads_first)
        case Loop(times=times, works=works):
            turns = times if isinstance(times, int) else Condition(numbers[times.buffer])
            return LoopStep(turns, steps(works), after, reads_first)
        case Branch(condition=condition, then=then, otherwise=otherwise):
            return BranchStep(Condition(numbers[condition]), steps(then), steps(otherwise), after, reads_first)
        case _:
            assert_never(work)


def _part_alignment(program: Program, resources: Resources) -> int:
    """Return the alignment of temporaries that the kernels or the device require."""
    asked = max((param.alignment for kernel in program.kernels for param in kernel.params), default=1)
    executor = resources.executor
    return max(asked, executor.part_alignment) if isinstance(executor, PartingExecutor) else asked


def _nbytes(buffers: Sequence[Buffer]) -> int:
    return sum(buffer.elements * buffer.dtype.itemsize for buffer in buffers)


def _called(buffers: tuple[Buffer, ...], names: Sequence[str]) -> tuple[Buffer, ...]:
    if len(names) != len(buffers) or all(buffer.name == name for buffer, name in zip(buffers, names, strict=True)):
        return buffers
    return tuple(attrs.evolve(buffer, name=name) for buffer, name in zip(buffers, names, strict=True))


def _with_role(program: Program, role: BufferRole) -> tuple[Buffer, ...]:
    return tuple(buffer for buffer in program.buffers if buffer.role is role)


def _first_reads(program: Program, after: tuple[tuple[int, ...], ...]) -> list[list[str]]:
    """Return the inputs that each launch reads, except those that a predecessor reads."""
    inputs = {buffer.name for buffer in _with_role(program, BufferRole.INPUT)}
    result: list[list[str]] = []
    readers: dict[str, int] = {}
    in_order = len(program.works) > GRAPH_LAUNCHES
    before = () if in_order else ancestors(after)
    for number, work in enumerate(program.works):
        used = dict.fromkeys(used_buffers((work,)))
        names = [name for name in used if name in inputs]
        result.append([name for name in names if not readers.get(name, 0) & (-1 if in_order else before[number])])
        for name in names:
            readers[name] = readers.get(name, 0) | (1 if in_order else 1 << number)
    return result


def _writers(program: Program) -> Mapping[str, tuple[int, ...]]:
    """Return the launches that write each output."""
    writers: dict[str, list[int]] = {buffer.name: [] for buffer in _with_role(program, BufferRole.OUTPUT)}
    for number, work in enumerate(program.works):
        for name, access in merged_accesses(program, work).items():
            if access is not ParamAccess.READ and name in writers:
                writers[name].append(number)
    return {name: tuple(numbers) for name, numbers in writers.items()}


def _alignments(program: Program) -> Mapping[str, int]:
    """Return alignments of inputs and outputs beyond those of their elements, which every array has."""
    external = (*_with_role(program, BufferRole.INPUT), *_with_role(program, BufferRole.OUTPUT))
    names = {buffer.name for buffer in external}
    needed: dict[str, int] = {}
    for launch in launches(program.works):
        for param, name in zip(program.kernels[launch.kernel].params, launch.arguments, strict=True):
            if name in names and param.alignment > param.dtype.itemsize:
                needed[name] = max(needed.get(name, 1), param.alignment)
    return needed
