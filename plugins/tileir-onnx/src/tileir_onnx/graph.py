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
"""Knowledge of an input: its type, in which a name is a size that is not known yet, or its value; for a sequence one of
these for each element; None for nothing."""

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
"""Element types that tileir has, by their numbers in ONNX."""


def _dtype(kind: int) -> np.dtype[Any] | None:
    return NARROW[kind].dtype if kind in NARROW else DTYPES.get(kind)


_LETTERS: Final = 200
"""Letters of a name that are shown."""


def printable(name: str) -> str:
    """Return a name without letters that cannot be printed, and not longer than can be read."""
    if name.isprintable() and len(name) <= _LETTERS:
        return name
    return "".join(each if each.isprintable() else f"\\{ord(each):x}" for each in name[:_LETTERS])


def domain_of(proto: NodeProto | OperatorSetIdProto) -> str:
    """Return a domain of operators; ONNX's own has two names, and is empty here."""
    return "" if proto.domain == "ai.onnx" else str(proto.domain)


class NeededError(TileError):
    """The value of inputs has to be known."""

    names: tuple[str, ...] = ()


@frozen
class Port:
    """An input or output of a graph.

    Attributes:
        name: Its name.
        kind: A number of ``onnx.TensorProto.DataType``, or the words for what is no tensor: ``sequence``, ``optional``.
        dims: A number for each axis, a name, or None for an unknown size; None as a whole where the rank is unknown.

    """

    name: str
    kind: int | str
    dims: tuple[int | str | None, ...] | None

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype of its arrays; None for what tileir has no element type for."""
        return _dtype(self.kind) if isinstance(self.kind, int) else None

    @property
    def word(self) -> str:
        """The type in words, as in ``float[N, 3]``."""
        if isinstance(self.kind, str):
            return self.kind
        dims = "" if self.dims is None else f"[{', '.join('?' if dim is None else str(dim) for dim in self.dims)}]"
        return (word_of(self.kind) or f"type {self.kind}") + dims


class Library(Protocol):
    """A reader of functions as graphs."""

    def function(self, node: Node) -> FunctionProto | None:
        """Return the function of the model that a node calls."""
        ...

    def body(self, node: Node, function: FunctionProto) -> Graph:
        """Return the nodes of a function with the attributes of a node that calls it."""
        ...


@frozen(eq=False, slots=False)
class Node:
    """A node of a graph.

    Attributes:
        proto: The message of the node, of which nothing is changed.
        version: The version of the operators of its domain that the model asks for.
        attributes: Values by name: numbers, texts, arrays, graphs, and tuples of these.
        file: The name of the model's file, for errors.
        library: What reads the functions that nodes of the model call.

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
        """Names of the inputs, empty for one that is left out."""
        return tuple(self.proto.input)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, empty for one that nobody wants."""
        return tuple(self.proto.output)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """Graphs that are attributes."""
        values = (each if isinstance(each, tuple) else (each,) for each in self.attributes.values())
        return tuple(each for several in values for each in several if isinstance(each, Graph))

    @property
    def place(self) -> str:
        """Where the node is, for errors."""
        first = printable(next(iter(self.outputs), ""))
        named = f"node '{printable(self.proto.name)}'" if self.proto.name else f"the node of '{first}'"
        return f"{printable(self.file)}: {named} ({printable(self.op)})"

    @property
    def span(self) -> Span:
        """The place as errors of tileir have one."""
        return Span(Source(self.place, self.place, is_place=True), 0, len(self.place))


@frozen(eq=False)
class Graph:
    """A graph: nodes in an order in which each comes after those that it reads.

    Attributes:
        name: Its name.
        inputs: What it is called with; weights are left out.
        outputs: Its results.
        nodes: The nodes.
        weights: Constants by name, which no node makes.
        defaults: Weights that may be passed as well.

    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: tuple[Node, ...]
    weights: Mapping[str, Array] = field(repr=False)
    defaults: tuple[Port, ...] = ()
