"""Base classes of the nodes of formulas, which show themselves as their text."""

from __future__ import annotations

from tileir.core.text.shown import NotebookNode, TextNode


class Node(TextNode):
    """A node, which prints as its text."""

    __slots__ = ()

    def __str__(self) -> str:
        from tileir_formula.text.printer import node_text  # it imports the nodes

        return node_text(self)


class TopLevelNode(Node, NotebookNode):
    """A formula."""

    __slots__ = ()
