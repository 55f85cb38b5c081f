"""Runs of a plan that are handed over to the queue of a device in one call, on memory of it; nobody waits for them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

from tileir.core.nodes import attrs
from tileir.runtime.offers import ArrayQueue, Queue, QueueingExecutor
from tileir.runtime.plans.workspace import Layout, unrolled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from tileir.runtime.devices.exchange import Format
    from tileir.runtime.devices.home import Home
    from tileir.runtime.offers import KnownEvent
    from tileir.runtime.plans.resources import Resources

MOST_LAUNCHES: Final = 4096
"""Programs of more launches, loops unrolled, are handed over in pieces, as others are."""


@attrs.frozen(eq=False)
class QueuedOperand:
    """What an array of one place must be.

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
        call: The same as a function of arrays; None where there is none, or nobody asked so far.

    """

    nbytes: int
    queue: Queue
    call: Callable[..., Any] | None = None

    @classmethod
    def of(cls, layout: Layout, executor: QueueingExecutor) -> Self:
        """Allocate the temporaries; the arrays of a run are its inputs, then its outputs."""
        arguments = layout.memory()
        slots = (*layout.inputs, *layout.outputs)
        for position, slot in enumerate(slots):
            arguments[slot.number] = position
        works = [(step.kernel, [arguments[each] for each in step.arguments]) for step in unrolled(layout.steps)]
        return cls(layout.nbytes, executor.queue(works, len(slots)))


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
    _spare: list[_QueuedWorkspace] = attrs.field(factory=list, init=False, repr=False)
    _only: list[_QueuedWorkspace] = attrs.field(factory=list, init=False, repr=False)

    @classmethod
    def of(cls, layout: Layout, resources: Resources) -> QueuedRuns | None:
        """Return the runs of a plan; None where the device has no queue, or something is decided on the way."""
        executor: Any = layout.executor
        if layout.decides or not isinstance(executor, QueueingExecutor) or not executor.queues:
            return None
        if len(list(islice(unrolled(layout.steps), MOST_LAUNCHES + 1))) > MOST_LAUNCHES:
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

        if not self._layout.nbytes:
            return ready(self._without_temporaries())
        first = self._workspace()
        if ready(first) is None:
            return None
        resources.keep(first, spare)

        def call(*arrays: Any) -> Any:
            workspace = resources.borrow(spare)
            if workspace is None:
                workspace = self._workspace()
            try:
                run = workspace.call or ready(workspace)
                return None if run is None else run(*arrays)
            finally:
                resources.give_back(workspace, spare)

        return call

    def launch(self, addresses: Sequence[int], stream: int | None = None) -> KnownEvent:
        """Hand a run over.

        Args:
            addresses: Where the inputs and then the outputs are; they are aligned.
            stream: One of others in which some of this memory is used; None for none.

        """
        if not self._layout.nbytes:
            return self._without_temporaries().queue.launch(addresses, stream)
        workspace = self._resources.take(self._spare) or self._workspace()
        event = workspace.queue.launch(addresses, stream)
        self._resources.keep(workspace, self._spare)
        return event

    def _workspace(self) -> _QueuedWorkspace:
        self._resources.make_room(self._layout.nbytes)
        return _QueuedWorkspace.of(self._layout, self.executor)

    def _without_temporaries(self) -> _QueuedWorkspace:
        """Return the only one, which all runs may share at a time."""
        if not self._only:
            self._only.append(self._workspace())
        return self._only[0]
