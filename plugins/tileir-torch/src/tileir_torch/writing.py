"""Operations that write to a tensor: they make a new one, which replaces it in all views of its memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from attrs import define, field
from torch.fx import Graph, Node

from tileir import ops
from tileir.tile.builder import Tensor
from tileir_torch.rows.table import RefusedError, row_of

if TYPE_CHECKING:
    from tileir_torch.importing import Importer

_PARTS: Final = {"aten.select.int": "aten.select_scatter.default", "aten.slice.Tensor": "aten.slice_scatter.default"}
"""Views of a part, and the operations that write a part into the whole."""

_MOVES: Final = ("aten.permute.default", "aten.t.default", "aten.transpose.int")
"""Views of all elements, with permuted axes."""


def is_writing(node: Node) -> bool:
    """Return whether an operation writes to its arguments."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def made_instead(node: Node) -> str:
    """Return the functional equivalent of an operation that writes to its first argument.

    Raises:
        RefusedError: There is none, or it would round differently.
    """
    first, *others = node.target._schema.arguments
    packet, _, overload = str(node.target).rpartition(".")
    if first.alias_info is None or any(each.alias_info is not None and each.alias_info.is_write for each in others):
        raise RefusedError("it writes to other arguments than its first")
    if not packet.endswith("_") or not isinstance(node.args[0], Node):
        raise RefusedError("it writes to a tensor, and nothing makes such a tensor")
    written, value = node.args[0].meta["val"], node.meta["val"]
    if written.size() != value.size() or written.stride() != value.stride():
        raise RefusedError("it changes the sizes of a tensor")
    if torch.Tag.pointwise in node.target.tags:
        for each in node.all_input_nodes:
            read = each.meta.get("val")
            if isinstance(read, torch.Tensor) and read.dtype not in (written.dtype, torch.bool) and read.dim():
                raise RefusedError(f"it computes in {read.dtype}, and writes {written.dtype}".replace("torch.", ""))
    return f"{packet[:-1]}.{overload}"


def _memories(value: Any) -> Iterator[int]:
    for each in value if isinstance(value, tuple | list) else (value,):
        if isinstance(each, torch.Tensor) and each.layout is torch.strided:
            yield each.untyped_storage()._cdata


@define(eq=False)
class Memories:
    """Nodes of a graph by the memory of their fake tensors, in order.

    Attributes:
        graph: The traced graph: programs that were read from a file share no memory.
    """

    graph: Graph
    _nodes: dict[int, list[Node]] = field(init=False)

    @_nodes.default
    def _nodes_of_graph(self) -> dict[int, list[Node]]:
        found: dict[int, list[Node]] = {}
        for node in self.graph.nodes:
            for memory in dict.fromkeys(_memories(node.meta.get("val"))):
                found.setdefault(memory, []).append(node)
        return found

    def write(self, importer: Importer, node: Node, found: Tensor) -> None:
        """Update all views of the memory that a node writes to.

        Args:
            importer: Runner of the graph; it has run all earlier nodes.
            node: Operation that writes to its first argument.
            found: Its result.

        Raises:
            RefusedError: The memory is not exclusive to the graph, or a view of it cannot be inverted.
        """
        at = node.args[0]
        assert isinstance(at, Node)
        (memory,) = _memories(at.meta["val"])
        if memory not in _memories(node.meta["val"]):
            raise RefusedError("it writes to a tensor whose memory is not known")
        fresh = {at: found}
        while (source := self._source(at, memory)) is not None:
            fresh[source] = _put(importer, at, importer.values[source], fresh[at])
            at = source
        showing = [each for each in self._nodes[memory] if each in importer.values]
        if at.op != "call_function" or at is not showing[0]:
            raise RefusedError("it writes to an input, a buffer or a constant")
        read: set[Node] = set()
        for each in reversed(showing):
            if any(user in read or (user is not node and user not in importer.values) for user in each.users):
                read.add(each)
        importer.values.update(fresh)
        for each in showing:
            if each not in fresh:
                importer.values[each] = self._seen(importer, each, memory) if each in read else None

    def _source(self, node: Node, memory: int) -> Node | None:
        """Return the node that another one views; None for a node that owns its memory."""
        source = node.args[0] if node.op == "call_function" and node.args else None
        return source if isinstance(source, Node) and memory in _memories(source.meta.get("val")) else None

    def _seen(self, importer: Importer, node: Node, memory: int) -> Any:
        """Return the current value of a view, or of the result of an operation that wrote."""
        source = self._source(node, memory)
        if source is None:
            raise RefusedError("it writes to memory that another tensor shows in an unknown way")
        return importer.values[source] if is_writing(node) else importer.made(node)


def _put(importer: Importer, view: Node, whole: Any, found: Tensor) -> Any:
    """Return a tensor with its view replaced."""
    source, target = view.args[0].meta["val"], str(view.target)
    value = view.meta["val"]
    if isinstance(source, torch.Tensor) and source.dtype is value.dtype:
        if value.size() == source.size() and value.stride() == source.stride():
            return found
        if target in _PARTS:
            others = map(importer.argument, view.args[1:])
            return importer.served(view, _PARTS[target], whole, found, *others, **view.kwargs)
        sizes = importer.sizes(source)
        if row_of(target) is row_of("aten.view.default"):
            return ops.reshape(found, *sizes)
        if target in _MOVES:
            numbered = torch.empty(tuple(range(len(sizes))), device="meta")  # the size of an axis tells where it goes
            moved = view.target(numbered, *view.args[1:])
            return ops.transpose(found, tuple(np.argsort(moved.shape).tolist()))
    raise RefusedError(f"it writes to memory through {target}")
