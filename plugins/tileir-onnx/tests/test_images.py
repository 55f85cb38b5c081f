"""Images of other sizes, seen through grids and cut, beside the reference of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rows import check, floats, model_of, run

Array = np.ndarray[Any, Any]

SCALES = np.array([1, 1, 1.7, 0.6], np.float32)
SIZES = np.array([1, 2, 9, 3])
EMPTY = np.array([], np.float32)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]
)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resizing(mode: str, coordinates: str) -> None:
    x = floats(1, 2, 5, 7)
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    check("Resize", [x, EMPTY, SCALES], attributes, constants=(1, 2), tolerance=1e-4)
    check("Resize", [x, EMPTY, EMPTY, SIZES], attributes, constants=(1, 2, 3), tolerance=1e-4, opened=False)
    if mode == "cubic":
        options = {"exclude_outside": 1, "cubic_coeff_a": -0.5}
        check("Resize", [x, EMPTY, SCALES], {**attributes, **options}, constants=(1, 2), tolerance=1e-4)
    if mode != "nearest":
        check("Resize", [x, EMPTY, SCALES], {**attributes, "antialias": 1}, constants=(1, 2), tolerance=1e-4)


def test_axes_of_one_result_begin_at_the_first_element() -> None:
    """As in the specification and onnxruntime; the reference of ONNX begins at -1/2."""
    x = floats(1, 1, 4, 5)
    attributes = {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"}
    sizes = np.array([1, 1, 1, 5])
    check("Resize", [x, EMPTY, EMPTY, sizes], attributes, constants=(1, 2, 3), tolerance=1e-5, wanted=[x[:, :, :1]])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_neighbours(rounding: str) -> None:
    attributes = {"mode": "nearest", "nearest_mode": rounding, "axes": [2, 3]}
    check("Resize", [floats(1, 2, 5, 8), EMPTY, np.array([1.6, 0.5], np.float32)], attributes, constants=(1, 2))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_policies(policy: str) -> None:
    attributes = {"keep_aspect_ratio_policy": policy, "axes": [2, 3], "mode": "linear"}
    sizes = np.array([8, 5])
    check(
        "Resize",
        [floats(1, 2, 5, 7), EMPTY, EMPTY, sizes],
        attributes,
        constants=(1, 2, 3),
        tolerance=1e-4,
        opened=False,
    )


def test_regions() -> None:
    roi = np.array([0, 0, 0.2, 0.3, 1, 1, 0.9, 1.2], np.float32)
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear", "extrapolation_value": 3.0}
    check(
        "Resize", [floats(1, 2, 5, 7), roi, EMPTY, SIZES], attributes, constants=(1, 2, 3), tolerance=1e-4, opened=False
    )


def test_old_versions() -> None:
    x = floats(1, 2, 3, 4)
    scales = np.array([1, 1, 2, 3], np.float32)
    wanted = x.repeat(2, 2).repeat(3, 3)
    check("Upsample", [x], {"height_scale": 2.0, "width_scale": 3.0}, version=1, wanted=[wanted])
    check("Upsample", [x], {"scales": [1.0, 1.0, 2.0, 3.0]}, version=7, wanted=[wanted])
    check("Upsample", [x, scales], version=9, constants=(1,), wanted=[wanted])
    check("Resize", [x, scales], version=10, constants=(1,), wanted=[wanted])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("align", [0, 1])
def test_grids(mode: str, padding: str, align: int) -> None:
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
    x, grid = floats(2, 3, 5, 4), np.random.default_rng(0).uniform(-1.3, 1.3, (2, 3, 6, 2)).astype(np.float32)
    wanted = [cubic_with_borders(x, grid, align)] if (mode, padding) == ("cubic", "border") else None
    check("GridSample", [x, grid], attributes, tolerance=1e-4, wanted=wanted)
    renamed = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    (old,) = run(model_of("GridSample", [x, grid], {**attributes, "mode": renamed}, version=16), [x, grid])
    np.testing.assert_array_equal(old, run(model_of("GridSample", [x, grid], attributes, version=20), [x, grid])[0])


def cubic_with_borders(x: Array, grid: Array, align: int) -> Array:
    """Return cubic samples of images whose borders go on, as PyTorch has them; ONNX's reference moves places first."""

    def weights(t: Array) -> Array:
        distance, a = np.abs(np.stack([t + 1, t, 1 - t, 2 - t])), -0.75
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        found: Array = np.where(distance <= 1, near, a * (((distance - 5) * distance + 8) * distance - 4))
        return found

    sides = []
    for axis, size in ((1, x.shape[2]), (0, x.shape[3])):
        g = grid[..., axis].astype(np.float64)
        place = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
        low = np.floor(place)
        taps = np.clip(low[None] + np.arange(-1, 3).reshape(-1, 1, 1, 1), 0, size - 1).astype(int)
        sides.append((taps, weights(place - low)))
    (rows, down), (columns, across) = sides
    batch = np.arange(len(x)).reshape(1, 1, -1, 1, 1)
    pixels = x.transpose(0, 2, 3, 1)[batch, rows[:, None], columns[None]]
    result: Array = np.einsum("inhw,jnhw,ijnhwc->nchw", down, across, pixels).astype(np.float32)
    return result


@pytest.mark.sampled(0)
def test_grids_of_volumes() -> None:
    x, grid = floats(1, 2, 3, 4, 5), np.random.default_rng(0).uniform(-1.2, 1.2, (1, 2, 3, 2, 3)).astype(np.float32)
    check("GridSample", [x, grid], {"mode": "linear"}, tolerance=1e-4)


@pytest.mark.parametrize("align", [0, 1])
def test_affine_grids(align: int) -> None:
    options: dict[str, Any] = {"constants": (1,), "opened": False, "tolerance": 1e-4}
    check("AffineGrid", [floats(2, 2, 3), np.array([2, 3, 5, 6])], {"align_corners": align}, **options)
    check("AffineGrid", [floats(2, 3, 4), np.array([2, 3, 4, 5, 6])], {"align_corners": align}, **options)


@pytest.mark.parametrize("shape", [(7, 4), (3, 9), (4, 6), (5, 5)])
def test_middles(shape: tuple[int, int]) -> None:
    x = floats(5, 6)
    check("CenterCropPad", [x, np.array(shape)], constants=(1,), opened=False)
    check("CenterCropPad", [floats(2, 5, 6), np.array(shape[:1])], {"axes": [-1]}, constants=(1,))
