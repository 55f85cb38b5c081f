"""Functions that move pixels, look at the whole picture, or smooth it, against SciPy, scikit-image, or NumPy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import ndimage
from skimage import exposure, filters, transform
from skimage.measure import block_reduce

from strategies.photographs import MODES, Picture, filtered, photograph

if TYPE_CHECKING:
    from collections.abc import Callable

Places = tuple[Any, Any]

GRID = {**MODES, "wrap": "grid-wrap", "constant": "grid-constant"}
"""SciPy's names of the boundary modes of interpolation."""


def looked(image: Picture, places: Places, mode: str) -> Picture:
    planes = [ndimage.map_coordinates(image[..., c], places, order=1, mode=mode) for c in range(image.shape[2])]
    return np.stack(planes, 2)


def centred(image: Picture) -> tuple[Any, Any, float, float]:
    middle, centre = (image.shape[0] - 1) / 2, (image.shape[1] - 1) / 2
    rows, columns = np.indices(image.shape[:2], np.float64)
    return rows - middle, columns - centre, middle, centre


def turned(image: Picture, angle: float | Picture) -> Places:
    y, x, middle, centre = centred(image)
    return np.sin(angle) * x + np.cos(angle) * y + middle, np.cos(angle) * x - np.sin(angle) * y + centre


def swirled(image: Picture) -> Places:
    y, x, _, _ = centred(image)
    return turned(image, 3 * np.exp(-np.hypot(x, y) * 5 / (20 * math.log(2))))


def moved(image: Picture) -> Places:
    y, x, middle, centre = centred(image)
    angle = math.radians(-20)
    y, x = (y - 3) / 1.5, (x + 2) / 1.5
    return math.sin(angle) * x + math.cos(angle) * y + middle, math.cos(angle) * x - math.sin(angle) * y + centre


def mapped(image: Picture) -> Places:
    rows, columns = np.indices(image.shape[:2], np.float64)
    scale = 0.01 * columns - 0.005 * rows + 1
    return (0.1 * columns + 0.9 * rows + 1.5) / scale, (1.1 * columns + 0.2 * rows - 2) / scale


def bent(image: Picture) -> Places:
    y, x, middle, centre = centred(image)
    far = 1 + 0.3 * 4 * (x * x + y * y) / 4 / (image.shape[0] ** 2 + image.shape[1] ** 2)
    return y / 2 * far + middle, x / 2 * far + centre


def waving(image: Picture) -> Places:
    rows, columns = np.indices(image.shape[:2], np.float64)
    return rows, columns + 4 * np.sin(rows * 2 * np.pi / 12)


WARPS: dict[str, Callable[[Picture], Places]] = {
    "rotate(angle=25)": lambda p: turned(p, math.radians(25)),
    "rotate(angle=-20, zoom=1.5, down=3, right=-2)": moved,
    "warp(matrix=[1.1 0.2 -2; 0.1 0.9 1.5; 0.01 -0.005 1])": mapped,
    "lens(strength=0.3, zoom=2)": bent,
    "swirl(strength=3, radius=20)": swirled,
    "wave(height=4, length=12)": waving,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", WARPS)
def test_warps_look_where_they_should(text: str) -> None:
    for channels in (1, 3, 4):
        picture = photograph(channels)
        for boundary, mode in GRID.items():
            expected = looked(picture.astype(np.float64), WARPS[text](picture), mode)
            result = filtered(f"{text} outside {boundary}", picture)
            np.testing.assert_allclose(result, expected, atol=5e-5, err_msg=f"{channels} {boundary}")


def test_warps_are_those_of_scikit_image() -> None:
    picture = photograph(3)
    middle = tuple((size - 1) / 2 for size in (picture.shape[1], picture.shape[0]))
    matrix = np.array([[1.1, 0.2, -2], [0.1, 0.9, 1.5], [0, 0, 1]])
    cases = {
        "rotate(angle=25) outside clamp": transform.rotate(picture, 25, mode="edge"),
        "swirl(strength=3, radius=20) outside clamp": transform.swirl(
            picture, middle, strength=3, radius=20, mode="edge"
        ),
        "warp(matrix=[1.1 0.2 -2; 0.1 0.9 1.5]) outside clamp": transform.warp(picture, matrix, mode="edge"),
        "resize(rows=11, columns=44)": transform.resize(picture, (11, 44), order=1, anti_aliasing=False, mode="edge"),
        "resize(percent=200)": transform.rescale(picture, 2, order=1, mode="edge", channel_axis=2),
    }
    for text, expected in cases.items():
        np.testing.assert_allclose(filtered(text, picture), expected, atol=5e-5, err_msg=text)


def cubic(image: Picture, size: int, axis: int, mode: str) -> Picture:
    old = image.shape[axis]
    places = (np.arange(size) + 0.5) * old / size - 0.5
    first = np.floor(places).astype(int)
    shape = [-1 if each == axis else 1 for each in range(3)]
    total = np.zeros((1, 1, 1))
    for offset in range(-1, 3):
        d = np.abs(places - first - offset)
        weight = np.where(d <= 1, (1.5 * d - 2.5) * d * d + 1, ((-0.5 * d + 2.5) * d - 4) * d + 2)
        padded = np.pad(image, [(old, old) if each == axis else (0, 0) for each in range(3)], mode=mode)  # type: ignore[call-overload]
        total = total + np.take(padded, first + offset + old, axis) * weight.reshape(shape)
    return total


@pytest.mark.sampled(0)
def test_resize() -> None:
    picture = photograph(4)
    for rows, columns in ((11, 44), (50, 17), (1, 1), (25, 31)):
        near = [(np.arange(size) * 2 + 1) * old // (2 * size) for size, old in ((rows, 25), (columns, 31))]
        result = filtered(f"resize(rows={rows}, columns={columns}, method=nearest)", picture)
        np.testing.assert_array_equal(result, picture[near[0]][:, near[1]])
        for boundary, mode in {"clamp": "edge", "mirror": "reflect", "wrap": "wrap", "constant": "constant"}.items():
            expected = cubic(cubic(picture.astype(np.float64), rows, 0, mode), columns, 1, mode)
            result = filtered(f"resize(rows={rows}, columns={columns}, method=cubic) outside {boundary}", picture)
            np.testing.assert_allclose(result, expected, atol=2e-6, err_msg=boundary)
    shapes = {"resize": (13, 16, 4), "resize(percent=1)": (1, 1, 4), "resize(percent=300, rows=7)": (7, 93, 4)}
    for text, shape in shapes.items():
        assert filtered(text, picture).shape == shape
    np.testing.assert_array_equal(filtered("resize(percent=100)", picture), picture)


def test_pool() -> None:
    picture = photograph(3)[:24, :30]
    for kind, function in (("maximum", np.max), ("mean", np.mean), ("minimum", np.min)):
        for size in (1, 2, 3, 6):
            expected = block_reduce(picture.astype(np.float64), (size, size, 1), function)
            result = filtered(f"pool(size={size}, kind={kind})", picture)
            np.testing.assert_allclose(result, expected, rtol=1e-6, err_msg=f"{kind} {size}")
    odd = photograph(3)
    rows, columns = (np.arange(size) // 7 for size in odd.shape[:2])
    for kind, function in (("maximum", np.max), ("mean", np.mean), ("minimum", np.min)):
        expected = np.array(
            [[function(odd[rows == y][:, columns == x], axis=(0, 1)) for x in range(5)] for y in range(4)]
        )
        np.testing.assert_allclose(filtered(f"pool(size=7, kind={kind})", odd), expected, rtol=1e-6, err_msg=kind)
        if kind == "mean":
            result = filtered("pixelate(size=7)", odd)
            np.testing.assert_allclose(result, expected[rows][:, columns], rtol=1e-6)


def test_moves() -> None:
    picture = photograph(3)
    cases = {
        "flip": picture[:, ::-1],
        "flip(side=rows)": picture[::-1],
        "transpose": picture.swapaxes(0, 1),
        **{f"turn(quarters={count})": np.rot90(picture, count) for count in range(4)},
        "crop(top=3, left=5, height=4, width=100)": picture[3:7, 5:],
        "crop(top=1000, left=30)": picture[24:, 30:],
        "extend(rows=2, columns=3)": np.pad(picture, [(2, 2), (3, 3), (0, 0)], mode="reflect"),
    }
    for text, expected in cases.items():
        np.testing.assert_array_equal(filtered(text, picture), expected, text)


def test_histograms() -> None:
    for channels in (1, 3):
        picture = exposure.rescale_intensity(photograph(channels), out_range=(0.0, 1.0)).astype(np.float32)
        expected = exposure.equalize_hist(picture.reshape(25, -1), 64).reshape(picture.shape)  # all channels alike
        np.testing.assert_allclose(filtered("equalise(bins=64)", picture), expected, atol=2e-5)
        result = filtered("equalise(bins=64, amount=0.25)", picture)
        np.testing.assert_allclose(result, 0.75 * picture + 0.25 * expected, atol=2e-5)
    picture = photograph(4)
    result = filtered("equalise(bins=64)", picture)
    np.testing.assert_array_equal(result[..., :3], filtered("equalise(bins=64)", picture[..., :3]))
    np.testing.assert_array_equal(result[..., 3], picture[..., 3])
    dark = photograph(3) * np.float32(0.5) + np.float32(0.2)
    expected = exposure.rescale_intensity(dark, out_range=(0.0, 1.0))
    np.testing.assert_allclose(filtered("stretch", dark), expected, atol=1e-5)
    np.testing.assert_array_equal(filtered("stretch", dark * 0 + 1), dark * 0)
    covered = np.concatenate([dark, 1 - dark[..., :1]], 2)
    np.testing.assert_allclose(filtered("stretch", covered)[..., :3], expected, atol=1e-5)
    np.testing.assert_array_equal(filtered("stretch", covered)[..., 3], covered[..., 3])


def local(image: Picture, tiles: int, limit: float, bins: int) -> Picture:
    height, width, _ = image.shape
    rows, columns = np.arange(height), np.arange(width)
    high, wide = min(tiles, height), min(tiles, width)
    bin_of = np.minimum(np.floor(np.clip(image, 0, 1) * np.float32(bins)), bins - 1).astype(int)
    shares = np.zeros((high, wide, bins))
    for y in range(high):
        for x in range(wide):
            part = bin_of[rows * high // height == y][:, columns * wide // width == x]
            count = np.bincount(part.ravel(), minlength=bins).astype(float)
            most = limit * count.sum() / bins
            clipped = np.minimum(count, most) + np.maximum(count - most, 0).sum() / bins
            shares[y, x] = clipped.cumsum() / max(count.sum(), 1)
    down, across = (
        np.clip((each + 0.5) * parts / len(each) - 0.5, 0, parts - 1) for each, parts in ((rows, high), (columns, wide))
    )
    top, left = np.floor(down).astype(int), np.floor(across).astype(int)
    total = np.zeros(image.shape)
    for row in range(2):
        for column in range(2):
            weight = np.outer(np.abs(1 - row - (down - top)), np.abs(1 - column - (across - left)))
            at = np.ix_(np.minimum(top + row, high - 1), np.minimum(left + column, wide - 1))
            total += weight[..., None] * np.take_along_axis(shares[at], bin_of, 2)
    return total


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("tiles", "limit", "bins"), [(1, 50, 32), (3, 2, 64), (8, 3, 256), (32, 1, 16)])
def test_histograms_of_parts(tiles: int, limit: int, bins: int) -> None:
    for channels in (1, 3):
        picture = photograph(channels)
        result = filtered(f"equalise_local(tiles={tiles}, limit={limit}, bins={bins})", picture)
        np.testing.assert_allclose(result, local(picture, tiles, limit, bins), atol=2e-5)
    np.testing.assert_array_equal(filtered("equalise_local", photograph(4))[..., 3], photograph(4)[..., 3])


def bilateral(image: Picture, size: int, near: float, alike: float, mode: str) -> Picture:
    reach = size // 2
    names = {"nearest": "edge", "mirror": "reflect", "wrap": "wrap", "constant": "constant"}
    padded = np.pad(image, [(reach, reach), (reach, reach), (0, 0)], mode=names[mode])  # type: ignore[call-overload]
    total, sizes = np.zeros_like(image), np.zeros((*image.shape[:2], 1))
    for row in range(size):
        for column in range(size):
            seen = padded[row : row + image.shape[0], column : column + image.shape[1]]
            apart = ((seen - image) ** 2).sum(2, keepdims=True)
            far = (row - reach) ** 2 + (column - reach) ** 2
            weight = np.exp(-apart / (2 * alike**2) - far / (2 * near**2))
            total += weight * seen
            sizes += weight
    return np.asarray(total / sizes)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [3, 5, 9])
def test_bilateral(size: int) -> None:
    for channels in (1, 3, 4):
        picture = photograph(channels)
        for boundary, mode in MODES.items():
            expected = bilateral(picture.astype(np.float64), size, 1.5, 0.2, mode)
            result = filtered(f"bilateral(size={size}, near=1.5, alike=0.2) outside {boundary}", picture)
            np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["exponential", "rational"])
def test_diffusion_in_rounds(kind: str) -> None:
    picture = photograph(3)
    for boundary, mode in MODES.items():
        expected = picture.astype(np.float64)
        for _ in range(4):
            total = np.zeros_like(expected)
            for axis in (0, 1):
                for kernel in ([1, -1, 0], [0, -1, 1]):
                    apart = ndimage.correlate1d(expected, kernel, axis, mode=mode)
                    steep = (apart / 0.1) ** 2
                    total += apart * (np.exp(-steep) if kind == "exponential" else 1 / (1 + steep))
            expected = expected + 0.2 * total
        result = filtered(f"repeat 4 {{\n diffuse(kind={kind}) outside {boundary}\n}}", picture)
        np.testing.assert_allclose(result, expected, atol=1e-5, err_msg=boundary)


def test_means_of_windows_decide() -> None:
    picture = photograph(1)
    for boundary, mode in MODES.items():
        mean = ndimage.uniform_filter(picture.astype(np.float64), (7, 7, 1), mode=mode)
        expected = picture > mean - 0.0123
        result = filtered(f"threshold_local(size=7, offset=0.0123) outside {boundary}", picture)
        np.testing.assert_array_equal(result, expected)
    ours = filtered("threshold_local(size=7, offset=0.0123)", picture)[..., 0]
    theirs = picture[..., 0] > filters.threshold_local(picture[..., 0], 7, "mean", 0.0123, "mirror")
    np.testing.assert_array_equal(ours, theirs)


def test_guided() -> None:
    picture = photograph(3).astype(np.float64)

    def box(image: Picture) -> Picture:
        return np.asarray(ndimage.uniform_filter(image, (5, 5, 1), mode="mirror"))

    spread = box(picture**2) - box(picture) ** 2
    slope = spread / (spread + 0.1**2)
    expected = box(slope) * picture + box(box(picture) - slope * box(picture))
    np.testing.assert_allclose(filtered("guided(size=5, edge=0.1)", photograph(3)), expected, atol=2e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [(16, 16), (7, 7), (3, 100), (1, 1), (31, 9)])
@pytest.mark.parametrize("tiles", [8, 32])
def test_pictures_smaller_than_tiles_are_equalised(size: tuple[int, int], tiles: int) -> None:
    result = filtered(f"equalise_local(tiles={tiles})", np.full((*size, 1), 0.3, np.float32))
    spread = 3 / 256  # of the limit; what is above it goes to all bins alike, and 76 of them are below that of 0.3
    np.testing.assert_allclose(result, (1 - spread) * 77 / 256 + spread, rtol=1e-5)
