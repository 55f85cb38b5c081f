"""Subgraphs for selected outputs, and topological sorting of nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from attrs import evolve

from tileir_onnx.graph import Graph, Node


def pruned(graph: Graph, outputs: Collection[str]) -> Graph:
    """Return a graph with only these outputs, in its own order, and the nodes that they depend on."""
    kept = tuple(port for port in graph.outputs if port.name in outputs)
    needed = {port.name for port in kept}
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(_reads(node))
    return evolve(graph, outputs=kept, nodes=tuple(reversed(nodes)))


def ordered(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return nodes in topological order; independent nodes, and cycles, in original order."""
    makers = {name: node for node in nodes for name in node.outputs if name}
    found: dict[int, Node] = {}
    entered: set[int] = set()
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting[-1]
        missing = [makers[name] for name in _reads(node) if name in makers and id(makers[name]) not in found]
        if missing and id(node) not in entered:
            entered.add(id(node))
            waiting.extend(reversed(missing))
        else:
            found.setdefault(id(waiting.pop()), node)
    return tuple(found.values())


def _reads(node: Node) -> Iterator[str]:
    """Yield the names that a node reads, including those of its subgraphs."""
    yield from node.inputs
    for value in node.attributes.values():
        for graph in value if isinstance(value, tuple) else (value,):
            if isinstance(graph, Graph):
                yield from (port.name for port in graph.outputs)
                for inner in graph.nodes:
                    yield from _reads(inner)
