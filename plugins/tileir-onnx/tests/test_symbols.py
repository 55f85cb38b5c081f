"""Nodes on sizes some of which are symbols, beside ONNX's reference for several values of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tileir
import tileir_onnx
from tileir import FunctionBuilder
from tileir.tile.builder import Dim
from tileir_onnx.folding import folded
from tileir_onnx.graph import Node
from tileir_onnx.symbols import integers

FAR = 2**63 - 1
S = ("N", 3, "M", "N*M+1")
"""Sizes, some of which are symbols."""


def i(*elements: Any) -> np.ndarray[Any, Any]:
    return np.array(elements, np.int64)


CASES: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("Abs", (S,), {}),
    ("Add", (S, ("M", 1, 2, "N")), {}),
    ("Add", (S, i(7)), {}),
    ("Cast", (S,), {"to": TensorProto.INT64}),
    ("Cast", (S,), {"to": TensorProto.INT32}),
    ("Compress", (S, np.array([True, False, True])), {"axis": 0}),
    ("Concat", (S, i(-1), ("N",)), {"axis": 0}),
    ("Div", (S, i(2)), {}),
    ("Div", (S, ("N", 2, "N", "M")), {}),
    ("Equal", (S, i(-1)), {}),
    ("Equal", (S, S), {}),
    ("Equal", (("N*M+1", "N+1"), ("M*N+2", "N")), {}),
    ("Expand", (("N",), i(2, 3)), {}),
    ("Flatten", (S,), {"axis": 0}),
    ("Gather", (S, np.array([[-1, 0]])), {}),
    ("GatherElements", (S, i(3, 0, -2)), {}),
    ("GatherND", (S, np.array([[2], [0]])), {}),
    ("Greater", (("N+1", "N", "M"), ("N", -1, -FAR)), {}),
    ("GreaterOrEqual", (S, i(0)), {}),
    ("Identity", (S,), {}),
    ("Less", (("N", 3, "M"), ("N+1", 5, "M")), {}),
    ("LessOrEqual", (i(0), S), {}),
    ("Max", (S, i(-1), ("M", 9, "M", 0)), {}),
    ("Max", (S,), {}),
    ("Min", (S, i(0), ("M", 9, "M", 0)), {}),
    ("Min", (S, i(4)), {}),
    ("Mod", (S, i(3)), {}),
    ("Mod", (i(-2, 5, -1, 7), S), {}),
    ("Mod", (("N-4",), i(3)), {}),
    ("Mod", (("N-4", -7), i(3)), {"fmod": 1}),
    ("Mul", (S, S), {}),
    ("Neg", (S,), {}),
    ("Pad", (S, i(1, 2)), {}),
    ("Pad", (S, i(1, 0), np.array(7)), {}),
    ("ReduceMax", (S,), {"keepdims": 0}),
    ("ReduceMin", (S, i(0)), {}),
    ("ReduceProd", (S,), {"keepdims": 0}),
    ("ReduceProd", (("N", 3, "M"), i(-1)), {}),
    ("ReduceSum", (S,), {}),
    ("ReduceSum", (S,), {"noop_with_empty_axes": 1}),
    ("Reshape", (S, i(-1, 2)), {}),
    ("Reshape", (("N",), i()), {}),
    ("ScatterElements", (S, i(1), ("M",)), {}),
    ("ScatterND", (S, np.array([[0]]), i(5)), {}),
    ("Shape", (S,), {}),
    ("Size", (S,), {}),
    ("Slice", (S, i(1), i(FAR), i(0), i(2)), {}),
    ("Slice", (S, i(-1), i(-FAR), i(0), i(-1)), {}),
    ("Split", (S, i(1, 3)), {}),
    ("Squeeze", (("N",),), {}),
    ("Sub", (S, i(1, 2, 0, 1)), {}),
    ("Sum", (S, S, i(1)), {}),
    ("Tile", (S, i(2)), {}),
    ("Transpose", (S,), {}),
    ("Unsqueeze", (S, i(1)), {}),
    ("Where", (np.array([True, False, False, True]), i(1), S), {}),
)


def symbolic(sizes: Any, names: dict[str, Any]) -> Any:
    """Return sizes as an array, with what names stand for; arrays are themselves."""
    if not isinstance(sizes, tuple):
        return sizes
    return integers([eval(each, {}, names) if isinstance(each, str) else each for each in sizes])


@pytest.mark.parametrize(("op", "arguments", "attributes"), CASES)
def test_results_for_symbols(op: str, arguments: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    x = FunctionBuilder().input("x", "N", "M", dtype="f32")
    names = [f"x{number}" for number in range(len(arguments))]
    outputs = ["y", "z"][: 1 + (op == "Split")]
    proto = helper.make_node(op, names, outputs, **attributes)
    values = {each.name: helper.get_attribute_value(each) for each in proto.attribute}
    known = [symbolic(each, dict(zip("NM", x.shape, strict=True))) for each in arguments]
    found = folded(Node(proto, 20, values), known)
    assert found is not None
    ports = [helper.make_empty_tensor_value_info(name) for name in [*names, *outputs]]
    graph = helper.make_graph([proto], "g", ports[: len(names)], ports[len(names) :])
    reference = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    for sizes in ({"N": 1, "M": 1}, {"N": 2, "M": 5}, {"N": 6, "M": 4}):
        wanted = reference.run(None, dict(zip(names, (symbolic(each, sizes) for each in arguments), strict=True)))
        for each, right in zip(found, wanted, strict=True):
            assert each.shape == np.shape(right)
            got = [one.at(sizes) if isinstance(one, Dim) else one for one in each.flat]
            assert got == np.ravel(right).tolist()


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("Equal", (("N",), i(1))),
        ("Equal", (("N",), ("M",))),
        ("Less", (("N",), i(5))),
        ("Greater", (("N", "N"), ("M", -1))),
        ("Less", (("N",), i(FAR))),
        ("Mod", (i(5), ("N-4",))),
        ("Expand", (("N",), ("M",))),
        ("Cos", (("N",),)),
    ],
)
def test_what_sizes_decide_is_left_to_the_row(op: str, arguments: tuple[Any, ...]) -> None:
    x = FunctionBuilder().input("x", "N", "M", dtype="f32")
    names = [f"x{number}" for number in range(len(arguments))]
    known = [symbolic(each, dict(zip("NM", x.shape, strict=True))) for each in arguments]
    assert folded(Node(helper.make_node(op, names, ["y"]), 20, {}), known) is None


def saved(path: Path, inputs: list[Any], nodes: list[Any], weights: dict[str, Any]) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_expand_as_pytorch_writes_it(tmp_path: Path) -> None:
    """``x.expand(y.shape[0], -1) + y``: -1 is looked for among sizes that are open."""
    n, f = helper.make_node, TensorProto.FLOAT
    nodes = [
        n("Shape", ["y0"], ["sizes"]),
        n("Gather", ["sizes", "zero"], ["count"]),
        n("Unsqueeze", ["count", "axis"], ["counts"]),
        n("Concat", ["counts", "rest"], ["both"], axis=0),
        n("Reshape", ["both", "rest"], ["wanted"]),
        n("Shape", ["wanted"], ["rank"]),
        n("ConstantOfShape", ["rank"], ["ones"], value=numpy_helper.from_array(i(1))),
        n("Mul", ["ones", "minus"], ["open"]),
        n("Equal", ["wanted", "open"], ["is_open"]),
        n("Where", ["is_open", "ones", "wanted"], ["target"]),
        n("Expand", ["x", "target"], ["wide"]),
        n("Add", ["wide", "y0"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info("x", f, [1, 5]), helper.make_tensor_value_info("y0", f, ["B", 5])]
    weights = {"zero": np.int64(0), "axis": i(0), "rest": i(-1), "minus": np.int64(-1)}
    run = tileir.jit(saved(tmp_path / "m.onnx", ports, nodes, weights))
    x = np.arange(5, dtype=np.float32)[None]
    for size in (2, 3):
        y = np.random.default_rng(size).standard_normal((size, 5)).astype(np.float32)
        np.testing.assert_array_equal(run(x, y), x + y)


def test_sizes_and_numbers_as_elements(tmp_path: Path) -> None:
    """An array of which one element is a size and others are numbers, where elements are asked for."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Cast", ["sizes"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["floats"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 5])]
    run = tileir.jit(saved(tmp_path / "m.onnx", ports, nodes, {}))
    for size in (4, 9):
        np.testing.assert_allclose(run(np.zeros((size, 5), np.float32)), np.sqrt([size, 5]), rtol=1e-6)


def test_causal_mask_behind_a_cache(tmp_path: Path) -> None:
    """Rows P to P + T of a triangle of P + T rows, whose sizes are sums of symbols."""
    n, f = helper.make_node, TensorProto.FLOAT
    nodes = [
        n("Shape", ["x"], ["t"], start=0, end=1),
        n("Shape", ["past"], ["p"], start=0, end=1),
        n("Squeeze", ["t"], ["count"]),
        n("Squeeze", ["p"], ["before"]),
        n("Add", ["count", "before"], ["sum"]),
        n("Reshape", ["sum", "rest"], ["whole"]),
        n("Concat", ["whole", "whole"], ["square"], axis=0),
        n("Expand", ["one", "square"], ["full"]),
        n("Trilu", ["full", "zero"], ["mask"], upper=0),
        n("Slice", ["mask", "p", "whole", "axis"], ["part"]),
        n("Concat", ["past", "x"], ["all"], axis=0),
        n("MatMul", ["part", "all"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, f, [dim, 4]) for name, dim in (("x", "T"), ("past", "P"))]
    weights = {"rest": i(-1), "one": np.float32(1), "zero": np.int64(0), "axis": i(0)}
    run = tileir.jit(saved(tmp_path / "m.onnx", ports, nodes, weights))
    for t, p in ((3, 2), (1, 5)):
        x, past = (np.random.default_rng(each).standard_normal((each, 4)).astype(np.float32) for each in (t, p))
        wanted = np.cumsum(np.concatenate([past, x]), 0, np.float64)[p:]
        np.testing.assert_allclose(run(x, past), wanted, rtol=1e-5, atol=1e-5)


def test_arithmetic_on_what_was_scattered(tmp_path: Path) -> None:
    """Two elements of zeros are replaced, and all are added to the input."""
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("ConstantOfShape", ["sizes"], ["zeros"]),
        helper.make_node("ScatterElements", ["zeros", "places", "updates"], ["put"], axis=1),
        helper.make_node("Add", ["x", "put"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 5])]
    weights = {"places": np.array([[2, 0]]), "updates": np.array([[1, 2]], np.float32)}
    path = saved(tmp_path / "m.onnx", ports, nodes, weights)
    for size in (2, 3):
        x = np.random.default_rng(size).standard_normal((size, 5)).astype(np.float32)
        wanted = x.copy()
        wanted[0, [2, 0]] += np.array([1, 2], np.float32)
        for run in (tileir.jit(path), tileir_onnx.load(path)):
            np.testing.assert_array_equal(run(x), wanted)


@pytest.mark.parametrize("kind", [TensorProto.INT32, TensorProto.INT64])
def test_sizes_as_integers_of_32_bits(kind: int, tmp_path: Path) -> None:
    """Exporters of TensorFlow compute sizes in i32, and put some of them out."""
    n, dtype = helper.make_node, helper.tensor_dtype_to_np_dtype(kind)
    nodes = [
        n("Shape", ["x"], ["sizes"]),
        n("Cast", ["sizes"], ["cast"], to=kind),
        n("Slice", ["cast", "zero", "one"], ["count"]),
        n("Mul", ["count", "two"], ["double"]),
        n("Concat", ["double", "half"], ["both"], axis=0),
        n("Gather", ["both", "one"], ["known"]),
        n("Cast", ["both"], ["target"], to=TensorProto.INT64),
        n("Reshape", ["x", "target"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 6])],
        [helper.make_empty_tensor_value_info(name) for name in ("y", "cast", "both", "known")],
        [
            numpy_helper.from_array(array, name)
            for name, array in {
                "zero": i(0),
                "one": i(1),
                "two": np.array([2], dtype),
                "half": np.array([3], dtype),
            }.items()
        ],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    model = tileir_onnx.load(path)
    y, cast, both, known = model(x)
    np.testing.assert_array_equal(y, x.reshape(8, 3))
    for found, wanted in ((cast, [4, 6]), (both, [8, 3]), (known, [3])):
        assert (found.dtype, found.tolist()) == (dtype, wanted)
    for each, right in zip(tileir.jit(model.function)(x), (x.reshape(8, 3), [4, 6], [8, 3]), strict=True):
        np.testing.assert_array_equal(each, right)
        assert each.dtype in (np.float32, dtype)
