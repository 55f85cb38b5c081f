"""Graphs as files for other tools: DOT and JSON, with all attributes but the nodes of the program."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tileir_cli.drawing.svg import to_svg

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import networkx as nx

_OBJECT: Final = "definition"
"""The attribute that is no text or number."""


def plain(graph: nx.DiGraph[str]) -> nx.DiGraph[str]:
    """Return a graph whose attributes are texts, numbers and truth values only."""
    import networkx as nx

    copy: nx.DiGraph[str] = nx.DiGraph()
    for name, data in graph.nodes(data=True):
        copy.add_node(name, **{key: value for key, value in data.items() if key != _OBJECT})
    copy.add_edges_from(graph.edges(data=True))
    return copy


def to_dot(graph: nx.DiGraph[str]) -> str:
    """Return a graph in the language of Graphviz."""
    lines = ["digraph program {", "  node [shape=box];"]
    lines += [f"  {_quoted(name)} [{_attributes(data)}];" for name, data in plain(graph).nodes(data=True)]
    for source, target, data in graph.edges(data=True):
        shown = {"label": data["memory"]} if data.get("memory") else {}
        lines.append(f"  {_quoted(source)} -> {_quoted(target)}{f' [{_attributes(shown)}]' if shown else ''};")
    return "\n".join([*lines, "}"]) + "\n"


def to_json(graph: nx.DiGraph[str]) -> str:
    """Return a graph as the JSON that ``networkx.node_link_graph`` reads with ``edges="edges"``."""
    import networkx as nx

    return json.dumps(nx.node_link_data(plain(graph), edges="edges"), indent=2) + "\n"


FORMATS: Final[Mapping[str, Callable[[nx.DiGraph[str]], str]]] = MappingProxyType(
    {"svg": to_svg, "dot": to_dot, "json": to_json}
)
"""What writes a graph, by the ending of the file."""


def _attributes(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_quoted(str(value))}" for key, value in data.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\0", "\\\\0")
    return f'"{escaped}"'
