"""Optional parts of executors, buffers, kernels and events of a back end.

They make plans cheaper, and are found by their names alone, so that nothing has to be subclassed. Probable misspellings
of them are logged when an executor is made, and fail the conformance kit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from tileir.core.protocols import mistakes
from tileir.runtime.interface import (
    BatchingExecutor,
    BindingKernel,
    Buffer,
    Event,
    Executor,
    Kernel,
    KernelSequence,
    PartingExecutor,
    SequencingExecutor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from tileir.runtime.arrays import Format
    from tileir.runtime.devices.home import DeviceMemory
    from tileir.runtime.events import Failure
    from tileir.runtime.plans.queued import QueuedOperand


@runtime_checkable
class AsynchronousExecutor(Protocol):
    """Executor that says whether it only submits work.

    Attributes:
        asynchronous: If true, :meth:`Kernel.run` and :meth:`Executor.copy` only submit work, so that one thread can
            submit a whole program: a plan passes the events of launches to their dependents, and waits once, at the
            end. Otherwise it launches one kernel after the other.
    """

    asynchronous: bool


@runtime_checkable
class RepeatingExecutor(SequencingExecutor, Protocol):
    """Executor whose sequences may have counted loops.

    Attributes:
        repeats: If true, :meth:`SequencingExecutor.sequence` takes a :class:`Repetition` of a count in the place of a
            launch; otherwise repeated work is unrolled.
    """

    repeats: bool


@runtime_checkable
class DecidingExecutor(RepeatingExecutor, Protocol):
    """Executor whose sequences may loop and branch on conditions.

    Attributes:
        decides: If true, ``repeats`` is too, and :meth:`SequencingExecutor.sequence` takes a :class:`Repetition` on a
            :class:`Condition` and a :class:`Choice` in the place of a launch; it calls
            :func:`tileir.core.process.cancellation.checkpoint` and handles signals now and then, so that loops can be
            stopped. Otherwise plans test conditions themselves, and launch one kernel after the other.
    """

    decides: bool


@runtime_checkable
class ArraySequence(KernelSequence, Protocol):
    """Sequence that can check the arrays of a launch more cheaply than Python can."""

    def array_call(self, formats: Sequence[Format], read: int) -> Callable[..., object] | None:
        """Return its launches as one function of arrays, or None if it has none.

        The function takes arrays of these dtypes and shapes, of which the first ``read`` are read, while the executor
        is open. It returns True if all was done. It returns False, with nothing done, if an array does not have its
        dtype and shape, is not contiguous, or if an output is not writable or shares memory with another array. It
        returns None, with nothing done, if this launch has to use :meth:`KernelSequence.launch`.
        """


@runtime_checkable
class AddressedSequence(KernelSequence, Protocol):
    """Sequence that takes host memory by address."""

    def launch_at(self, addresses: list[int]) -> bool:
        """Launch like :meth:`KernelSequence.launch`, with arrays given by their addresses."""


@runtime_checkable
class SharingExecutor(Protocol):
    """Executor that shares memory with other libraries in place, in both directions, by DLPack and similar protocols.

    Buffers that the host can access, by :meth:`Buffer.host`, are shared without it.

    Attributes:
        dlpack_device: The device in DLPack: its kind, and its number among devices of that kind.
    """

    dlpack_device: tuple[int, int]

    def address(self, buffer: Any) -> int:
        """Return DLPack's data field for a buffer: a pointer, or a handle on devices without pointers."""

    def lend(self, buffer: Any) -> int:
        """Return :meth:`address` for another library, whose work may use the memory after it releases the buffer."""

    def adopt(self, address: int, nbytes: int, owner: object, *, read_only: bool) -> Buffer | None:
        """Return a buffer over memory of another library, or None if this executor cannot use it.

        Args:
            address: Address as :meth:`address` returns it.
            nbytes: Number of bytes in use.
            owner: Object that the buffer keeps alive.
            read_only: Whether nobody may write it; no kernel will.
        """


@runtime_checkable
class StreamingExecutor(SharingExecutor, Protocol):
    """Executor whose device has streams, in which other libraries may use memory before it is written.

    Attributes:
        dlpack_stream: Stream of its commands, as DLPack numbers them: 1 is the default stream of CUDA, 2 the per-thread
            default stream, others are handles. Producers make it wait for pending writes.
    """

    dlpack_stream: int

    def follow(self, stream: int) -> Sequence[Event]:
        """Return events that complete when all work so far in another library's stream is done."""

    def precede(self, stream: int, events: Sequence[Event]) -> None:
        """Make another library's stream wait for events, without waiting here."""


@runtime_checkable
class NotifyingEvent(Protocol):
    """Event with completion callbacks, so that others wait for it without a thread."""

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, from any thread, when the event has completed or failed."""


class AddressedBuffer(Buffer, Protocol):
    """Buffer of a :class:`QueueingExecutor`.

    Attributes:
        address: Start of the memory.
        shared: Whether another library may use its memory; calls then wait until it is done, as the work in its streams
            is unknown.
    """

    address: int
    shared: bool


class KnownEvent(NotifyingEvent, Event, Protocol):
    """Event that tells its failure as soon as it is known: event of the host, or of a device queue."""

    @property
    def failure(self) -> Failure | None:
        """Failure of the event; None before the end and after success."""


class Queue(Protocol):
    """Kernels with their buffers; some buffers are addresses that each launch is given."""

    def launch(self, addresses: Sequence[int], stream: int | None = None) -> KnownEvent:
        """Submit all kernels to the device queue, and return an event that completes when they are done.

        Args:
            addresses: Addresses of the memory that numbers stand for.
            stream: Stream of another library that the kernels follow, and that then follows them; None for no stream.
        """


@runtime_checkable
class BatchedQueue(Queue, Protocol):
    """Queue with launches that can be part of :meth:`BatchingExecutor.run_batch`."""

    def bound(self, addresses: Sequence[int]) -> object:
        """Return all launches on memory at these addresses as one launch of a batch."""


@runtime_checkable
class ArrayQueue(Queue, Protocol):
    """Queue that can check the arrays of a launch, and make arrays for results, more cheaply than Python can."""

    def array_call(self, operands: Sequence[QueuedOperand], read: int, home: DeviceMemory) -> Callable[..., Any] | None:
        """Return its launches as one function of arrays, or None if it has none.

        The function takes the arrays that are read, the first ``read`` operands, then one array for each result, None
        for a fresh array, or no further argument for fresh arrays only. It returns the results, a tuple if there are
        several; or None, with nothing done, for arrays that do not fit as they are: with other dtypes, shapes or
        layouts, on another device, with pending writes that need a wait, shared with others in unknown streams, or
        written to and overlapping others.

        Args:
            operands: Requirements on the arrays, inputs first.
            read: Number of inputs.
            home: Place of fresh results.
        """


@runtime_checkable
class QueueingExecutor(StreamingExecutor, Protocol):
    """Executor that does all work in the order of submission.

    Calls on memory that only tileir uses return at once, and results carry their events. Its buffers are
    :class:`AddressedBuffer` s, and memory of :meth:`Executor.allocate` may still be in use by earlier work.

    Attributes:
        queues: Whether :meth:`queue` pays; false if each piece of work is measured.
    """

    queues: bool

    def queue(self, works: Sequence[tuple[Any, Sequence[Any]]], count: int) -> Queue:
        """Prepare launches, each a kernel and its arguments: buffers or one of ``count`` numbers of addresses."""

    def allocator(self, nbytes: int) -> Callable[[], Any]:
        """Return a function that repeats :meth:`Executor.allocate` for a size."""

    def handed_over(self) -> Sequence[Event]:
        """Return events that complete when all work in the queue is done; none if the queue is empty."""

    def follows(self, event: Event) -> bool:
        """Return whether an event is of this queue and did not fail, so that later work follows it in any case."""


@runtime_checkable
class LoopingExecutor(QueueingExecutor, Protocol):
    """Executor whose queue takes loops.

    Attributes:
        queues_loops: If true, :meth:`QueueingExecutor.queue` takes a :class:`Repetition` of a count in the place of a
            launch; otherwise loops are unrolled, up to some thousand launches.
    """

    queues_loops: bool


class Recorder(Protocol):
    """Recorded work, by the memory that it reads, for replay in one call."""

    def run(self, given: Sequence[Any], work: Callable[[], Sequence[Any]]) -> tuple[Sequence[Any], KnownEvent] | None:
        """Submit the recording of work on this memory, after recording it if the memory occurred before.

        Args:
            given: The memory that the work reads, which is written by submitted work.
            work: Submits everything, and returns the memory of results, the executor's own. It is deterministic, waits
                for nothing, and may be called for a recording alone.

        Returns:
            The memory of results, and an event that completes when they are written; None, with nothing done, if the
                caller has to do the work: the memory occurs for the first time, or there would be too many recordings.
        """


@runtime_checkable
class RecordingExecutor(QueueingExecutor, Protocol):
    """Executor that records submitted work."""

    def recorder(self) -> Recorder:
        """Return a recorder for a piece of work."""

    def recorded_beside(self, read: Sequence[Any], written: Sequence[Any]) -> AbstractContextManager[None]:
        """Let work that others submit inside the ``with`` statement overlap work on other memory, if it is recorded.

        It stays in order with other work of this kind.

        Args:
            read: Buffers that it reads.
            written: Buffers that it writes.
        """

    def captures(self) -> bool:
        """Return whether another library captures the queue."""


@runtime_checkable
class StagingExecutor(Protocol):
    """Executor with host memory that its device copies from and to faster, such as page-locked memory."""

    def stage(self, nbytes: int) -> Any:
        """Return this many bytes as a NumPy array that owns them, with undefined content.

        Raises:
            BackendError: TIL708, there is not enough of this memory; TIL807, the executor was closed.
        """


@runtime_checkable
class TrimmingExecutor(Protocol):
    """Executor that keeps unused memory for reuse."""

    def trim(self) -> int:
        """Release unused memory, and return its size in bytes."""


@runtime_checkable
class AlignedBuffer(Buffer, Protocol):
    """Buffer with a smaller alignment than :meth:`Executor.allocate` guarantees, such as memory of other libraries.

    Attributes:
        alignment: Alignment of its address. Kernels that require more get a copy.
    """

    alignment: int


EXECUTOR_OFFERS: Final = (
    AsynchronousExecutor,
    PartingExecutor,
    SequencingExecutor,
    RepeatingExecutor,
    DecidingExecutor,
    BatchingExecutor,
    SharingExecutor,
    StreamingExecutor,
    QueueingExecutor,
    LoopingExecutor,
    RecordingExecutor,
    StagingExecutor,
    TrimmingExecutor,
)
"""Optional parts of executors."""


def is_asynchronous(executor: Executor[Any]) -> bool:
    """Return whether an executor only submits work."""
    return isinstance(executor, AsynchronousExecutor) and bool(executor.asynchronous)


def decides(executor: Executor[Any]) -> bool:
    """Return whether the sequences of an executor may have conditions."""
    return isinstance(executor, DecidingExecutor) and bool(executor.decides)


def takes_loops(executor: object) -> bool:
    """Return whether the queue of an executor takes loops."""
    return isinstance(executor, LoopingExecutor) and bool(executor.queues_loops)


def executor_mistakes(executor: object) -> Iterator[str]:
    """Yield probable misspellings of optional parts of an executor."""
    return mistakes(executor, Executor, EXECUTOR_OFFERS)


def kernel_mistakes(kernel: object) -> Iterator[str]:
    """Yield probable misspellings of optional parts of a kernel."""
    return mistakes(kernel, Kernel, (BindingKernel,))


def event_mistakes(event: object) -> Iterator[str]:
    """Yield probable misspellings of optional parts of an event."""
    return mistakes(event, Event, (NotifyingEvent,))
