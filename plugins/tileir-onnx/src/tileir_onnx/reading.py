"""Reading of untrusted model files: paths must not leave the model's folder, and sizes are checked first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    ValueInfoProto,
    numpy_helper,
)

from tileir import TileError, frontends
from tileir_onnx.functions import attributes_of, called, check_calls, key_of
from tileir_onnx.graph import DTYPES, Array, Graph, Node, Port, domain_of
from tileir_onnx.narrow import NARROW
from tileir_onnx.protobuf import MARK, stripped
from tileir_onnx.pruning import ordered, pruned

_NEWEST: Final = 28
"""Latest version of ONNX's operators that rows support."""
_VERSIONS: Final = 1 << 16
"""Upper bound of operator versions in other domains."""
_TEXTS: Final = ("op_type", "name", "domain", "overload", "input", "output")
_DEPTH: Final = 32
"""Maximum nesting of graphs."""


class Reader:
    """Contents of one file: its graphs, with weights in the memory of the file.

    Attributes:
        path: The file; None for bytes.
        files: All files that were read, each with its status before; no status if it had just changed.
    """

    def __init__(
        self, source: Path | bytes, opened: np.memmap[Any, Any] | None = None, known: Mapping[str, Any] | None = None
    ) -> None:
        """Read a file, or the bytes of one.

        Args:
            source: The file, or its bytes.
            opened: The file as it was mapped before.
            known: Expected files with weights, each with its status; others are refused.

        Raises:
            TileError: TIL901, it cannot be read; TIL604, it is not a model.
        """
        self.path = source if isinstance(source, Path) else None
        self.name = "model" if self.path is None else self.path.name
        self._mapped: dict[Path, memoryview] = {}
        self._maps: list[Array] = []
        self.files: dict[str, tuple[int, ...] | None] = {}
        self._known = known
        if opened is not None and isinstance(source, Path):
            self._mapped[source], self._maps = opened.data, [opened]
        data = self._bytes(source) if isinstance(source, Path) else memoryview(source)
        try:
            small, self._elements = stripped(data)
            self.model = ModelProto.FromString(small)
        except (DecodeError, ValueError) as error:
            raise self.fault(f"is no ONNX model: {error}") from None
        if not self.model.HasField("graph"):
            raise self.fault("is no ONNX model: it has no graph")
        self._check_texts(self.model.functions, ("name", "domain", "overload"))
        self._functions = {(domain_of(each), each.name, each.overload): each for each in self.model.functions}
        try:
            check_calls(self.model.graph, self._functions)
        except ValueError as error:
            raise self.fault(str(error)) from None

    def fault(self, message: str, code: str = "TIL604") -> TileError:
        """Return an error that names the file, to be raised by the caller."""
        return TileError.of(code, f"{self.name} {message}")

    def _check_texts(self, messages: Iterable[Any], names: Sequence[str]) -> None:
        """Check that names are texts: they are bytes if they are not UTF-8.

        Raises:
            TileError: TIL604, one is not.
        """
        for message in messages:
            for name in names:
                value = getattr(message, name)
                if not isinstance(value, str) and not all(isinstance(each, str) for each in value):
                    raise self.fault(f"has a name that is no UTF-8: {value!r:.80}")

    def graph(self) -> Graph:
        """Return the graph of the model, with the nodes that its results depend on.

        Raises:
            TileError: TIL604, weights are missing, or do not fit their sizes.
        """
        graph = self._graph(self.model.graph, self._versions(self.model.opset_import), 0)
        return pruned(graph, {port.name for port in graph.outputs})

    def function(self, node: Node) -> FunctionProto | None:
        """Return the function of the model that a node calls."""
        return self._functions.get(key_of(node.proto)) if self._functions else None

    def body(self, node: Node, function: FunctionProto) -> Graph:
        """Return the nodes of a function with the attributes of a node that calls it.

        Raises:
            TileError: As :meth:`graph`.

        """
        attributes = attributes_of(node, function)
        self._check_texts((function,), ("name", "input", "output"))
        try:
            protos = [called(each, attributes) for each in function.node]
        except ValueError as error:
            raise self.fault(f"has a function {function.name!r} that cannot be read: {error}") from None
        versions = self._versions(function.opset_import)
        if "" not in versions:  # a definition of ONNX, for any version of the model's operators
            versions = {**self._versions(self.model.opset_import), **versions}
        nodes, weights = self._nodes(protos, versions, 0)
        inputs, outputs = (tuple(Port(name, 0, None) for name in names) for names in (function.input, function.output))
        return Graph(function.name, inputs, outputs, nodes, weights)

    def _versions(self, imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
        versions = {domain_of(each): each.version for each in imports}
        for domain, version in versions.items():
            if not 0 < version < _VERSIONS:
                raise self.fault(f"asks for version {version} of operators of {domain or 'ONNX'!r}")
        if versions.get("", 1) > _NEWEST:
            message = f"asks for version {versions['']} of ONNX's operators, and tileir knows those up to {_NEWEST}"
            raise self.fault(message, "TIL605")
        return versions

    def _graph(self, proto: GraphProto, versions: Mapping[str, int], depth: int) -> Graph:
        if depth > _DEPTH:
            raise self.fault(f"has graphs within graphs, more than {_DEPTH} deep")
        self._check_texts((*proto.initializer, *proto.input, *proto.output, proto), ("name",))
        weights = {each.name: self._tensor(each) for each in proto.initializer}
        for sparse in proto.sparse_initializer:
            weights[sparse.values.name] = self._sparse(sparse)
        ports = tuple(map(_port, proto.input))
        inputs = tuple(port for port in ports if port.name not in weights)
        nodes, constants = self._nodes(proto.node, versions, depth)
        taken = {*weights, *(port.name for port in inputs)}
        names = (name for node in proto.node for name in node.output if name)
        for name in names:
            if name in taken:
                raise self.fault(f"gives the name {name!r} twice in graph {proto.name!r}")
            taken.add(name)
        defaults = tuple(port for port in ports if port.name in weights)
        outputs = tuple(map(_port, proto.output))
        return Graph(proto.name, inputs, outputs, ordered(nodes), weights | constants, defaults)

    def _nodes(
        self, protos: Iterable[NodeProto], versions: Mapping[str, int], depth: int
    ) -> tuple[tuple[Node, ...], dict[str, Array]]:
        """Return nodes, and the values of constant nodes."""
        nodes, constants = [], {}
        for each in protos:
            self._check_texts((each,), _TEXTS)
            self._check_texts(each.attribute, ("name",))
            attributes = {given.name: self._attribute(given, versions, depth) for given in each.attribute}
            node = Node(each, versions.get(domain_of(each), 1), attributes, self.name, self)
            constant = _constant(node)
            if constant is None or not node.outputs:
                nodes.append(node)
            else:
                constants[node.outputs[0]] = constant
        return tuple(nodes), constants

    def _attribute(self, proto: AttributeProto, versions: Mapping[str, int], depth: int) -> Any:
        match proto.type:
            case AttributeProto.GRAPH:
                return self._graph(proto.g, versions, depth + 1)
            case AttributeProto.GRAPHS:
                return tuple(self._graph(each, versions, depth + 1) for each in proto.graphs)
            case AttributeProto.TENSOR:
                return self._tensor(proto.t)
            case AttributeProto.TENSORS:
                return tuple(map(self._tensor, proto.tensors))
            case AttributeProto.SPARSE_TENSOR:
                return self._sparse(proto.sparse_tensor)
            case AttributeProto.STRING:
                return proto.s.decode(errors="replace")
            case AttributeProto.STRINGS:
                return tuple(each.decode(errors="replace") for each in proto.strings)
            case AttributeProto.TYPE_PROTO | AttributeProto.TYPE_PROTOS:
                return proto.tp
            case _:
                try:
                    value = onnx.helper.get_attribute_value(proto)
                except ValueError as error:  # of no known type, or a reference to an attribute outside of a function
                    raise self.fault(f"has an attribute {proto.name!r} that cannot be read: {error}") from None
                return tuple(value) if isinstance(value, list) or hasattr(value, "__len__") else value

    def _tensor(self, proto: TensorProto) -> Array:
        """Return the array of a tensor, in the memory of a file if it is large.

        Raises:
            TileError: TIL604, its elements are missing, or do not fit its sizes.
        """
        shape = tuple(proto.dims)
        if any(size < 0 for size in shape):
            raise self.fault(f"has a weight {proto.name!r} with a negative size: {list(shape)}")
        dtype, narrow = DTYPES.get(proto.data_type), NARROW.get(proto.data_type)
        if proto.data_location != TensorProto.EXTERNAL:
            return self._small(proto)
        if narrow is not None:
            elements = self._external(proto)
            self._check_length(proto, elements, -(-prod(shape) * narrow.bits // 8))
            return narrow.unpacked(elements, shape)
        if dtype is None:
            raise self.fault(
                f"has a long weight {proto.name!r} of type {proto.data_type}, which tileir has not", "TIL605"
            )
        elements = self._external(proto)
        self._check_length(proto, elements, prod(shape) * dtype.itemsize)
        return self._view(elements, dtype).reshape(shape)

    def _check_length(self, proto: TensorProto, elements: memoryview, needed: int) -> None:
        if len(elements) != needed:
            told = f"{needed} bytes for sizes {list(proto.dims)}, and has {len(elements)}"
            raise self.fault(f"is cut short: weight {proto.name!r} needs {told}")

    def _view(self, elements: memoryview, dtype: np.dtype[Any]) -> Array:
        """Return bytes as an array: a part of the mapped file, from which devices can read in place."""
        array = np.frombuffer(elements, np.uint8)
        for whole in self._maps:
            begin = array.ctypes.data - whole.ctypes.data
            if 0 <= begin <= whole.size - array.size:
                return whole[begin : begin + array.size].view(dtype)
        return array.view(dtype)

    def _small(self, proto: TensorProto) -> Array:
        try:
            array: Array = numpy_helper.to_array(proto)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self.fault(f"has a weight {proto.name!r} that cannot be read: {error}") from None
        return array

    def _sparse(self, proto: Any) -> Array:
        values, indices, shape = self._tensor(proto.values), self._tensor(proto.indices), tuple(proto.dims)
        if prod(shape) > max(1 << 24, 4096 * values.size):
            raise self.fault(f"has a sparse weight {proto.values.name!r} of {prod(shape)} elements")
        dense = np.zeros(shape, values.dtype)
        places = np.unravel_index(indices, shape) if indices.ndim == 1 else tuple(indices.T)
        dense[places] = values
        return dense

    def _external(self, proto: TensorProto) -> memoryview:
        """Return the bytes of an external file of the model.

        Raises:
            TileError: TIL604, the file is not in the folder of the model, or too short.
        """
        entries = {str(each.key): str(each.value) for each in proto.external_data}
        location = entries.get("location", "")
        told = f"keeps weight {proto.name!r} in {location!r:.200}"
        place = location.removeprefix(MARK)
        if place != location and place.isdecimal() and int(place) < len(self._elements):
            return self._elements[int(place)]
        parts = PurePosixPath(location).parts
        if not parts or "\\" in location or location.startswith("/") or ".." in parts or ":" in location:
            raise self.fault(f"{told}, which is no path inside of its folder")
        if self.path is None:
            raise self.fault(f"{told}, and has no folder: load its file")
        path = self.path.parent
        for part in parts:
            path = path / part
            if path.is_symlink():
                raise self.fault(f"{told}, which is a symbolic link: copy the file to its place")
        if not path.is_file():
            raise self.fault(f"{told}, which is not there: put it beside the model")
        data = self._bytes(path)
        try:
            offset = int(entries.get("offset", "0"))
            length = int(entries.get("length", str(len(data) - offset)))
        except ValueError:
            raise self.fault(f"{told}, at {entries.get('offset')!r:.40}, which is no number") from None
        if offset < 0 or length < 0 or offset + length > len(data):
            raise self.fault(f"{told}, bytes {offset} to {offset + length}, and the file has {len(data)}")
        return data[offset : offset + length]

    def _bytes(self, path: Path) -> memoryview:
        """Return the bytes of a file, mapped read-only.

        Raises:
            TileError: TIL901, it cannot be read.
        """
        if path not in self._mapped:
            name = str(path.resolve())
            self.files[name] = frontends.settled(path)
            if self._known is not None and self._known.get(name) != self.files[name]:
                raise self.fault(f"keeps weights in {path.name}, which has changed since it was loaded", "TIL901")
            try:
                is_empty = not path.stat().st_size
                whole = None if is_empty else np.memmap(path, np.uint8, "r")
            except (OSError, ValueError) as error:
                raise TileError.of("TIL901", f"cannot read {path}: {error}") from None
            self._mapped[path] = memoryview(b"") if whole is None else whole.data
            self._maps += () if whole is None else (whole,)
        return self._mapped[path]


def _constant(node: Node) -> Array | None:
    """Return the value of a constant node."""
    if node.op != "Constant" or node.domain or len(node.attributes) != 1:
        return None
    [(name, value)] = node.attributes.items()
    if name in ("value", "sparse_value") and isinstance(value, np.ndarray):
        return value
    dtype = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}.get(
        name
    )
    numbers = value if isinstance(value, tuple) else (value,)
    return np.array(value, dtype) if dtype and all(isinstance(each, int | float) for each in numbers) else None


def _port(proto: ValueInfoProto) -> Port:
    kind = proto.type.WhichOneof("value")
    if kind is not None and kind != "tensor_type":
        return Port(proto.name, kind.removesuffix("_type"), None)
    tensor = proto.type.tensor_type
    dims: tuple[int | str | None, ...] | None = None
    if tensor.HasField("shape"):
        dims = tuple(
            int(each.dim_value) if each.HasField("dim_value") and each.dim_value >= 0 else str(each.dim_param) or None
            for each in tensor.shape.dim
        )
    return Port(proto.name, int(tensor.elem_type), dims)
