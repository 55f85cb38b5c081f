"""Import of graphs as Tile functions: nodes run in order on a builder's tensors, or on known values."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterator, Mapping, MutableMapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from attrs import define, evolve, field, frozen
from onnx import TensorProto, TypeProto, helper

from tileir import Diagnostic, DType, Function, FunctionBuilder, TileError, ops
from tileir.tile.builder import Dim, Tensor
from tileir_onnx.folding import folded
from tileir_onnx.functions import Key, depends_on_types, expanded, key_of
from tileir_onnx.graph import DTYPES, Array, Given, Graph, NeededError, Node, Port, printable
from tileir_onnx.narrow import KINDS, NARROW, held
from tileir_onnx.rows.table import Row, row_of
from tileir_onnx.symbols import dtype_of

Value: TypeAlias = Any
"""Meaning of a name of a graph: a tensor; an array if it is known, with a Dim for each symbolic size; Items for a
sequence; Sized if the number of elements depends on data; None for an omitted input.
"""

Sizes: TypeAlias = "tuple[Dim | int, ...]"

_MOVING: Final = frozenset(
    [
        "Concat",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Pad",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    ]
)
"""Operators whose results have the element type of their inputs, for any type."""
_MESSAGES: Final = 20
"""Maximum number of reported faults of one model."""
_SMALL: Final = 64
"""Maximum number of elements of inputs known by value."""


@frozen(eq=False)
class Sized:
    """Tensor with a data-dependent number of valid elements.

    Attributes:
        tensor: The tensor at its maximum size.
        count: A scalar: number of valid elements along an axis, from its beginning.
        axis: The axis.
    """

    tensor: Tensor
    count: Tensor
    axis: int = 0


class Items(tuple[Any, ...]):
    """Sequence of known length."""

    __slots__ = ()


class StepError(Exception):
    """A graph cannot be the step of a loop."""


class MissingError(StepError):
    """The step of a loop reads an array that was not passed to it."""

    def __init__(self, array: Array) -> None:
        """Keep the array."""
        super().__init__()
        self.array = array


@frozen(eq=False)
class Imported:
    """Function made of a graph.

    Attributes:
        function: The function; None if all results are known.
        inputs: Its inputs among those of the graph, in order.
        results: Results of the graph in order: arrays if they are known, else their structure in the function's
            results.
        kinds: Results of the function with narrow element types, and the numbers of their types.
    """

    function: Function | None
    inputs: tuple[str, ...]
    results: tuple[Value, ...]
    kinds: Mapping[Tensor, int] = MappingProxyType({})

    def results_of(self, found: Iterator[Any]) -> Iterator[Any]:
        """Yield results of the graph for those of the function."""
        for value in self.results:
            yield self._result_of(value, found)

    def _result_of(self, value: Value, found: Iterator[Any]) -> Any:
        if isinstance(value, Tensor):
            array = next(found)
            return array if value not in self.kinds else np.asarray(array).astype(NARROW[self.kinds[value]].dtype)
        if isinstance(value, Sized):
            array, count = self._result_of(value.tensor, found), int(next(found))
            return array[(slice(None),) * value.axis + (slice(count),)]
        return [self._result_of(each, found) for each in value] if isinstance(value, tuple) else value


def imported(graph: Graph, inputs: Mapping[str, Given]) -> Imported:
    """Return the function of a graph.

    Args:
        graph: The graph.
        inputs: For each input its type, with names for sizes that are not known yet, or its value; for a sequence one
            of these for each element; None for nothing.

    Raises:
        TileError: TIL605, the model uses unsupported features; one diagnostic for each node; TIL606, the value of an
            input must be known; TIL604, a result has other elements than the graph declares; or the sizes of a node do
            not match.
    """
    check(graph)
    builder, names = FunctionBuilder(), Names()
    free = {port.name: port for each in inputs.values() for port in ports_of(each)}
    declared = {name: _input(builder, port, names) for name, port in free.items()}
    given = {name: _value(declared, each) for name, each in inputs.items()}
    importer = Importer(builder, {}, free)
    for name, value in given.items():
        importer.comes_from(name, value)
    for name, port in free.items():
        importer.has_kind(declared[name], port.kind)
    tensors: dict[str, Tensor] = {}
    results: list[Value] = []
    for port, made in zip(graph.outputs, importer.run(graph, given), strict=True):
        value = importer.tensor(made) if isinstance(made, np.ndarray) and made.dtype == object else made
        _check_elements(port, value)
        results.append(value)
        for number, tensor in enumerate(parts(value)):
            tensors[names.result(f"{port.name}.{number}" if number else port.name)] = tensor
    kinds = {tensor: kind for tensor in tensors.values() if (kind := importer.kind_of(tensor)) is not None}
    return Imported(builder.build(**tensors) if tensors else None, tuple(free), tuple(results), kinds)


def _check_elements(port: Port, value: Value) -> None:
    """Check that a result has the declared element type.

    Raises:
        TileError: TIL604, it does not.
    """
    if not isinstance(value, Tensor | np.ndarray) or port.dtype is None:
        return
    wanted, found = DType.of(port.dtype), value.dtype if isinstance(value, Tensor) else DType.of(value.dtype)
    if wanted is not None and found is not None and found is not wanted:
        message = f"result {port.name!r} is {port.word} in the model, and its nodes make {found.value} of it"
        raise TileError.of("TIL604", f"{message}: declare that, or cast it")


@define
class Names:
    """Unique names of a function's inputs, sizes and results, based on those of the graph."""

    _sizes: dict[str, str] = field(factory=dict)
    _taken: set[str] = field(factory=set)

    def input(self, name: str) -> str:
        """Return the name of an input."""
        return self._free(name)

    def size(self, name: str) -> str:
        """Return the name of a dimension, one for each name of the graph."""
        if name not in self._sizes:
            self._sizes[name] = self._free(name)
        return self._sizes[name]

    def result(self, name: str) -> str:
        """Return the name of a result."""
        return self._free(name)

    def _free(self, name: str) -> str:
        printed = printable(name) or "_"
        while printed in self._taken:
            printed += "'"
        self._taken.add(printed)
        return printed


def parts(value: Value) -> tuple[Tensor, ...]:
    """Return the tensors that a value consists of."""
    if isinstance(value, Tensor):
        return (value,)
    if isinstance(value, Sized):
        return value.tensor, value.count
    return tuple(part for each in value for part in parts(each)) if isinstance(value, tuple) else ()


def ports_of(given: Given) -> tuple[Port, ...]:
    """Return the function's inputs for an input of the graph."""
    if isinstance(given, Port):
        return (given,)
    return tuple(port for each in given for port in ports_of(each)) if isinstance(given, tuple) else ()


def _value(declared: Mapping[str, Tensor], given: Given) -> Value:
    if isinstance(given, Port):
        return declared[given.name]
    return Items(_value(declared, each) for each in given) if isinstance(given, tuple) else given


def _input(builder: FunctionBuilder, port: Port, names: Names) -> Tensor:
    assert port.dtype is not None
    name, narrow = names.input(port.name), NARROW.get(port.kind) if isinstance(port.kind, int) else None
    dtype = DType.of(port.dtype) if narrow is None else narrow.held
    given = (f"{port.name}_{axis}" if dim is None else dim for axis, dim in enumerate(port.dims or ()))
    dims = [names.size(dim) if isinstance(dim, str) else dim for dim in given]
    return builder.input(name, *dims, dtype=dtype) if dims else builder.scalar(name, dtype)


def check(graph: Graph) -> None:
    """Check that there is a row for each node, for any sizes; also in subgraphs and functions.

    Raises:
        TileError: TIL605, there is none; one diagnostic for each node.
    """
    unsupported = list(_unsupported(graph, set()))
    if unsupported:
        raise TileError(unsupported[:_MESSAGES])


def _unsupported(graph: Graph, functions: set[Key]) -> Iterator[Diagnostic]:
    for node in graph.nodes:
        for inner in node.graphs:
            yield from _unsupported(inner, functions)
        row = None if _is_called(node) else row_of(node)
        if row is not None:
            unknown = sorted(node.attributes.keys() - row.attributes)
            if unknown:
                message = f"tileir's {node.op} of version {node.version} has no attribute {', '.join(unknown)}"
                yield Diagnostic("TIL605", message, node.span)
        elif key_of(node.proto) not in functions:
            body = expanded(node)
            if body is not None:
                functions.add(key_of(node.proto))
                yield from _unsupported(body, functions)
            elif not depends_on_types(node):
                yield Diagnostic("TIL605", _no_operator(node), node.span)


def _is_called(node: Node) -> bool:
    return node.library is not None and node.library.function(node) is not None


def _no_operator(node: Node) -> str:
    domain = f"{node.domain}." if node.domain else ""
    return f"tileir has no operator {domain}{node.op} of version {node.version}"


@define(eq=False)
class Importer:
    """Runner of graphs on tensors of a builder.

    Attributes:
        builder: Recorder of the tensors.
        values: Values of names; names of subgraphs hide outer names.
        free: Inputs whose values are not known.
        is_closed: Whether it runs the step of a loop, to which all arrays are passed.
    """

    builder: FunctionBuilder
    values: MutableMapping[str, Value]
    free: Mapping[str, Port]
    _origins: dict[Tensor, frozenset[str]] = field(factory=dict)
    _constants: dict[Hashable, tuple[Array, Tensor]] = field(factory=dict)
    _kinds: dict[Tensor, int] = field(factory=dict)
    is_closed: bool = False

    def comes_from(self, name: str, value: Value) -> None:
        """Record that a value comes from an input of the model, whose value may be needed."""
        if isinstance(value, Tensor):
            self._origins[value] = frozenset({name})

    def has_kind(self, tensor: Tensor, kind: int | str) -> None:
        """Record the number of a tensor's narrow element type."""
        if kind in NARROW and isinstance(kind, int):
            self._kinds[tensor] = kind

    def kind_of(self, value: Value) -> int | None:
        """Return the number of a value's narrow element type; None for other types."""
        return KINDS.get(value.dtype) if isinstance(value, np.ndarray) else self._kinds.get(value)

    def run(self, graph: Graph, inputs: Mapping[str, Value]) -> tuple[Value, ...]:
        """Return the results of a graph.

        Args:
            graph: The graph.
            inputs: Values of its inputs.

        """
        self.values.update(graph.weights)
        self.values.update(inputs)
        for node in graph.nodes:
            results = self._node(node)
            self.values.update((name, each) for name, each in zip(node.outputs, results, strict=False) if name)
        return tuple(self._made(graph, port.name) for port in graph.outputs)

    def _made(self, graph: Graph, name: str) -> Value:
        if name not in self.values:
            raise TileError.of("TIL604", f"nothing makes {name!r}, a result of graph {graph.name!r}")
        return self.values[name]

    def inner(self, graph: Graph, inputs: Sequence[Value] = ()) -> tuple[Value, ...]:
        """Return the results of a subgraph, which sees the enclosing names."""
        scope = self._within(ChainMap({}, self.values))
        return scope.run(graph, dict(zip((port.name for port in graph.inputs), inputs, strict=True)))

    def _within(self, values: MutableMapping[str, Value]) -> Importer:
        """Return an importer with this builder and other names."""
        return evolve(
            self,
            values=values,
            origins=self._origins,
            constants=self._constants,
            kinds=self._kinds,
            is_closed=self.is_closed,
        )

    def step(self, values: Mapping[str, Value], constants: Sequence[tuple[Array, Tensor]]) -> Importer:
        """Return an importer for the step of a loop, which only sees the given values.

        Args:
            values: Values of names in the step.
            constants: Arrays, and the tensors that they are in the step.
        """
        known = {_key(array): (array, tensor) for array, tensor in constants}
        return evolve(self, values=dict(values), free={}, origins={}, constants=known, is_closed=True)

    def _node(self, node: Node) -> tuple[Value, ...]:
        arguments = [self._read(node, name) for name in node.inputs]
        with self.builder.at(node.place):
            if _is_called(node):
                return self._expanded(node, arguments)
            if (known := folded(node, arguments)) is not None:
                return known
            row = row_of(node)
            results = self._expanded(node, arguments) if row is None else self._of_row(node, row, arguments)
        origins: frozenset[str] = frozenset().union(
            *(self._origins.get(part, frozenset()) for each in arguments for part in parts(each))
        )
        kinds = {self.kind_of(each) for each in arguments if isinstance(each, Tensor | np.ndarray)}
        kind = next((each for each in kinds if each is not None), None)
        for each in results:
            for part in parts(each):
                self._origins.setdefault(part, origins)
                if node.op in _MOVING and kind is not None:
                    self._kinds.setdefault(part, kind)
        return results

    def _of_row(self, node: Node, row: Row, arguments: Sequence[Value]) -> tuple[Value, ...]:
        try:
            results = row.function(Call(self, node), *self._arguments(node, row, arguments), **node.attributes)
        except (TileError, StepError):
            raise
        except Exception as error:  # rows meet arbitrary attributes and inputs of files
            raise TileError.of("TIL605", f"{node.op} cannot be imported: {error}", node.span) from error
        return results if isinstance(results, tuple) and not isinstance(results, Items) else (results,)

    def _expanded(self, node: Node, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Return the results of a node that is a function of others."""
        body = expanded(node, [self._type(each) for each in arguments])
        if body is None:
            raise TileError.of("TIL605", _no_operator(node), node.span)
        check(body)
        if len(arguments) > len(body.inputs):
            raise TileError.of("TIL604", f"it has {len(arguments)} inputs, and {len(body.inputs)} are known", node.span)
        given = dict.fromkeys((port.name for port in body.inputs), None)
        given.update(zip(given, arguments, strict=False))
        return self._within({}).run(body, given)

    def _type(self, value: Value) -> TypeProto | None:
        """Return the ONNX type of a value."""
        if isinstance(value, Tensor):
            sizes = [size if isinstance(size, int) else None for size in value.shape]
            return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype.numpy), sizes)
        if isinstance(value, np.ndarray):
            return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype_of(value)), value.shape)
        element = self._type(value[0]) if isinstance(value, tuple) and value else None
        return None if element is None else helper.make_sequence_type_proto(element)

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
            if isinstance(value, Sized):
                told = f"how many elements {node.inputs[position]!r} has is known only when the model has run"
                raise TileError.of("TIL605", f"{told}: it can be a result, and no more", node.span)
            if value is None or isinstance(value, tuple) or row.raw:
                yield value
            elif row.parameter(position) in row.known:
                yield self.known(node, position, value)
            else:
                yield self.tensor(value)

    def tensor(self, value: Value) -> Tensor:
        """Return a value as a tensor; an array becomes a constant, once.

        Raises:
            TileError: TIL605, it is a sequence, or its number of elements depends on data.
            MissingError: It is an array that was not passed to the step of a loop.
        """
        if isinstance(value, Tensor):
            return value
        if not isinstance(value, np.ndarray):
            raise TileError.of("TIL605", "an input is a sequence, nothing, or of a size that is not known yet")
        if value.dtype == object:
            return self._of_sizes(value)
        key = _key(value)
        if key not in self._constants:  # the array is kept, so that its id is not reused
            if self.is_closed:
                raise MissingError(value)
            self._constants[key] = (value, self.builder.constant(held(value)))
            self.has_kind(self._constants[key][1], KINDS.get(value.dtype, 0))
        return self._constants[key][1]

    def _of_sizes(self, array: Array) -> Tensor:
        numpy = dtype_of(array)
        dtype = DType.of(numpy)
        assert dtype is not None
        elements = [
            ops.cast(each, dtype) if isinstance(each, Dim) else self.tensor(np.array(each, numpy))
            for each in array.flat
        ]
        if not array.ndim:
            return elements[0]
        return ops.reshape(ops.stack(elements), *array.shape)

    def known(self, node: Node, position: int, value: Value) -> Array:
        """Return an input as an array.

        Raises:
            NeededError: TIL606, it depends on the values of inputs of the model.
        """
        if isinstance(value, np.ndarray):
            return value
        name = node.inputs[position]
        needed = self.needed(value)
        if not needed:
            message = f"{name!r} decides about sizes, and is computed from more than what tileir computes beforehand"
            raise TileError.of("TIL605", message, node.span)
        named = " and ".join(map(repr, needed))
        advice = f"pass values={{{needed[0]!r}: …}}"
        message = f"sizes follow from {name!r}, so that the value of {named} must be known: {advice}"
        error = NeededError.of("TIL606", message, node.span)
        error.names = needed
        raise error

    def needed(self, value: Value) -> tuple[str, ...]:
        """Return the inputs of the model that determine a tensor's value; none if one of them is large."""
        names = frozenset[str]().union(*(self._origins.get(part, frozenset()) for part in parts(value)))
        sizes = (self.free[name].dims or () for name in names)
        small = all(prod(size for size in dims if isinstance(size, int)) <= _SMALL for dims in sizes)
        return tuple(name for name in self.free if name in names) if small else ()


def _key(array: Array) -> Hashable:
    """Return the key of a constant: small constants by their elements."""
    return (array.dtype.str, array.shape, array.tobytes()) if array.nbytes <= _SMALL * 8 else id(array)


@frozen(eq=False)
class Call:
    """Node being imported, for its row.

    Attributes:
        importer: The importer.
        node: The node.
    """

    importer: Importer
    node: Node

    @property
    def version(self) -> int:
        """Version of the operators that the model requests."""
        return self.node.version

    @property
    def outputs(self) -> tuple[bool, ...]:
        """True for each output that is used."""
        return tuple(map(bool, self.node.outputs))

    @property
    def in_loop(self) -> bool:
        """True for nodes in the step of a loop, which cannot make arrays."""
        return self.importer.is_closed

    def tensor(self, value: Value) -> Tensor:
        """Return a value as a tensor.

        Raises:
            TileError: TIL605, it is a sequence, nothing, or its number of elements depends on data.
        """
        if not isinstance(value, Tensor | np.ndarray):
            raise self.fault("an input is a sequence, nothing, or of a size that is known only when the model has run")
        return self.importer.tensor(value)

    def known(self, position: int) -> Array | None:
        """Return an input if its elements are known, else None."""
        name = self.node.inputs[position]
        value = self.importer.values[name] if name else None
        return value if isinstance(value, np.ndarray) and value.dtype != object else None

    def inner(self, graph: Graph, *inputs: Value) -> tuple[Value, ...]:
        """Return the results of a graph in an attribute."""
        return self.importer.inner(graph, inputs)

    def value(self, position: int, value: Value) -> Array | None:
        """Return a value as an array; None if it depends on data or on floats, which differ from call to call.

        Raises:
            NeededError: TIL606, it depends on the values of small integer inputs.
        """
        names = () if isinstance(value, np.ndarray) else self.importer.needed(value)
        dtypes = [self.importer.free[name].dtype for name in names]
        if isinstance(value, np.ndarray) or (names and all(each is not None and each.kind in "iub" for each in dtypes)):
            return self.importer.known(self.node, position, value)
        return None

    def check_value(self, position: int, value: Value) -> None:
        """Request the values of the inputs that a value depends on, if a node needs it.

        Raises:
            NeededError: TIL606, it depends on the values of small inputs.
        """
        if self.importer.needed(value):
            self.importer.known(self.node, position, value)

    def kind(self, position: int) -> int | None:
        """Return the number of an input's narrow element type; None for other types."""
        name = self.node.inputs[position] if position < len(self.node.inputs) else ""
        return self.importer.kind_of(self.importer.values[name]) if name else None

    def of_kind(self, tensor: Tensor, kind: int) -> Tensor:
        """Return a tensor after recording its narrow element type."""
        self.importer.has_kind(tensor, kind)
        return tensor

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
        """Return the error for a feature that the row lacks, to be raised by the caller."""
        return TileError.of("TIL605", message, self.node.span)
