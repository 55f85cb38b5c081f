"""The data flow of a Tile function as a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.graphs.frozen import PLAIN, Vertex, frozen_graph
from tileir.tile.ir import Function
from tileir.tile.traversal import names_read

if TYPE_CHECKING:
    import networkx as nx


def dataflow(function: Function) -> nx.DiGraph[str]:
    """Link inputs and statements to the statements that read them; dimensions are no nodes."""
    results = {output.name for output in function.outputs}
    vertices = [Vertex(each.name, "input", str(each), each, -1, each.name in results) for each in function.inputs]
    vertices += [
        Vertex(each.name, type(each).__name__.lower(), str(each), each, position, each.name in results)
        for position, each in enumerate(function.statements)
    ]
    known = {vertex.name for vertex in vertices}
    edges = (
        (name, statement.name, PLAIN)
        for statement in function.statements
        for name in dict.fromkeys(names_read(statement))
        if name in known
    )
    return frozen_graph(vertices, edges)
