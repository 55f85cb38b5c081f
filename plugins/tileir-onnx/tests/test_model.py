"""Models from files: results beside NumPy, for sizes that are open, and errors that name the node."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tileir
import tileir_onnx
from tileir_onnx.importing import Imported, imported
from tileir_onnx.kinds import Kind

W = np.random.default_rng(0).standard_normal((12, 5)).astype(np.float32)


def saved(path: Path, nodes: list[Any], weights: dict[str, np.ndarray[Any, Any]]) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["y"], name="/head/product"),
    ]
    return saved(tmp_path / "m.onnx", nodes, {"zero": np.array([0]), "rest": np.array([-1]), "w": W})


def test_a_model_is_called_with_any_batch(file: Path) -> None:
    model = tileir_onnx.load(file)
    for n in (1, 3):
        x = np.random.default_rng(n).standard_normal((n, 3, 4)).astype(np.float32)
        wanted = x.reshape(n, -1).astype(np.float64) @ W
        np.testing.assert_allclose(model(x), wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(tileir.jit(file)(x), wanted, rtol=1e-5, atol=1e-5)


def test_garbage_is_not_looked_for_while_a_graph_becomes_a_function(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enabled = []

    def watched(*arguments: Any) -> Imported:
        enabled.append(gc.isenabled())
        return imported(*arguments)

    monkeypatch.setattr("tileir_onnx.importing.imported", watched)
    tileir_onnx.load(file)(np.zeros((1, 3, 4), np.float32))
    assert enabled
    assert not any(enabled)
    assert gc.isenabled()


def test_a_function_keeps_symbols(file: Path) -> None:
    text = tileir.to_text(tileir_onnx.load(file).function)
    assert text.startswith("function (#x: f32[N, 3, 4])")
    assert tileir_onnx.load(file).specialised({"N": 2}).inputs[0].dims is not None


def test_feeds_are_checked(file: Path) -> None:
    model = tileir_onnx.load(file)
    with pytest.raises(tileir.ArgumentError, match=r"TIL705.*input 'x' \(float\[N, 3, 4\]\) is missing"):
        model()
    with pytest.raises(tileir.ArgumentError, match=r"TIL701.*float64 was passed"):
        model(np.zeros((1, 3, 4)))
    with pytest.raises(tileir.ArgumentError, match=r"TIL701.*has sizes \(1, 3, 5\) here"):
        model(np.zeros((1, 3, 5), np.float32))


def test_sizes_that_do_not_go_together_are_those_of_a_node(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="/head/product")]
    model = tileir_onnx.load(saved(tmp_path / "m.onnx", nodes, {"w": W}))
    with pytest.raises(tileir.TileError, match=r"m\.onnx: node '/head/product' \(MatMul\)"):
        model(np.zeros((1, 3, 4), np.float32))


def test_all_unknown_operators_are_told(tmp_path: Path) -> None:
    nodes = [helper.make_node("Odd", ["x"], ["a"], name="one"), helper.make_node("Even", ["a"], ["y"], name="two")]
    with pytest.raises(tileir.TileError, match=r"(?s)node 'one' \(Odd\).*node 'two' \(Even\)"):
        tileir_onnx.load(saved(tmp_path / "m.onnx", nodes, {}))(np.zeros((1, 3, 4), np.float32))


def test_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x0a\xff")
    with pytest.raises(tileir.TileError, match=r"TIL604.*m\.onnx is no ONNX model"):
        tileir_onnx.load(path)
    with pytest.raises(tileir.TileError, match="TIL901"):
        tileir_onnx.load(tmp_path / "none.onnx")


@pytest.fixture
def settled_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a model of weights in its file, and of some in another one, that both changed a minute ago."""
    monkeypatch.setattr(tileir.default_context(), "disk_cache", tileir.DiskCache(tmp_path / "cache"))
    tileir.default_context().programs.clear()  # what is there already is not stored
    return aged(tmp_path / "m.onnx", 0)


def aged(path: Path, seed: int) -> Path:
    random = np.random.default_rng(seed)
    w, b = (random.standard_normal(shape).astype(np.float32) for shape in ((12, 500), (500,)))
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["y"]),
    ]
    onnx.external_data_helper.set_external_data(outside := numpy_helper.from_array(b, "b"), "more.bin")
    (path.parent / "more.bin").write_bytes(b.tobytes())
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    saved(path, nodes, {"w": w})
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer.append(outside)
    path.write_bytes(model.SerializeToString())
    for each in (path, path.parent / "more.bin"):
        os.utime(each, (time.time() - 60,) * 2)
    return path


def test_a_file_that_did_not_change_is_not_made_a_function_again(
    settled_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
    first = tileir_onnx.load(settled_file)(x)
    made: list[object] = []

    def watched(*arguments: Any) -> Imported:
        made.append(arguments)
        return imported(*arguments)

    monkeypatch.setattr("tileir_onnx.importing.imported", watched)
    again = tileir_onnx.load(settled_file)
    np.testing.assert_array_equal(again(x), first)
    np.testing.assert_array_equal(again.run({"x": x})[0], first)
    assert not made
    function, arrays = again.prepared({"x": x})
    assert len(made) == 1
    assert (list(arrays), None if function is None else function.outputs[0].name) == (["x"], "y")
    again(x[:1])  # another signature
    assert len(made) == 2
    for name in ("m.onnx", "more.bin"):
        aged(settled_file, 0)
        os.utime(settled_file.parent / name, (time.time() - 50,) * 2)
        changed = tileir_onnx.load(settled_file)
        np.testing.assert_array_equal(changed(x), first)
    assert len(made) == 4


@pytest.mark.parametrize(
    ("compiler", "is_kept"),
    [
        (tileir.jit, True),
        (partial(tileir.jit, device="llvm"), True),
        (partial(tileir.jit, context=tileir.Context(disk_cache=None)), False),
        (partial(tileir.jit, options=tileir.Options(quick=True)), False),
        (lambda function: partial(tileir.evaluate, function), False),
    ],
)
def test_functions_are_kept_where_their_code_is(settled_file: Path, compiler: Any, is_kept: bool) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
    model = tileir_onnx.load(settled_file)
    model.compiler = compiler
    np.testing.assert_allclose(model(x), tileir.evaluate(model.specialised({"N": 2}), x), rtol=1e-4, atol=1e-4)
    disk = tileir.default_context().disk_cache
    assert disk is not None
    assert sum(entry.kind == "source" for entry in disk.entries()) == 1 + is_kept


DOORS = {
    "load": "import tileir_onnx; np.save(sys.argv[3], tileir_onnx.load(sys.argv[1])(np.load(sys.argv[2])))",
    "jit": "import tileir; np.save(sys.argv[3], tileir.jit(Path(sys.argv[1]))(np.load(sys.argv[2])))",
    "compile": "import tileir; x = np.load(sys.argv[2]); np.save(sys.argv[3], tileir.compile(Path(sys.argv[1]), x)(x))",
    "run": "sys.argv[1:] = ['run', sys.argv[1], f'x={sys.argv[2]}', '-o', sys.argv[3]]; main()",
    "emit": "sys.argv[1:] = ['emit', sys.argv[1], 'x=f32[2,3,4]']; main()",
}
"""Ways to call a model, or to look at its code, in Python and by commands."""


@pytest.mark.parametrize("door", DOORS)
def test_who_calls_a_known_model_loads_no_onnx(settled_file: Path, door: str) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
    first = tileir_onnx.load(settled_file) if door == "load" else tileir.jit(settled_file)
    y = first(x)
    call = (
        f"import sys, numpy as np; from pathlib import Path; from tileir.__main__ import main\n"
        f"try:\n {DOORS[door]}\nfinally:\n "  # commands exit
        "print(*(each in sys.modules for each in ('onnx', 'tileir_onnx.importing')))"
    )
    files = [settled_file, settled_file.parent / "x.npy", settled_file.parent / "y.npy"]
    np.save(files[1], x)
    environment = {**os.environ, "TILEIR_CACHE_DIR": str(settled_file.parent / "cache")}
    told = subprocess.run(
        [sys.executable, "-c", call, *map(str, files)], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.split()[-2:] == ["False", "False"]
    assert "define" in told.stdout if door == "emit" else np.array_equal(np.load(files[2]), y)


def test_a_known_model_tells_what_one_that_is_read_does(settled_file: Path) -> None:
    first, again = (tileir_onnx.load(settled_file) for _ in range(2))
    assert again.outline == first.outline
    assert (again.inputs, again.outputs, again.about) == (first.inputs, first.outputs, first.about)
    assert again.function == first.function
    assert list(again.constants) == list(first.constants)


def test_graphs_are_those_of_the_files_that_were_loaded(settled_file: Path) -> None:
    x = np.random.default_rng(3).standard_normal((1, 3, 4)).astype(np.float32)
    tileir_onnx.load(settled_file)
    loaded = [tileir_onnx.load(settled_file) for _ in range(2)]
    old = settled_file.rename(settled_file.parent / "old.onnx")
    settled_file.write_bytes(b"another one")
    weights = numpy_helper.to_array(onnx.load(old, load_external_data=False).graph.initializer[0])
    bias = np.fromfile(settled_file.parent / "more.bin", np.float32)
    product = x.reshape(1, -1).astype(np.float64) @ weights
    np.testing.assert_allclose(loaded[1](x), product + bias, rtol=1e-5, atol=1e-5)
    aged(settled_file, 1)
    with pytest.raises(tileir.TileError, match=r"more.bin, which has changed since it was loaded") as caught:
        loaded[0](x)
    assert caught.value.diagnostics[0].code == "TIL901"


@pytest.mark.parametrize("note", ["", "[]", '["{}", []]', '["[1, 2]", []]'])
def test_spoilt_outlines_are_read_again(settled_file: Path, note: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileir.frontends.recalled_note", lambda *_: note)
    assert [port.name for port in tileir_onnx.load(settled_file).inputs] == ["x"]


def test_numbers_of_types_are_those_of_onnx() -> None:
    known = dict(TensorProto.DataType.items())
    assert {each.name: each.value for each in Kind if each.name in known} == known


@pytest.mark.parametrize("part", ["w", "b"])
def test_a_file_that_changed_has_other_results(settled_file: Path, part: str) -> None:
    x = np.random.default_rng(3).standard_normal((1, 3, 4)).astype(np.float32)
    first = tileir_onnx.load(settled_file)(x)
    kept_file = settled_file if part == "b" else settled_file.parent / "more.bin"
    content = kept_file.read_bytes()
    aged(settled_file, 1)
    kept_file.write_bytes(content)
    changed = tileir_onnx.load(settled_file)(x)
    session = onnxruntime.InferenceSession(settled_file)
    np.testing.assert_allclose(changed, session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)
    assert not np.array_equal(changed, first)
