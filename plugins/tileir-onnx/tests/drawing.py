"""Graphs of ONNX drawn at random, node after node; the reference computes each, and so tells what suits the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
from attrs import define, field
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

Array: TypeAlias = np.ndarray[Any, Any]
Maker: TypeAlias = "Callable[[Drawing], object]"

BF16: Final = np.dtype(ml_dtypes.bfloat16)
FLOATS: Final = (*map(np.dtype, (np.float32, np.float64, np.float16)), BF16)
INTEGERS: Final = tuple(map(np.dtype, ("i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8")))
BOOL: Final = np.dtype(bool)
_MOST: Final = 2048
"""Elements of a result up to which a node is kept."""
_GREATEST: Final = 1e4
"""Magnitude of results up to which a node is kept."""
_SIZED: Final = tuple(map(np.dtype, ("i8", "i4")))
"""Dtypes of inputs from which ONNX infers sizes."""
_SIZES: Final = (1, 2, 3, 4, 5, 6, 8)
_NAMES: Final = ("batch", "length", "width")


def number_of(dtype: np.dtype[Any]) -> int:
    """Return ONNX's number of an element type."""
    return TensorProto.BFLOAT16 if dtype == BF16 else int(helper.np_dtype_to_tensor_dtype(dtype))


def computed(node: NodeProto, opset: int, known: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of a node that are wanted, by ONNX's reference; it raises whatever it likes."""
    names = [name for name in dict.fromkeys((*node.input, *_outer(node))) if name in known]
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_empty_tensor_value_info(name) for name in names],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(model).run(None, {name: known[name] for name in names})
    return [each if isinstance(each, list) else np.asarray(each) for each in found]


def _outer(node: NodeProto) -> list[str]:
    """Return the names that graphs within a node read."""
    return sorted({name for each in node.attribute for inner in each.g.node for name in inner.input})


@define(eq=False)
class Drawing:
    """A graph that grows.

    Attributes:
        random: The source of choices.
        opset: The version of its operators.
        dtype: The dtype of most of its floats.
        named: Sizes that have a name, and differ.
        values: What names stand for: arrays, or lists of arrays.
        nodes: Nodes in order.
        ports: Inputs, with names for the sizes that have one.
        weights: Initializers.
        feeds: What inputs are called with.

    """

    random: Random
    opset: int
    dtype: np.dtype[Any]
    named: Mapping[int, str] = field(factory=dict)
    values: dict[str, Any] = field(factory=dict)
    nodes: list[NodeProto] = field(factory=list)
    ports: list[ValueInfoProto] = field(factory=list)
    weights: list[TensorProto] = field(factory=list)
    feeds: dict[str, Array] = field(factory=dict)
    failures: list[str] = field(factory=list)

    @classmethod
    def start(cls, random: Random) -> Drawing:
        """Return an empty graph of a random version and element type."""
        opset = random.choice((7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 18, 19, 20, 21, 22, 23, 24, 25, 26))
        dtype = random.choices(FLOATS, (6, 1, 1, 1 if opset >= 16 else 0))[0]
        sizes = random.sample(_SIZES, len(_NAMES))
        if random.random() < 0.1:
            sizes[0] = 0
        return cls(random, opset, dtype, dict(zip(sizes, _NAMES, strict=True)))

    def schema(self, op: str) -> Any:
        """Return the description of an operator; None where the version has none."""
        try:
            found = defs.get_schema(op, self.opset, "")
        except defs.SchemaError:
            return None
        return None if found.deprecated else found

    def takes(self, op: str, dtype: np.dtype[Any], at: int = 0) -> bool:
        """Return whether an input of an operator may have a dtype."""
        schema = self.schema(op)
        if schema is None or not schema.inputs:
            return False
        kind = schema.inputs[min(at, len(schema.inputs) - 1)].type_str
        allowed = next((each.allowed_type_strs for each in schema.type_constraints if each.type_param_str == kind), ())
        word = str(TensorProto.DataType.Name(number_of(dtype))).lower()
        return f"tensor({word})" in (*allowed, kind)

    def has_attribute(self, op: str, name: str) -> bool:
        """Return whether an operator of this version has an attribute."""
        schema = self.schema(op)
        return schema is not None and name in schema.attributes

    def node(self, op: str, inputs: Sequence[str], outputs: int | Sequence[bool] = 1, **attributes: Any) -> list[str]:
        """Append a node where the reference computes it and its results are small; return their names, or nothing."""
        if self.schema(op) is None:
            return []
        wanted = [True] * outputs if isinstance(outputs, int) else outputs
        names = [f"{op.lower()}_{len(self.values)}_{at}" if each else "" for at, each in enumerate(wanted)]
        given = {name: each for name, each in attributes.items() if each is not None}
        try:
            made = helper.make_node(op, list(inputs), names, **given)
            results = computed(made, self.opset, self.values)
        except Exception as error:  # the reference raises whatever it likes for what does not go together
            self.failures.append(f"{op}-{self.opset}: {type(error).__name__}: {error!s:.80}")
            return []
        if not all(map(_is_fit, results)) or not self._is_declared(made, results):
            return []
        self.nodes.append(made)
        named = [name for name in names if name]
        self.values.update(zip(named, results, strict=True))
        return named

    def _is_declared(self, node: NodeProto, results: Sequence[Any]) -> bool:
        """Return whether results have dtypes and shapes that ONNX infers, which the reference does not look at."""
        if any(isinstance(self.values.get(name), list) for name in node.input):
            return True  # whose types are not written down here
        names = [name for name in (*node.input, *_outer(node)) if isinstance(self.values.get(name), np.ndarray)]
        known = {name: self.values[name] for name in names}
        ports = [helper.make_tensor_value_info(name, number_of(each.dtype), each.shape) for name, each in known.items()]
        weights = [numpy_helper.from_array(each, name) for name, each in known.items() if each.dtype in _SIZED]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", ports, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        try:
            inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        except shape_inference.InferenceError as error:
            self.failures.append(f"{node.op_type}-{self.opset}: {error!s:.80}")
            return False
        for port, result in zip(inferred.graph.output, results, strict=True):
            tensor = port.type.tensor_type
            if isinstance(result, np.ndarray) and tensor.elem_type not in (0, number_of(result.dtype)):
                return False
            if isinstance(result, np.ndarray) and tensor.HasField("shape"):
                sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
                if len(sizes) != result.ndim or any(
                    a not in (None, b) for a, b in zip(sizes, result.shape, strict=True)
                ):
                    return False
        return True

    def fresh(self, dtype: np.dtype[Any], shape: Sequence[int], array: Array | None = None, kind: str = "") -> str:
        """Return a new input, initializer, or constant node, whose elements are random unless they are given."""
        name = f"x{len(self.values)}"
        array = self.array(dtype, shape) if array is None else array.astype(dtype)
        self.values[name] = array
        kind = kind or self.random.choice(("input", "input", "input", "weight", "constant", "both"))
        if kind == "constant":
            value = numpy_helper.from_array(array, name)
            self.nodes.append(helper.make_node("Constant", [], [name], value=value))
            return name
        if kind != "input":
            self.weights.append(numpy_helper.from_array(array, name))
        if kind != "weight":
            dims = [self.named.get(size, size) for size in array.shape]
            self.ports.append(helper.make_tensor_value_info(name, number_of(array.dtype), dims))
        if kind == "input":
            self.feeds[name] = array
        return name

    def constant(self, numbers: Any, dtype: Any = np.int64) -> str:
        """Return an initializer, such as axes and sizes are."""
        array = np.asarray(numbers, dtype)
        return self.fresh(array.dtype, array.shape, array, "weight" if self.random.random() < 0.7 else "constant")

    def array(self, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
        """Return random elements, few of which are equal."""
        rng = np.random.default_rng(self.random.getrandbits(32))
        if dtype == BOOL:
            return np.asarray(rng.random(tuple(shape)) < 0.5)
        if dtype in INTEGERS:
            return rng.integers(0 if dtype.kind == "u" else -5, 9, tuple(shape)).astype(dtype)
        return np.asarray(rng.standard_normal(tuple(shape)) * 1.5).astype(dtype)

    def shape(self, low: int = 0, high: int = 4) -> list[int]:
        """Return random sizes, more often those that have names."""
        sizes = (*self.named, *self.named, 1, 2, 3)
        return [self.random.choice(sizes) for _ in range(self.random.randint(low, high))]

    def pick(
        self,
        dtypes: Sequence[np.dtype[Any]] | None = None,
        low: int = 0,
        high: int = 5,
        fits: Callable[[Array], bool] = lambda _: True,
    ) -> str:
        """Return a value of one of some dtypes and ranks, rather a late one; a new one where there is none."""
        allowed = dtypes or (self.dtype,)
        found = [
            name
            for name, each in self.values.items()
            if isinstance(each, np.ndarray) and each.dtype in allowed and low <= each.ndim <= high and fits(each)
        ]
        if found and self.random.random() < 0.85:
            return found[max(self.random.randrange(len(found)), self.random.randrange(len(found)))]
        return self.fresh(self.random.choice(allowed), self.shape(low, min(high, max(low, 4))))

    def broadcast(self, x: str, dtype: np.dtype[Any] | None = None) -> str:
        """Return a value that broadcasts with another one."""
        shape, dtype = self.values[x].shape, dtype or self.values[x].dtype
        found = [
            name
            for name, each in self.values.items()
            if isinstance(each, np.ndarray) and each.dtype == dtype and _fits(shape, each.shape)
        ]
        if found and self.random.random() < 0.6:
            return self.random.choice(found)
        own = [size if self.random.random() < 0.7 else 1 for size in shape]
        own = own[self.random.randint(0, len(own)) if self.random.random() < 0.4 else 0 :]
        return self.fresh(dtype, own)

    def axis(self, x: str, extra: int = 0) -> int:
        """Return an axis of a value, counted from either end."""
        rank = self.values[x].ndim + extra
        return self.random.randrange(-rank, rank)

    def leaves(self) -> list[str]:
        """Return results that no node reads."""
        read = {name for node in self.nodes for name in node.input}
        read |= {name for node in self.nodes for name in _outer(node)}
        return [name for node in self.nodes for name in node.output if name and name not in read]

    def model(self, outputs: Sequence[str]) -> ModelProto:
        """Return the model with some of its values as results."""
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "drawn", self.ports, results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def _fits(shape: Sequence[int], other: Sequence[int]) -> bool:
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return len(other) <= len(shape) + 1 and all(1 in pair or pair[0] == pair[1] for pair in pairs)


def _is_fit(result: Any) -> bool:
    if isinstance(result, list):
        return len(result) < 8 and all(map(_is_fit, result))
    if result.dtype == object or result.size > _MOST or result.ndim > 6:
        return False
    if result.dtype.kind in "biu":
        return True
    wide = np.abs(result.astype(np.float64))
    return bool(np.all(wide < _GREATEST))  # false for NaN as well


def drawn(random: Random, nodes: int, makers: Sequence[tuple[float, Maker]]) -> Drawing:
    """Return a graph of about so many nodes."""
    drawing = Drawing.start(random)
    drawing.fresh(drawing.dtype, drawing.shape(1, 4), kind="input")
    weights = [weight for weight, _ in makers]
    for _ in range(6 * nodes):
        if len(drawing.nodes) >= nodes:
            break
        random.choices(makers, weights)[0][1](drawing)
    return drawing
