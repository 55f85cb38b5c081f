"""Graphs for some of their outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from attrs import evolve

from tileir_onnx.graph import Graph, Node


def pruned(graph: Graph, outputs: Collection[str]) -> Graph:
    """Return a graph with the outputs of these names alone, in its own order, and the nodes that they depend on."""
    kept = tuple(port for port in graph.outputs if port.name in outputs)
    needed = {port.name for port in kept}
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(_reads(node))
    return evolve(graph, outputs=kept, nodes=tuple(reversed(nodes)))


def _reads(node: Node) -> Iterator[str]:
    """Yield the names that a node reads, those of graphs within it as well."""
    yield from node.inputs
    for value in node.attributes.values():
        for graph in value if isinstance(value, tuple) else (value,):
            if isinstance(graph, Graph):
                yield from (port.name for port in graph.outputs)
                for inner in graph.nodes:
                    yield from _reads(inner)
