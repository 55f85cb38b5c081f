"""Graphs of ONNX models as immutable data: nodes, ports, and weights as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import ml_dtypes
import numpy as np
from attrs import field, frozen

from tileir import Source, Span, TileError
from tileir_onnx.kinds import Kind, word_of
from tileir_onnx.narrow import NARROW

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto, OperatorSetIdProto

Array: TypeAlias = np.ndarray[Any, Any]

Given: TypeAlias = "Port | Array | tuple[Given, ...] | None"
"""Known properties of an input: its type, with names for sizes that are not known yet, or its value; for a sequence one
of these for each element; None for nothing.
"""

DTYPES: Final[Mapping[int, np.dtype[Any]]] = MappingProxyType(
    {
        Kind.FLOAT: np.dtype(np.float32),
        Kind.DOUBLE: np.dtype(np.float64),
        Kind.FLOAT16: np.dtype(np.float16),
        Kind.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
        Kind.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
        Kind.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
        Kind.INT8: np.dtype(np.int8),
        Kind.INT16: np.dtype(np.int16),
        Kind.INT32: np.dtype(np.int32),
        Kind.INT64: np.dtype(np.int64),
        Kind.UINT8: np.dtype(np.uint8),
        Kind.UINT16: np.dtype(np.uint16),
        Kind.UINT32: np.dtype(np.uint32),
        Kind.UINT64: np.dtype(np.uint64),
        Kind.BOOL: np.dtype(np.bool_),
    }
)
"""Element types of tileir, by their numbers in ONNX."""


def _dtype(kind: int) -> np.dtype[Any] | None:
    return NARROW[kind].dtype if kind in NARROW else DTYPES.get(kind)


_LETTERS: Final = 200
"""Maximum number of shown characters of a name."""


def printable(name: str) -> str:
    """Return a name without unprintable characters, truncated to a readable length."""
    if name.isprintable() and len(name) <= _LETTERS:
        return name
    return "".join(each if each.isprintable() else f"\\{ord(each):x}" for each in name[:_LETTERS])


def domain_of(proto: NodeProto | OperatorSetIdProto) -> str:
    """Return a domain of operators; ONNX's own has two names, and is empty here."""
    return "" if proto.domain == "ai.onnx" else str(proto.domain)


class NeededError(TileError):
    """Values of inputs have to be known."""

    names: tuple[str, ...] = ()


@frozen
class Port:
    """Input or output of a graph.

    Attributes:
        name: Name.
        kind: A number of ``onnx.TensorProto.DataType``, or a word if it is not a tensor: ``sequence``, ``optional``.
        dims: A number for each axis, a name, or None for an unknown size; None for an unknown rank.
    """

    name: str
    kind: int | str
    dims: tuple[int | str | None, ...] | None

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of its arrays; None if tileir has no such element type."""
        return _dtype(self.kind) if isinstance(self.kind, int) else None

    @property
    def word(self) -> str:
        """The type in words, as in ``float[N, 3]``."""
        if isinstance(self.kind, str):
            return self.kind
        dims = "" if self.dims is None else f"[{', '.join('?' if dim is None else str(dim) for dim in self.dims)}]"
        return (word_of(self.kind) or f"type {self.kind}") + dims


class Library(Protocol):
    """Reader of functions as graphs."""

    def function(self, node: Node) -> FunctionProto | None:
        """Return the function of the model that a node calls."""
        ...

    def body(self, node: Node, function: FunctionProto) -> Graph:
        """Return the nodes of a function with the attributes of a node that calls it."""
        ...


@frozen(eq=False, slots=False)
class Node:
    """Node of a graph.

    Attributes:
        proto: Protobuf message of the node, never changed.
        version: Version of its domain's operators that the model requests.
        attributes: Values by name: numbers, texts, arrays, graphs, and tuples of these.
        file: Name of the model's file, for errors.
        library: Reader of the functions that nodes of the model call.
    """

    proto: NodeProto = field(repr=False)
    version: int
    attributes: Mapping[str, Any]
    file: str = ""
    library: Library | None = field(default=None, repr=False)

    @property
    def op(self) -> str:
        """The operator."""
        return str(self.proto.op_type)

    @property
    def domain(self) -> str:
        """The domain of the operator; empty for ONNX's own."""
        return domain_of(self.proto)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, empty for omitted inputs."""
        return tuple(self.proto.input)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, empty for unused outputs."""
        return tuple(self.proto.output)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """Graphs in attributes."""
        values = (each if isinstance(each, tuple) else (each,) for each in self.attributes.values())
        return tuple(each for several in values for each in several if isinstance(each, Graph))

    @property
    def place(self) -> str:
        """Place of the node, for errors."""
        first = printable(next(iter(self.outputs), ""))
        named = f"node '{printable(self.proto.name)}'" if self.proto.name else f"the node of '{first}'"
        return f"{printable(self.file)}: {named} ({printable(self.op)})"

    @property
    def span(self) -> Span:
        """The place as a span for errors."""
        return Span(Source(self.place, self.place, is_place=True), 0, len(self.place))


@frozen(eq=False)
class Graph:
    """Graph: nodes in topological order.

    Attributes:
        name: Name.
        inputs: Inputs, without weights.
        outputs: Results.
        nodes: The nodes.
        weights: Constants by name, which no node makes.
        defaults: Weights that may also be passed.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: tuple[Node, ...]
    weights: Mapping[str, Array] = field(repr=False)
    defaults: tuple[Port, ...] = ()
