"""Packing of tensors that a forward graph keeps for its backward graph, for one allocation and argument.

A step of a deep network keeps some hundred tensors, each of which costs the host as much as a launch of the card.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from functorch.compile import default_partition
from torch.fx import GraphModule, Node

from tileir_torch.dtypes import DTYPES

ALIGNMENT: Final = 256
"""Alignment of parts in bytes."""
_FEWEST: Final = 2

_LIBRARY: Final = torch.library.Library("tileir_torch", "DEF")
_LIBRARY.define("packed(Tensor[] parts, int[] offsets, int nbytes) -> Tensor")
_LIBRARY.define("part(Tensor(a) packed, int offset, int[] sizes, int[] strides, ScalarType dtype) -> Tensor(a)")

PACKED: Final = torch.ops.tileir_torch.packed.default
"""Operation that copies dense tensors into one; compiled graphs write them there directly."""
PART: Final = torch.ops.tileir_torch.part.default
"""Operation that views one of these tensors."""


def part_of(
    packed: torch.Tensor, offset: int, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype
) -> torch.Tensor:
    """Return a view of bytes as a dense tensor.

    Args:
        packed: The bytes, u8.
        offset: Offset of the tensor, a multiple of :data:`ALIGNMENT`.
        sizes: Its sizes.
        strides: Its strides, in elements.
        dtype: Its dtype.
    """
    end = offset + dtype.itemsize * torch.Size(sizes).numel()
    return packed[offset:end].view(dtype).as_strided(sizes, strides)


def _packed(parts: list[torch.Tensor], offsets: list[int], nbytes: int) -> torch.Tensor:
    made = torch.empty(nbytes, dtype=torch.uint8, device=parts[0].device)
    for each, offset in zip(parts, offsets, strict=True):
        part_of(made, offset, each.shape, each.stride(), each.dtype).copy_(each)
    return made


_LIBRARY.impl("packed", _packed, "CompositeExplicitAutograd")
_LIBRARY.impl("part", part_of, "CompositeExplicitAutograd")


def is_packed(node: Node) -> bool:
    """Return whether all users of a node read parts of it."""
    return bool(node.users) and all(each.target is PART for each in node.users)


def partitioned(joint: GraphModule, inputs: Any, *, num_fwd_outputs: int, **others: Any) -> Any:
    """Return the forward and the backward graph of a joint graph, like ``default_partition``, with its arguments.

    Tensors of one device that the forward graph only makes for the backward graph are packed.
    """
    forward, backward = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **others)
    _pack(forward, backward, num_fwd_outputs)
    return forward, backward


def _pack(forward: GraphModule, backward: GraphModule, count: int) -> None:
    """Make a forward graph return one tensor for packable results after the first ``count``, if there are any."""
    results = list(forward.graph.output_node().args[0])
    taken = {id(node.meta.get("val")): node for node in backward.graph.find_nodes(op="placeholder")}
    memories: dict[int, set[Node]] = {}
    for node in (*forward.graph.find_nodes(op="placeholder"), *results):
        value = node.meta.get("val") if isinstance(node, Node) else None
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            memories.setdefault(value.untyped_storage()._cdata, set()).add(node)
    chosen: list[Node] = []
    for node in results[count:]:
        if not (_is_dense_and_made(node) and id(node.meta["val"]) in taken and results.count(node) == 1):
            continue
        value = node.meta["val"]
        alone = len(memories[value.untyped_storage()._cdata]) == 1
        if alone and (not chosen or value.device == chosen[0].meta["val"].device):
            chosen.append(node)
    if len(chosen) < _FEWEST:
        return
    offsets, nbytes = [], 0
    for node in chosen:
        offsets.append(nbytes)
        value = node.meta["val"]
        nbytes += -(-value.numel() * value.itemsize // ALIGNMENT) * ALIGNMENT
    packed = _return_packed(forward, results, chosen, offsets, nbytes)
    _take_packed(backward, [taken[id(node.meta["val"])] for node in chosen], offsets, packed)


def _is_dense_and_made(node: Any) -> bool:
    """Return whether a node makes a dense tensor with a known size."""
    value = node.meta.get("val") if isinstance(node, Node) and node.op == "call_function" else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.dtype not in DTYPES:
        return False
    if node.meta.get("saved_tensor_with_no_vc_check", False):
        return False
    if not all(type(each) is int for each in (*value.shape, *value.stride())) or not value.numel():
        return False
    is_whole = value.untyped_storage().nbytes() == value.numel() * value.itemsize
    return is_whole and torch.ops.aten.is_non_overlapping_and_dense(value)


def _return_packed(
    module: GraphModule, results: Sequence[Any], chosen: Sequence[Node], offsets: list[int], nbytes: int
) -> torch.Tensor:
    """Make a graph return one tensor in the place of the first chosen result, none for the others; returns a fake."""
    output = module.graph.output_node()
    with module.graph.inserting_before(output):
        packed = module.graph.call_function(PACKED, (list(chosen), offsets, nbytes))
    value = chosen[0].meta["val"]
    with value.fake_mode:
        packed.meta["val"] = torch.empty(nbytes, dtype=torch.uint8, device=value.device)
    dropped = set(chosen[1:])
    kept = [at for at, each in enumerate(results) if each not in dropped]
    output.args = (tuple(packed if results[at] is chosen[0] else results[at] for at in kept),)
    if "desc" in output.meta:
        output.meta["desc"] = [output.meta["desc"][at] for at in kept]
    module.recompile()
    return packed.meta["val"]


def _take_packed(module: GraphModule, chosen: Sequence[Node], offsets: Sequence[int], value: torch.Tensor) -> None:
    """Make a graph take one tensor in the place of the first chosen placeholder, and none for the others."""
    first = chosen[0]
    with module.graph.inserting_before(first):
        packed = module.graph.placeholder("packed")
    packed.meta["val"] = value
    if "desc" in first.meta:
        packed.meta["desc"] = first.meta["desc"]
    *_, last = module.graph.find_nodes(op="placeholder")
    for node, offset in zip(reversed(chosen), reversed(offsets), strict=True):
        shown = node.meta["val"]
        with module.graph.inserting_after(last):
            part = module.graph.call_function(PART, (packed, offset, [*shown.shape], [*shown.stride()], shown.dtype))
        part.meta["val"] = shown
        node.replace_all_uses_with(part)
        module.graph.erase_node(node)
    module.recompile()
