"""A builder of ONNX graphs with random weights, and the layers that networks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Network:
    """A model, and arrays for its inputs by name."""

    model: ModelProto
    feeds: Mapping[str, Array]


class Builder:
    """A graph that is being built: each method adds a node or weight, and returns its name."""

    def __init__(self, seed: int = 0) -> None:
        """Begin an empty graph."""
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.feeds: dict[str, Array] = {}

    def input(self, name: str, sample: Array) -> str:
        """Add an input with the shape and dtype of a sample, which is what the network is measured with."""
        self.feeds[name] = sample
        return name

    def image(self, *shape: int) -> str:
        """Add the input "x" of f32, whose sample has a normal distribution."""
        return self.input("x", np.random.default_rng(1).standard_normal(shape).astype(np.float32))

    def text(self, batch: int, rows: int, words: int) -> str:
        """Add the input "x" of numbers of words, i64[batch, rows]."""
        return self.input("x", np.random.default_rng(1).integers(0, words, (batch, rows)))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one output."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node of several outputs."""
        name = f"{kind}_{len(self.nodes)}"
        names = [name, *(f"{name}_{at}" for at in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, **attributes))
        return names

    def constant(self, array: Array | float) -> str:
        """Add a weight; a number is one of f32."""
        name = f"w{len(self.weights)}"
        found = np.float32(array) if isinstance(array, float) else array
        self.weights.append(numpy_helper.from_array(np.asarray(found), name))
        return name

    def weight(self, *shape: int, fan_in: int | None = None, gain: float = 1.0) -> str:
        """Add a weight of a normal distribution, whose products with as many inputs keep their variance."""
        deviation = gain * (1 if fan_in is None else fan_in**-0.5)
        return self.constant((self.random.standard_normal(shape) * deviation).astype(np.float32))

    def filled(self, size: int, value: float) -> str:
        """Add a vector of one number, a little disturbed."""
        return self.constant((value + 0.1 * self.random.standard_normal(size)).astype(np.float32))

    def reshape(self, x: str, *sizes: int) -> str:
        """Reshape a tensor; 0 is its own size there, -1 the rest."""
        return self.op("Reshape", x, self.constant(np.array(sizes)))

    def split(self, x: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Cut a tensor into parts along an axis."""
        return self.ops("Split", len(sizes), x, self.constant(np.array(sizes)), axis=axis)

    def matmul(self, x: str, inputs: int, outputs: int) -> str:
        """Multiply by a matrix."""
        return self.op("MatMul", x, self.weight(inputs, outputs, fan_in=inputs))

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """Multiply by a matrix and add a bias."""
        return self.op("Add", self.matmul(x, inputs, outputs), self.filled(outputs, 0))

    def norm(self, x: str, size: int, epsilon: float) -> str:
        """Normalise the last axis."""
        return self.op("LayerNormalization", x, self.filled(size, 1), self.filled(size, 0), epsilon=epsilon)

    def swish(self, x: str) -> str:
        """Apply x * sigmoid(x), as exporters write it."""
        return self.op("Mul", x, self.op("Sigmoid", x))

    def biased(
        self, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, pad: int = 0, groups: int = 1
    ) -> str:
        """Convolve an image and add a bias."""
        fan_in = inputs // groups * kernel * kernel
        w = self.weight(outputs, inputs // groups, kernel, kernel, fan_in=fan_in)
        return self.op("Conv", x, w, self.filled(outputs, 0), pads=[pad] * 4, strides=[stride] * 2, group=groups)

    def conv(self, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        """Convolve an image and normalise its channels."""
        fan_in = inputs // groups * kernel * kernel
        w = self.weight(outputs, inputs // groups, kernel, kernel, fan_in=fan_in, gain=2**0.5)
        y = self.op("Conv", x, w, pads=[kernel // 2] * 4, strides=[stride] * 2, group=groups)
        variance = self.constant(self.random.uniform(0.5, 1.5, outputs).astype(np.float32))
        statistics = (self.filled(outputs, 1), self.filled(outputs, 0), self.filled(outputs, 0), variance)
        return self.op("BatchNormalization", y, *statistics)

    def heads(self, x: str, rows: int, size: int, heads: int, perm: Sequence[int] = (0, 2, 1, 3)) -> str:
        """Return [B, rows, size] as [B, heads, rows, size // heads], or in another order."""
        return self.op("Transpose", self.reshape(x, 0, rows, heads, size // heads), perm=list(perm))

    def attended(self, q: str, k: str, v: str, rows: int, size: int, heads: int, mask: Array | None = None) -> str:
        """Attend as exporters write it.

        Args:
            q: Queries, [B, heads, rows, size // heads].
            k: Keys, [B, heads, size // heads, keys].
            v: Values, [B, heads, keys, size // heads].
            rows: How many queries there are.
            size: The features of all heads.
            heads: How many heads there are.
            mask: Numbers that are added to the scores.

        """
        scores = self.op("Mul", self.op("MatMul", q, k), self.constant((size // heads) ** -0.5))
        scores = scores if mask is None else self.op("Add", scores, self.constant(mask))
        seen = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        joined = self.reshape(self.op("Transpose", seen, perm=[0, 2, 1, 3]), 0, rows, size)
        return self.linear(joined, size, size)

    def attention(
        self, x: str, rows: int, size: int, heads: int, mask: Array | None = None, *, key_bias: bool = True
    ) -> str:
        """Attend to the rows themselves, as exporters write it."""
        q = self.heads(self.linear(x, size, size), rows, size, heads)
        k = self.heads((self.linear if key_bias else self.matmul)(x, size, size), rows, size, heads, (0, 2, 3, 1))
        v = self.heads(self.linear(x, size, size), rows, size, heads)
        return self.attended(q, k, v, rows, size, heads, mask)

    def feed_forward(self, x: str, size: int, approximate: str = "none") -> str:
        """Apply two layers with GELU between."""
        wide = self.op("Gelu", self.linear(x, size, 4 * size), approximate=approximate)
        return self.linear(wide, 4 * size, size)

    def network(self, *results: str) -> Network:
        """Return the model of the inputs that were added, and its samples; results are of f32."""
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(sample.dtype), sample.shape)
            for name, sample in self.feeds.items()
        ]
        outputs = [helper.make_tensor_value_info(name, 1, None) for name in results]
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        return Network(helper.make_model(graph, opset_imports=opsets, ir_version=9), self.feeds)
