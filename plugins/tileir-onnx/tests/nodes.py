"""Single nodes of ONNX, run by tileir and by the reference of the onnx package."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import tileir_onnx

Array = NDArray[Any]

NUMBERS: Mapping[np.dtype[Any], int] = {
    np.dtype(ml_dtypes.bfloat16): TensorProto.BFLOAT16,
    np.dtype(ml_dtypes.float8_e4m3fn): TensorProto.FLOAT8E4M3FN,
    np.dtype(ml_dtypes.float8_e5m2): TensorProto.FLOAT8E5M2,
}


def number_of(dtype: np.dtype[Any]) -> int:
    """Return ONNX's number of an element type."""
    return NUMBERS.get(dtype) or int(helper.np_dtype_to_tensor_dtype(dtype))


def model_of(
    op: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    opset: int,
    outputs: int = 1,
    domain: str = "",
    open_sizes: bool = False,
) -> onnx.ModelProto:
    """Return a model of one node; an input that is None is left out."""
    names = ["" if each is None else f"x{at}" for at, each in enumerate(inputs)]
    results = [f"y{at}" for at in range(outputs)]
    ports = [
        helper.make_tensor_value_info(
            name, number_of(each.dtype), [None] * each.ndim if open_sizes else list(each.shape)
        )
        for name, each in zip(names, inputs, strict=True)
        if each is not None
    ]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    graph = helper.make_graph([node], "g", ports, [helper.make_empty_tensor_value_info(name) for name in results])
    domains = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=domains)


def feeds_of(inputs: Sequence[Array | None]) -> dict[str, Array]:
    """Return the inputs of :func:`model_of` by name."""
    return {f"x{at}": each for at, each in enumerate(inputs) if each is not None}


def run(
    op: str,
    *inputs: Array | None,
    opset: int = 21,
    outputs: int = 1,
    domain: str = "",
    **attributes: Any,
) -> Any:
    """Return what tileir computes for a node: an array, or a tuple of several."""
    model = model_of(op, inputs, attributes, opset, outputs, domain)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(model, path)
        results = tileir_onnx.load(path).run(feeds_of(inputs))
    arrays = tuple(np.asarray(each) for each in results)
    return arrays[0] if outputs == 1 else arrays


def reference(op: str, *inputs: Array | None, opset: int = 21, outputs: int = 1, **attributes: Any) -> Any:
    """Return what the reference of the onnx package computes."""
    model = model_of(op, inputs, attributes, opset, outputs)
    with np.errstate(all="ignore"):
        results = tuple(np.asarray(each) for each in ReferenceEvaluator(model).run(None, feeds_of(inputs)))
    return results[0] if outputs == 1 else results


def check(got: Any, wanted: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Compare arrays, or tuples of them, in dtype, shape and value."""
    if isinstance(wanted, tuple):
        for one, other in zip(got, wanted, strict=True):
            check(one, other, rtol, atol)
        return
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(got, wanted)
        return
    rtol = {"bfloat16": 2**-7, "float16": 2**-9}.get(wanted.dtype.name, rtol)
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=atol)
