"""Sessions as scripts for onnxruntime use them."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tileir
import tileir_onnx as onnxruntime

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Add", ["x", "y"], ["sum"]),
        helper.make_node("Mul", ["x", "y"], ["product"]),
        helper.make_node("Relu", ["x"], ["relu"]),
    ]
    kind = TensorProto.FLOAT
    dims: list[str | int | None] = ["N", 3]
    graph = helper.make_graph(
        nodes,
        "three",
        [helper.make_tensor_value_info(name, kind, dims) for name in "xy"],
        [helper.make_tensor_value_info(name, kind, dims) for name in ("sum", "product", "relu")],
        doc_string="a graph",
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="tests")
    helper.set_model_props(made, {"colour": "red"})
    return made


def test_a_script_changes_one_import(model: onnx.ModelProto) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [(each.name, each.type, each.shape) for each in session.get_inputs()] == [
        ("x", "tensor(float)", ["N", 3]),
        ("y", "tensor(float)", ["N", 3]),
    ]
    assert [each.name for each in session.get_outputs()] == ["sum", "product", "relu"]
    told = session.get_modelmeta()
    assert (told.producer_name, told.graph_name, told.custom_metadata_map) == ("tests", "three", {"colour": "red"})
    total, product, relu = session.run(None, {"x": X, "y": X + 1})
    np.testing.assert_array_equal(total, X + X + 1)
    np.testing.assert_array_equal(product, X * (X + 1))
    np.testing.assert_array_equal(relu, X)
    chosen = session.run(["relu", "sum"], {"x": -X, "y": X})
    np.testing.assert_array_equal(chosen, [np.zeros_like(X), np.zeros_like(X)])
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert "CPUExecutionProvider" in onnxruntime.get_available_providers()


@pytest.mark.parametrize(
    ("names", "feeds", "fault"),
    [
        (None, {"x": X}, r"TIL705.*input 'y' \(float\[N, 3\]\) is missing"),
        (None, {"x": X, "y": X, "z": X}, "TIL705.*no input 'z'"),
        (["nothing"], {"x": X, "y": X}, "TIL705.*no output 'nothing'"),
        (None, {"x": X.astype(np.float64), "y": X}, "TIL701.*input 'x'.*float64 was passed"),
        (None, {"x": X[0], "y": X}, "TIL701.*input 'x'.*has 1 axes"),
        (None, {"x": X, "y": X[:1]}, "TIL701.*input 'y'.*'N' is 2"),
        (None, {"x": X[:, :2], "y": X[:, :2]}, r"TIL701.*input 'x' is float\[N, 3\].*\(2, 2\)"),
    ],
)
def test_feeds_that_do_not_fit(
    model: onnx.ModelProto, names: list[str] | None, feeds: dict[str, np.ndarray], fault: str
) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with pytest.raises(tileir.ArgumentError, match=fault):
        session.run(names, feeds)


def test_names_of_dimensions_have_one_size(model: onnx.ModelProto) -> None:
    options = onnxruntime.SessionOptions(intra_op_num_threads=1)
    options.add_free_dimension_override_by_name("N", 2)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    for each in (*session.get_inputs(), *session.get_outputs()):
        assert "N" not in each.shape
    assert session.get_inputs()[0].shape == [2, 3]
    assert len(session.run(None, {"x": X, "y": X})) == 3
    with pytest.raises(tileir.ArgumentError, match=r"TIL701.*'N' is 2"):
        session.run(None, {"x": X[:1], "y": X[:1]})


def test_names_that_cannot_be_bound(model: onnx.ModelProto) -> None:
    binding = onnxruntime.InferenceSession(model.SerializeToString()).io_binding()
    value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
    inputs: list[Callable[[], None]] = [
        lambda: binding.bind_cpu_input("q", X),
        lambda: binding.bind_ortvalue_input("q", value),
        lambda: binding.bind_input("q", "cpu", 0, np.float32, X.shape, X.ctypes.data),
    ]
    outputs: list[Callable[[], None]] = [
        lambda: binding.bind_output("q"),
        lambda: binding.bind_ortvalue_output("q", value),
    ]
    for word, calls in (("input", inputs), ("output", outputs)):
        for call in calls:
            with pytest.raises(tileir.ArgumentError, match=rf"TIL705.*the model has no {word} 'q'"):
                call()


def test_arrays_are_bound(model: onnx.ModelProto) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_input("y", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    out = np.zeros_like(X)
    binding.bind_output("sum")
    binding.bind_output("product", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 2 * X)
    np.testing.assert_array_equal(out, X * X)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
    assert (value.shape(), value.data_type(), value.device_name()) == ([2, 3], "tensor(float)", "cpu")
    (found,) = session.run_with_ort_values(["relu"], {"x": value, "y": value})
    np.testing.assert_array_equal(found.numpy(), X)


def test_values_of_few_bits_and_of_types_that_are_not_there(model: onnx.ModelProto) -> None:
    value = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(3, ml_dtypes.int4))
    assert (value.data_type(), value.element_type()) == ("tensor(int4)", onnx.TensorProto.INT4)
    with pytest.raises(tileir.ArgumentError, match=r"TIL701.*no elements of complex64"):
        onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(3, np.complex64)).element_type()
    binding = onnxruntime.InferenceSession(model.SerializeToString()).io_binding()
    for kind in (onnx.TensorProto.INT4, onnx.TensorProto.COMPLEX64):
        with pytest.raises(tileir.ArgumentError, match=r"TIL701.*cannot be bound by its address"):
            binding.bind_input("y", "cpu", 0, kind, X.shape, X.ctypes.data)


def test_threads_share_a_session(model: onnx.ModelProto) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())

    def run(number: int) -> bool:
        x = np.full((1 + number % 3, 3), number, np.float32)
        return all(np.array_equal(session.run(["sum"], {"x": x, "y": x})[0], 2 * x) for _ in range(10))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(24)))


def test_profiles_are_traces(model: onnx.ModelProto, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions(enable_profiling=True, profile_file_prefix=str(tmp_path / "p"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    session.run(None, {"x": X, "y": X})
    events = json.loads(Path(session.end_profiling()).read_text())
    assert {event["cat"] for event in events} == {"Session", "Node"}
    assert all(event["dur"] >= 0 for event in events)
    assert onnxruntime.InferenceSession(model.SerializeToString()).end_profiling() == ""


def test_profiles_of_lists_and_values(model: onnx.ModelProto, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions(enable_profiling=True, profile_file_prefix=str(tmp_path / "p"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
    session.run(["relu"], {"x": X.tolist(), "y": value})
    session.run_with_ort_values(["relu"], {"x": value, "y": value})
    assert "Node" in {event["cat"] for event in json.loads(Path(session.end_profiling()).read_text())}


def test_names_that_scripts_begin_with(model: onnx.ModelProto) -> None:
    onnxruntime.set_default_logger_severity(3)
    onnxruntime.set_default_logger_verbosity(0)
    assert (onnxruntime.__version__, onnxruntime.get_device() in {"CPU", "GPU"}) == (tileir.__version__, True)
    options = onnxruntime.SessionOptions()
    assert options.graph_optimization_level is onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    session.disable_fallback()
    session.enable_fallback()
    session.set_providers(["CPUExecutionProvider"])
    assert session.get_provider_options() == {"CPUExecutionProvider": {"device_id": "0"}}
    entries = onnxruntime.RunOptions()
    entries.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    assert entries.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"
    with pytest.raises(tileir.ArgumentError, match=r"TIL707.*no entry 'other'"):
        entries.get_run_config_entry("other")
    assert len(session.run(None, {"x": X, "y": X}, entries)) == 3


def test_weights_that_a_call_may_replace(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(onnx.numpy_helper.from_array(X, "y"))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert [each.name for each in session.get_inputs()] == ["x"]
    assert [(each.name, each.shape) for each in session.get_overridable_initializers()] == [("y", ["N", 3])]


def test_calls_that_are_not_waited_for(model: onnx.ModelProto) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found: queue.Queue[tuple[list[np.ndarray], str | None, str]] = queue.Queue()

    def done(results: list[np.ndarray], data: str | None, error: str) -> None:
        found.put((results, data, error))

    session.run_async(["sum"], {"x": X, "y": X}, done, "mine")
    (total,), data, error = found.get(timeout=60)
    np.testing.assert_array_equal(total, 2 * X)
    assert (data, error) == ("mine", "")
    session.run_async(["sum"], {"x": X}, done)
    results, data, error = found.get(timeout=60)
    assert (results, data) == ([], None)
    assert "TIL705" in error


def test_values_are_made_and_written_in_place() -> None:
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    value.update_inplace(X)
    np.testing.assert_array_equal(value.numpy(), X)
    assert (value.data_ptr(), value.tensor_size_in_bytes()) == (value.array.ctypes.data, 24)
    assert (value.is_tensor(), value.has_value()) == (True, True)
    numbered = onnxruntime.OrtValue.ortvalue_from_shape_and_type([0], onnx.TensorProto.INT64)
    assert (numbered.data_type(), numbered.tensor_size_in_bytes()) == ("tensor(int64)", 0)
    for wrong in (X[:1], X.astype(np.float64)):
        with pytest.raises(tileir.ArgumentError, match=r"TIL701.*the value is float32\[2, 3\], and float"):
            value.update_inplace(wrong)
    with pytest.raises(tileir.ArgumentError, match=r"TIL701.*no elements of type 14"):
        onnxruntime.OrtValue.ortvalue_from_shape_and_type([1], onnx.TensorProto.COMPLEX64)


def test_providers_that_are_not_there(model: onnx.ModelProto) -> None:
    with pytest.raises(tileir.ArgumentError, match=r"TIL707.*no provider 'Other'"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["Other"])
    with pytest.warns(UserWarning, match="no provider 'TensorrtExecutionProvider'"):
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["TensorrtExecutionProvider", "CPUExecutionProvider"]
        )
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(tileir.BackendError, match="TIL801"):
        onnxruntime.InferenceSession(
            model.SerializeToString(), providers=[("CUDAExecutionProvider", {"device_id": 99})]
        )
