"""Base of all nodes of the semtree, which print as text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self

from tileir.core import NotebookNode, TextNode, attrs, from_json
from tileir.core.nodes.rules import Rule


class Node(TextNode):
    """A node, which prints as its text.

    Attributes:
        rules: Invariants of all nodes of the class, without operands.
        places: Required places of arrays whose elements are fields: their regions, accesses of parameters, or the class
            of their declarations; and the rule in words, for faults.
    """

    __slots__ = ()
    rules: ClassVar[tuple[Rule, ...]] = ()
    places: ClassVar[Mapping[str, tuple[object, str]]] = MappingProxyType({})

    def __str__(self) -> str:
        from tileir.semtree.text.printer import node_text  # it imports the nodes

        return node_text(self)


class TopLevelNode(Node, NotebookNode):
    """A program, or a large part of one."""

    __slots__ = ()


class LazyKernel(TopLevelNode):
    """A kernel whose body may be JSON until its first use.

    Launches of compiled code need no bodies, and decoding those of a network takes longer than all else in loading it.
    """

    __slots__ = ("_document",)
    _document: bytes

    def with_body_of(self, document: bytes) -> Self:
        """Return a kernel with the body from a JSON document, which is not checked before it is decoded."""
        kernel = attrs.evolve(self)  # type: ignore[misc]  # what is derived from this is a node
        object.__setattr__(kernel, "_document", document)
        object.__delattr__(kernel, "body")
        return kernel

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Decode the body; all other attributes are there."""
            if name != "body":
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            body = from_json(self._document, type(self)).body
            object.__setattr__(self, "body", body)
            return body
