"""Operators that move elements beside NumPy: all dtypes, ranks from 0, sizes that are inputs, and open sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tileir
import tileir_onnx
from nodes import Array, check, run

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
DTYPES = [np.dtype(each) for each in (np.float64, np.float16, np.int8, np.uint64, np.bool_, ml_dtypes.bfloat16)]


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_moves_keep_any_dtype(dtype: np.dtype[Any]) -> None:
    x = X.astype(dtype)
    check(run("Reshape", x, ints(4, -1)), x.reshape(4, -1))
    check(run("Transpose", x, perm=[2, 0, 1]), x.transpose(2, 0, 1))
    check(run("Concat", x, x, axis=-1), np.concatenate([x, x], -1))
    check(run("Slice", x, ints(1), ints(-1), ints(2)), x[..., 1:-1])
    check(run("Tile", x, ints(1, 2, 1)), np.tile(x, (1, 2, 1)))
    check(run("Expand", x[:, :1], ints(3, 1)), np.broadcast_to(x[:, :1], (2, 3, 4)))
    check(run("Identity", x), x)
    check(run("Pad", x, ints(0, 0, 1, 0, 0, 2)), np.pad(x, ((0, 0), (0, 0), (1, 2))))
    check(run("Trilu", x), np.triu(x))
    check(run("EyeLike", x[0], k=1), np.eye(3, 4, 1).astype(dtype))
    check(run("Split", x, axis=2, num_outputs=2, outputs=2), tuple(np.split(x, 2, 2)))


def test_reshapes() -> None:
    check(run("Reshape", X, ints(0, -1)), X.reshape(2, 12))
    check(run("Reshape", X[:0], ints(-1, 4)), np.zeros((0, 4), np.float32))
    check(run("Reshape", X[:0], ints(3, 0, 4), allowzero=1), np.zeros((3, 0, 4), np.float32))
    check(run("Reshape", X, opset=1, shape=[6, 4]), X.reshape(6, 4))
    check(run("Reshape", X[0, 0, :1], np.zeros(0, np.int64)), X[0, 0, 0])
    for axis in (0, 1, 2, 3, -1):
        wanted = X.reshape(int(np.prod(X.shape[:axis])) if axis else 1, -1)
        check(run("Flatten", X, axis=axis), wanted)
    check(run("Squeeze", X[:, :1], ints(1)), X[:, 0])
    check(run("Squeeze", X[:1, :1]), X[0, 0])
    check(run("Squeeze", X[:1], opset=11, axes=[0]), X[0])
    check(run("Unsqueeze", X, ints(0, -1)), X[None, ..., None])
    check(run("Unsqueeze", X, opset=1, axes=[1]), X[:, None])
    check(run("Unsqueeze", X[0, 0, 0], ints(0)), X[0, 0, :1])


def test_joins_and_parts() -> None:
    check(run("Concat", X, opset=1), X)
    check(run("Concat", X, X, opset=1, axis=0), np.concatenate([X, X]))
    check(run("Split", X, ints(1, 3), axis=2, outputs=2), (X[..., :1], X[..., 1:]))
    check(run("Split", X, opset=2, axis=2, split=[3, 1], outputs=2), (X[..., :3], X[..., 3:]))
    check(run("Split", X, opset=2, outputs=2), (X[:1], X[1:]))
    check(run("Split", X, ints(1, 1), opset=1, outputs=2), (X[:1], X[1:]))
    check(run("Split", X, axis=2, num_outputs=3, outputs=3), (X[..., :2], X[..., 2:4], X[..., 4:]))
    check(run("Split", X, axis=1, num_outputs=2, outputs=2), (X[:, :2], X[:, 2:]))
    check(run("Split", X, ints(0, 2), outputs=2), (X[:0], X))


SLICES = [
    ((slice(None), slice(1, 9)), [1], [9], [1], None),
    ((slice(None), slice(None, None, -1)), [-1], [-(2**63)], [1], [-1]),
    ((slice(None), slice(2, 0, -1)), [2], [0], [1], [-1]),
    ((slice(0, 1), slice(None), slice(1, None, 2)), [0, 1], [1, 2**63 - 1], [0, -1], [1, 2]),
    ((slice(None), slice(None), slice(3, None, -2)), [100], [-100], [2], [-2]),
    ((slice(1, 1),), [1], [1], [0], None),
    ((slice(None), slice(-2, None)), [-2], [2**31 - 1], [1], None),
]


@pytest.mark.parametrize(("key", "starts", "ends", "axes", "steps"), SLICES, ids=str)
def test_slices(
    key: tuple[slice, ...], starts: list[int], ends: list[int], axes: list[int], steps: list[int] | None
) -> None:
    check(run("Slice", X, ints(*starts), ints(*ends), ints(*axes), None if steps is None else ints(*steps)), X[key])
    if steps is None:
        check(run("Slice", X, opset=1, starts=starts, ends=ends, axes=axes), X[key])


def test_slices_of_the_first_axes() -> None:
    check(run("Slice", X, ints(1, 0), ints(2, 2)), X[1:2, 0:2])
    starts, ends = np.array([1], np.int32), np.array([2], np.int32)
    check(run("Slice", X, starts, ends), X[1:2])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_borders_that_repeat(mode: str) -> None:
    check(run("Pad", X, ints(0, 1, 2, 1, 1, 3), mode=mode), np.pad(X, ((0, 1), (1, 1), (2, 3)), mode))  # type: ignore[call-overload]
    check(run("Pad", X, ints(2, -1), None, ints(2), mode=mode), np.pad(X[..., :3], ((0, 0), (0, 0), (2, 0)), mode))  # type: ignore[call-overload]


def test_borders_of_one_value() -> None:
    five = np.array(5, np.float32)
    check(run("Pad", X, ints(1, 0, 0, 0, 0, 2), five), np.pad(X, ((1, 0), (0, 0), (0, 2)), constant_values=5))
    check(
        run("Pad", X, ints(-1, 0, 1, 0, 0, -2), five), np.pad(X[1:, :, :2], ((0, 0), (0, 0), (1, 0)), constant_values=5)
    )
    check(run("Pad", X, ints(1, 2), five, ints(-1)), np.pad(X, ((0, 0), (0, 0), (1, 2)), constant_values=5))
    check(
        run("Pad", X, opset=2, pads=[1, 0, 0, 0, 0, 0], value=2.0),
        np.pad(X, ((1, 0), (0, 0), (0, 0)), constant_values=2),
    )
    check(run("Pad", X, opset=1, paddings=[1, 0, 0, 0, 0, 0], mode="edge"), np.pad(X, ((1, 0), (0, 0), (0, 0)), "edge"))


def test_repeats() -> None:
    check(run("Tile", X, np.array(3), np.array(1), opset=1), np.tile(X, (1, 3, 1)))
    check(run("Tile", X, ints(2, 0, 1)), np.tile(X, (2, 0, 1)))
    check(run("Expand", X[:, :1, :1], ints(2, 2, 1, 5)), np.broadcast_to(X[:, :1, :1], (2, 2, 1, 5)))
    check(run("Expand", X, ints(1)), X)
    check(run("Expand", X[0, 0, 0], ints(2, 3)), np.broadcast_to(X[0, 0, 0], (2, 3)))


def test_what_follows_from_sizes() -> None:
    check(run("Shape", X), ints(2, 3, 4))
    check(run("Shape", X, start=-2, end=-1), ints(3))
    check(run("Size", X), np.array(24))
    check(run("ConstantOfShape", ints(2, 3)), np.zeros((2, 3), np.float32))
    value = numpy_helper.from_array(np.array([7], np.int8))
    check(run("ConstantOfShape", ints(2, 0), value=value), np.full((2, 0), 7, np.int8))
    check(run("ConstantOfShape", np.zeros(0, np.int64), value=value), np.array(7, np.int8))
    check(run("ConstantOfShape", ints(300, 300), value=value), np.full((300, 300), 7, np.int8))
    check(run("EyeLike", X[0], dtype=TensorProto.INT64, k=-1), np.eye(3, 4, -1, dtype=np.int64))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int16, np.float64], ids=lambda each: each.__name__)
def test_ranges(dtype: type[Any]) -> None:
    for first, last, step in ((1, 10, 3), (10, 1, -4), (1, 1, 1), (3, 1, 1)):
        wanted = np.arange(first, last, step).astype(dtype)
        check(run("Range", *(np.array(each, dtype) for each in (first, last, step))), wanted)
    check(run("Range", *(np.array(each) for each in (0, 100000, 1))), np.arange(100000))


def test_pixels_and_channels() -> None:
    x = np.arange(2 * 8 * 2 * 3, dtype=np.float32).reshape(2, 8, 2, 3)
    wanted = x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 4, 6)
    check(run("DepthToSpace", x, blocksize=2), wanted)
    columns = x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 4, 6)
    check(run("DepthToSpace", x, blocksize=2, mode="CRD"), columns)
    check(run("SpaceToDepth", wanted, blocksize=2), x)
    check(run("SpaceToDepth", columns, opset=28, blocksize=2, mode="CRD"), x)


def test_triangles() -> None:
    for k in (-1, 0, 2):
        check(run("Trilu", X, np.array(k)), np.triu(X, k))
        check(run("Trilu", X, np.array(k), upper=0), np.tril(X, k))


def test_sequences_are_turned_around() -> None:
    x, lengths = np.arange(12, dtype=np.int32).reshape(4, 3), ints(1, 3, 4)
    wanted = x.copy()
    for batch, length in enumerate(lengths):
        wanted[:length, batch] = wanted[:length, batch][::-1].copy()
    check(run("ReverseSequence", x, lengths), wanted)
    check(run("ReverseSequence", x.T, lengths, batch_axis=0, time_axis=1), wanted.T)


def test_constants_of_all_kinds() -> None:
    check(run("Constant", value_float=2.5), np.array(2.5, np.float32))
    check(run("Constant", value_floats=[1.0, 2.0]), np.array([1, 2], np.float32))
    check(run("Constant", value_int=3), np.array(3))
    check(run("Constant", value_ints=[3, 4]), ints(3, 4))
    check(run("Constant", value=numpy_helper.from_array(X)), X)


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "one", "two"], ["n"]),
        helper.make_node("Concat", ["n", "minus"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["a"]),
        helper.make_node("Pad", ["a", "pads"], ["b"]),
        helper.make_node("Slice", ["b", "zero", "minus", "one"], ["c"]),
        helper.make_node("ConstantOfShape", ["s"], ["zeros"]),
        helper.make_node("Add", ["zeros", "x"], ["d"]),
        helper.make_node("Expand", ["one", "n"], ["ones"]),
        helper.make_node("CumSum", ["ones", "zero"], ["e"]),
        helper.make_node("Split", ["x"], ["left", "right"], axis=1, num_outputs=2),
    ]
    weights = {"zero": ints(0), "one": ints(1), "two": ints(2), "minus": ints(-1), "pads": ints(0, 1, 0, 2)}
    kinds = [("c", 1), ("d", 1), ("e", 7), ("left", 1), ("right", 1)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, "N"])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def test_sizes_stay_open(open_model: Path) -> None:
    function = tileir_onnx.load(open_model).function
    for n in (1, 4, 5):
        x = np.arange(3 * n, dtype=np.float32).reshape(3, n)
        c, d, e, left, right = (np.asarray(each) for each in tileir.jit(function)(x))
        padded = np.pad(x.reshape(n, 3), ((0, 0), (1, 2)))
        check(c, padded[:, :-1])
        check(d, x)
        check(e, np.arange(1, n + 1))
        half = (n + 1) // 2
        check(left, x[:, :half])
        check(right, x[:, half:])


def test_sizes_become_floats(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["f"], ["r"]),
        helper.make_node("Mul", ["x", "r"], ["y"]),
        helper.make_node("Sub", ["three", "s"], ["less"]),
        helper.make_node("Div", ["less", "two"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])],
        [helper.make_tensor_value_info("y", 1, None), helper.make_tensor_value_info("z", 7, None)],
        [numpy_helper.from_array(ints(2), "two"), numpy_helper.from_array(ints(3), "three")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    function = tileir_onnx.load(path).function
    for n in (3, 5, 8):
        x = np.arange(n, dtype=np.float32)
        y, z = tileir.jit(function)(x)
        check(np.asarray(y), x * np.sqrt(np.float32(n)))
        check(np.asarray(z), ints(int((3 - n) / 2)))


FAR = 2**63 - 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", [1, 2, -1, -2])
@pytest.mark.parametrize("bound", [FAR, -FAR, 2**31 - 1, -(2**31)])
def test_slices_with_bounds_far_out(bound: int, step: int) -> None:
    for other in (0, 1, -1, bound, -bound):
        for start, end in ((bound, other), (other, bound)):
            wanted = X[:, max(-FAR, start) : max(-FAR, end) : step]
            check(run("Slice", X, ints(start), ints(end), ints(1), ints(step)), wanted)
    check(run("Slice", X, opset=9, starts=[0], ends=[-FAR], axes=[2]), X[..., :0])


def test_all_axes_of_size_1_are_dropped_where_sizes_are_known() -> None:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Squeeze", ["x"], ["y"])], "g", ports[:1], ports[1:])
    model = tileir_onnx.load(helper.make_model(graph, ir_version=10).SerializeToString())
    for size in (1, 2):
        x = np.ones((size, 1, 3), np.float32)
        assert model(x).shape == np.squeeze(x).shape
    with pytest.raises(tileir.TileError, match=r"TIL605.*sizes of .* are 1 must be known"):
        _ = model.function
