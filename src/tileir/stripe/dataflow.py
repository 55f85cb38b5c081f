"""Data-flow graph of the works of a Stripe program, linked by memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.graphs.frozen import Work, WorkGraph
from tileir.core.text.names import NameScope
from tileir.stripe.ir import Launch, Loop, Program, While, Work as StripeWork

if TYPE_CHECKING:
    import networkx as nx


def dataflow(program: Program) -> nx.DiGraph[str]:
    """Link inputs, constants, works and outputs by memory, within a step of each loop."""
    graph = WorkGraph(NameScope.of(memory.name for memory in program.memory))
    views = {memory.name: memory for memory in program.memory}
    for name in program.inputs:
        graph.memory(name, "input", f"{name} {views[name].shape}", views[name])
    for memory in program.memory:
        if memory.constant:
            graph.memory(memory.name, "constant", f"{memory.name} {memory.shape}", memory)
    graph.add(_work(program, work) for work in program.works)
    for name in program.outputs:
        graph.output(name, f"{name} {views[name].shape}", views[name])
    return graph.graph()


def _work(program: Program, work: StripeWork) -> Work:
    match work:
        case Launch(kernel=number, arguments=arguments, name=name, comments=comments):
            kernel = program.kernels[number]
            pairs = list(zip(kernel.parameters, arguments, strict=True))
            reads = tuple(memory for parameter, memory in pairs if parameter.name in kernel.reads)
            writes = tuple(memory for parameter, memory in pairs if parameter.name in kernel.writes)
            label = "\n".join((name or f"kernel {number}", *comments))
            return Work("launch", label, work, reads, writes)
        case Loop(times=times, works=works, carries=carries):
            label = str(times) if isinstance(times, While) else f"repeat {times}"
            condition = (times.memory,) if isinstance(times, While) else ()
            inner = tuple(_work(program, each) for each in works)
            handed = tuple((carry.kept, carry.made) for carry in carries)
            return Work("loop", label, work, condition, parts=(inner,), carries=handed)
        case _:
            parts = tuple(tuple(_work(program, each) for each in part) for part in (work.then, work.otherwise))
            return Work("branch", f"if ({work.condition})", work, (work.condition,), parts=parts)
