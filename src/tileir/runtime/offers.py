"""Optional parts of a back end: those of executors, buffers, kernels and events.

Plans cost less with them. They are found by their names alone, so that nothing has to be subclassed. What seems to be
one of them misspelt is logged when an executor is made, and fails the conformance kit.
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
    from tileir.runtime.devices.home import Home
    from tileir.runtime.events import Failure
    from tileir.runtime.plans.queued import QueuedOperand


@runtime_checkable
class AsynchronousExecutor(Protocol):
    """An executor that says whether it only submits work.

    Attributes:
        asynchronous: Where it is true, :meth:`Kernel.run` and :meth:`Executor.copy` only submit work, so that one
            thread can hand over a whole program: a plan passes the events of launches on to those that depend on them,
            and waits once, at the end. Otherwise it launches one kernel after the other.

    """

    asynchronous: bool


@runtime_checkable
class RepeatingExecutor(SequencingExecutor, Protocol):
    """An executor whose sequences may have loops.

    Attributes:
        repeats: Where it is true, :meth:`SequencingExecutor.sequence` takes a :class:`Repetition` of a count in the
            place of a launch as well; otherwise it is given what is repeated again and again.

    """

    repeats: bool


@runtime_checkable
class DecidingExecutor(RepeatingExecutor, Protocol):
    """An executor whose sequences may loop and branch on conditions.

    Attributes:
        decides: Where it is true, as ``repeats`` then is, :meth:`SequencingExecutor.sequence` takes a
            :class:`Repetition` on a :class:`Condition` and a :class:`Choice` in the place of a launch as well; it calls
            :func:`tileir.core.process.cancelling.checkpoint` and handles signals now and then: loops can be stopped.
            Otherwise plans look up conditions themselves, and launch one kernel after the other.

    """

    decides: bool


@runtime_checkable
class ArraySequence(KernelSequence, Protocol):
    """A sequence that can look at the arrays of a launch at less cost than Python can."""

    def array_call(self, formats: Sequence[Format], read: int) -> Callable[..., object] | None:
        """Return its launches as one function of arrays, or None where it has none.

        The function takes arrays of these dtypes and shapes, of which the first ``read`` are read, while the executor
        is open. It returns whether all was done: not, with nothing done, where one of them does not have its dtype and
        shape, is not contiguous, or, where it is written, is not writable or shares memory with another. It returns
        None, with nothing done, where such a launch has to go by :meth:`KernelSequence.launch` this time.
        """


@runtime_checkable
class AddressedSequence(KernelSequence, Protocol):
    """A sequence that takes memory of the host by its addresses."""

    def launch_at(self, addresses: list[int]) -> bool:
        """Do what :meth:`KernelSequence.launch` does, with arrays that begin at addresses."""


@runtime_checkable
class SharingExecutor(Protocol):
    """An executor whose memory other libraries can use in place, and the other way round: by DLPack and the like.

    Where the host sees all buffers, as :meth:`Buffer.host` says, it is shared without that.

    Attributes:
        dlpack_device: The device as DLPack knows it: its kind, and its number among those of this kind.

    """

    dlpack_device: tuple[int, int]

    def address(self, buffer: Any) -> int:
        """Return what DLPack takes for the data of a buffer: a pointer, or a handle on devices without pointers."""

    def lend(self, buffer: Any) -> int:
        """Do the same for somebody else, whose work may use the memory even after they have let go of the buffer."""

    def adopt(self, address: int, nbytes: int, owner: object, *, read_only: bool) -> Buffer | None:
        """Return a buffer over memory of somebody else, or None where it is none that this executor can use.

        Args:
            address: What :meth:`address` returns of a buffer.
            nbytes: How many bytes of it are used.
            owner: What the buffer keeps alive.
            read_only: Whether nobody may write it; no kernel will.

        """


@runtime_checkable
class StreamingExecutor(SharingExecutor, Protocol):
    """An executor whose device has streams, in which others may use memory before it is written.

    Attributes:
        dlpack_stream: The stream of its commands, as DLPack numbers them: 1 is the default stream of CUDA, 2 that of
            each thread, others are handles. Producers make it wait for what they have not written yet.

    """

    dlpack_stream: int

    def follow(self, stream: int) -> Sequence[Event]:
        """Return events that complete when all that is in a stream of others by now is done."""

    def precede(self, stream: int, events: Sequence[Event]) -> None:
        """Make a stream of others wait for events, without waiting here."""


@runtime_checkable
class NotifyingEvent(Protocol):
    """An event that tells when it is done, so that others wait for it without a thread."""

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, from any thread, when the event has completed or failed."""


class AddressedBuffer(Buffer, Protocol):
    """A buffer of a :class:`QueueingExecutor`.

    Attributes:
        address: Where it starts.
        shared: Whether somebody else may use its memory: then calls wait until they are done with it, as nobody knows
            what is in streams of others.

    """

    address: int
    shared: bool


class KnownEvent(NotifyingEvent, Event, Protocol):
    """An event that tells what it failed with, once that is known: of the host, or of a queue of a device."""

    @property
    def failure(self) -> Failure | None:
        """The failure that it ended with; None before, and where it completed."""


class Queue(Protocol):
    """Kernels with their buffers, of which some are given at each launch by their addresses."""

    def launch(self, addresses: Sequence[int], stream: int | None = None) -> KnownEvent:
        """Put all kernels into the queue of the device, and return an event that completes when they are done.

        Args:
            addresses: Where the memory is that numbers stand for.
            stream: One of others, which the kernels follow, and which then follows them; None for none.

        """


@runtime_checkable
class BatchedQueue(Queue, Protocol):
    """A queue whose launches can stand among those of :meth:`BatchingExecutor.run_batch`."""

    def bound(self, addresses: Sequence[int]) -> object:
        """Return all launches on memory at these addresses as one of those that a batch takes."""


@runtime_checkable
class ArrayQueue(Queue, Protocol):
    """A queue that can look at the arrays of a launch, and make those of results, at less cost than Python can."""

    def array_call(self, operands: Sequence[QueuedOperand], read: int, home: Home) -> Callable[..., Any] | None:
        """Return its launches as one function of arrays, or None where it has none.

        The function takes the arrays that are read, the first ``read`` of the operands, then one for each result to go
        to, None for a fresh one, or none of these for all of them fresh. It returns the results, a tuple if there are
        several; or None, with nothing done, for arrays that do not fit as they are: of other dtypes, shapes or layouts,
        on another device, written by something that somebody has to wait for, shared with others in streams that nobody
        knows, or written to and overlapping others.

        Args:
            operands: What the arrays must be, those that are read first.
            read: How many of them are read.
            home: Where fresh results live.

        """


@runtime_checkable
class QueueingExecutor(StreamingExecutor, Protocol):
    """An executor all of whose work is done in the order in which it was handed over.

    Calls on memory that only tileir uses return at once with it, and results are known by their events. Its buffers are
    :class:`AddressedBuffer` s, and what :meth:`Executor.allocate` gives may still be in use by work before.

    Attributes:
        queues: Whether :meth:`queue` pays: not where each piece of work is measured.

    """

    queues: bool

    def queue(self, works: Sequence[tuple[Any, Sequence[Any]]], count: int) -> Queue:
        """Ready launches, each a kernel and its arguments: buffers, or one of ``count`` numbers for memory to come."""

    def allocator(self, nbytes: int) -> Callable[[], Any]:
        """Return what does what :meth:`Executor.allocate` does for so many bytes, again and again."""

    def handed_over(self) -> Sequence[Event]:
        """Return events that complete when all is done that is in the queue by now; none where nothing is."""

    def follows(self, event: Event) -> bool:
        """Return whether an event is of this queue, and did not fail, so that what comes now follows it in any case."""


@runtime_checkable
class LoopingExecutor(QueueingExecutor, Protocol):
    """An executor whose queue takes loops.

    Attributes:
        queues_loops: Where it is true, :meth:`QueueingExecutor.queue` takes a :class:`Repetition` of a count in the
            place of a launch as well; otherwise it is given what is repeated again and again, up to some thousand
            launches.

    """

    queues_loops: bool


class Recorder(Protocol):
    """Work that is recorded, by the memory that it reads, to be handed over again in one call."""

    def run(self, given: Sequence[Any], work: Callable[[], Sequence[Any]]) -> tuple[Sequence[Any], KnownEvent] | None:
        """Hand over what was recorded of work on this memory, after recording it where it has come before.

        Args:
            given: The memory that the work reads, which is written by all that was handed over.
            work: Hands everything over, and returns the memory of results: the executor's own. It does always the same,
                waits for nothing, and may be called for a recording alone.

        Returns:
            The memory of results, and an event that completes when they are written; None, with nothing done, where it
            is up to the caller to do the work: the memory came for the first time, or recordings would be too many.

        """


@runtime_checkable
class RecordingExecutor(QueueingExecutor, Protocol):
    """An executor that records what is handed over."""

    def recorder(self) -> Recorder:
        """Return what records a piece of work."""

    def recorded_beside(self, read: Sequence[Any], written: Sequence[Any]) -> AbstractContextManager[None]:
        """Let what others put into its queue within go on beside work on other memory, if it is recorded.

        It stays in order with other such work.

        Args:
            read: The buffers that it reads.
            written: Those that it writes.

        """

    def captures(self) -> bool:
        """Return whether somebody else records the queue."""


@runtime_checkable
class StagingExecutor(Protocol):
    """An executor with memory of the host that its device copies from and to faster than others, as page-locked is."""

    def stage(self, nbytes: int) -> Any:
        """Return so many bytes as an array of NumPy, which keeps them; their content is undefined.

        Raises:
            BackendError: TIL708, there is not enough of it; TIL807, the executor was closed.

        """


@runtime_checkable
class TrimmingExecutor(Protocol):
    """An executor that keeps memory which nobody uses for the next who ask."""

    def trim(self) -> int:
        """Give such memory back, and return how many bytes that was."""


@runtime_checkable
class AlignedBuffer(Buffer, Protocol):
    """A buffer that is less aligned than those of :meth:`Executor.allocate`, as memory of others may be.

    Attributes:
        alignment: What its address is a multiple of. Kernels that ask for more get a copy.

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
"""What executors may offer."""


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
    """Yield which optional parts an executor seems to mean, but does not have."""
    return mistakes(executor, Executor, EXECUTOR_OFFERS)


def kernel_mistakes(kernel: object) -> Iterator[str]:
    """Yield which optional parts a kernel seems to mean, but does not have."""
    return mistakes(kernel, Kernel, (BindingKernel,))


def event_mistakes(event: object) -> Iterator[str]:
    """Yield which optional parts an event seems to mean, but does not have."""
    return mistakes(event, Event, (NotifyingEvent,))
