"""Files that are not to be trusted: each gives an error of tileir, or runs."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import tileir
import tileir_onnx
from mutations import mutated

W = np.arange(2048, dtype=np.float32).reshape(4, 512)
HEAD = '<ir_version: 10, opset_import: ["": 21, "l": 1]>\n'
MODELS = (
    HEAD + "g (float[N, 3, 4] x) => (float[N, k] y) { z = Constant<value_ints=[0, -1]>() y = Reshape(x, z) }",
    HEAD
    + """g (int64 n, float[3, 4] x) => (float[3, 4] y, float[m, 3, 4] z) {
      c = Constant<value=bool {1}>()
      y, z = Loop<body = b (int64 i, bool d, float[3, 4] v) => (bool d, float[3, 4] w, float[3, 4] o) {
        f = Cast<to=1>(i)
        w = Add(v, f)
        o = Mul(w, x) }>(n, c, x) }""",
    HEAD
    + """g (float[4] s, float[3, 4] x) => (float[4] t, float[3, 4] ys) {
      t, ys = Scan<num_scan_inputs=1, body = b (float[4] a, float[4] e) => (float[4] n, float[4] m) {
        n = Add(a, e)
        m = Mul(n, e) }>(s, x) }""",
    HEAD
    + """g (float[3, 4] x) => (float[3, 4] y) { y = l.f<alpha=3.0>(x) }
    <domain: "l", opset_import: ["": 18, "l": 1]> f <alpha, beta: float = 0.25>(x) => (y) {
      a = l.h<k: float=@alpha>(x)
      b = Constant<value_float: float = @beta>()
      y = Add(a, b) }
    <domain: "l", opset_import: ["": 13]> h <k>(x) => (y) { c = Constant<value_float: float=@k>() y = Mul(x, c) }""",
)
FEEDS: dict[str, Any] = {
    "n": np.array(3),
    "s": np.zeros(4, np.float32),
    "x": np.arange(12, dtype=np.float32).reshape(3, 4),
}


def ports(*names: str) -> list[Any]:
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in names]


def model_of(nodes: list[Any], weights: Any = (), **more: Any) -> Any:
    graph = helper.make_graph(nodes, "g", ports("x"), ports("y"), list(weights), **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("text", MODELS)
def test_mutations(text: str, seed: int) -> None:
    random, data = Random(seed), parser.parse_model(text).SerializeToString()
    for _ in range(25):
        try:
            model = tileir_onnx.load(mutated(data, random))
            model.compiler = lambda function: lambda *_: (0,) * len(function.outputs)
            model.run({port.name: FEEDS.get(port.name, FEEDS["x"]) for port in model.inputs})
        except tileir.TileError:
            continue


def external(location: str, **more: str) -> bytes:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=value)
    data: bytes = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [tensor]).SerializeToString()
    return data


def test_weights_in_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "in").mkdir(parents=True)
    weights = np.array([1, 2, 3, 4, 5], np.float32)
    for place in (tmp_path / "outside", folder / "weights", folder / "in" / "weights"):
        weights.tofile(place)
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "linked").symlink_to(tmp_path)

    def loaded(location: str, **more: str) -> Any:
        (folder / "m.onnx").write_bytes(external(location, **more))
        return tileir_onnx.load(folder / "m.onnx").constants["w"]

    np.testing.assert_array_equal(loaded("weights", length="16"), weights[:4])
    np.testing.assert_array_equal(loaded("in/weights", offset="4", length="16"), weights[1:])
    for location in ("../outside", str(tmp_path / "outside"), "in/../../outside", "", "a:b", "a\\b"):
        with pytest.raises(tileir.TileError, match=r"TIL604.*no path inside of its folder"):
            loaded(location)
    for location in ("link", "linked/outside"):
        with pytest.raises(tileir.TileError, match=r"TIL604.*symbolic link"):
            loaded(location)
    with pytest.raises(tileir.TileError, match=r"TIL604.*put it beside the model"):
        loaded("none")
    for more in ({"offset": "8"}, {"offset": "-4"}, {"length": "17"}, {"offset": "a"}, {"offset": str(2**64)}):
        with pytest.raises(tileir.TileError, match="TIL604"):
            loaded("weights", **more)
    unknown = onnx.ModelProto.FromString(external("weights"))
    unknown.graph.initializer[0].data_type = TensorProto.FLOAT8E4M3FNUZ
    with pytest.raises(tileir.TileError, match=r"TIL605.*which tileir has not"):
        tileir_onnx.load(unknown.SerializeToString())
    with pytest.raises(tileir.TileError, match=r"TIL604.*has no folder"):
        tileir_onnx.load(external("weights"))
    with pytest.raises(tileir.TileError, match=r"TIL604"):
        tileir_onnx.load(external("\0007"))


def test_long_weights_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    inner = helper.make_graph(
        [helper.make_node("Add", ["x", "v"], ["r"])], "i", [], ports("r"), [numpy_helper.from_array(W + 1, "v")]
    )
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(W + 2)),
        helper.make_node("If", ["b"], ["y"], then_branch=inner, else_branch=inner),
    ]
    onnx.save(model_of(nodes, [numpy_helper.from_array(W, "w"), numpy_helper.from_array(W[0, :4], "s")]), path)
    graph = tileir_onnx.load(path).graph
    for array, wanted in ((graph.weights["w"], W), (graph.weights["c"], W + 2), (graph.weights["s"], W[0, :4])):
        np.testing.assert_array_equal(array, wanted)
    branch = graph.nodes[0].attributes["then_branch"].weights["v"]
    np.testing.assert_array_equal(branch, W + 1)
    assert not any(each.flags.owndata or each.flags.writeable for each in (graph.weights["w"], branch))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (model_of([helper.make_node("Add", ["a", "x"], ["y"]), helper.make_node("Neg", ["y"], ["a"])]), "makes before"),
        (model_of([helper.make_node("Add", ["y", "x"], ["y"])]), "makes before it"),
        (model_of([helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])]), "'y' twice"),
        (model_of([helper.make_node("Neg", ["x"], ["x"])]), "'x' twice"),
        (model_of([helper.make_node("Neg", ["x"], ["z"])]), "nothing makes 'y', a result"),
        (model_of([], [TensorProto(name="w", data_type=1, dims=[-4])]), "negative size"),
        (model_of([], [TensorProto(name="w", data_type=1, dims=[2**40, 2**40])]), "'w'"),
    ],
)
def test_wrong_graphs(model: Any, told: str) -> None:
    with pytest.raises(tileir.TileError, match=f"TIL604.*{told}"):
        tileir_onnx.load(model.SerializeToString())(np.zeros(4, np.float32))


def test_attributes_of_a_function_outside_of_one() -> None:
    node = helper.make_node("LeakyRelu", ["x"], ["y"])
    node.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="alpha")
    with pytest.raises(tileir.TileError, match=r"TIL604.*attribute 'alpha' that cannot be read"):
        tileir_onnx.load(model_of([node]).SerializeToString())


def test_huge_results_are_refused_before_they_are_made() -> None:
    for text in (
        "y = ConstantOfShape(s)",
        "y = Expand(x, s)",
        "z = Constant<value_int=0>() u = Constant<value_int=1>() n = Constant<value_int=1000000000000000> () "
        "y = Range(z, n, u)",
    ):
        head = f"{HEAD}g (float[1] x) => (float[k] y) {{ s = Constant<value_ints=[1000000, 1000000, 1000]>() {text} }}"
        with pytest.raises(tileir.TileError):
            tileir_onnx.load(parser.parse_model(head).SerializeToString())(np.zeros(1, np.float32))


@pytest.mark.parametrize("depth", [40, 1000])
def test_graphs_within_graphs_have_a_depth(depth: int) -> None:
    def field(number: int, content: bytes) -> bytes:
        size, varint = len(content), bytearray()
        while size > 127:
            varint.append(size & 127 | 128)
            size >>= 7
        return bytes([number << 3 | 2, *varint, size]) + content

    graph = field(2, b"g" * 5000)
    for _ in range(depth):
        graph = field(1, field(4, b"If") + field(5, field(6, graph)))
    with pytest.raises(tileir.TileError, match="TIL604"):
        tileir_onnx.load(field(7, graph))


def test_versions() -> None:
    for version, code in ((0, "TIL604"), (-1, "TIL604"), (2**40, "TIL604"), (29, "TIL605")):
        model = model_of([helper.make_node("Neg", ["x"], ["y"])])
        model.opset_import[0].version = version
        with pytest.raises(tileir.TileError, match=f"{code}.*version {version}"):
            tileir_onnx.load(model.SerializeToString())


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    "name", ["gpu_0/data_0", "out:0", "a b", "é", "\n", "'\"`", "#", "x'", "1", "N", "f32", "é" * 2000]
)
def test_names_of_any_characters(name: str) -> None:
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, ["a size!", "N", 2])
    result = helper.make_tensor_value_info(name + "!", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Neg", [name], [name + "!"], name=name)], "g", [value], [result])
    model = tileir_onnx.load(helper.make_model(graph).SerializeToString())
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    np.testing.assert_array_equal(model(x), -x)
    np.testing.assert_array_equal(model.run({name: x})[0], -x)
    assert model.function.inputs[0].name


def test_weights_that_are_inputs() -> None:
    weight = numpy_helper.from_array(np.array([1, 2, 3, 4], np.float32), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ports("w", "x"), ports("y"), [weight])
    model = tileir_onnx.load(helper.make_model(graph, ir_version=3).SerializeToString())
    x = np.zeros(4, np.float32)
    assert [port.name for port in model.inputs] == ["x"]
    np.testing.assert_array_equal(model(x), [1, 2, 3, 4])
    np.testing.assert_array_equal(model.run({"x": x, "w": x + 7})[0], x + 7)
    np.testing.assert_array_equal(model(x), [1, 2, 3, 4])


def test_axes_that_are_no_axes_of_anything() -> None:
    axes = numpy_helper.from_array(np.array([2**40]), "a")
    nodes = [helper.make_node("Unsqueeze", ["c", "a"], ["u"]), helper.make_node("Add", ["x", "u"], ["y"])]
    model = model_of(nodes, [axes, numpy_helper.from_array(W[0, :4], "c")])
    with pytest.raises(tileir.TileError, match="Unsqueeze"):
        tileir_onnx.load(model.SerializeToString())(W[0, :4])
