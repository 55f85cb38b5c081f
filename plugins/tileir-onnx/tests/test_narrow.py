"""Types of fewer than 8 bits beside those of ml_dtypes: casts, quantised numbers, packed weights, and moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tileir_onnx
from nodes import Array, check, run
from tileir_onnx.narrow import NARROW

RNG = np.random.default_rng(0)
INTEGERS = ("int4", "uint4", "int2", "uint2")
TYPES = {each.dtype.name: (kind, each) for kind, each in NARROW.items()}
FLOAT = np.dtype(ml_dtypes.float4_e2m1fn)


def model_of(nodes: list[Any], inputs: dict[str, int], result: int, weights: Any = ()) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()]
    outputs = [helper.make_tensor_value_info("y", result, None)]
    graph = helper.make_graph(nodes, "g", ports, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


def test_all_types_are_known() -> None:
    assert set(TYPES) == {*INTEGERS, FLOAT.name}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_keep_their_last_bits(name: str) -> None:
    kind, narrow = TYPES[name]
    numbers = np.arange(-20, 20)
    for dtype in (np.int32, np.int8, np.float32, np.float16):
        y = run("Cast", numbers.astype(dtype), to=kind, opset=25)
        assert y.dtype == narrow.dtype
        np.testing.assert_array_equal(y.astype(np.int32), numbers.astype(np.int8).astype(narrow.dtype).astype(np.int32))
        for to in (np.int8, np.uint8, np.int32, np.float32):
            back = run("Cast", y, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(to))), opset=25)
            check(back, y.astype(np.int32).astype(to))
    check(run("CastLike", numbers, np.zeros(0, narrow.dtype), opset=25).astype(int), y.astype(int))


def test_floats_of_4_bits_are_the_nearest() -> None:
    numbers = np.concatenate([np.arange(-64, 65) / 8, [np.inf, -np.inf, 1e6, 1e-7, -0.0]]).astype(np.float32)
    y = run("Cast", numbers, to=TYPES[FLOAT.name][0], opset=25)
    assert y.dtype == FLOAT
    check(y.astype(np.float32), np.clip(numbers, -6, 6).astype(FLOAT).astype(np.float32))
    check(run("Cast", y, to=TensorProto.FLOAT16, opset=25), y.astype(np.float16))
    scale = np.array([0.5, 3, 0.25], np.float32)
    x = RNG.normal(0, 2, (2, 3, 4)).astype(np.float32)
    quantised = run("QuantizeLinear", x, scale, np.zeros(3, FLOAT), opset=25)
    wanted = np.clip(x / scale[:, None], -6, 6).astype(FLOAT)
    check(quantised.astype(np.float32), wanted.astype(np.float32))
    check(run("DequantizeLinear", quantised, scale, opset=25), wanted.astype(np.float32) * scale[:, None])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_quantised_within_their_limits(name: str) -> None:
    kind, narrow = TYPES[name]
    x, scale, zero = RNG.normal(0, 4, (3, 4)).astype(np.float32), np.array([0.5, 1, 2], np.float32), np.ones(3)
    wanted = np.clip(np.rint(x / scale[:, None]) + 1, *narrow.limits)
    y = run("QuantizeLinear", x, scale, zero.astype(narrow.dtype), axis=0, opset=25)
    assert y.dtype == narrow.dtype
    check(y.astype(np.float32), wanted.astype(np.float32))
    back = run("DequantizeLinear", y, scale, zero.astype(narrow.dtype), axis=0, opset=25)
    check(back, ((wanted - 1) * scale[:, None]).astype(np.float32))
    unsigned = run("QuantizeLinear", x, np.array(0.5, np.float32), output_dtype=kind, opset=25)
    check(unsigned.astype(np.float32), np.clip(np.rint(x / 0.5), *narrow.limits))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("size", [5, 6, 4096])
def test_packed_weights(name: str, size: int, tmp_path: Path) -> None:
    narrow = TYPES[name][1]
    weight = (
        RNG.integers(*narrow.limits, (size, 3), endpoint=True).astype(np.int8).astype(np.float32).astype(narrow.dtype)
    )
    scale = np.array([0.5, 1, 2], np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    weights = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(scale, "s")]
    model = model_of(nodes, {"x": TensorProto.FLOAT}, TensorProto.FLOAT, weights)
    x = RNG.normal(size=(2, size)).astype(np.float32)
    wanted = x.astype(np.float64) @ (weight.astype(np.float64) * scale)
    np.testing.assert_allclose(tileir_onnx.load(model.SerializeToString())(x), wanted, rtol=1e-4, atol=1e-3)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    loaded = tileir_onnx.load(path)
    assert loaded.constants["w"].dtype == narrow.dtype
    np.testing.assert_array_equal(loaded.constants["w"].astype(np.float32), weight.astype(np.float32))
    np.testing.assert_allclose(loaded(x), wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TYPES)
def test_moves_keep_the_type(name: str) -> None:
    kind, narrow = TYPES[name]
    x: Array = RNG.integers(0, 2, (2, 3)).astype(np.float32).astype(narrow.dtype)
    for node in (
        helper.make_node("Transpose", ["x"], ["y"]),
        helper.make_node("Concat", ["x", "x"], ["y"], axis=0),
        helper.make_node("Identity", ["x"], ["y"]),
    ):
        model = tileir_onnx.load(model_of([node], {"x": kind}, kind).SerializeToString())
        for _ in range(2):  # the second time by its compiled form
            y = model(x)
            assert y.dtype == narrow.dtype
        wanted = {"Transpose": x.T, "Concat": np.concatenate([x, x]), "Identity": x}[node.op_type]
        np.testing.assert_array_equal(y.astype(np.float32), wanted.astype(np.float32))
