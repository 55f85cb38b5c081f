"""Functions that look at windows, against SciPy and scikit-image, or NumPy where these have none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import ndimage
from skimage import feature, filters
from skimage.morphology import dilation, disk

from strategies.photographs import MODES, Picture, filtered, photograph

if TYPE_CHECKING:
    from collections.abc import Callable

ANY = [[0.5, -1.0, 2.0], [0.25, 3.0, -0.75]]
DISC = disk(2)[..., None]
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])[..., None]


def plane_by_plane(image: Picture, one: Callable[[Picture], Picture]) -> Picture:
    return np.stack([one(image[..., channel]) for channel in range(image.shape[2])], 2)


def slopes(image: Picture, mode: str, smooth: list[float]) -> tuple[Picture, Picture]:
    lines = [ndimage.correlate1d(image, [-1, 0, 1], axis, mode=mode) for axis in (1, 0)]
    across, down = (ndimage.correlate1d(line, smooth, axis, mode=mode) for axis, line in enumerate(lines))
    return across, down


def length(image: Picture, mode: str, smooth: list[float]) -> Picture:
    return np.hypot(*slopes(image, mode, smooth))


def direction(image: Picture, mode: str) -> Picture:
    across, down = slopes(image, mode, [1, 2, 1])
    return np.arctan2(down, across) / (2 * np.pi) % 1.0


def unsharp(image: Picture, mode: str, limit: float) -> Picture:
    lost = image - ndimage.gaussian_filter(image, (1.3, 1.3, 0), mode=mode)
    return np.asarray(image + np.where(np.abs(lost) < limit, 0, 1.5 * lost))


def emboss(image: Picture, mode: str) -> Picture:
    across, down = (ndimage.correlate1d(image, [-1, 0, 1], axis, mode=mode) for axis in (1, 0))
    turn = math.radians(30)
    return np.asarray(0.25 + 0.5 * 2 * (math.sin(turn) * down - math.cos(turn) * across))


def corners(image: Picture, mode: str) -> Picture:
    across, down = slopes(image, mode, [1, 2, 1])
    p, q, r = (
        ndimage.gaussian_filter(each, (1.5, 1.5, 0), mode=mode)
        for each in (down * down, across * across, across * down)
    )
    return np.asarray(p * q - r * r - 0.06 * (p + q) ** 2)


def selective(image: Picture, mode: str, relative: bool, replaced: bool) -> Picture:
    weights = np.array(ANY)
    rows, columns = weights.shape
    widths = [(rows // 2, rows // 2), (columns // 2, columns // 2), (0, 0)]
    names = {"nearest": "edge", "mirror": "reflect", "wrap": "wrap", "constant": "constant"}
    padded = np.pad(image, widths, mode=names[mode])  # type: ignore[call-overload]
    limit = 0.1 * np.abs(image) if relative else 0.1
    total, kept = np.zeros_like(image), np.zeros_like(image)
    for row in range(rows):
        for column in range(columns):
            seen = padded[row : row + image.shape[0], column : column + image.shape[1]]
            near = np.abs(seen - image) <= limit
            total += np.where(near, weights[row, column] * seen, weights[row, column] * image * replaced)
            kept += np.where(near, weights[row, column], 0)
    return np.asarray(total if replaced else total * weights.sum() / kept)


def morph(image: Picture, mode: str, names: str, footprint: Picture | None = None) -> Picture:
    for name in names:
        grow = ndimage.grey_dilation if name == "d" else ndimage.grey_erosion
        size = None if footprint is not None else (5, 5, 1)
        image = grow(image, size=size, footprint=footprint, mode=mode)
    return image


def zero_sum_laplace(image: Picture, sigma: float, mode: str) -> Picture:
    """Return SciPy's filter less what it makes of flat pictures."""
    flat = float(ndimage.gaussian_laplace(np.ones((1, 1)), sigma, mode="nearest")[0, 0])
    blurred: Picture = ndimage.gaussian_filter(image, (sigma, sigma, 0), mode=mode)
    curved: Picture = ndimage.gaussian_laplace(image, sigma, mode=mode, axes=(0, 1))
    result: Picture = curved - flat * blurred
    return result


CASES: dict[str, Callable[[Picture, str], Picture]] = {
    "convolve(weights=[0.5 -1 2; 0.25 3 -0.75])": lambda p, m: ndimage.correlate(p, np.array(ANY)[..., None], mode=m),
    "selective(weights=[0.5 -1 2; 0.25 3 -0.75])": lambda p, m: selective(p, m, False, False),
    "selective(weights=[0.5 -1 2; 0.25 3 -0.75], discarded=replaced)": lambda p, m: selective(p, m, False, True),
    "selective(weights=[0.5 -1 2; 0.25 3 -0.75], relative=yes)": lambda p, m: selective(p, m, True, False),
    "box(size=5)": lambda p, m: ndimage.uniform_filter(p, (5, 5, 1), mode=m),
    "gaussian(sigma=1.3)": lambda p, m: ndimage.gaussian_filter(p, (1.3, 1.3, 0), mode=m),
    "unsharp(sigma=1.3, amount=1.5)": lambda p, m: unsharp(p, m, 0),
    "unsharp(sigma=1.3, amount=1.5, limit=0.02)": lambda p, m: unsharp(p, m, 0.02),
    "sharpen(amount=0.7)": lambda p, m: p - 0.7 * ndimage.laplace(p, mode=m, axes=(0, 1)),
    "laplacian": lambda p, m: ndimage.laplace(p, mode=m, axes=(0, 1)),
    "laplacian(neighbours=eight)": lambda p, m: ndimage.correlate(p, np.ones((3, 3, 1)), mode=m) - 9 * p,
    "laplacian_of_gaussian(sigma=1.3)": lambda p, m: zero_sum_laplace(p, 1.3, m),
    "emboss(angle=30, depth=2, base=0.25)": emboss,
    "corners(sigma=1.5, k=0.06)": corners,
    "sobel": lambda p, m: length(p, m, [1, 2, 1]),
    "sobel(show=across)": lambda p, m: plane_by_plane(p, lambda plane: ndimage.sobel(plane, 1, mode=m)),
    "sobel(show=down)": lambda p, m: plane_by_plane(p, lambda plane: ndimage.sobel(plane, 0, mode=m)),
    "scharr": lambda p, m: length(p, m, [3, 10, 3]),
    "prewitt": lambda p, m: length(p, m, [1, 1, 1]),
    "median": lambda p, m: ndimage.median_filter(p, (3, 3, 1), mode=m),
    "median(size=7)": lambda p, m: ndimage.median_filter(p, (7, 7, 1), mode=m),
    "rank(percent=25, rows=5, columns=1)": lambda p, m: ndimage.rank_filter(p, 1, (5, 1, 1), mode=m),
    "dilate(size=5)": lambda p, m: morph(p, m, "d"),
    "erode(size=5)": lambda p, m: morph(p, m, "e"),
    "dilate(size=5, shape=disc)": lambda p, m: morph(p, m, "d", DISC),
    "erode(size=3, shape=cross)": lambda p, m: morph(p, m, "e", CROSS),
    "open(size=5)": lambda p, m: morph(p, m, "ed"),
    "close(size=5)": lambda p, m: morph(p, m, "de"),
    "top_hat(size=5, shape=disc)": lambda p, m: p - morph(p, m, "ed", DISC),
    "bottom_hat(size=5)": lambda p, m: morph(p, m, "de") - p,
    "morphological_gradient(size=5)": lambda p, m: morph(p, m, "d") - morph(p, m, "e"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", CASES)
def test_windows_are_those_of_scipy(text: str) -> None:
    for channels in (1, 3, 4):
        picture = photograph(channels)
        for boundary, mode in MODES.items():
            expected = CASES[text](picture.astype(np.float64), mode)
            result = filtered(f"{text} outside {boundary}", picture)
            np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5, err_msg=f"{channels} {boundary}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", CASES)
def test_windows_larger_than_the_picture(text: str) -> None:
    for rows, columns in ((1, 1), (1, 4), (3, 2)):
        picture = photograph(3)[:rows, :columns]
        for boundary, mode in MODES.items():
            expected = CASES[text](picture.astype(np.float64), mode)
            result = filtered(f"{text} outside {boundary}", picture)
            message = f"{rows} by {columns}, {boundary}"
            np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5, err_msg=message)


def test_windows_are_those_of_scikit_image() -> None:
    picture = photograph(3)
    grey = photograph(1)[..., 0].astype(np.float64)
    cases = {
        "unsharp(sigma=1.5, amount=2) outside mirror": filters.unsharp_mask(
            np.pad(picture, [(12, 12), (12, 12), (0, 0)], mode="reflect"),
            radius=1.5, amount=2, preserve_range=True, channel_axis=2,
        )[12:-12, 12:-12],
        "gaussian(sigma=1.5) outside wrap": filters.gaussian(picture, 1.5, mode="wrap", channel_axis=2),
        "dilate(size=5, shape=disc) outside clamp": plane_by_plane(
            np.pad(picture, [(2, 2), (2, 2), (0, 0)], mode="edge"),
            lambda plane: dilation(plane, disk(2)),
        )[2:-2, 2:-2],
    }  # fmt: skip
    for text, expected in cases.items():
        np.testing.assert_allclose(filtered(text, picture), expected, rtol=2e-5, atol=2e-5, err_msg=text)
    for name, theirs in (("sobel", filters.sobel), ("scharr", filters.scharr), ("prewitt", filters.prewitt)):
        ratio = {"sobel": 4, "scharr": 16, "prewitt": 3}[name] * math.sqrt(2)
        result = filtered(f"{name} outside mirror", photograph(1))[..., 0] / ratio
        np.testing.assert_allclose(result, theirs(grey, mode="mirror"), rtol=2e-5, atol=2e-5, err_msg=name)


def test_directions_are_parts_of_a_turn() -> None:
    picture = photograph(3)
    expected = direction(picture.astype(np.float64), "mirror")
    apart = np.abs(filtered("sobel(show=direction) outside mirror", picture) - expected)
    steep = length(picture.astype(np.float64), "mirror", [1, 2, 1]) > 1e-3
    assert np.minimum(apart, 1 - apart)[steep].max() < 1e-4
    signs = np.array([-1, 0, 1], np.float32)
    across, down = (np.broadcast_to(each, (3, 3, 1)) for each in (signs[None, :, None], signs[:, None, None]))
    result = filtered("inputs a, b\ndirection of a, b", across, down)
    np.testing.assert_allclose(result, np.arctan2(down, across) / (2 * np.pi) % 1, atol=1e-6)


def test_thin_edges_are_those_of_canny() -> None:
    photo = ndimage.gaussian_filter(photograph(1), (1, 1, 0))
    thin = filtered("thin_edges(low=0.05, high=0.05) outside clamp", photo)[..., 0]
    theirs = feature.canny(photo[..., 0].astype(np.float64), sigma=1e-3, low_threshold=0.05, high_threshold=0.05)
    inside = (slice(2, -2), slice(2, -2))
    assert set(np.unique(thin)) == {0.0, 1.0}
    # scikit-image interpolates between the neighbours, so that some pixels beside an edge differ.
    assert np.mean(thin[inside].astype(bool) == theirs[inside]) > 0.95
    line = np.zeros((9, 9, 1), np.float32)
    line[:, 4:] = 0.1
    assert np.flatnonzero(filtered("thin_edges", line)[4]).size == 1
    assert set(np.unique(filtered("thin_edges", line * 1.7))) == {0.0, 1.0}


@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.3, 7])
def test_a_flat_picture_has_no_second_derivative(sigma: float) -> None:
    flat = np.full((40, 40, 1), 0.7, np.float32)
    np.testing.assert_allclose(filtered(f"laplacian_of_gaussian(sigma={sigma})", flat), 0, atol=1e-5)
