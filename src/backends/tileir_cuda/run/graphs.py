"""Launches of a program that follow each other as a graph of the driver, whose arguments can be changed."""

from __future__ import annotations

import weakref
from ctypes import addressof, c_void_p
from typing import TYPE_CHECKING, Any, Self

import attrs
from cuda.bindings import driver

from tileir_cuda.run.driver import checked, enter, fail, inherited, status_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileir_cuda.run.launcher import Launch, Launcher, Run, Table


@attrs.define(eq=False)
class Graph:
    """Launches that follow each other, and can be launched as one as long as this object lives.

    Attributes:
        number: What the driver calls what can be launched.

    """

    number: int
    _run: Run
    _table: Table
    _launcher: Launcher
    _nodes: Any

    @classmethod
    def of(cls, card: int, run: Run, table: Table, launcher: Launcher, arguments: Any) -> Self:
        """Make the graph of a run of a table, whose launches overlap where they may; the driver copies the arguments.

        Raises:
            BackendError: TIL708 or TIL808, the driver makes none.

        """
        enter(card)
        graph = checked("a graph", driver.cuGraphCreate(0))
        try:
            handles: list[Any] = []
            _, launches, places, after = table.held
            nodes = (c_void_p * run.count)()
            first = run.place
            for number in range(run.count):
                launch = launches[run.first + number]
                end = first + launch.taken
                pointers = _pointers(arguments, places[first:end])
                before = [handles[earlier] for earlier in after[run.first + number]]
                result = driver.cuGraphAddKernelNode(graph, before, len(before), _node(launch, pointers))
                handles.append(checked("a graph", result))
                first, nodes[number] = end, int(handles[-1])
            native = checked("a graph", driver.cuGraphInstantiate(graph, 0))
        except BaseException:
            driver.cuGraphDestroy(graph)
            raise
        made = cls(int(native), run, table, launcher, nodes)
        weakref.finalize(made, _destroy, native, graph, card).atexit = False
        return made

    def change(self, arguments: Any, before: Any) -> None:
        """Give other arguments to those launches that have some; what was launched before keeps its own.

        Raises:
            BackendError: TIL808, the driver refuses; some launches may have the new ones then.

        """
        table, run, nodes, *places = map(addressof, (self._table, self._run, self._nodes, arguments, before))
        told = self._launcher.change(table, run, self.number, nodes, *places)
        if told:
            fail("a graph", status_of(told))


def _destroy(native: Any, graph: Any, card: int) -> None:
    if not inherited():
        enter(card)
        driver.cuGraphExecDestroy(native)  # the driver waits until it has run
        driver.cuGraphDestroy(graph)


def _pointers(arguments: Any, places: Sequence[int]) -> Any:
    """Return where each parameter is."""
    first = addressof(arguments)
    return (c_void_p * max(1, len(places)))(*(first + 8 * p if p >= 0 else arguments[~p] for p in places))


def _node(launch: Launch, pointers: Any) -> Any:
    node = driver.CUDA_KERNEL_NODE_PARAMS()
    node.func = driver.CUfunction(launch.function)
    node.gridDimX, node.gridDimY, node.gridDimZ = launch.x, launch.y, launch.z
    node.blockDimX, node.blockDimY, node.blockDimZ = launch.wide, launch.high, launch.deep
    node.sharedMemBytes = launch.shared
    node.kernelParams = addressof(pointers)
    return node
