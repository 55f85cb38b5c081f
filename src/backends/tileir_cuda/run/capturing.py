"""Stream capture: work becomes graph nodes that depend on earlier users of their memory."""

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
"""Use of all memory, which orders work against all other work."""

_REPLACE: Final = 1
"""Driver flag by which the next work depends on the given nodes only."""

_NODES: Final = 4
"""Position of the latest nodes in the driver's capture information."""


@attrs.define(eq=False)
class Capture:
    """Stream whose work is captured.

    Attributes:
        stream: Stream of the driver.
        held: Owners of memory that the work uses beside its arguments: temporaries and constants of programs.
    """

    stream: Any
    held: list[object] = attrs.field(factory=list, init=False)
    _order: Order = attrs.field(factory=Order, init=False)
    _nodes: list[Sequence[Any]] = attrs.field(factory=list, init=False)

    @contextmanager
    def following(self, uses: Sequence[Use]) -> Iterator[None]:
        """Make work inside the ``with`` statement depend on earlier uses of its memory.

        Raises:
            BackendError: TIL808, the driver refuses.
        """
        many = len(self._nodes) >= GRAPH_LAUNCHES
        needed = self._order.add((EVERYTHING,) if many else uses)
        nodes = [node for number in needed for node in self._nodes[number]]
        # the signature since CUDA 12.3, and the only one since 13
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
