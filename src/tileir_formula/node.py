"""Base classes of the nodes of formulas, which show themselves as their text."""

from __future__ import annotations

from tileir.core.text.shown import Shown, ShownWhole


class Node(Shown):
    """A node, which prints as its text."""

    __slots__ = ()

    def __str__(self) -> str:
        from tileir_formula.text.printer import node_text  # it imports the nodes

        return node_text(self)


class Whole(Node, ShownWhole):
    """A formula."""

    __slots__ = ()
