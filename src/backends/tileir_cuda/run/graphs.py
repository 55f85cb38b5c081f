"""The launches of a program as graphs of the driver, one for each set of addresses that comes again."""

from __future__ import annotations

import weakref
from ctypes import addressof, c_void_p, create_string_buffer
from typing import TYPE_CHECKING, Any, Final

import attrs
from cuda.bindings import driver

from tileir.core.errors import BackendError
from tileir_cuda.run.driver import checked, enter, inherited

if TYPE_CHECKING:
    from tileir_cuda.run.launcher import Launch

FROM: Final = 3
"""Programs of fewer launches are no graphs: on an H100 two launches took 15 µs, five 26, graphs of ten or fifty 12."""

KEPT: Final = 4
"""So many graphs of a program are kept: buffers come back to the same addresses, two by two mostly."""

REMEMBERED: Final = 16
"""So many sets of addresses are remembered, to know those that come again."""

OFTEN: Final = 64
"""So often a set has to come again to take the place of another one's graph, which costs tens of launches to make."""


@attrs.define(eq=False)
class Graphs:
    """Graphs of one program, by the addresses of its arrays. The lock of the stream is held by who asks.

    Attributes:
        card: The driver's number of the card.
        launches: All launches, in order.
        places: For each parameter of each launch, which argument it is; from -1 down, which one points to it.
        refused: Whether the driver made no graph of them.

    """

    card: int
    launches: tuple[Launch, ...]
    places: tuple[int, ...]
    refused: bool = attrs.field(default=False, init=False)
    _seen: dict[bytes, int] = attrs.field(factory=dict, init=False)
    _made: dict[bytes, _Graph] = attrs.field(factory=dict, init=False)

    def at(self, key: bytes, arguments: bytes) -> int:
        """Return the graph for addresses that were seen before, as a number; 0 for others.

        Args:
            key: The addresses.
            arguments: All arguments of the launches, as the native code takes them.

        """
        found = self._made.get(key)
        if found is not None:
            return found.number
        times = self._seen.get(key, 0)
        if self.refused or times < (OFTEN if len(self._made) >= KEPT else 1):
            if not times and len(self._seen) >= REMEMBERED:
                del self._seen[next(iter(self._seen))]
            self._seen[key] = times + 1
            return 0
        if len(self._made) >= KEPT:
            del self._made[next(iter(self._made))]
            self._seen.clear()
        try:
            made = self._made[key] = self._graph(arguments)
        except BackendError:  # without a graph it takes longer, and fails if the card does
            self.refused = True
            return 0
        return made.number

    def _graph(self, arguments: bytes) -> _Graph:
        """Return a graph in which each launch follows the one before it; the driver copies the arguments."""
        enter(self.card)
        graph = checked("a graph", driver.cuGraphCreate(0))
        try:
            content = create_string_buffer(arguments, len(arguments))
            before: list[Any] = []
            first = 0
            for launch in self.launches:
                end = first + launch.parameters
                pointers = _pointers(content, self.places[first:end])
                node = checked(
                    "a graph", driver.cuGraphAddKernelNode(graph, before, len(before), _node(launch, pointers))
                )
                before, first = [node], end
            return _Graph(self.card, checked("a graph", driver.cuGraphInstantiate(graph, 0)))
        finally:
            driver.cuGraphDestroy(graph)


@attrs.define(eq=False)
class _Graph:
    """A graph that can be launched, as long as this object lives."""

    card: int
    native: Any
    number: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.number = int(self.native)
        weakref.finalize(self, _destroy, self.native, self.card).atexit = False


def _destroy(native: Any, card: int) -> None:
    if not inherited():
        enter(card)
        driver.cuGraphExecDestroy(native)  # the driver waits until it has run


def _pointers(content: Any, places: tuple[int, ...]) -> Any:
    """Return where each parameter is."""
    first = addressof(content)

    def pointed(place: int) -> int | None:
        return c_void_p.from_buffer(content, 8 * ~place).value

    return (c_void_p * max(1, len(places)))(*(first + 8 * p if p >= 0 else pointed(p) for p in places))


def _node(launch: Launch, pointers: Any) -> Any:
    node = driver.CUDA_KERNEL_NODE_PARAMS()
    node.func = driver.CUfunction(launch.function)
    node.gridDimX, node.gridDimY, node.gridDimZ, node.blockDimX, node.blockDimY, node.blockDimZ, _ = launch.shape
    node.sharedMemBytes = launch.shape[6]
    node.kernelParams = addressof(pointers)
    return node
