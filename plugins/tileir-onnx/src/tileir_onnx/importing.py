"""Graphs as functions of Tile: nodes are called one after the other on tensors of a builder, or on what is known."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from attrs import define, evolve, field, frozen
from onnx import TensorProto

from tileir import Diagnostic, DType, Function, FunctionBuilder, TileError, ops
from tileir.tile.builder import Dim, Tensor
from tileir_onnx.folding import folded
from tileir_onnx.functions import expanded
from tileir_onnx.graph import DTYPES, Array, Graph, Node, Port
from tileir_onnx.rows.table import Row, row_of

Value: TypeAlias = Any
"""The meaning of a name of a graph: a tensor; an array where it is known, with a Dim for each size that is a symbol; a
tuple of these for a sequence; None for an input that was left out."""

Sizes: TypeAlias = "tuple[Dim | int, ...]"

_MESSAGES: Final = 20
"""Faults of one model that are told."""


class NeededError(TileError):
    """The value of inputs has to be known."""

    names: tuple[str, ...] = ()


@frozen(eq=False)
class Imported:
    """A function that was made of a graph.

    Attributes:
        function: The function; None where all results are known.
        inputs: The inputs of the graph that it has, in order.
        known: Results that are known when compiling, by their names.

    """

    function: Function | None
    inputs: tuple[str, ...]
    known: Mapping[str, Array]


def imported(graph: Graph, inputs: Mapping[str, Port | Array]) -> Imported:
    """Return the function of a graph.

    Args:
        graph: The graph.
        inputs: For each input its type, in which a name is a size that is not known yet, or the value that it has.

    Raises:
        TileError: TIL605, the model asks for what there is not; one diagnostic for each node; TIL606, the value of an
            input must be known; or the sizes of a node do not go together.

    """
    check(graph)
    builder = FunctionBuilder()
    values: dict[str, Value] = {}
    for name, given in inputs.items():
        values[name] = given if isinstance(given, np.ndarray) else _input(builder, given)
    free = tuple(name for name, each in inputs.items() if isinstance(each, Port))
    importer = Importer(builder, ChainMap(values), free)
    results = importer.run(graph)
    tensors = {port.name: each for port, each in zip(graph.outputs, results, strict=True) if isinstance(each, Tensor)}
    known = {port.name: each for port, each in zip(graph.outputs, results, strict=True) if not isinstance(each, Tensor)}
    for name in [name for name, each in known.items() if each.dtype == object]:
        tensors[name] = importer.tensor(known.pop(name))
    if not tensors:
        return Imported(None, free, known)
    return Imported(builder.build(**{_result(name, free): each for name, each in tensors.items()}), free, known)


def check(graph: Graph) -> None:
    """Check that there is a row for each node, whatever the sizes are.

    Raises:
        TileError: TIL605, there is none; one diagnostic for each node.

    """
    unsupported = list(_unsupported(graph))
    if unsupported:
        raise TileError(unsupported[:_MESSAGES])


def _input(builder: FunctionBuilder, port: Port) -> Tensor:
    assert port.dtype is not None
    dims = [f"{port.name}_{axis}" if dim is None else dim for axis, dim in enumerate(port.dims or ())]
    dtype = DType.of(port.dtype)
    return builder.input(port.name, *dims, dtype=dtype) if dims else builder.scalar(port.name, dtype)


def _result(name: str, inputs: Sequence[str]) -> str:
    """Return the name of a result in the function; an input that is handed through has the graph's."""
    return f"{name}'" if name in inputs else name


def _unsupported(graph: Graph) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each node that no row serves, in graphs within it as well."""
    for node in graph.nodes:
        for value in node.attributes.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if isinstance(inner, Graph):
                    yield from _unsupported(inner)
        row = row_of(node)
        if row is None:
            body = expanded(node)
            if body is None:
                domain = f"{node.domain}." if node.domain else ""
                message = f"tileir has no operator {domain}{node.op} of version {node.version}"
                yield Diagnostic("TIL605", message, node.span)
            else:
                yield from _unsupported(body.graph)
            continue
        unknown = sorted(node.attributes.keys() - row.attributes)
        if unknown:
            message = f"tileir's {node.op} of version {node.version} has no attribute {', '.join(unknown)}"
            yield Diagnostic("TIL605", message, node.span)


@define(eq=False)
class Importer:
    """Runs graphs on tensors of a builder.

    Attributes:
        builder: Where tensors are recorded.
        values: What names stand for; those of graphs within graphs hide those around them.
        free: Inputs whose values are not known.

    """

    builder: FunctionBuilder
    values: MutableMapping[str, Value]
    free: tuple[str, ...]
    _makers: dict[str, Node] = field(factory=dict)
    _constants: dict[int, tuple[Array, Tensor]] = field(factory=dict)

    def run(self, graph: Graph, inputs: Sequence[Value] = ()) -> tuple[Value, ...]:
        """Return the results of a graph.

        Args:
            graph: The graph.
            inputs: Values of its inputs, in order; those that have values already are left out.

        """
        self.values.update(graph.weights)
        self.values.update(zip((port.name for port in graph.inputs), inputs, strict=False))
        for node in graph.nodes:
            results = self._node(node)
            self.values.update((name, each) for name, each in zip(node.outputs, results, strict=False) if name)
            self._makers.update((name, node) for name in node.outputs if name)
        return tuple(self.values[port.name] for port in graph.outputs)

    def inner(self, graph: Graph, inputs: Sequence[Value] = ()) -> tuple[Value, ...]:
        """Return the results of a graph within this one, which sees the names around it."""
        return self._scope(ChainMap({}, self.values)).run(graph, inputs)

    def _scope(self, values: MutableMapping[str, Value]) -> Importer:
        return evolve(self, values=values, makers=self._makers, constants=self._constants)

    def _node(self, node: Node) -> tuple[Value, ...]:
        arguments = [self._read(node, name) for name in node.inputs]
        with self.builder.at(node.place):
            if (known := folded(node, arguments)) is not None:
                return known
            row = row_of(node)
            if row is None:
                return self._expanded(node, arguments)
            try:
                results = row.function(Call(self, node), *self._arguments(node, row, arguments), **node.attributes)
            except (TypeError, ValueError, IndexError, NotImplementedError) as error:
                if isinstance(error, TileError):
                    raise
                raise TileError.of("TIL605", f"{node.op} cannot be imported: {error}", node.span) from error
        return results if isinstance(results, tuple) else (results,)

    def _expanded(self, node: Node, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Return the results of a node that is a function of others."""
        body = expanded(node)
        if body is None:
            raise TileError.of("TIL605", f"tileir has no operator {node.op}", node.span)
        given = (*arguments, *(None for _ in range(len(body.graph.inputs) - len(arguments))))
        return self._scope({}).run(body.graph, given)

    def _read(self, node: Node, name: str) -> Value:
        if not name:
            return None
        if name not in self.values:
            raise TileError.of("TIL604", f"it reads {name!r}, which nothing makes before it", node.span)
        return self.values[name]

    def _arguments(self, node: Node, row: Row, values: Sequence[Value]) -> Iterator[Value]:
        if len(values) < row.needed or (len(values) > len(row.inputs) and not row.variadic):
            raise TileError.of("TIL605", f"{node.op} has {len(values)} inputs here", node.span)
        for position, value in enumerate(values):
            if value is None or isinstance(value, tuple):
                yield value
            elif row.parameter(position) in row.known:
                yield self.known(node, position, value)
            else:
                yield self.tensor(value)

    def tensor(self, value: Value) -> Tensor:
        """Return a value as a tensor; an array becomes a constant, once."""
        if isinstance(value, Tensor):
            return value
        key = id(value)
        if key not in self._constants:  # the array is kept, so that nothing else gets its id
            self._constants[key] = (value, self._constant(value))
        return self._constants[key][1]

    def _constant(self, array: Array) -> Tensor:
        if array.dtype != object:
            return self.builder.constant(array)
        elements = [ops.cast(each, "i64") for each in array.flat]
        if not array.ndim:
            return elements[0]
        return ops.reshape(ops.stack(elements), *array.shape)

    def known(self, node: Node, position: int, value: Value) -> Array:
        """Return an input as an array.

        Raises:
            NeededError: TIL606, it follows from the values of inputs of the model.

        """
        if isinstance(value, np.ndarray):
            return value
        name = node.inputs[position]
        needed = tuple(dict.fromkeys(self._origins(name)))
        if not needed:
            message = f"{name!r} decides about sizes, and is computed from more than what tileir computes beforehand"
            raise TileError.of("TIL605", message, node.span)
        named = " and ".join(map(repr, needed))
        advice = f"pass values={{{needed[0]!r}: …}}"
        message = f"sizes follow from {name!r}, so that the value of {named} must be known: {advice}"
        error = NeededError.of("TIL606", message, node.span)
        error.names = needed
        raise error

    def _origins(self, name: str) -> Iterator[str]:
        """Yield the inputs of the model that a value is computed from."""
        seen, waiting = set(), [name]
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            if each in self._makers:
                waiting.extend(filter(None, self._makers[each].inputs))
            elif each in self.free:
                yield each


@frozen(eq=False)
class Call:
    """A node that is being imported, for its row.

    Attributes:
        importer: What imports it.
        node: The node.

    """

    importer: Importer
    node: Node

    @property
    def version(self) -> int:
        """The version of the operators that the model asks for."""
        return self.node.version

    @property
    def outputs(self) -> tuple[bool, ...]:
        """Which outputs somebody reads."""
        return tuple(map(bool, self.node.outputs))

    def tensor(self, value: Value) -> Tensor:
        """Return a value as a tensor."""
        return self.importer.tensor(value)

    def inner(self, graph: Graph, *inputs: Value) -> tuple[Value, ...]:
        """Return the results of a graph that is an attribute."""
        return self.importer.inner(graph, inputs)

    def dtype(self, number: int) -> DType:
        """Return the element type of a number of ``onnx.TensorProto.DataType``.

        Raises:
            TileError: TIL605, tileir has no such type.

        """
        found = DTYPES.get(number)
        dtype = None if found is None else DType.of(found)
        if dtype is None:
            word = TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else number
            raise self.fault(f"tileir has no element type {word}")
        return dtype

    def fault(self, message: str) -> TileError:
        """Build the error for what the row does not have, to be raised by the caller."""
        return TileError.of("TIL605", message, self.node.span)
