"""Frozen networkx graphs of programs, with the same attributes at every stage.

Nodes are in program order, and edges go from the producer of a value, or of content of memory, to its users. So graphs
have no cycles. Each node has the attributes ``kind`` and ``label``, which are texts, ``position``, an integer for the
order, ``output``, whether callers get it, and ``definition``, the node of the program.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.nodes import attrs
from tileir.core.text.names import NameScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import networkx as nx

PLAIN: Final[Mapping[str, object]] = MappingProxyType({})
"""The attributes of an edge that has none."""


@attrs.frozen
class Vertex:
    """A node of a graph: its name, its kind in a word, its text, whether callers get it, and its definition."""

    name: str
    kind: str
    label: str
    definition: object
    position: int
    output: bool = False
    more: Mapping[str, object] = PLAIN


def frozen_graph(vertices: Iterable[Vertex], edges: Iterable[tuple[str, str, Mapping[str, object]]]) -> nx.DiGraph[str]:
    """Return the graph of vertices, in their order, and of edges with attributes."""
    import networkx as nx  # slow to import, and only graphs need it

    graph: nx.DiGraph[str] = nx.DiGraph()
    for each in vertices:
        attributes = {"kind": each.kind, "label": each.label, "position": each.position, "output": each.output}
        graph.add_node(each.name, **attributes, definition=each.definition, **each.more)
    graph.add_edges_from((source, target, dict(attributes)) for source, target, attributes in edges)
    frozen: nx.DiGraph[str] = nx.freeze(graph)
    return frozen


@attrs.frozen
class Work:
    """A launch, a loop or a branch, with the facts that a graph needs.

    Attributes:
        kind: ``launch``, ``loop`` or ``branch``.
        label: Its effect, in a line.
        definition: The node of the program.
        reads: The memory that it reads itself, each name once.
        writes: The memory that it writes itself.
        parts: The works in it: one list for a loop, one or two for a branch.
        carries: Memory that a step of a loop passes on, as pairs: its name outside, and that in the step.
    """

    kind: str
    label: str
    definition: object
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    parts: tuple[tuple[Work, ...], ...] = ()
    carries: tuple[tuple[str, str], ...] = ()


@attrs.define(eq=False, repr=False)
class WorkGraph:
    """Builder of the graph of works, which get names that no memory has."""

    memories: NameScope
    vertices: list[Vertex] = attrs.field(factory=list, init=False)
    edges: dict[tuple[str, str], dict[str, None]] = attrs.field(factory=dict, init=False)
    writers: dict[str, tuple[str, ...]] = attrs.field(factory=dict, init=False)
    count: int = attrs.field(default=0, init=False)

    def memory(self, name: str, kind: str, label: str, definition: object) -> None:
        """Add memory with content before the first work, under its own name."""
        self._append(name, kind, label, definition)
        self.writers[name] = (name,)

    def add(self, works: Iterable[Work], inside: str = "") -> None:
        """Add works in order; ``inside`` is the name of the loop or branch around them."""
        for work in works:
            name = self.memories.fresh(f"work_{self.count}")
            self.count += 1
            self._append(name, work.kind, work.label, work.definition, inside)
            for memory in dict.fromkeys((*work.reads, *work.writes)):
                self._read(memory, name)
            if inside:
                self._link(inside, name, "")
            self._add_parts(work, name)
            self.writers.update((memory, (name,)) for memory in work.writes)

    def _add_parts(self, work: Work, name: str) -> None:
        """Add the parts of a loop or a branch, which may not run: earlier content may still be there."""
        before = dict(self.writers)
        after: dict[str, dict[str, None]] = {memory: dict.fromkeys(found) for memory, found in before.items()}
        for part in work.parts:
            self.writers = dict(before)
            self.add(part, name)
            for memory, found in self.writers.items():
                after.setdefault(memory, {}).update(dict.fromkeys(found))
        for kept, made in work.carries:
            after.setdefault(kept, {}).update(after.get(made, {}))
        self.writers = {memory: tuple(found) for memory, found in after.items()}

    def output(self, memory: str, label: str, definition: object) -> None:
        """Add a result, under the name of its memory if that is free."""
        name = NameScope.of(vertex.name for vertex in self.vertices).fresh(memory)
        self._append(name, "output", label, definition)
        self._read(memory, name)

    def _append(self, name: str, kind: str, label: str, definition: object, inside: str = "") -> None:
        place, more = len(self.vertices), {"inside": inside}
        self.vertices.append(Vertex(name, kind, label, definition, place, kind == "output", more))

    def _read(self, memory: str, name: str) -> None:
        for writer in self.writers.get(memory, ()):
            self._link(writer, name, memory)

    def _link(self, source: str, target: str, memory: str) -> None:
        self.edges.setdefault((source, target), {}).update({memory: None} if memory else {})

    def graph(self) -> nx.DiGraph[str]:
        """Return the graph; the attribute ``memory`` of edges names the memory, and is empty into a loop."""
        edges = ((*ends, {"memory": ", ".join(memory)}) for ends, memory in self.edges.items())
        return frozen_graph(self.vertices, edges)
