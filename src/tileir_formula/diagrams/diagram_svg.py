"""Drawing of the flexibility diagram as self-contained SVG that screen readers can read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from tileir_formula.diagrams.diagram import Diagram, Node

_SIDE: Final = 132
"""Of the square of a function."""

_GAP: Final = 20
_COLUMNS: Final = 8
_RADIUS: Final = 60
_LINE: Final = 12
"""From one line of small text to the next."""

_MOST_ARGUMENTS: Final = 5
"""That stand in a square; its title has them all."""

_INK, _PAPER, _QUIET = "#1a1a1a", "#ffffff", "#8a8a8a"

_NO_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold."""


def to_svg(diagram: Diagram) -> str:
    """Return the diagram as an SVG document.

    The pass is a circle. Above it are the functions of one picture as squares, with their arguments top right and the
    letters of their conditions top left; below it those that merge two, as triangles; and a legend of the letters.
    """
    columns = max(1, min(_COLUMNS, max(len(diagram.primaries), len(diagram.merges))))
    width = max(columns * (_SIDE + _GAP) + _GAP, 640)
    above = math.ceil(len(diagram.primaries) / columns) * (_SIDE + _GAP) + _GAP
    centre = (width / 2, above + _GAP + _RADIUS)
    below = centre[1] + _RADIUS + 2 * _GAP
    bottom = below + math.ceil(len(diagram.merges) / columns) * (_SIDE + _GAP)
    height = bottom + (len(diagram.conditions) + 2) * 2 * _LINE
    squares = list(_places(diagram.primaries, columns, width, _GAP))
    triangles = list(_places(diagram.merges, columns, width, below))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}" '
        'role="img" aria-labelledby="diagram-title diagram-about" font-family="system-ui, sans-serif">',
        '<title id="diagram-title">What a compute pass can be made of</title>',
        f'<desc id="diagram-about">{_text(str(diagram))}</desc>',
        '<defs><marker id="diagram-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{_QUIET}"/></marker></defs>',
        f'<rect width="{width}" height="{height:g}" fill="{_PAPER}"/>',
        *(_arrow(x + _SIDE / 2, y + _SIDE, *_rim(centre, (x + _SIDE / 2, y + _SIDE))) for _, x, y in squares),
        *(_arrow(*_rim(centre, (x + _SIDE / 2, y)), x + _SIDE / 2, y) for _, x, y in triangles),
        f'<circle cx="{centre[0]:g}" cy="{centre[1]:g}" r="{_RADIUS}" fill="{_PAPER}" stroke="{_INK}"/>',
        _label(centre[0], centre[1] + 5, "compute pass", 14, "middle"),
        *(line for node, x, y in squares for line in _square(node, x, y)),
        *(line for node, x, y in triangles for line in _triangle(node, x, y)),
        *_legend(diagram, bottom + _LINE),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _places(nodes: Sequence[Node], columns: int, width: float, top: float) -> Iterator[tuple[Node, float, float]]:
    """Yield nodes with the left and upper edge of their boxes, in centred rows."""
    for number, node in enumerate(nodes):
        row, column = divmod(number, columns)
        count = min(columns, len(nodes) - row * columns)
        left = (width - count * (_SIDE + _GAP) + _GAP) / 2
        yield node, left + column * (_SIDE + _GAP), top + row * (_SIDE + _GAP)


def _rim(centre: tuple[float, float], towards: tuple[float, float]) -> tuple[float, float]:
    """Return the point of the circle that is nearest to another point."""
    across, down = towards[0] - centre[0], towards[1] - centre[1]
    scale = _RADIUS / math.hypot(across, down)
    return centre[0] + across * scale, centre[1] + down * scale


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{_QUIET}" '
        'marker-end="url(#diagram-arrow)"/>'
    )


def _square(node: Node, x: float, y: float) -> Iterator[str]:
    yield f"<g>{_title(node)}"
    yield f'<rect x="{x:g}" y="{y:g}" width="{_SIDE}" height="{_SIDE}" fill="{_PAPER}" stroke="{_INK}"/>'
    yield _label(x + 6, y + 14, "".join(node.conditions), 9, "start")
    names = [argument.partition("=")[0] for argument in node.arguments]
    more = len(names) - _MOST_ARGUMENTS
    shown = [*names[:_MOST_ARGUMENTS], f"and {more} more"] if more > 0 else names
    for number, name in enumerate(shown):
        yield _label(x + _SIDE - 6, y + 14 + number * _LINE, name, 9, "end", most=_SIDE - 60)
    yield _label(x + _SIDE / 2, y + _SIDE - 28, node.name, 13, "middle", most=_SIDE - 12)
    yield "</g>"


def _triangle(node: Node, x: float, y: float) -> Iterator[str]:
    corners = f"{x + _SIDE / 2:g},{y:g} {x + _SIDE:g},{y + _SIDE:g} {x:g},{y + _SIDE:g}"
    yield f"<g>{_title(node)}"
    yield f'<polygon points="{corners}" fill="{_PAPER}" stroke="{_INK}"/>'
    yield _label(x + _SIDE / 2, y + _SIDE - 12, node.name, 13, "middle", most=_SIDE - 24)
    yield "</g>"


def _legend(diagram: Diagram, top: float) -> Iterator[str]:
    yield _label(_GAP, top + _LINE, "A step applies everywhere, or where", 13, "start")
    for number, each in enumerate(diagram.conditions):
        yield _label(_GAP, top + (number + 2) * 2 * _LINE - _LINE, f"{each.letter}   {each.about}", 12, "start")


def _title(node: Node) -> str:
    arguments = f"({', '.join(node.arguments)})" if node.arguments else ""
    return f"<title>{_text(f'{node.name}{arguments}: {node.about}')}</title>"


def _label(x: float, y: float, words: str, size: int, anchor: str, most: float = 0) -> str:
    """Return a line of text, in smaller letters where it would be longer than ``most``."""
    fitting = size if not most or not words else min(size, most / (0.6 * len(words)))
    place = f'x="{x:g}" y="{y:g}" font-size="{fitting:.3g}" text-anchor="{anchor}"'
    return f'<text {place} fill="{_INK}">{_text(words)}</text>'


def _text(words: str) -> str:
    """Return text as XML may hold it."""
    return escape(_NO_XML.sub("\ufffd", words))
