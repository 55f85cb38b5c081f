"""Nodes beside the reference of ONNX: the same node on given sizes, and on a function whose first size is open."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

import tileir
import tileir_onnx

Array = np.ndarray[Any, Any]

LATEST = 26
"""Operators of this version, unless a test says otherwise."""
EPSILON = {np.dtype(np.float16): 1e-3, np.dtype(ml_dtypes.bfloat16): 8e-3}
"""The distance of neighbouring numbers near 1, for those that have fewer bits than f32."""


def model_of(
    op: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    version: int = LATEST,
    outputs: int = 1,
    domain: str = "",
    batch: int | str | None = None,
    constants: Sequence[int] = (),
) -> ModelProto:
    """Return a model of one node.

    Args:
        op: The operator.
        inputs: Its inputs; None for one that is left out.
        attributes: Its attributes.
        version: The version of the domain's operators.
        outputs: How many outputs it has.
        domain: The domain of the operator.
        batch: The first size of each input where it is not that of the array.
        constants: Inputs that are weights.

    """
    names = [f"x{at}" if each is not None else "" for at, each in enumerate(inputs)]
    results = [f"y{at}" for at in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **dict(attributes or {}))
    ports, weights = [], []
    for at, (name, each) in enumerate(zip(names, inputs, strict=True)):
        if each is None:
            continue
        if at in constants:
            weights.append(onnx.numpy_helper.from_array(each, name))
            continue
        shape = [batch if batch is not None and not axis and at == 0 else size for axis, size in enumerate(each.shape)]
        ports.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), shape))
    values = [helper.make_empty_tensor_value_info(name) for name in results]
    opsets = [helper.make_opsetid("", LATEST if domain else version)]
    opsets += [helper.make_opsetid(domain, version)] if domain else []
    return helper.make_model(helper.make_graph([node], op, ports, values, weights), opset_imports=opsets)


def run(model: ModelProto, feeds: Sequence[Array]) -> tuple[Array, ...]:
    """Return the results of a model for its inputs in order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(model, path)
        loaded = tileir_onnx.load(path)
        return loaded.run(dict(zip((port.name for port in loaded.inputs), feeds, strict=True)))


def run_open(model: ModelProto, feeds: Sequence[Array]) -> tuple[Array, ...]:
    """Return the results of the function of a model, whose first size is compiled as a symbol."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(model, path)
        results = tileir.jit(tileir_onnx.load(path).function)(*feeds)
    return results if isinstance(results, tuple) else (results,)


def referred(model: ModelProto, feeds: Sequence[Array]) -> list[Array]:
    """Return the results of ONNX's reference; numbers of 16 bits are computed in f32."""
    wide = [each.astype(np.float32) if each.dtype in EPSILON else each for each in feeds]
    names = [port.name for port in model.graph.input]
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(model).run(None, dict(zip(names, wide, strict=True))))


def check(
    op: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    wanted: Sequence[Array] | None = None,
    tolerance: float = 2e-5,
    opened: bool = True,
    **options: Any,
) -> None:
    """Compare a node with the reference, or with what is ``wanted``, in values and dtypes.

    Args:
        op: The operator.
        inputs: Its inputs; None for one that is left out.
        attributes: Its attributes.
        wanted: The results, for what the reference does not have right.
        tolerance: The error that is allowed, relative to the greatest magnitude.
        opened: Whether the first size may be a symbol.
        options: As for :func:`model_of`.

    """
    model = model_of(op, inputs, attributes, **options)
    constants = options.get("constants", ())
    feeds = [each for at, each in enumerate(inputs) if each is not None and at not in constants]
    expected = list(wanted) if wanted is not None else referred(model, feeds)
    results = run(model, feeds)
    compare(results, expected, feeds[0], tolerance)
    if opened:
        compare(run_open(model_of(op, inputs, attributes, batch="N", **options), feeds), results, feeds[0], tolerance)


def compare(results: Sequence[Array], expected: Sequence[Array], like: Array, tolerance: float) -> None:
    """Assert that results have the shapes, dtypes and values that are expected."""
    assert len(results) == len(expected)
    for result, each in zip(results, expected, strict=True):
        assert result.shape == np.shape(each)
        if like.dtype not in EPSILON:
            assert result.dtype == np.asarray(each).dtype
        if result.dtype.kind in "iub":
            np.testing.assert_array_equal(result, each)
            continue
        wide = np.asarray(each).astype(np.float64)
        scale = np.abs(wide[np.isfinite(wide)]).max(initial=1e-30)
        error = tolerance + 4 * EPSILON.get(result.dtype, 0)
        np.testing.assert_allclose(result.astype(np.float64), wide, rtol=error, atol=error * scale)


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    """Return numbers of a normal distribution."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)
