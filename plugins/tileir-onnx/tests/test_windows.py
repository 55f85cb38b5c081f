"""Convolutions and pooling beside the reference of ONNX: axes, paddings, dilations, groups, rounding, indices."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import tileir
import tileir_onnx
from rows import check, floats, model_of, referred, run

PADS: tuple[dict[str, Any], ...] = (
    {},
    {"auto_pad": "SAME_UPPER"},
    {"auto_pad": "SAME_LOWER"},
    {"auto_pad": "VALID"},
    {"pads": True},
)


def _pads(options: dict[str, Any], space: int) -> dict[str, Any]:
    return {"pads": [1] * space + [0] * space} if "pads" in options else options


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", PADS)
@pytest.mark.parametrize(("space", "group"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_convolutions(space: int, group: int, options: dict[str, Any]) -> None:
    x, w, bias = floats(2, 4, *[7, 6, 5][:space]), floats(6, 4 // group, *[3, 2, 3][:space]), floats(6)
    attributes = {"group": group, "strides": [2] * space, "dilations": [1] * space, **_pads(options, space)}
    check("Conv", [x, w, bias], attributes)


def test_convolutions_that_are_dilated() -> None:
    x, w = floats(2, 3, 9, 8), floats(4, 3, 3, 2)
    check("Conv", [x, w], {"dilations": [2, 3], "pads": [2, 1, 0, 3], "kernel_shape": [3, 2]})
    check("Conv", [x, w], version=1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_convolutions_of_other_floats(dtype: Any) -> None:
    x, w, bias = floats(2, 3, 6, 6, dtype=dtype), floats(4, 3, 3, 3, dtype=dtype), floats(4, dtype=dtype)
    check("Conv", [x, w, bias], {"pads": [1, 1, 1, 1]}, constants=() if dtype is ml_dtypes.bfloat16 else (1, 2))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]},
        {"strides": [3, 2], "dilations": [2, 2]},
        {"strides": [3, 2], "output_shape": [10, 8]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ],
)
def test_transposed_convolutions(attributes: dict[str, Any], group: int) -> None:
    x, w, bias = floats(2, 4, 3, 3), floats(4, 6 // group, 3, 3), floats(6)
    parts = [
        referred(model_of("ConvTranspose", [each, kernels, part], attributes), [each, kernels, part])[0]
        for each, kernels, part in zip(
            np.split(x, group, 1), np.split(w, group), np.split(bias, group), strict=True
        )  # the reference has no groups
    ]
    check("ConvTranspose", [x, w, bias], {"group": group, **attributes}, wanted=[np.concatenate(parts, 1)])


def test_a_transposed_convolution_to_open_sizes_is_refused(tmp_path: Path) -> None:
    model = model_of("ConvTranspose", [floats(1, 1, 3), floats(1, 1, 3)], {"strides": [2], "output_shape": [7]})
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "L"
    assert run(model, [floats(1, 1, 3), floats(1, 1, 3)])[0].shape == (1, 1, 7)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(tileir.TileError, match=r"TIL605.*call the model with arrays"):
        _ = tileir_onnx.load(tmp_path / "m.onnx").function


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("options", [*PADS, {"pads": True, "ceil_mode": 1}])
@pytest.mark.parametrize("space", [1, 2, 3])
def test_pools(op: str, options: dict[str, Any], space: int) -> None:
    x = floats(2, 3, *[7, 6, 5][:space])
    ceil = {"ceil_mode": 1} if "ceil_mode" in options else {}
    attributes = {"kernel_shape": [3, 2, 3][:space], "strides": [2, 2, 3][:space], **_pads(options, space), **ceil}
    check(op, [x], attributes, wanted=[pooled(op, x, attributes)])
    if op == "AveragePool":
        counted = {**attributes, "count_include_pad": 1}
        check(op, [x], counted, wanted=[pooled(op, x, counted)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_pools_that_are_dilated(op: str) -> None:
    x = floats(2, 2, 9, 8)
    for ceil in (0, 1):
        attributes = {
            "kernel_shape": [3, 2], "dilations": [2, 3], "strides": [2, 2], "pads": [1, 1, 2, 0], "ceil_mode": ceil
        }  # fmt: skip
        check(op, [x], attributes, wanted=[pooled(op, x, attributes)])


def pooled(op: str, x: np.ndarray[Any, Any], attributes: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return what pooling gives, window by window."""
    kernel, space = attributes["kernel_shape"], len(attributes["kernel_shape"])
    strides, between = attributes["strides"], attributes.get("dilations", [1] * space)
    pads = attributes.get("pads", [0] * 2 * space)
    reach = [step * (size - 1) + 1 for step, size in zip(between, kernel, strict=True)]
    counts, begins = [], []
    for axis, size in enumerate(x.shape[2:]):
        if attributes.get("auto_pad", "NOTSET").startswith("SAME"):
            count = -(-size // strides[axis])
            total = max((count - 1) * strides[axis] + reach[axis] - size, 0)
            before = total // 2 if attributes["auto_pad"] == "SAME_UPPER" else total - total // 2
            pads = [*pads]
            pads[axis], pads[axis + space] = before, total - before
        else:
            before, room = pads[axis], size + pads[axis] + pads[axis + space] - reach[axis]
            count = room // strides[axis] + 1
            if attributes.get("ceil_mode"):
                count = -(-room // strides[axis]) + 1
                count -= (count - 1) * strides[axis] >= size + before
        counts.append(count)
        begins.append(before)
    result = np.empty((*x.shape[:2], *counts))
    place: Any
    for place in itertools.product(*map(range, counts)):
        taps = [
            [
                at
                for tap in range(kernel[axis])
                if (at := o * strides[axis] + tap * between[axis] - begins[axis])
                < x.shape[axis + 2] + pads[axis + space]
            ]
            for axis, o in enumerate(place)
        ]
        inside = [[at for at in each if 0 <= at < size] for each, size in zip(taps, x.shape[2:], strict=True)]
        window = x[:, :, *np.ix_(*inside)].astype(np.float64).reshape(*x.shape[:2], -1)
        elements = np.prod([len(each) for each in taps]) if attributes.get("count_include_pad") else window.shape[-1]
        match op:
            case "MaxPool":
                result[:, :, *place] = window.max(-1)
            case "AveragePool":
                result[:, :, *place] = window.sum(-1) / elements
            case _:
                result[:, :, *place] = np.sqrt((window * window).sum(-1))
    return result.astype(x.dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("sizes", [(6,), (5, 6), (4, 5, 3)])
def test_indices_of_maxima(sizes: tuple[int, ...], order: int) -> None:
    space = len(sizes)
    x = np.random.default_rng(1).permutation(2 * 3 * np.prod(sizes)).reshape(2, 3, *sizes).astype(np.float32)
    attributes = {"kernel_shape": [2] * space, "strides": [2] * space, "storage_order": order}
    model = model_of("MaxPool", [x], attributes, outputs=2)
    y, places = run(model, [x])
    assert places.dtype == np.int64
    flat = x.swapaxes(2, -1) if order and space == 2 else x
    if order and space == 3:
        flat = x.transpose(0, 1, 4, 3, 2)
    np.testing.assert_array_equal(flat.reshape(-1)[places], y)


def test_maxima_put_back() -> None:
    x = np.random.default_rng(1).permutation(2 * 2 * 36).reshape(2, 2, 6, 6).astype(np.float32)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    y, places = run(model_of("MaxPool", [x], window, outputs=2), [x])
    wanted = np.where(np.isin(x, y), x, 0)
    check("MaxUnpool", [y, places], window, wanted=[wanted])
    sizes = np.array([2, 2, 7, 8])
    check("MaxUnpool", [y, places, sizes], window, wanted=[np.pad(wanted, [(0, 0), (0, 0), (0, 1), (0, 2)])],
          constants=(2,))  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16, ml_dtypes.bfloat16, np.float64])
def test_maxima_of_other_dtypes(dtype: Any) -> None:
    x = (floats(1, 2, 5, 5) * 20).astype(np.int8).astype(dtype)
    attributes = {"kernel_shape": [2, 2], "strides": [1, 1]}
    check("MaxPool", [x], attributes, wanted=[pooled("MaxPool", x, attributes)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_pools_over_whole_images(op: str) -> None:
    for sizes in ((5,), (3, 4), (2, 3, 2)):
        x = floats(2, 3, *sizes)
        axes = tuple(range(2, x.ndim))
        wide = x.astype(np.float64)
        wanted = {
            "GlobalAveragePool": wide.mean(axes, keepdims=True),
            "GlobalMaxPool": wide.max(axes, keepdims=True),
            "GlobalLpPool": np.sqrt((wide * wide).sum(axes, keepdims=True)),
        }
        check(op, [x], wanted=[wanted[op].astype(np.float32)])


def test_windows_put_together() -> None:
    x = floats(2, 3 * 6, 20)
    attributes = {"strides": [1, 1], "pads": [0, 0, 0, 0]}
    check("Col2Im", [x, np.array([6, 6]), np.array([2, 3])], attributes, constants=(1, 2))
    columns = floats(1, 4, 6 * 4)
    attributes = {"strides": [2, 2], "dilations": [2, 1], "pads": [1, 0, 1, 1]}
    check("Col2Im", [columns, np.array([11, 8]), np.array([2, 2])], attributes, constants=(1, 2))


@pytest.mark.sampled(0)
def test_convolutions_whose_taps_move() -> None:
    x, w, bias = floats(2, 4, 5, 6), floats(6, 2, 2, 3), floats(6)
    offset, mask = floats(2, 2 * 2 * 6, 4, 4), floats(2, 2 * 6, 4, 4)
    check("DeformConv", [x, w, offset, bias, mask], {"group": 2, "offset_group": 2}, tolerance=1e-4)
    check("DeformConv", [floats(1, 1, 4, 4), floats(1, 1, 2, 2), floats(1, 8, 5, 5)], {"pads": [1, 1, 1, 1]},
          tolerance=1e-4)  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_regions(mode: str, coordinates: str) -> None:
    x = np.abs(floats(2, 3, 8, 9))
    rois = np.array([[0, 0, 5, 6], [1.5, 2, 7.2, 7.9], [3, 1, 3.2, 1.1]], np.float32)
    attributes = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.9, "mode": mode}
    arrays = [x, rois, np.array([0, 1, 1])]
    check("RoiAlign", arrays, {**attributes, "coordinate_transformation_mode": coordinates}, opened=False)
    if coordinates == "output_half_pixel":
        new = model_of("RoiAlign", arrays, {**attributes, "coordinate_transformation_mode": coordinates})
        old = model_of("RoiAlign", arrays, attributes, version=10)
        np.testing.assert_array_equal(run(new, arrays)[0], run(old, arrays)[0])


@pytest.mark.sampled(0)
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_regions_with_as_many_samples_as_pixels(coordinates: str) -> None:
    x = floats(2, 3, 8, 9)
    rois = np.array([[0, 0, 5, 6], [-3, 2, 17.2, 27.9], [3, 1, 3.2, 1.1], [4, 4, 2, 2]], np.float32)
    attributes = {"output_height": 3, "output_width": 2, "coordinate_transformation_mode": coordinates}
    arrays = [x, rois, np.array([0, 1, 1, 0])]
    check("RoiAlign", arrays, {**attributes, "spatial_scale": 0.9}, tolerance=1e-4)
    check("RoiAlign", arrays, {**attributes, "spatial_scale": 2.5, "sampling_ratio": 0}, tolerance=1e-4)


@pytest.mark.sampled(0)
def test_greatest_pixels_of_regions() -> None:
    x = floats(2, 3, 8, 9)
    rois = np.array([[1, 0, 0, 5, 6], [0, 2, 1, 2, 1], [1, 4, 4, 30, 5], [0, 20, 20, 30, 30]], np.float32)
    wanted = np.zeros((4, 3, 2, 3), np.float32)
    for number, (image, left, top, right, bottom) in enumerate(rois.astype(int)):
        for part in np.ndindex(2, 3):
            bounds = []
            for at, count, low, high, size in zip(part, (2, 3), (top, left), (bottom, right), (8, 9), strict=True):
                extent = high - low + 1
                bounds.append(slice(min(low + at * extent // count, size), low + -(-(at + 1) * extent // count)))
            pixels = x[image][:, *bounds]
            wanted[(number, slice(None), *part)] = pixels.max((1, 2)) if pixels.size else 0
    check("MaxRoiPool", [x, rois], {"pooled_shape": [2, 3]}, wanted=[wanted])
    check(
        "MaxRoiPool",
        [x, rois * np.array([1, 2, 2, 2, 2], np.float32)],
        {"pooled_shape": [2, 3], "spatial_scale": 0.5},
        wanted=[wanted],
    )
