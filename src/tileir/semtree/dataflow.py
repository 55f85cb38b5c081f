"""Data-flow graph of the works of a program, linked by buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.graphs.frozen import Work, WorkGraph
from tileir.core.text.names import NameScope
from tileir.semtree.ir import BufferRole, Launch, Loop, ParamAccess, Program, While, Work as SemWork

if TYPE_CHECKING:
    import networkx as nx


_GIVEN: Final = (BufferRole.INPUT, BufferRole.CONSTANT)
"""The roles of buffers with content before the first work."""


def dataflow(program: Program) -> nx.DiGraph[str]:
    """Link inputs, constants, works and outputs by buffers, within one iteration of each loop."""
    graph = WorkGraph(NameScope.of(buffer.name for buffer in program.buffers))
    labels = {buffer.name: f"{buffer.name} {buffer.dtype.value}{list(buffer.shape)}" for buffer in program.buffers}
    for buffer in program.buffers:
        if buffer.role in _GIVEN:
            graph.memory(buffer.name, buffer.role.value, labels[buffer.name], buffer)
    graph.add(_work(program, work) for work in program.works)
    for buffer in program.buffers:
        if buffer.role is BufferRole.OUTPUT:
            graph.output(buffer.name, labels[buffer.name], buffer)
    return graph.graph()


def _work(program: Program, work: SemWork) -> Work:
    match work:
        case Launch(kernel=number, arguments=arguments):
            kernel = program.kernels[number]
            pairs = list(zip(kernel.params, arguments, strict=True))
            reads = tuple(buffer for param, buffer in pairs if param.access is not ParamAccess.WRITE)
            writes = tuple(buffer for param, buffer in pairs if param.access is not ParamAccess.READ)
            return Work("launch", "\n".join((kernel.name, *kernel.comments)), work, reads, writes)
        case Loop(times=times, works=works):
            label = str(times) if isinstance(times, While) else f"repeat {times}"
            condition = (times.buffer,) if isinstance(times, While) else ()
            return Work("loop", label, work, condition, parts=(tuple(_work(program, each) for each in works),))
        case _:
            parts = tuple(tuple(_work(program, each) for each in part) for part in (work.then, work.otherwise))
            return Work("branch", f"if ({work.condition})", work, (work.condition,), parts=parts)
