"""Drawing of a graph as self-contained SVG that screen readers can read."""

from __future__ import annotations

import re
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

from tileir_cli.drawing.layering import Drawing, Wire, drawing_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import networkx as nx


MOST_NODES: Final = 400
"""What is drawn; of larger graphs the first nodes, and a line that says how many are left out."""

_WIDTH, _HEIGHT = 188, 40
"""Of a box."""

_ACROSS, _DOWN = 208, 84
"""From one slot, and from one layer, to the next."""

_MARGIN: Final = 16
_MOST: Final = 27
"""Characters of a line in a box; its title has all."""

_INK, _QUIET, _PAPER = "#1a1a1a", "#8a8a8a", "#ffffff"
_FILLS: Final[Mapping[str, str]] = MappingProxyType(
    {"input": "#dcebfb", "constant": "#eeeeee", "output": "#dff3e0", "loop": "#fdf0d5", "branch": "#fdf0d5"}
)
_NO_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_svg(graph: nx.DiGraph[str]) -> str:
    """Return a graph as an SVG document, in layers from its inputs down; attributes may be missing.

    Each node is a box with its name and its kind; its title has the whole label, which browsers show under the pointer.
    Colours show the kinds of nodes, and results have a thick border.
    """
    nodes: dict[str, Mapping[str, Any]] = {name: graph.nodes[name] for name in islice(graph, MOST_NODES)}
    keys: dict[str, str] = {}  # names of any characters would break the layout
    reads: dict[str, tuple[str, ...]] = {}
    for number, name in enumerate(nodes):
        before = tuple(keys[each] for each in graph.predecessors(name) if each in keys)
        keys[name] = key = f"n{number}"
        reads[key] = before
    drawing = drawing_of(reads)
    left_out = graph.number_of_nodes() - len(nodes)
    width = max(drawing.width * _ACROSS, _ACROSS) + 2 * _MARGIN
    height = max(drawing.height, 1) * _DOWN + 2 * _MARGIN
    about = f"{len(nodes)} nodes, {graph.number_of_edges()} edges" + (
        f"; {left_out} more are left out" * (left_out > 0)
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-labelledby="graph-title" font-family="system-ui, sans-serif">',
        f'<title id="graph-title">{about}</title>',
        '<defs><marker id="graph-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{_QUIET}"/></marker></defs>',
        f'<rect width="{width:g}" height="{height:g}" fill="{_PAPER}"/>',
        *map(_wire, drawing.wires),
        *(line for name, data in nodes.items() for line in _box(name, data, *_corner(drawing, keys[name]))),
    ]
    if left_out:
        parts.append(f'<text x="{_MARGIN}" y="{height - 4:g}" font-size="11" fill="{_INK}">{about}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _corner(drawing: Drawing, key: str) -> tuple[float, float]:
    return _place(drawing.layers[key], drawing.slots[key])


def _place(layer: int, slot: float) -> tuple[float, float]:
    """Return the left upper corner of a box."""
    return _MARGIN + slot * _ACROSS, _MARGIN + layer * _DOWN


def _wire(wire: Wire) -> str:
    """Return a curve from the lower edge of a box, around the boxes that it passes, to the upper edge of another."""
    corners = [_place(*place) for place in wire.places]
    points = [(x + _WIDTH / 2, y) for x, y in corners]
    start = (points[0][0], points[0][1] + _HEIGHT)
    path, before = f"M{start[0]:g} {start[1]:g}", start
    for number, (x, y) in enumerate(points[1:], start=1):
        last = number == len(points) - 1
        middle = (before[1] + y) / 2
        path += f"C{before[0]:g} {middle:g} {x:g} {middle:g} {x:g} {y:g}"
        before = (x, y)
        if not last:
            path += f"V{y + _HEIGHT:g}"
            before = (x, y + _HEIGHT)
    return f'<path d="{path}" fill="none" stroke="{_QUIET}" marker-end="url(#graph-arrow)"/>'


def _box(name: str, data: Mapping[str, Any], x: float, y: float) -> Iterator[str]:
    kind = str(data.get("kind", ""))
    fill, thickness = _FILLS.get(kind, _PAPER), 2 if data.get("output") else 1
    yield f"<g><title>{_text(str(data.get('label', name)))}</title>"
    yield (
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" fill="{fill}" stroke="{_INK}" '
        f'stroke-width="{thickness}"/>'
    )
    middle = x + _WIDTH / 2
    for text, down, size in ((name, 16, 12), (_second(name, data), 31, 10)):
        yield (
            f'<text x="{middle:g}" y="{y + down:g}" font-size="{size}" text-anchor="middle" fill="{_INK}">'
            f"{_text(_cut(text))}</text>"
        )
    yield "</g>"


def _second(name: str, data: Mapping[str, Any]) -> str:
    """Return the second line of a box: the first of its label, without the name that stands above."""
    label = str(data.get("label", "")).split("\n", 1)[0].removeprefix(name).lstrip(": ")
    return label or str(data.get("kind", ""))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def _text(words: str) -> str:
    return escape(_NO_XML.sub("\ufffd", words))
