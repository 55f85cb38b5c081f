"""Work that a stream is made to record: the nodes of its graph, each behind those whose memory it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from cuda.bindings import driver

from tileir.core.nodes import attrs
from tileir.runtime.plans.dependencies import GRAPH_LAUNCHES
from tileir_cuda.run.driver import checked
from tileir_cuda.run.following import Order, Use

EVERYTHING: Final = Use(-1, -1, 1 << 64, True)
"""All memory, so that work follows all before, and is followed by all."""

_REPLACE: Final = 1
"""The flag of the driver by which what comes next follows the given nodes alone."""

_NODES: Final = 4
"""Where, in what the driver tells of a recording, the nodes are that come last."""


@attrs.define(eq=False)
class Capture:
    """A stream whose work is recorded.

    Attributes:
        stream: The driver's.
        held: What has memory that the work uses, beside what it is given: temporaries and constants of programs.

    """

    stream: Any
    held: list[object] = attrs.field(factory=list, init=False)
    _order: Order = attrs.field(factory=Order, init=False)
    _nodes: list[Sequence[Any]] = attrs.field(factory=list, init=False)

    @contextmanager
    def following(self, uses: Sequence[Use]) -> Iterator[None]:
        """Let work within follow what used the same memory before.

        Raises:
            BackendError: TIL808, the driver refuses.

        """
        many = len(self._nodes) >= GRAPH_LAUNCHES
        needed = self._order.add((EVERYTHING,) if many else uses)
        nodes = [node for number in needed for node in self._nodes[number]]
        # as it is since CUDA 12.3, which has no other one since 13
        update = getattr(driver, "cuStreamUpdateCaptureDependencies_v2", None)
        update = driver.cuStreamUpdateCaptureDependencies if update is None else update
        checked("recording", update(self.stream, nodes, None, len(nodes), _REPLACE))
        yield
        if many:
            self._order, self._nodes = Order(), []
            self._order.add((EVERYTHING,))
        told = driver.cuStreamGetCaptureInfo(self.stream)
        checked("recording", told[:1])
        self._nodes.append(told[_NODES])
