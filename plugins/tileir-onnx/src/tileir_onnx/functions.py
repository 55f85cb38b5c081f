"""Nodes that are functions of other nodes: those of the model, and those that ONNX defines by others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from tileir_onnx.graph import Graph, Node


@frozen(eq=False)
class Body:
    """Nodes that a node stands for.

    Attributes:
        graph: Nodes over the inputs of the node, whose results are its outputs.

    """

    graph: Graph


def expanded(_node: Node) -> Body | None:
    """Return the nodes that a node stands for; None where it is no function."""
    return None
