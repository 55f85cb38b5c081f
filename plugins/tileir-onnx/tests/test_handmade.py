"""Models as people write them by ``onnx.helper``: orders, names, sizes and inputs that are odd, and still right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

import tileir
import tileir_onnx

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
NODE = helper.make_node
NEG = NODE("Neg", ["x"], ["y"])


def port(name: str, shape: Any = (2, 3), kind: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, value: Any) -> TensorProto:
    return numpy_helper.from_array(np.asarray(value, object if isinstance(value, list) else None), name)


def ran(
    nodes: list[Any], feeds: dict[str, Any], inputs: list[Any], outputs: list[Any], weights: Any = (), opset: int = 17
) -> Any:
    graph = helper.make_graph(nodes, "", inputs, outputs, list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return tileir_onnx.load(model.SerializeToString()).run(feeds)


def test_nodes_in_any_order() -> None:
    inner = helper.make_graph([NODE("Mul", ["late", "x"], ["t"])], "", [], [port("t")])
    nodes = [
        NODE("Add", ["c", "d"], ["y"]),
        NODE("If", ["b"], ["d"], then_branch=inner, else_branch=inner),
        NODE("Abs", ["late"], ["c"]),
        NODE("Relu", ["x"], ["late"]),
    ]
    (y,) = ran(nodes, {"x": X}, [port("x")], [port("y")], [weight("b", True)])
    late = np.maximum(X, 0)
    np.testing.assert_array_equal(y, late + late * X)


@pytest.mark.parametrize("shape", [None, ["", None], [-1, 3], ["x", "y"], ["N + 1", "3 * k"], [2, 3]])
def test_sizes_that_say_little(shape: Any) -> None:
    (y,) = ran([NEG], {"x": X}, [port("x", shape)], [helper.make_empty_tensor_value_info("y")])
    np.testing.assert_array_equal(y, -X)


def test_empty_inputs() -> None:
    (y,) = ran([NEG], {"x": X[:0]}, [port("x", [0, 3])], [port("y", [0, 3])])
    assert y.shape == (0, 3)


def test_nodes_that_no_result_needs() -> None:
    nodes = [NODE("StringNormalizer", ["s"], ["t"]), NODE("Constant", [], ["c"], value_string="text"), NEG]
    (y,) = ran(nodes, {"x": X}, [port("x")], [port("y")], [weight("s", ["a"])])
    np.testing.assert_array_equal(y, -X)
    with pytest.raises(tileir.TileError, match=r"TIL605.*no operator StringNormalizer"):
        ran(
            nodes,
            {"x": X},
            [port("x")],
            [port("t", [1], TensorProto.STRING)],
            [weight("s", ["a"])],
        )


def test_results_that_are_inputs_weights_and_each_other() -> None:
    outputs = [port("y"), port("x"), port("w", [3]), port("y")]
    found = ran([NEG], {"x": X}, [port("x")], outputs, [weight("w", X[0]), weight("unused", X)])
    for each, wanted in zip(found, (-X, X, X[0], -X), strict=True):
        np.testing.assert_array_equal(each, wanted)
    np.testing.assert_array_equal(ran([], {"x": X}, [port("x")], [port("x")])[0], X)


def test_names_that_are_no_identifiers() -> None:
    nodes = [NODE("Neg", ["a b/c:0"], ["é;{}"]), NODE("Relu", ["é;{}"], ["1y"])]
    (y,) = ran(nodes, {"a b/c:0": X}, [port("a b/c:0")], [port("1y")])
    np.testing.assert_array_equal(y, np.maximum(-X, 0))


def test_weights_among_the_inputs_and_inputs_left_out() -> None:
    nodes = [
        NODE(
            "Clip",
            ["x", "", "m"],
            [
                "c",
            ],
        ),
        NODE("Clip", ["c", "", ""], ["d"]),
        NODE("Dropout", ["d"], ["y", ""]),
    ]
    inputs, weights = [port("x"), port("m", [])], [weight("m", np.float32(1))]
    np.testing.assert_array_equal(ran(nodes, {"x": X}, inputs, [port("y")], weights)[0], np.minimum(X, 1))
    fed = {"x": X, "m": np.array(2, np.float32)}
    np.testing.assert_array_equal(ran(nodes, fed, inputs, [port("y")], weights)[0], np.minimum(X, 2))


@pytest.mark.parametrize("dtype", ["f2", "f8", "i1", "u2", "i8", "u8", "?"])
def test_weights_in_typed_fields(dtype: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [NODE("Cast", ["w"], ["c"], to=TensorProto.FLOAT), NODE("Add", ["x", "c"], ["y"])]
    (y,) = ran(nodes, {"x": X}, [port("x")], [port("y")], [helper.make_tensor("w", kind, [3], [1, 0, 1])])
    np.testing.assert_array_equal(y, X + np.array([1, 0, 1], np.float32))


@pytest.mark.parametrize(
    ("nodes", "word", "made"),
    [
        ([NEG], "float16", "f32"),
        ([NODE("Greater", ["x", "x"], ["y"])], "float", "bool"),
        ([NODE("Shape", ["x"], ["y"])], "int32", "i64"),
        ([NODE("Neg", ["w"], ["v"]), NODE("Add", ["x", "v"], ["y"])], "bfloat16", "f32"),
        ([NODE("Neg", ["w"], ["y"])], "double", "f32"),
    ],
)
def test_results_of_other_types_than_the_model_declares(nodes: list[Any], word: str, made: str) -> None:
    output = port("y", None, getattr(TensorProto, word.upper()))
    with pytest.raises(tileir.TileError, match=rf"TIL604.*result 'y' is {word} in the model, .* make {made} of it"):
        ran(nodes, {"x": X}, [port("x")], [output], [weight("w", X)])
