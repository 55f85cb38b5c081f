"""Nodes that are computed when a model is read, beside ONNX's reference and NumPy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tileir_onnx.folding import folded
from tileir_onnx.graph import Node

S = np.array([2, 3, 4])
CASES: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("Cast", (S,), {"to": 1}),
    ("Cast", (S,), {"to": 6}),
    ("Cast", (S > 2,), {"to": 7}),
    ("Cast", (np.array([1.7, -1.7], np.float32),), {"to": 7}),
    ("Concat", (S, S[:0], S), {"axis": 0}),
    ("Concat", (S[None], S[None]), {"axis": -2}),
    ("ConstantOfShape", (S,), {}),
    ("ConstantOfShape", (S[:0],), {}),
    ("ConstantOfShape", (S,), {"value": numpy_helper.from_array(np.array([7], np.int8))}),
    ("Gather", (S, np.array(-1)), {}),
    ("Gather", (np.arange(12).reshape(3, 4), np.array([[2, 0]])), {"axis": 1}),
    ("Identity", (S,), {}),
    ("Squeeze", (S[None, :, None],), {}),
    ("Squeeze", (S[None, :, None], np.array([-1])), {}),
    ("Unsqueeze", (S, np.array([0, -1])), {}),
    ("Range", (np.array(1), np.array(3), np.array(1)), {}),
    ("Add", (S, S), {}),
    ("Div", (-S, np.array(3)), {}),
)


@pytest.mark.parametrize(("op", "arguments", "attributes"), CASES)
def test_known_arrays(op: str, arguments: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    names = [f"x{number}" for number in range(len(arguments))]
    proto = helper.make_node(op, names, ["y"], **attributes)
    values = {
        each.name: numpy_helper.to_array(each.t) if each.HasField("t") else helper.get_attribute_value(each)
        for each in proto.attribute
    }
    found = folded(Node(proto, 21, values), arguments)
    ports = [helper.make_tensor_value_info(name, 1, None) for name in [*names, "y"]]
    graph = helper.make_graph([proto], "g", ports[:-1], ports[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    [wanted] = ReferenceEvaluator(model).run(None, dict(zip(names, arguments, strict=True)))
    assert found is not None
    assert found[0].dtype == np.asarray(wanted).dtype
    np.testing.assert_array_equal(found[0], wanted)


@pytest.mark.parametrize(
    ("op", "arguments", "attributes"),
    [
        ("ConstantOfShape", (np.array([1 << 20, 1 << 20]),), {}),
        ("Expand", (np.ones((1 << 15, 1), np.float32), np.array([1, 1 << 19])), {}),
        ("Tile", (np.ones(1 << 17, np.float32), np.array([1 << 19])), {}),
        ("Pad", (np.ones(8, np.float32), np.array([0, 1 << 40])), {}),
        ("Range", (np.array(0), np.array(1 << 40), np.array(1)), {}),
        ("OneHot", (S, np.array(1 << 40), np.array([0, 1])), {}),
        ("Resize", (np.ones((1, 1, 9, 9), np.float32), None, np.array([1, 1, 1e4, 1e4], np.float32)), {}),
        ("HannWindow", (np.array(1 << 40),), {}),
        ("Mul", (np.ones((1 << 15, 1), np.float32), np.ones((1, 1 << 15), np.float32)), {}),
        ("MatMul", (np.ones((1 << 15, 1), np.float32), np.ones((1, 1 << 15), np.float32)), {}),
    ],
)
def test_large_results_are_left_to_the_row(op: str, arguments: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    names = ["" if each is None else f"x{number}" for number, each in enumerate(arguments)]
    assert folded(Node(helper.make_node(op, names, ["y"], **attributes), 21, attributes), arguments) is None


def test_onnx_reference_is_loaded_on_demand() -> None:
    program = "import sys, tileir_onnx.importing\nprint('onnx.reference' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
