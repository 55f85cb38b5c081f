"""Constant folding of nodes: sizes, which may be symbols, and small constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from onnx import defs, helper

from tileir_onnx.graph import DTYPES, Array, Graph, Node
from tileir_onnx.symbols import MISTAKES, computed

_BYTES: Final = 1 << 20
"""Maximum size in bytes of results folded on import."""
_MOST: Final = 1 << 22
"""Maximum product of input sizes up to which nodes on several inputs are folded."""
_JOINING: Final = frozenset({"Concat", "SequenceConstruct"})
"""Nodes whose results have the elements of all inputs."""
_RANDOM: Final = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def folded(node: Node, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the outputs of a node that are known when compiling, or None."""
    if not all(each is None or isinstance(each, np.ndarray) for each in arguments) or node.op in _RANDOM:
        return None
    if any(each is not None and each.dtype == object for each in arguments):
        return computed(node, arguments, folded)
    if any(isinstance(each, Graph) for each in node.attributes.values()) or not defs.has(node.op, node.domain):
        return None
    if sum(each.nbytes for each in arguments if each is not None) > _BYTES or _grows(node, arguments):
        return None
    function = None if node.domain else _KNOWN.get(node.op)
    if function is None or any(each is None for each in arguments):
        return _evaluated(node, arguments)
    try:
        with np.errstate(all="ignore"):
            return (np.asarray(function(node, *arguments)),)
    except MISTAKES:  # the node is wrong, which is reported below
        return _evaluated(node, arguments)


def _grows(node: Node, arguments: Sequence[Array | None]) -> bool:
    """Return whether a result may have more elements than are folded, by sizes and values of inputs."""
    given = [each for each in arguments if each is not None]
    if node.op not in _BY_VALUE:  # products, outer ones too, and broadcasts have no more than this
        return node.op not in _JOINING and len(given) > 1 and prod(float(max(each.size, 1)) for each in given) > _MOST
    bound = _BY_VALUE[node.op]
    try:
        return bound is None or not bound(*given) <= _BYTES
    except MISTAKES:  # the row reports the fault
        return True


def _product(sizes: Array) -> float:
    return float(np.prod(sizes, dtype=float))


def _evaluated(node: Node, arguments: Sequence[Array | None]) -> tuple[Array | None, ...] | None:
    from onnx.reference import ReferenceEvaluator  # slow to import, and few models need it

    names = [name for name in node.inputs if name]
    feeds = {name: each for name, each in zip(node.inputs, arguments, strict=True) if name}
    wanted = [name for name in node.outputs if name]
    graph = helper.make_graph(
        [node.proto],
        "node",
        [helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(names)],
        [helper.make_empty_tensor_value_info(name) for name in wanted],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, node.version)])
    try:
        with np.errstate(all="ignore"):
            results = iter(ReferenceEvaluator(model).run(None, feeds))
    except Exception:  # the reference may raise anything for missing features, which is left to the row
        return None
    found = tuple(next(results) if name else None for name in node.outputs)
    if any(isinstance(each, list) for each in found):  # a sequence
        return None
    return tuple(None if each is None else np.asarray(each) for each in found)


def _gather(node: Node, data: Array, indices: Array) -> Array:
    return np.take(data, indices.astype(np.int64), axis=node.attributes.get("axis", 0))


def _slice(node: Node, data: Array, *rest: Any) -> Array:
    if node.version < 10:
        rest = tuple(node.attributes.get(name) for name in ("starts", "ends", "axes"))
    starts, ends, axes, steps = [*rest, None, None][:4]
    keys = [slice(None)] * data.ndim
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        step = 1 if steps is None else int(steps[at])
        keys[at if axes is None else axes[at]] = slice(int(start), int(end), step)
    return data[tuple(keys)]


def _squeeze(node: Node, data: Array, axes: Array | None = None) -> Array:
    given = node.attributes.get("axes") if axes is None else tuple(axes)
    return np.squeeze(data, None if given is None else tuple(map(int, given)))


def _unsqueeze(node: Node, data: Array, axes: Array | None = None) -> Array:
    given = node.attributes["axes"] if axes is None else axes
    return np.expand_dims(data, tuple(map(int, given)))


def _constant_of_shape(node: Node, sizes: Array) -> Array:
    value = node.attributes.get("value", np.zeros(1, np.float32))
    return np.full(tuple(map(int, sizes)), value[0], value.dtype)


def _cast(node: Node, data: Array) -> Array:
    to = DTYPES[node.attributes["to"]]
    if data.dtype.kind not in "iub" or to.kind not in "iuf" or to.itemsize < data.dtype.itemsize:
        raise TypeError("a cast that may change numbers")
    return data.astype(to)


_KNOWN: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "Cast": _cast,
        "Concat": lambda node, *parts: np.concatenate(parts, node.attributes["axis"]),
        "ConstantOfShape": _constant_of_shape,
        "Gather": _gather,
        "Identity": lambda _, x: x,
        "Slice": _slice,
        "Squeeze": _squeeze,
        "Unsqueeze": _unsqueeze,
    }
)
"""Nodes on small arrays that are frequent in models, and slow in the reference."""

_BY_VALUE: Final[Mapping[str, Callable[..., float] | None]] = MappingProxyType(
    {
        "ConstantOfShape": _product,
        "Expand": lambda x, sizes: x.size * _product(sizes),
        "Pad": lambda x, pads, *_: (x.size + 1) * _product(np.abs(pads.astype(float)) + 1),
        "Range": lambda start, limit, delta: float((limit - start) / delta),
        "Tile": lambda x, counts: x.size * _product(counts),
        **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix")),
        **dict.fromkeys(("CenterCropPad", "Col2Im", "ConvTranspose", "DFT", "EyeLike", "MaxUnpool")),
        **dict.fromkeys(("OneHot", "Resize", "STFT", "Upsample")),
    }
)
"""Upper bounds of result elements, if sizes are values of inputs; None to leave the node to the row."""
