"""Base of all nodes of typed functions: it shows their text."""

from __future__ import annotations

from tileir.core.text.shown import NotebookNode, TextNode


class Node(TextNode):
    """A node, which prints as its text."""

    __slots__ = ()

    def __str__(self) -> str:
        from tileir.typed.text.printer import node_text  # it imports the nodes

        return node_text(self)


class TopLevelNode(Node, NotebookNode):
    """A program, or a large part of one."""

    __slots__ = ()
