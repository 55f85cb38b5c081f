"""Base of all nodes of the semtree: it shows their text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from tileir.core.nodes.rules import Rule
from tileir.core.text.shown import Shown, ShownWhole


class Node(Shown):
    """A node, which prints as its text.

    Attributes:
        rules: What holds for all nodes of the class, operands apart.
        places: Where the arrays lie whose elements are fields: their regions, how parameters are accessed, or the class
            of what declares them; and the rule in words, for faults.

    """

    __slots__ = ()
    rules: ClassVar[tuple[Rule, ...]] = ()
    places: ClassVar[Mapping[str, tuple[object, str]]] = MappingProxyType({})

    def __str__(self) -> str:
        from tileir.semtree.text.printer import node_text  # it imports the nodes

        return node_text(self)


class Whole(Node, ShownWhole):
    """A program, or a large part of one."""

    __slots__ = ()
