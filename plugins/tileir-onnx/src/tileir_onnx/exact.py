"""Reference results of 16-bit models in f64, to compare roundings with exact values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from tileir_onnx.graph import DTYPES, Array

PRECISIONS: Final = {DTYPES[TensorProto.FLOAT16]: 10, DTYPES[TensorProto.BFLOAT16]: 7}
"""Fraction bits of 16-bit floats."""
_FLOATS: Final = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def exact_results(model: ModelProto, inputs: Sequence[Any]) -> list[Array]:
    """Return the results of a model with all floats in f64, by ONNX's reference, which may raise anything."""
    wide = ModelProto()
    wide.CopyFrom(model)
    for graph in _graphs(wide):
        for port in (*graph.input, *graph.output, *graph.value_info):
            if port.type.tensor_type.elem_type in _FLOATS:
                port.type.tensor_type.elem_type = TensorProto.DOUBLE
        for tensor in graph.initializer:
            _widen(tensor)
    for node in _nodes(wide):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen(attribute.t)
            if (node.op_type, attribute.name) == ("Cast", "to") and attribute.i in _FLOATS:
                attribute.i = TensorProto.DOUBLE
    feeds = dict(zip((port.name for port in wide.graph.input), map(_wide, inputs), strict=False))
    with np.errstate(all="ignore"):
        return [np.asarray(each) for each in ReferenceEvaluator(wide).run(None, feeds)]


def units(found: Array, exact: Array) -> float:
    """Return the maximum distance of 16-bit floats from exact values, in units of the last place of these."""
    bits = PRECISIONS[found.dtype]
    least = np.finfo(np.float16).minexp if found.dtype == np.float16 else -126
    with np.errstate(all="ignore"):
        places = np.exp2(np.maximum(np.floor(np.log2(np.abs(exact))), least) - bits)
        wrong = np.abs(found.astype(np.float64) - exact) / places
    wrong[(np.isnan(exact) & np.isnan(found.astype(np.float64))) | (found.astype(np.float64) == exact)] = 0
    return float(np.max(wrong, initial=0.0))


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    for function in model.functions:
        yield from function.node
    for graph in _graphs(model):
        yield from graph.node


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += (each.g for node in graph.node for each in node.attribute if each.HasField("g"))


def _widen(tensor: TensorProto) -> None:
    if tensor.data_type in _FLOATS:
        tensor.CopyFrom(numpy_helper.from_array(_wide(numpy_helper.to_array(tensor)), tensor.name))


def _wide(value: Any) -> Any:
    is_float = isinstance(value, np.ndarray) and value.dtype in (*PRECISIONS, np.float32)
    return value.astype(np.float64) if is_float else value
