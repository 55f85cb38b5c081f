"""A network of ONNX as a module of PyTorch, for operators that the networks here have: a peer, and an oracle in f64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import getitem
from typing import Any, Final

import numpy as np
import torch
from onnx import ModelProto, NodeProto, helper, numpy_helper
from torch import Tensor
from torch.nn import functional

from models import Array

Values = Mapping[str, Array]


def twin(model: ModelProto, dtype: torch.dtype = torch.float32) -> torch.fx.GraphModule:
    """Return a module that takes the inputs of a model in order, and returns its results as a tuple.

    Args:
        model: A model, all of whose weights are initializers.
        dtype: What weights of f32 become; inputs of the same dtype are expected.

    Raises:
        KeyError: There is no counterpart of an operator.

    """
    weights = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    graph, root, values = torch.fx.Graph(), torch.nn.Module(), {}
    for port in model.graph.input:
        if port.name not in weights:
            values[port.name] = graph.placeholder("input_" + _spelt(port.name))

    def value(name: str) -> Any:
        if name and name not in values:
            tensor = torch.from_numpy(weights[name].copy())
            tensor = tensor.to(dtype) if tensor.dtype == torch.float32 else tensor
            root.register_buffer("weight_" + _spelt(name), tensor)
            values[name] = graph.get_attr("weight_" + _spelt(name))
        return values[name] if name else None

    for node in model.graph.node:
        attributes = {each.name: _plain(helper.get_attribute_value(each)) for each in node.attribute}
        call, static = _COUNTERPARTS[node.op_type], _STATIC.get(node.op_type, ())
        inputs = [
            weights[name].tolist() if at in static and name in weights else value(name)
            for at, name in enumerate(node.input)
        ]
        made = graph.call_function(call, tuple(inputs), _arguments(node, attributes))
        parts = (
            [graph.call_function(getitem, (made, at)) for at in range(len(node.output))]
            if node.op_type in _SEVERAL
            else [made]
        )
        values.update(zip(node.output, parts, strict=False))
    graph.output(tuple(value(port.name) for port in model.graph.output))
    return torch.fx.GraphModule(root, graph).eval()


def _spelt(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return numpy_helper.to_array(value) if hasattr(value, "raw_data") else value


def _arguments(node: NodeProto, attributes: dict[str, Any]) -> dict[str, Any]:
    if node.op_type == "Split":
        return {"axis": attributes.get("axis", 0)}
    return attributes


def _padded(x: Tensor, pads: list[int], value: float = 0.0) -> tuple[Tensor, list[int]]:
    """Return an image and the padding that a window pads itself, which is one number for each axis."""
    before, behind = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    if before == behind:
        return x, before
    both = [size for pair in zip(reversed(before), reversed(behind), strict=True) for size in pair]
    return functional.pad(x, both, value=value), [0] * len(before)


def _conv(x: Tensor, w: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    rank = w.dim() - 2
    x, pads = _padded(x, options.get("pads") or [0] * 2 * rank)
    strides, dilations = options.get("strides", [1] * rank), options.get("dilations", [1] * rank)
    call = (functional.conv1d, functional.conv2d)[rank - 1]
    return call(x, w, bias, strides, pads, dilations, options.get("group", 1))


def _batch_norm(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, **options: Any) -> Tensor:
    return functional.batch_norm(x, mean, variance, scale, bias, eps=options.get("epsilon", 1e-5))


def _max_pool(x: Tensor, **options: Any) -> Tensor:
    rank = len(options["kernel_shape"])
    x, pads = _padded(x, options.get("pads") or [0] * 2 * rank, -float("inf"))
    return functional.max_pool2d(x, options["kernel_shape"], options.get("strides", [1] * rank), pads)


def _average_pool(x: Tensor, **options: Any) -> Tensor:
    kernel, pads = options["kernel_shape"], options.get("pads") or [0] * 4
    counted = bool(options.get("count_include_pad", 0))
    strides = options.get("strides", [1, 1])
    if pads[:2] == pads[2:]:
        return functional.avg_pool2d(x, kernel, strides, pads[:2], count_include_pad=counted)
    both = [pads[1], pads[3], pads[0], pads[2]]
    sums = functional.avg_pool2d(functional.pad(x, both), kernel, strides)
    if counted:
        return sums
    return sums / functional.avg_pool2d(functional.pad(torch.ones_like(x[:1, :1]), both), kernel, strides)


def _gemm(a: Tensor, b: Tensor, c: Tensor | None = None, **options: Any) -> Tensor:
    a, b = (x.T if options.get(name) else x for x, name in ((a, "transA"), (b, "transB")))
    y = a @ b * options.get("alpha", 1.0)
    return y if c is None else y + c * options.get("beta", 1.0)


def _reshape(x: Tensor, sizes: list[int], **_: Any) -> Tensor:
    return x.reshape([x.shape[at] if size == 0 else size for at, size in enumerate(sizes)])


def _gather(x: Tensor, places: Any, axis: int = 0) -> Tensor:
    if isinstance(places, int):
        return x.select(axis, places)
    return functional.embedding(places, x) if axis == 0 and x.dim() == 2 else torch.index_select(x, axis, places)


def _unsqueeze(x: Tensor, axes: list[int]) -> Tensor:
    for axis in sorted(axes):
        x = x.unsqueeze(axis)
    return x


def _resize(x: Tensor, _region: Any, scales: Any, *_: Any, **__: Any) -> Tensor:
    return functional.interpolate(x, scale_factor=scales[2:], mode="nearest")


def _layer_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, **_: Any) -> Tensor:
    return functional.layer_norm(x, scale.shape, scale, bias, epsilon)


def _local_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    return functional.local_response_norm(x, size, alpha, beta, bias)


def _lstm(x: Tensor, w: Tensor, r: Tensor, bias: Tensor, *, hidden_size: int, direction: str = "forward") -> Tensor:
    """Return [rows, directions, batch, hidden]; ONNX's gates are i, o, f, c and those of PyTorch i, f, c, o."""
    order = torch.cat([torch.arange(hidden_size) + hidden_size * gate for gate in (0, 2, 3, 1)]).to(x.device)
    parameters = []
    for way in range(w.shape[0]):
        sides = [bias[way, : 4 * hidden_size], bias[way, 4 * hidden_size :]]
        parameters += [each.index_select(0, order) for each in (w[way], r[way], *sides)]
    start = x.new_zeros(w.shape[0], x.shape[1], hidden_size)
    both = direction == "bidirectional"
    y, _, _ = torch.lstm(x, (start, start), parameters, True, 1, 0.0, False, both, False)
    return y.reshape(x.shape[0], x.shape[1], w.shape[0], hidden_size).transpose(1, 2)


def _grouped(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    old_keys: Tensor,
    old_values: Tensor,
    lengths: Tensor,
    _capacity: Any,
    cosine: Tensor,
    sine: Tensor,
    *,
    num_heads: int,
    kv_num_heads: int,
    **_: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend with one query to a cache, after its key and value were written there."""
    batch, capacity = q.shape[0], old_keys.shape[2]
    places = lengths.long()
    turns = [part[places][:, None, None] for part in (cosine, sine)]
    q, k, v = (
        x.reshape(batch, 1, heads, -1).transpose(1, 2)
        for x, heads in ((q, num_heads), (k, kv_num_heads), (v, kv_num_heads))
    )
    q, k = (_turned(x, *turns) for x in (q, k))
    at = torch.arange(capacity, device=q.device)
    here = (at == places[:, None])[:, None, :, None]
    keys, values = torch.where(here, k, old_keys), torch.where(here, v, old_values)
    seen = (at <= places[:, None])[:, None, None]
    y = functional.scaled_dot_product_attention(q, keys, values, attn_mask=seen, enable_gqa=True)
    return y.transpose(1, 2).reshape(batch, 1, -1), keys, values


def _turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)


_STATIC: Final[Mapping[str, tuple[int, ...]]] = {
    "Reshape": (1,),
    "Split": (1,),
    "ReduceMean": (1,),
    "Resize": (2,),
    "Gather": (1,),
    "Unsqueeze": (1,),
}
"""Inputs of operators that are lists of Python."""

_SEVERAL: Final = ("Split", "GroupQueryAttention")

_COUNTERPARTS: Final[Mapping[str, Callable[..., Any]]] = {
    "Add": torch.add,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Concat": lambda *xs, axis: torch.cat(xs, axis),
    "Conv": _conv,
    "ConvTranspose": lambda x, w, bias, *, strides, **_: functional.conv_transpose2d(x, w, bias, strides),
    "Div": torch.div,
    "Dropout": lambda x, **_: x,
    "Flatten": lambda x, axis=1: x.flatten(axis),
    "Gather": _gather,
    "Gelu": lambda x, approximate="none": functional.gelu(x, approximate=approximate),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: x.mean((-2, -1), keepdim=True),
    "GroupQueryAttention": _grouped,
    "HardSigmoid": lambda x, **_: functional.hardsigmoid(x),
    "HardSwish": functional.hardswish,
    "LRN": _local_norm,
    "LSTM": _lstm,
    "LayerNormalization": _layer_norm,
    "MatMul": torch.matmul,
    "MaxPool": _max_pool,
    "Mul": torch.mul,
    "Pow": torch.pow,
    "ReduceMean": lambda x, axes, keepdims=1: x.mean(axes, keepdim=bool(keepdims)),
    "Reciprocal": torch.reciprocal,
    "Relu": functional.relu,
    "Reshape": _reshape,
    "Resize": _resize,
    "Sigmoid": torch.sigmoid,
    "Softmax": lambda x, axis=-1: functional.softmax(x, axis),
    "Split": lambda x, sizes, axis: torch.split(x, sizes, axis),
    "Sqrt": torch.sqrt,
    "Sub": torch.sub,
    "Sum": lambda *xs: sum(xs[1:], xs[0]),
    "Transpose": lambda x, perm: x.permute(perm),
    "Unsqueeze": _unsqueeze,
}


def arrays_of(results: tuple[Tensor, ...]) -> list[Array]:
    """Return results as arrays of f32."""
    return [np.asarray(each.detach().float().cpu().numpy()) for each in results]
