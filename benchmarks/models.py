"""Networks as ONNX models, built from their public definitions, with random weights: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

_FLOAT: Final = TensorProto.FLOAT


class Builder:
    """A graph that is being built: each method adds a node or weight, and returns its name."""

    def __init__(self, seed: int = 0) -> None:
        """Begin an empty graph."""
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, array: Array) -> str:
        """Add a weight."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
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

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """Multiply by a matrix and add a bias."""
        product = self.op("MatMul", x, self.weight(inputs, outputs, fan_in=inputs))
        return self.op("Add", product, self.filled(outputs, 0))

    def norm(self, x: str, size: int, epsilon: float) -> str:
        """Normalise the last axis."""
        return self.op("LayerNormalization", x, self.filled(size, 1), self.filled(size, 0), epsilon=epsilon)

    def conv(self, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        """Convolve an image and normalise its channels."""
        fan_in = inputs // groups * kernel * kernel
        w = self.weight(outputs, inputs // groups, kernel, kernel, fan_in=fan_in, gain=2**0.5)
        y = self.op("Conv", x, w, pads=[kernel // 2] * 4, strides=[stride] * 2, group=groups)
        variance = self.constant(self.random.uniform(0.5, 1.5, outputs).astype(np.float32))
        statistics = (self.filled(outputs, 1), self.filled(outputs, 0), self.filled(outputs, 0), variance)
        return self.op("BatchNormalization", y, *statistics)

    def attention(self, x: str, rows: int, size: int, heads: int, mask: Array | None = None) -> str:
        """Attend to the rows themselves, as exporters write it."""
        parts = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            part = self.reshape(self.linear(x, size, size), 0, rows, heads, size // heads)
            parts.append(self.op("Transpose", part, perm=perm))
        q, k, v = parts
        scores = self.op("Mul", self.op("MatMul", q, k), self.constant(np.array((size // heads) ** -0.5, np.float32)))
        scores = scores if mask is None else self.op("Add", scores, self.constant(mask))
        seen = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        joined = self.reshape(self.op("Transpose", seen, perm=[0, 2, 1, 3]), 0, rows, size)
        return self.linear(joined, size, size)

    def feed_forward(self, x: str, size: int, approximate: str = "none") -> str:
        """Apply two layers with GELU between."""
        wide = self.op("Gelu", self.linear(x, size, 4 * size), approximate=approximate)
        return self.linear(wide, 4 * size, size)

    def model(self, result: str, kind: int, shape: Sequence[int]) -> ModelProto:
        """Return the model of one input, "x"."""
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", kind, shape)],
            [helper.make_tensor_value_info(result, _FLOAT, None)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def vit(
    batch: int, layers: int = 12, size: int = 768, heads: int = 12, pixels: int = 224, patch: int = 16
) -> ModelProto:
    """Return a vision transformer: Dosovitskiy et al., "An image is worth 16x16 words", 2021."""
    b = Builder()
    w = b.weight(size, 3, patch, patch, fan_in=3 * patch * patch)
    patches = b.op("Conv", "x", w, b.filled(size, 0), strides=[patch] * 2)
    x = b.op("Transpose", b.reshape(patches, 0, size, -1), perm=[0, 2, 1])
    first = b.constant(np.broadcast_to(b.random.standard_normal(size).astype(np.float32), (batch, 1, size)).copy())
    rows = (pixels // patch) ** 2 + 1
    x = b.op("Add", b.op("Concat", first, x, axis=1), b.weight(1, rows, size, gain=0.02))
    for _ in range(layers):
        x = b.op("Add", x, b.attention(b.norm(x, size, 1e-6), rows, size, heads))
        x = b.op("Add", x, b.feed_forward(b.norm(x, size, 1e-6), size))
    x = b.op("Gather", b.norm(x, size, 1e-6), b.constant(np.array(0)), axis=1)
    return b.model(b.linear(x, size, 1000), _FLOAT, [batch, 3, pixels, pixels])


def bert(
    batch: int, layers: int = 12, size: int = 768, heads: int = 12, rows: int = 128, words: int = 30522
) -> ModelProto:
    """Return an encoder of texts: Devlin et al., "BERT", 2019."""
    b = Builder()
    x = b.op("Gather", b.weight(words, size, gain=0.5), "x")
    x = b.norm(b.op("Add", x, b.weight(1, rows, size, gain=0.5)), size, 1e-12)
    for _ in range(layers):
        x = b.norm(b.op("Add", x, b.attention(x, rows, size, heads)), size, 1e-12)
        x = b.norm(b.op("Add", x, b.feed_forward(x, size)), size, 1e-12)
    return b.model(x, TensorProto.INT64, [batch, rows])


def gpt2(
    batch: int, layers: int = 12, size: int = 768, heads: int = 12, rows: int = 128, words: int = 50257
) -> ModelProto:
    """Return a decoder of texts at its first pass: Radford et al., "Language models are unsupervised", 2019."""
    b = Builder()
    table = b.random.standard_normal((words, size)).astype(np.float32) * np.float32(0.05)
    x = b.op("Add", b.op("Gather", b.constant(table), "x"), b.weight(1, rows, size, gain=0.05))
    mask = np.triu(np.full((rows, rows), -1e9, np.float32), 1)
    for _ in range(layers):
        x = b.op("Add", x, b.attention(b.norm(x, size, 1e-5), rows, size, heads, mask))
        x = b.op("Add", x, b.feed_forward(b.norm(x, size, 1e-5), size, "tanh"))
    logits = b.op("MatMul", b.norm(x, size, 1e-5), b.constant(np.ascontiguousarray(table.T)))
    return b.model(logits, TensorProto.INT64, [batch, rows])


def tagger(batch: int, rows: int = 64, hidden: int = 256, size: int = 128, words: int = 10000) -> ModelProto:
    """Return a tagger of words: Huang, Xu and Yu, "Bidirectional LSTM-CRF models", 2015, without the last layer."""
    b = Builder()
    x = b.op("Transpose", b.op("Gather", b.weight(words, size), "x"), perm=[1, 0, 2])
    w, r = b.weight(2, 4 * hidden, size, fan_in=size), b.weight(2, 4 * hidden, hidden, fan_in=hidden)
    y = b.op("LSTM", x, w, r, b.weight(2, 8 * hidden, gain=0.1), hidden_size=hidden, direction="bidirectional")
    y = b.reshape(b.op("Transpose", y, perm=[2, 0, 1, 3]), batch, rows, 2 * hidden)
    return b.model(b.linear(y, 2 * hidden, 20), TensorProto.INT64, [batch, rows])


_MOBILE: Final = (  # kernel, expansion, channels, squeeze and excite, activation, stride
    (3, 16, 16, False, "Relu", 1),
    (3, 64, 24, False, "Relu", 2),
    (3, 72, 24, False, "Relu", 1),
    (5, 72, 40, True, "Relu", 2),
    (5, 120, 40, True, "Relu", 1),
    (5, 120, 40, True, "Relu", 1),
    (3, 240, 80, False, "HardSwish", 2),
    (3, 200, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1),
    (3, 480, 112, True, "HardSwish", 1),
    (3, 672, 112, True, "HardSwish", 1),
    (5, 672, 160, True, "HardSwish", 2),
    (5, 960, 160, True, "HardSwish", 1),
    (5, 960, 160, True, "HardSwish", 1),
)


def mobilenet(batch: int, pixels: int = 224) -> ModelProto:
    """Return a small network for images, the large one of Howard et al., "Searching for MobileNetV3", 2019."""
    b, channels = Builder(), 16
    x = b.op("HardSwish", b.conv("x", 3, channels, 3, 2))
    for kernel, middle, outputs, excites, activation, stride in _MOBILE:
        y = x if middle == channels else b.op(activation, b.conv(x, channels, middle, 1))
        y = b.op(activation, b.conv(y, middle, middle, kernel, stride, middle))
        if excites:
            few = (middle // 4 + 4) // 8 * 8
            mean = b.op("GlobalAveragePool", y)
            weights = [b.weight(few, middle, 1, 1, fan_in=middle), b.weight(middle, few, 1, 1, fan_in=few)]
            gate = b.op("Relu", b.op("Conv", mean, weights[0], b.filled(few, 0)))
            gate = b.op("HardSigmoid", b.op("Conv", gate, weights[1], b.filled(middle, 0)), alpha=1 / 6, beta=0.5)
            y = b.op("Mul", y, gate)
        y = b.conv(y, middle, outputs, 1)
        x = b.op("Add", x, y) if stride == 1 and channels == outputs else y
        channels = outputs
    x = b.op("HardSwish", b.conv(x, channels, 960, 1))
    x = b.op("HardSwish", b.linear(b.op("Flatten", b.op("GlobalAveragePool", x)), 960, 1280))
    return b.model(b.linear(x, 1280, 1000), _FLOAT, [batch, 3, pixels, pixels])


MODELS: Final[dict[str, Callable[[int], ModelProto]]] = {
    "mobilenet_v3": mobilenet,
    "vit_b": vit,
    "bert_base": bert,
    "gpt2": gpt2,
    "lstm_tagger": tagger,
}


def input_of(model: ModelProto, seed: int = 1) -> Array:
    """Return numbers for the input of a model: those of a normal distribution, or numbers of words."""
    kind = model.graph.input[0].type.tensor_type
    shape = [dim.dim_value for dim in kind.shape.dim]
    random = np.random.default_rng(seed)
    if kind.elem_type == TensorProto.INT64:
        return random.integers(0, 1000, shape)
    return random.standard_normal(shape).astype(np.float32)
