"""What a back end may offer beyond what it must: the optional parts of executors, kernels and events.

Plans cost less with them. They are found by their names alone, so that nothing has to be subclassed. What seems to be
one of them misspelt is logged when an executor is made, and fails the conformance kit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from tileir.core.protocols import mistakes
from tileir.runtime.interface import (
    BatchingExecutor,
    BindingKernel,
    Event,
    Executor,
    Kernel,
    PartingExecutor,
    SequencingExecutor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
            :func:`tileir.core.cancelling.checkpoint` and handles signals now and then, so that loops can be stopped.
            Otherwise plans look up conditions themselves, and launch one kernel after the other.

    """

    decides: bool


@runtime_checkable
class NotifyingEvent(Protocol):
    """An event that tells when it is done, so that others wait for it without a thread."""

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, from any thread, when the event has completed or failed."""
        ...


EXECUTOR_OFFERS: Final = (
    AsynchronousExecutor,
    PartingExecutor,
    SequencingExecutor,
    RepeatingExecutor,
    DecidingExecutor,
    BatchingExecutor,
)
"""What executors may offer."""


def is_asynchronous(executor: Executor[Any]) -> bool:
    """Return whether an executor only submits work."""
    return isinstance(executor, AsynchronousExecutor) and bool(executor.asynchronous)


def decides(executor: Executor[Any]) -> bool:
    """Return whether the sequences of an executor may have conditions."""
    return isinstance(executor, DecidingExecutor) and bool(executor.decides)


def executor_mistakes(executor: object) -> Iterator[str]:
    """Yield which optional parts an executor seems to mean, but does not have."""
    return mistakes(executor, Executor, EXECUTOR_OFFERS)


def kernel_mistakes(kernel: object) -> Iterator[str]:
    """Yield which optional parts a kernel seems to mean, but does not have."""
    return mistakes(kernel, Kernel, (BindingKernel,))


def event_mistakes(event: object) -> Iterator[str]:
    """Yield which optional parts an event seems to mean, but does not have."""
    return mistakes(event, Event, (NotifyingEvent,))
