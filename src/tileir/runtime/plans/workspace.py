"""Workspace of one run of a plan at a time: its temporaries, and its launches bound to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, TypeAlias, TypeGuard, assert_never

import numpy as np

from tileir.core import BackendError, CancelledError, attrs, cancelled_if
from tileir.runtime.arrays import Array, Format, address_of
from tileir.runtime.interface import (
    Buffer as Memory,
    Choice,
    Condition,
    Executor,
    Kernel,
    KernelSequence,
    PartingExecutor,
    Repetition,
    SequencingExecutor,
)
from tileir.runtime.offers import AddressedSequence, ArraySequence, RepeatingExecutor
from tileir.runtime.plans.placement import Offset
from tileir.semtree.launches import counted_turns, turns_while


@attrs.frozen(eq=False)
class Step:
    """One launch.

    Attributes:
        kernel: The kernel.
        arguments: Numbers of the program's buffers.
        after: Numbers of its predecessors.
        reads_first: Buffers of the caller that no predecessor reads.
    """

    kernel: Kernel
    arguments: tuple[int, ...]
    after: tuple[int, ...] = ()
    reads_first: tuple[int, ...] = ()


@attrs.frozen(eq=False)
class LoopStep:
    """Steps that run in order, repeated a number of times or while a condition holds, given as the number of a buffer.

    ``after`` and ``reads_first`` are those of :class:`Step`, here and below.
    """

    times: int | Condition
    steps: tuple[Step | LoopStep | BranchStep, ...]
    after: tuple[int, ...] = ()
    reads_first: tuple[int, ...] = ()


@attrs.frozen(eq=False)
class BranchStep:
    """Branch: steps of ``then`` run in order if a condition holds, else those of ``otherwise``."""

    condition: Condition
    then: tuple[Step | LoopStep | BranchStep, ...]
    otherwise: tuple[Step | LoopStep | BranchStep, ...]
    after: tuple[int, ...] = ()
    reads_first: tuple[int, ...] = ()


AnyStep: TypeAlias = Step | LoopStep | BranchStep

Operand: TypeAlias = "Array | Memory"
"""Argument of a run: a host array, or device memory."""


def executed(steps: Iterable[AnyStep], holds: Callable[[int], bool]) -> Iterator[Step]:
    """Yield the launches of a run, in order; ``holds`` tests the byte in a buffer after the preceding launches.

    Raises:
        CancelledError: The results are no longer wanted.
    """
    for step in steps:
        match step:
            case Step():
                yield step
            case LoopStep(times=times, steps=inner):
                for _ in counted_turns(times) if isinstance(times, int) else turns_while(times.argument, holds):
                    yield from executed(inner, holds)
            case BranchStep(condition=condition, then=then, otherwise=otherwise):
                yield from executed(then if holds(condition.argument) else otherwise, holds)
            case _:
                assert_never(step)


def unrolled(steps: Iterable[AnyStep]) -> Iterator[Step]:
    """Yield every launch of steps without conditions, in order, with loops unrolled."""
    return executed(steps, _undecided)


def _undecided(_: int) -> bool:
    raise AssertionError


@attrs.frozen(eq=False)
class Slot:
    """Entry of a caller's array; ``alignment`` is 1 if kernels require only that of elements."""

    number: int
    alignment: int


class PreparedMemory(Protocol):
    """Memory with values computed before the first run."""

    def memory(self) -> Mapping[int, Memory]:
        """Return it by number of the buffer; the first call waits for the computation."""


@attrs.frozen(eq=False)
class Layout:
    """Layout shared by all workspaces of a plan.

    Attributes:
        executor: Executor of the steps.
        steps: All launches, in order; a loop or a branch counts as one.
        decides: Whether there are conditions.
        inputs: Entries of the inputs.
        outputs: Entries of the outputs.
        buffers: Number of buffers of the program.
        constants: Memory of the constants, by number.
        prepared: Maker of further constants; None if there are none.
        sizes: Bytes of the blocks that hold the temporaries.
        places: Place of each temporary, by number.
        ends: Numbers of the launches without successors.
        writers: Numbers of the launches that write each output, by number of the buffer.
    """

    executor: Executor[Any]
    steps: tuple[AnyStep, ...]
    decides: bool
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    buffers: int
    constants: Mapping[int, Memory]
    prepared: PreparedMemory | None
    sizes: tuple[int, ...]
    places: Mapping[int, Offset]
    ends: tuple[int, ...]
    writers: Mapping[int, tuple[int, ...]]

    @property
    def nbytes(self) -> int:
        """Bytes of memory for the temporaries of one run."""
        return sum(self.sizes)

    def memory(self) -> list[Any]:
        """Return memory by number of the buffer: constants and fresh temporaries; None for inputs and outputs."""
        blocks = [self.executor.allocate(size) for size in self.sizes]
        memory: list[Memory | None] = [None] * self.buffers
        for number, place in self.places.items():
            memory[number] = _part(self.executor, blocks[place.block], place)
        made = {} if self.prepared is None else self.prepared.memory()
        for number, constant in (*self.constants.items(), *made.items()):
            memory[number] = constant
        return memory

    def in_place(self, slot: Slot, array: Operand) -> Memory | None:
        """Return a buffer over an array's own memory, if the device and all kernels can use it."""
        if not isinstance(array, np.ndarray):
            return array if _is_aligned(array, slot.alignment) else None
        if slot.alignment > 1 and address_of(array) % slot.alignment:
            return None
        return self.executor.wrap(array)


def all_of_host(operands: Sequence[Operand]) -> TypeGuard[Sequence[Array]]:
    """Return whether all operands are host arrays."""
    return all(isinstance(operand, np.ndarray) for operand in operands)


def _is_aligned(buffer: Memory, alignment: int) -> bool:
    """Return whether a buffer has the alignment that a kernel requires; only an :class:`AlignedBuffer` may lack it."""
    return alignment == 1 or getattr(buffer, "alignment", alignment) % alignment == 0


class Workspace(Protocol):
    """Runner of the launches of a plan."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it holds; if 0, several threads may use it at a time."""

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run all launches, and return when the outputs are written."""


@attrs.frozen(eq=False, slots=False)
class SequencedWorkspace:
    """Whole plan as one call of the device."""

    _layout: Layout
    _sequence: KernelSequence
    _formats: Sequence[Format]

    @classmethod
    def of(cls, layout: Layout, executor: SequencingExecutor, formats: Sequence[Format]) -> SequencedWorkspace:
        """Bind all launches to fresh temporaries; the arrays of a run have these formats, inputs before outputs."""
        arguments = layout.memory()
        for position, slot in enumerate((*layout.inputs, *layout.outputs)):
            arguments[slot.number] = position
        repeats = isinstance(executor, RepeatingExecutor) and bool(executor.repeats)
        steps = layout.steps if repeats else tuple(unrolled(layout.steps))
        works: list[Any] = [bound(step, arguments) for step in steps]
        return cls(layout, executor.sequence(works), formats)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it holds."""
        return self._layout.nbytes

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run all launches, and return when the outputs are written.

        Raises:
            BackendError: TIL808, the device cannot even use its own memory.

        """
        if not self._layout.steps or self._sequence.launch([*inputs, *outputs]):
            return
        aligned = [self._aligned(array) for array in inputs]
        results = [self._aligned(array) for array in outputs]
        if not self._sequence.launch([*aligned, *results]):
            raise BackendError.of("TIL808", "the device cannot use the memory that it allocated")
        for result, array in zip(results, outputs, strict=True):
            np.copyto(array, result)

    def run_at(self, addresses: list[int]) -> bool:
        """Run on arrays at addresses, inputs before outputs; return whether that was possible, else do nothing."""
        launch = self._launch_at
        return not self._layout.steps or (launch is not None and launch(addresses))

    @cached_property
    def _launch_at(self) -> Callable[[list[int]], bool] | None:
        return self._sequence.launch_at if isinstance(self._sequence, AddressedSequence) else None

    @cached_property
    def array_call(self) -> Callable[..., object] | None:
        """Return a run as one function of arrays, inputs before outputs; making it takes some milliseconds."""
        sequence = self._sequence
        if not self._layout.steps or not isinstance(sequence, ArraySequence):
            return None
        return sequence.array_call(self._formats, len(self._layout.inputs))

    def _aligned(self, array: Array) -> Array:
        """Return a copy with the largest alignment."""
        host = self._layout.executor.allocate(array.nbytes).host()
        assert host is not None  # this executor takes arrays, so its memory is the host's
        copy = host[: array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(copy, array)
        return copy


@attrs.frozen(eq=False)
class SteppingWorkspace:
    """Launches run one after the other, which every executor supports."""

    _layout: Layout
    _memory: list[Any]

    @classmethod
    def of(cls, layout: Layout) -> SteppingWorkspace:
        """Allocate the temporaries."""
        return cls(layout, layout.memory())

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it holds."""
        return self._layout.nbytes

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> None:
        """Run all launches, and return when the outputs are written."""
        layout, memory = self._layout, self._memory.copy()
        staged: list[tuple[Memory, Operand]] = []
        for slot, array in zip(layout.inputs, inputs, strict=True):
            placed = layout.in_place(slot, array)
            memory[slot.number] = copied(layout.executor, array) if placed is None else placed
        for slot, array in zip(layout.outputs, outputs, strict=True):
            placed = layout.in_place(slot, array)
            if placed is None:
                placed = layout.executor.allocate(array.nbytes)
                staged.append((placed, array))
            memory[slot.number] = placed
        for step in executed(layout.steps, lambda number: holds(layout.executor, memory[number])):
            step.kernel.launch([memory[number] for number in step.arguments])
        for placed, array in staged:
            layout.executor.copy(placed, array).wait()


@attrs.frozen(eq=False)
class ClosableWorkspace:
    """Runner of programs that might never end, until the owner of its memory is closed.

    Attributes:
        workspace: Runner of the launches.
        is_closed: Tells the closing; tested before each iteration of a loop.
    """

    workspace: Workspace
    is_closed: Callable[[], bool]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it holds."""
        return self.workspace.nbytes

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> None:
        """Run all launches, and return when the outputs are written.

        Raises:
            BackendError: TIL807, the context was closed meanwhile.

        """
        try:
            with cancelled_if(self.is_closed):
                self.workspace.run(inputs, outputs)
        except CancelledError:
            if not self.is_closed():
                raise
            message = "the context was closed while a loop on a condition ran: wait for the call before closing it"
            raise BackendError.of("TIL807", message) from None


def bound(step: AnyStep, arguments: Sequence[Any]) -> tuple[Kernel, list[Any]] | Repetition | Choice:
    """Return a step with its arguments, as :meth:`tileir.runtime.interface.SequencingExecutor.sequence` takes it."""

    def all_bound(steps: tuple[AnyStep, ...]) -> tuple[tuple[Kernel, list[Any]] | Repetition | Choice, ...]:
        return tuple(bound(inner, arguments) for inner in steps)

    match step:
        case Step():
            return step.kernel, [arguments[number] for number in step.arguments]
        case LoopStep(times=times, steps=inner):
            return Repetition(
                times if isinstance(times, int) else Condition(arguments[times.argument]), all_bound(inner)
            )
        case BranchStep(condition=condition, then=then, otherwise=otherwise):
            return Choice(Condition(arguments[condition.argument]), all_bound(then), all_bound(otherwise))
        case _:
            assert_never(step)


def holds(executor: Executor[Any], memory: Memory) -> bool:
    """Return whether a buffer's first byte is not 0, once all launches are done."""
    host = memory.host()
    if host is None:
        host = np.empty(1, np.uint8)
        executor.copy(memory, host).wait()
    return bool(host[0])


def copied(executor: Executor[Any], array: Operand) -> Memory:
    """Return fresh device memory with the content of an array, or of other memory."""
    memory: Memory = executor.allocate(array.nbytes)
    host = memory.host()
    if host is not None and isinstance(array, np.ndarray):  # not shared yet, so no thread is needed
        host[: array.nbytes] = array.reshape(-1).view(np.uint8)
    else:
        executor.copy(array, memory).wait()
    return memory


def _part(executor: Executor[Any], block: Memory, place: Offset) -> Memory:
    """Return the memory of a temporary; plans put several into one block only if buffers have parts."""
    if place.nbytes in (0, block.nbytes):  # devices have no empty parts
        return block
    if isinstance(executor, PartingExecutor):
        return executor.part(block, place.offset, place.nbytes)
    host = block.host()
    if host is None:
        return block
    part = executor.wrap(host[place.offset : place.offset + place.nbytes])
    return block if part is None else part
