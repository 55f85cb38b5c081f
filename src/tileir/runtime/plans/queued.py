"""Runs of a plan that are handed over to the queue of a device in one call, on memory of it; nobody waits for them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from tileir.runtime.offers import Queue, QueueingExecutor
from tileir.runtime.plans.workspace import Layout, unrolled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.runtime.offers import KnownEvent
    from tileir.runtime.plans.resources import Resources

MOST_LAUNCHES: Final = 4096
"""Programs of more launches, loops unrolled, are handed over in pieces, as others are."""


@attrs.frozen(eq=False)
class _QueuedWorkspace:
    """Temporaries, and launches bound to them; runs that follow each other in the queue may share it.

    Attributes:
        nbytes: How much memory it holds.
        queue: What launches.

    """

    nbytes: int
    queue: Queue

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

    def launcher(self) -> Callable[[Sequence[int]], KnownEvent]:
        """Return what launches the most directly; the errors are those of :meth:`launch`."""
        if self._layout.nbytes:
            return self.launch
        if not self._only:
            self._only.append(_QueuedWorkspace.of(self._layout, self.executor))
        return self._only[0].queue.launch

    def launch(self, addresses: Sequence[int], stream: int | None = None) -> KnownEvent:
        """Hand a run over.

        Args:
            addresses: Where the inputs and then the outputs are; they are aligned.
            stream: One of others in which some of this memory is used; None for none.

        """
        if self._only:  # it has no temporaries
            return self._only[0].queue.launch(addresses, stream)
        workspace = self._resources.take(self._spare) if self._spare else None
        if workspace is None:
            self._resources.make_room(self._layout.nbytes)
            workspace = _QueuedWorkspace.of(self._layout, self.executor)
        event = workspace.queue.launch(addresses, stream)
        if workspace.nbytes:
            self._resources.keep(workspace, self._spare)
        elif not self._only:
            self._only.append(workspace)
        return event
