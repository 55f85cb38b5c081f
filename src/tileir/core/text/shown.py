"""``str`` and ``repr`` of nodes of all representations: their text, and a short line.

Only people read a ``repr``: keys, digests and files are made from JSON and text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from tileir.core.nodes.schema import Role, slots
from tileir.core.text.markup import folded, highlighted

if TYPE_CHECKING:
    from collections.abc import Iterable

    import networkx as nx

_LONGEST: Final = 100
"""Greatest length of a short line."""


class Printer(Protocol):
    """Printer of values in a session of Python, or in a test: that of IPython, and of Hypothesis."""

    def text(self, text: str) -> None:
        """Print a text."""


class TextNode:
    """A node that prints as its text, by ``__str__`` of its package."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shortened(self.summary())}".rstrip() + ">"

    def summary(self) -> str:
        """Return a line that distinguishes the node from others."""
        try:
            return str(self)
        except Exception as error:  # nodes with faults must be visible for debugging
            return f"without text: {type(error).__name__}"

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:  # noqa: ARG002  the protocol of IPython
        """Print the text, for values in sessions and failures in tests."""
        printer.text(str(self))


class NotebookNode(TextNode):
    """A program, or a large part of one: notebooks show its text."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return highlighted(str(self))


class NotebookProgram(NotebookNode):
    """A program: notebooks show the text and, when it is unfolded, a drawing of the graph."""

    __slots__ = ()

    def graph(self) -> nx.DiGraph[str]:
        """Return the data flow of the program; each representation has its own."""
        raise AttributeError(f"{type(self).__name__} has no graph")

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        from tileir.core.companions import provided  # only notebooks draw

        try:
            to_svg: Any = provided("to_svg")
            drawn = folded("graph", to_svg(self.graph()))
        except Exception:  # a program that breaks rules may have no graph, and its text explains why
            drawn = ""
        return super()._repr_html_() + drawn


def shortened(text: str) -> str:
    """Return a text as one short line."""
    line = " ".join(text[: 8 * _LONGEST].split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def call_of(name: str, arguments: Iterable[str], results: Iterable[str] | None = None) -> str:
    """Return ``name(arguments) -> (results)``."""
    returned = "" if results is None else f" -> ({', '.join(results)})"
    return f"{name}({', '.join(arguments)}){returned}"


def counted(number: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def statements_in(body: Iterable[TextNode]) -> int:
    """Return the number of statements in a list of them, at any depth."""
    found, pending = 0, list(body)
    while pending:
        found += 1
        statement = pending.pop()
        kind: type = type(statement)
        for slot in slots(kind, Role.BODY):
            pending.extend(getattr(statement, slot.name))
    return found
