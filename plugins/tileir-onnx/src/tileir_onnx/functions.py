"""Nodes that are functions of other nodes: the model's own functions, and those that ONNX defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import define, field
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, defs

from tileir_onnx.graph import Graph, Node, domain_of

Key: TypeAlias = tuple[str, str, str]
"""Domain, name and overload of a function."""

_NODES: Final = 1_000_000
"""Maximum number of nodes that calls of a model's functions expand to, in total."""
_DEPTH: Final = 32
"""Maximum nesting of function calls."""


def key_of(proto: NodeProto) -> Key:
    """Return the key of the function that a node calls."""
    return domain_of(proto), proto.op_type, proto.overload


def nodes_within(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield nodes, and those of graphs in their attributes."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in (*attribute.graphs, attribute.g) if attribute.HasField("g") else attribute.graphs:
                waiting.extend(graph.node)


@define
class _Sizes:
    """Counts of nodes that functions expand to, found depth first."""

    functions: Mapping[Key, FunctionProto]
    counts: dict[Key, int] = field(factory=dict)

    def count(self, key: Key, path: tuple[Key, ...] = ()) -> int:
        if key in path:
            told = " calls ".join(name for _, name, _ in (*path[path.index(key) :], key))
            raise ValueError(f"has functions without an end: {told}")
        if len(path) >= _DEPTH:
            raise ValueError(f"has functions that call functions, more than {_DEPTH} deep")
        if key not in self.counts:
            self.counts[key] = self.all(self.functions[key].node, (*path, key))
        return self.counts[key]

    def all(self, nodes: Iterable[NodeProto], path: tuple[Key, ...] = ()) -> int:
        calls = (key_of(each) for each in nodes_within(nodes))
        return sum(self.count(key, path) if key in self.functions else 1 for key in calls)


def check_calls(graph: GraphProto, functions: Mapping[Key, FunctionProto]) -> None:
    """Check that functions of a model are not recursive, and do not expand to too many nodes.

    Raises:
        ValueError: They do.
    """
    sizes = _Sizes(functions)
    for key in functions:
        sizes.count(key)
    if (total := sizes.all(graph.node)) > _NODES:
        raise ValueError(f"has functions that stand for {total} nodes, more than {_NODES}")


def defined(node: Node, types: Sequence[TypeProto | None] | None) -> FunctionProto | None:
    """Return ONNX's definition of a node by others; None if there is none.

    Args:
        node: The node.
        types: Types of its inputs, which some definitions depend on; None if unknown.
    """
    schema = _schema(node)
    if schema is None:
        return None
    fixed = [each for each in schema.function_opset_versions if each <= node.version]
    if fixed:
        body: FunctionProto = FunctionProto.FromString(schema.get_function_with_opset_version(max(fixed)))
        return body
    dependent = [each for each in schema.context_dependent_function_opset_versions if each <= node.version]
    if not dependent or types is None:
        return None
    given = [(each or TypeProto()).SerializeToString() for each in types]
    try:
        made: bytes = schema.get_context_dependent_function_with_opset_version(
            max(dependent), node.proto.SerializeToString(), given
        )
    except RuntimeError:  # an assertion in ONNX's own code, about types that it does not have
        return None
    return FunctionProto.FromString(made) if made else None


def depends_on_types(node: Node) -> bool:
    """Return whether ONNX defines a node by others depending on the types of its inputs."""
    schema = _schema(node)
    return schema is not None and bool(schema.has_context_dependent_function)


def _schema(node: Node) -> Any:
    """Return ONNX's description of an operator; its type stubs lack functions."""
    try:
        return defs.get_schema(node.op, node.version, node.domain)
    except defs.SchemaError:
        return None


def expanded(node: Node, types: Sequence[TypeProto | None] | None = None) -> Graph | None:
    """Return the expansion of a node; None if it is not a function, or depends on unknown types.

    Args:
        node: The node.
        types: Types of its inputs.
    """
    if node.library is None:
        return None
    function = node.library.function(node) or defined(node, types)
    return None if function is None else node.library.body(node, function)


def attributes_of(node: Node, function: FunctionProto) -> dict[str, AttributeProto]:
    """Return the attributes of a call: those of the node, else the defaults of the function or of the operator."""
    found = {each.name: each for each in function.attribute_proto}
    if not found and (schema := _schema(node)) is not None:
        defaults = ((name, each.default_value) for name, each in schema.attributes.items())
        found = {name: each for name, each in defaults if each.name}
    return found | {each.name: each for each in node.proto.attribute}


def called(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> NodeProto:
    """Return a node of a function for a call: references to attributes are replaced, in graphs as well."""
    if not any(each.ref_attr_name or each.HasField("g") or each.graphs for each in node.attribute):
        return node
    made = NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for each in node.attribute:
        if each.ref_attr_name:
            if each.ref_attr_name in attributes:  # else the operator's own default holds
                made.attribute.add().CopyFrom(attributes[each.ref_attr_name])
                made.attribute[-1].name = each.name
            continue
        attribute = made.attribute.add()
        attribute.CopyFrom(each)
        for graph in (*attribute.graphs, attribute.g) if attribute.HasField("g") else attribute.graphs:
            nodes = [called(inner, attributes) for inner in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
    return made
