"""Back end of ``torch.compile``: forward and backward graphs, whose supported parts are compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import torch
from attrs import frozen
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupport

from tileir import ArgumentError, TileError
from tileir_torch import decompositions
from tileir_torch.calls import Specialising
from tileir_torch.importing import owner_of_memory, unsupported
from tileir_torch.kept import KeptGraph, as_artifact, is_asked, kept
from tileir_torch.packing import PACKED, PART, partitioned

_OPTIONS: Final = ("fullgraph", "fallback_random", "cache")
_MESSAGES: Final = 50
"""Maximum number of nodes of a graph in an error."""


def backend(graph_module: GraphModule, example_inputs: Sequence[Any], **keywords: Any) -> Callable[..., Any]:
    """Compile a graph of Dynamo, and its gradients: the back end ``"tileir"`` of ``torch.compile``.

    ``aot_autograd`` makes graphs of ATen operations of it, forward and backward, without mutations. Nodes that tileir
    does not support split a graph into parts, and run in eager. Dropout draws by seeds of PyTorch's generator; other
    random operations run in eager, so that their numbers are those of eager.

    Args:
        graph_module: The graph.
        example_inputs: Its inputs from Dynamo.
        keywords: ``options``, a mapping. With ``"fullgraph": True``, unsupported nodes are an error, which names all of
            them and their lines. With ``"fallback_random": True``, all random operations run in eager. With ``"cache":
            True``, PyTorch's cache of differentiated graphs also stores this one: that takes longer the first time, and
            less in later processes.

    Raises:
        ArgumentError: TIL707, there is no such option.
        TileError: TIL605, with ``fullgraph``.
    """
    options: Mapping[str, Any] = keywords.pop("options", None) or {}
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown or keywords:
        names = ", ".join((*unknown, *(name for name in keywords if name != "mode")))
        if names:
            raise ArgumentError.of("TIL707", f"there is no option {names}; there is {', '.join(_OPTIONS)}")
    is_whole, fallback = bool(options.get("fullgraph", False)), bool(options.get("fallback_random", False))

    make = partial(compiled, is_whole=is_whole, fallback_random=fallback)

    def compiler(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda module, _: make_boxed_func(make(module))

    def keeping(make: Callable[..., Any]) -> SerializableAOTDispatchCompiler:
        return SerializableAOTDispatchCompiler(KeptGraph, lambda module, _: KeptGraph(module, make))

    if not (options.get("cache", False) or is_asked()):
        return _by_autograd(compiler, make, graph_module, example_inputs)
    with kept(f"{is_whole} {fallback}"):
        return as_artifact(_by_autograd(keeping, make, graph_module, example_inputs))


def _by_autograd(
    compiler: Callable[[Any], Any], make: Any, graph_module: GraphModule, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """Return the result of ``aot_autograd`` for a graph with compilers for each direction."""
    with decompositions.mended():
        made: Callable[..., Any] = aot_autograd(
            fw_compiler=compiler(make),
            bw_compiler=compiler(partial(make, is_backward=True)),
            inference_compiler=compiler(make),
            partition_fn=partitioned,
            keep_inference_input_mutations=True,
            decompositions=decompositions.of_autograd(),
        )(graph_module, example_inputs)
    return made


def compiled(
    module: GraphModule, *, is_whole: bool = False, fallback_random: bool = False, is_backward: bool = False
) -> Callable[..., Any]:
    """Return a function for a graph of ATen operations with its supported parts compiled.

    Args:
        module: The graph, with fake tensors.
        is_whole: Whether unsupported nodes are an error.
        fallback_random: Whether all random operations run in eager.
        is_backward: Whether its outputs are gradients, the small ones of which may share memory.

    Raises:
        TileError: TIL605, there are such nodes; one diagnostic for each.
    """
    module, writes = _without_writes(module)
    count = len(module.graph.output_node().args[0])
    first = 0 if is_backward else count - (0 if writes is None else len(writes.copied))
    run = _compiled(module, is_whole, fallback_random, frozenset(range(first, count)))
    return run if writes is None else _writing(run, writes)


_OF_MEMORY: Final = frozenset({torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default})
"""Operations that read memory beyond the elements of their argument."""


def _compiled(
    module: GraphModule, is_whole: bool, fallback_random: bool, together: frozenset[int]
) -> Callable[..., Any]:
    whole = Specialising(module.graph, module, together=together)
    faults = [] if not fallback_random and whole.runs() else unsupported(module, fallback_random=fallback_random)
    if not faults:
        run = _or_eager(whole, module, is_whole=is_whole)
        return lambda *values: run(values)
    if is_whole:
        raise TileError([fault.diagnostic for fault in faults[:_MESSAGES]])
    names = {fault.node for fault in faults} | {
        node.name for node in module.graph.nodes if node.target in (PACKED, PART)
    }
    strided = (node for node in module.graph.nodes if node.name in names and node.target in _OF_MEMORY)
    names |= {owner_of_memory(node.args[0]).name for node in strided}  # whose results have the memory layout of eager
    module = _copied(module)  # as it is changed in place
    partitioner = CapabilityBasedPartitioner(
        module,
        _Supported(names),
        allows_single_node_partition=True,
        non_compute_ops=(),
        allowed_single_node_partition_ops=(),
    )
    parts = [part for part in partitioner.propose_partitions() if _computes(part.nodes)]
    fused = partitioner.fuse_partitions(parts)
    for node in list(fused.graph.nodes):
        if node.op == "call_module" and str(node.target).startswith("fused_"):
            part = fused.get_submodule(str(node.target))
            setattr(fused, str(node.target), _Part(part))
    fused.recompile()
    made: Callable[..., Any] = fused
    return made


@frozen
class _Writes:
    """Updates that a call of a graph makes to its inputs.

    Attributes:
        copied: Positions of inputs that become its last results, each with its dtype, and with None if it is written
            separately: PyTorch writes no list of tensors with negated memory.
        added: Positions of inputs to which a number is added, and the number: counters of batches, which nothing else
            reads.
    """

    copied: tuple[tuple[int, torch.dtype | None], ...]
    added: tuple[tuple[int, int | float], ...]


def _without_writes(module: GraphModule) -> tuple[GraphModule, _Writes | None]:
    """Return a graph without writes to inputs, and these writes; None if there are none."""

    def writes(node: Node) -> bool:
        return node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder"

    if not any(map(writes, module.graph.nodes)):
        return module, None
    module = _copied(module)
    graph, output = module.graph, module.graph.output_node()
    places = {node: at for at, node in enumerate(graph.find_nodes(op="placeholder"))}
    copied, added, values = [], [], []
    for node in [*filter(writes, graph.nodes)]:
        target, value = node.args
        if _is_counted(node):
            added.append((places[target], value.args[1]))
            graph.erase_node(node)
            graph.erase_node(value)
            continue
        copied.append((places[target], None if target.meta["val"].is_neg() else target.meta["val"].dtype))
        with graph.inserting_before(output):  # a returned input must not be written to before
            values.append(graph.call_function(torch.ops.aten.clone.default, (value,)))
        values[-1].meta["val"] = value.meta["val"].clone()
        node.replace_all_uses_with(value)
        graph.erase_node(node)
    output.args = ((*output.args[0], *values),)
    return module, _Writes(tuple(copied), tuple(added))


def _is_counted(node: Node) -> bool:
    """Return whether a node only writes the sum of its target and a number, and nothing else reads either."""
    target, value = node.args
    return (
        value.target is torch.ops.aten.add.Tensor
        and value.args[0] is target
        and isinstance(value.args[1], int | float)
        and not value.kwargs
        and value.meta["val"].dtype is target.meta["val"].dtype
        and not target.meta["val"].is_neg()
        and set(target.users) == {value, node}
        and set(value.users) == {node}
        and not node.users
    )


def _writing(run: Callable[..., Any], writes: _Writes) -> Callable[..., Any]:
    """Return calls whose last results are written to inputs, one call for each dtype."""
    kinds = {dtype: [n for n, (_, each) in enumerate(writes.copied) if each is dtype] for _, dtype in writes.copied}
    alone = kinds.pop(None, [])
    numbers = {number: [place for place, each in writes.added if each == number] for _, number in writes.added}
    places = [place for place, _ in writes.copied]

    def call(*values: Any) -> list[Any]:
        found = list(run(*values))
        new = found[len(found) - len(places) :]
        for positions in kinds.values():
            torch._foreach_copy_([values[places[n]] for n in positions], [new[n] for n in positions])
        for n in alone:
            values[places[n]].copy_(new[n])
        for number, counted in numbers.items():
            torch._foreach_add_([values[place] for place in counted], number)
        return found[: len(found) - len(places)]

    return call


def _copied(module: GraphModule) -> GraphModule:
    graph = Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return GraphModule(module, graph)


def _or_eager(run: Specialising, module: GraphModule, *, is_whole: bool = False) -> Callable[..., Any]:
    """Return calls of a graph that fall back to eager, with a warning, after the first error of tileir."""
    failed = False

    def call(values: Sequence[Any]) -> Any:
        nonlocal failed
        if not failed:
            try:
                return run(values)
            except TileError as error:
                if is_whole:
                    raise
                failed = True  # and not the error, whose traceback holds the tensors of this call
                told = f"a graph of {len(module.graph.nodes)} nodes runs in eager, as tileir does not compile it"
                warnings.warn(f"{told}: {error}", EagerWarning, stacklevel=4)
        return module(*values)

    return call


class EagerWarning(UserWarning):
    """A graph for tileir runs in eager."""


class _Supported(OperatorSupport):
    """Supported nodes: all that are not listed."""

    def __init__(self, unsupported_names: set[str]) -> None:
        super().__init__()
        self.names = unsupported_names

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:  # noqa: ARG002
        """Return whether tileir supports a node."""
        return node.op in ("call_function", "get_attr") and node.name not in self.names


class _Part(torch.nn.Module):
    """Compiled part of a graph."""

    def __init__(self, part: GraphModule) -> None:
        super().__init__()
        self.run = _or_eager(Specialising(part.graph, part), part)
        self.is_tuple = isinstance(part.graph.output_node().args[0], tuple | list)

    def forward(self, *values: Any) -> Any:
        """Return the results of the part."""
        found = self.run(values)
        return tuple(found) if self.is_tuple else found[0] if isinstance(found, list) else found


_MOVING: Final = frozenset(
    {
        "alias",
        "detach",
        "expand",
        "permute",
        "reshape",
        "squeeze",
        "t",
        "transpose",
        "unsqueeze",
        "view",
        "slice",
        "select",
    }
)
"""Operations that eager executes without accessing elements."""


def _computes(nodes: Mapping[Node, Any] | Sequence[Node]) -> bool:
    """Return whether a part does more than view memory differently."""
    targets = [str(node.target).split(".") for node in nodes if node.op == "call_function"]
    return any(
        len(parts) < 2 or parts[1] not in _MOVING for parts in targets if parts[0] != "<built-in function getitem>"
    )
