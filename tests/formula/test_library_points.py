"""Functions of tones, of colours, and of two pictures, against scikit-image, or NumPy where it has none."""

from __future__ import annotations

import colorsys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import special
from skimage import color, exposure

import tileir
from strategies.photographs import Picture, filtered, photograph

if TYPE_CHECKING:
    from collections.abc import Callable

    One = Callable[[Picture], Picture]
    Two = Callable[[Picture, Picture], Picture]


def clipped(image: Picture) -> Picture:
    return np.clip(image, 0, 1)


def smooth(part: Picture) -> Picture:
    part = clipped(part)
    return np.asarray(part * part * (3 - 2 * part))


def hable(x: float | Picture) -> float | Picture:
    return (x * (0.15 * x + 0.05) + 0.004) / (x * (0.15 * x + 0.5) + 0.06) - 0.02 / 0.3


def grey(image: Picture) -> Picture:
    return np.asarray(image @ np.array([0.2126, 0.7152, 0.0722]))


def by_light(image: Picture, curve: One) -> Picture:
    light = grey(image)[..., None] if image.shape[2] > 1 else image
    return np.minimum(image * curve(light) / np.maximum(light, 1e-6), 1)


def vignette(image: Picture) -> Picture:
    rows, columns = image.shape[:2]
    y, x = np.mgrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j]
    far = np.sqrt((x * x + y * y) / 2)[..., None]
    return np.asarray(image * (1 - 0.8 * smooth((far - 0.2) / 0.8)))


TONES: dict[str, One] = {
    "invert": lambda p: 1 - p,
    "brightness(amount=-0.25)": lambda p: p - 0.25,
    "contrast(amount=1.5, pivot=0.4)": lambda p: (p - 0.4) * 1.5 + 0.4,
    "exposure(stops=1.5)": lambda p: p * 2**1.5,
    "gamma(gamma=1.7, gain=0.9)": lambda p: exposure.adjust_gamma(p, 1.7, 0.9),
    "levels(black=0.2, white=0.7)": lambda p: exposure.rescale_intensity(p, (0.2, 0.7), (0.0, 1.0)),
    "levels(black=0.1, white=0.9, gamma=2, low=0.25, high=0.75)": lambda p: (
        0.25 + 0.5 * clipped((p - 0.1) / 0.8) ** 0.5
    ),
    "levels(black=0.5, white=0.5)": lambda p: np.where(p > 0.5, 1.0, 0.0),
    "curve(points=[0.1 0.25 0.25 0.9; 0.2 0 0.5 0.8])": lambda p: np.where(
        p < 0.25, np.interp(p, [0.1, 0.25], [0.2, 0]), np.interp(p, [0.25, 0.9], [0, 0.3])
    ),
    "sigmoid(cutoff=0.4, gain=8)": lambda p: exposure.adjust_sigmoid(p, 0.4, 8),
    "posterise(levels=5)": lambda p: np.floor(p * 4 + 0.5) / 4,
    "solarise(level=0.3)": lambda p: np.where(p > 0.3, 1 - p, p),
    "threshold(level=0.401)": lambda p: np.where(p > 0.401, 1.0, 0.0),
    "threshold(level=0.4, soft=0.2)": lambda p: smooth((p - 0.2) / 0.4),
    "tonemap(hues=no, stops=2, white=3)": lambda p: np.minimum(4 * p * (1 + 4 * p / 9) / (1 + 4 * p), 1),
    "tonemap(stops=1)": lambda p: by_light(2 * p, lambda x: x * (1 + x / 16) / (1 + x)),
    "tonemap(curve=aces, hues=no)": lambda p: np.minimum(p * (2.51 * p + 0.03) / (p * (2.43 * p + 0.59) + 0.14), 1),
    "tonemap(curve=hable, white=2)": lambda p: by_light(p, lambda x: np.asarray(hable(x) / hable(2))),
    "vignette(amount=0.8, radius=0.2)": vignette,
    "saturation(amount=1.7)": lambda p: np.asarray(grey(p)[..., None] * -0.7 + p * 1.7) if p.shape[2] > 1 else p,
    "to_linear": lambda p: np.where(p <= 0.04045, p / 12.92, ((p + 0.055) / 1.055) ** 2.4),
    "from_linear": lambda p: np.where(p <= 0.0031308, p * 12.92, 1.055 * p ** (1 / 2.4) - 0.055),
}


def lab(image: Picture) -> Picture:
    return np.asarray(color.rgb2lab(image) / [100, 256, 256] + [0, 0.5, 0.5])


def ycbcr(image: Picture) -> Picture:
    y = image @ np.array([0.299, 0.587, 0.114])
    return np.stack([y, 0.5 + (image[..., 2] - y) / 1.772, 0.5 + (image[..., 0] - y) / 1.402], 2)


def hue(image: Picture, degrees: float) -> Picture:
    hsv = color.rgb2hsv(image)
    hsv[..., 0] = (hsv[..., 0] + degrees / 360) % 1
    return np.asarray(color.hsv2rgb(hsv))


WHITE = np.array([255, 244, 229]) / 255
ORANGE = np.array([255, 128, 0]) / 255
NIGHT, SAND = np.array([26, 26, 77]) / 255, np.array([255, 230, 179]) / 255
COLOURS: dict[str, One] = {
    "to_hsv": color.rgb2hsv,
    "from_hsv": color.hsv2rgb,
    "hue(angle=75)": lambda p: hue(p, 75),
    "hue(angle=-180)": lambda p: hue(p, -180),
    "to_ycbcr": ycbcr,
    "to_lab": lab,
    "white_balance": lambda p: p * grey(WHITE) / WHITE,
    "overlay_colour(amount=0.4)": lambda p: p * 0.6 + ORANGE * 0.4,
    "duotone": lambda p: NIGHT + (SAND - NIGHT) * grey(p)[..., None],
}


@pytest.mark.sampled(11)
@pytest.mark.parametrize("text", TONES)
def test_tones(text: str) -> None:
    for channels in (1, 3, 4):
        picture = photograph(channels)
        expected = TONES[text](picture[..., :3].astype(np.float64))
        result = filtered(text, picture)
        np.testing.assert_allclose(result[..., :3], expected, rtol=2e-5, atol=2e-5, err_msg=str(channels))
        np.testing.assert_array_equal(result[..., 3:], picture[..., 3:])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("text", COLOURS)
def test_colours(text: str) -> None:
    picture = photograph(4)
    expected = COLOURS[text](picture[..., :3].astype(np.float64))
    result = filtered(text, picture)
    np.testing.assert_allclose(result[..., :3], expected, rtol=5e-5, atol=5e-5)
    np.testing.assert_array_equal(result[..., 3:], picture[..., 3:])
    np.testing.assert_array_equal(filtered(text, picture[..., :3]), result[..., :3])


def test_grey_pictures_have_colours_like_others() -> None:
    picture = photograph(1)
    same = np.repeat(picture, 3, axis=2)
    for text in ("to_hsv", "from_hsv", "to_ycbcr", "from_ycbcr", "to_lab", "from_lab", "duotone"):
        np.testing.assert_allclose(filtered(text, picture), filtered(text, same), atol=5e-6, err_msg=text)
    for text in ("hue", "white_balance", "luminance", "component(which=blue)"):
        np.testing.assert_allclose(filtered(text, picture), picture, rtol=1e-6, err_msg=text)
    for name in ("overlay_colour", "saturation", "tonemap"):
        assert filtered(name, picture).shape == picture.shape


@pytest.mark.parametrize("space", ["hsv", "ycbcr", "lab", "linear"])
def test_colours_come_back(space: str) -> None:
    picture = photograph(4)
    np.testing.assert_allclose(filtered(f"to_{space}\nfrom_{space}", picture), picture, atol=3e-5)


def test_hues_of_primaries() -> None:
    table = np.array([[r, g, b] for r in (0, 0.5, 1) for g in (0, 0.5, 1) for b in (0, 0.5, 1)], np.float32)
    expected = [colorsys.rgb_to_hsv(*row) for row in table.astype(float)]
    np.testing.assert_allclose(filtered("to_hsv", table[None])[0], expected, atol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["to_hsv", "from_hsv", "to_ycbcr", "from_ycbcr", "to_lab", "from_lab"])
def test_colours_of_many_channels_leave_the_others(name: str) -> None:
    picture = np.random.default_rng(3).random((6, 7, 5), np.float32)
    result = tileir.craft(name)(picture)
    np.testing.assert_allclose(result[..., :3], tileir.craft(name)(picture[..., :3]), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result[..., 3:], picture[..., 3:])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["to_ycbcr", "from_ycbcr", "to_lab", "from_lab"])
def test_colours_of_two_channels_are_the_greys_of_the_first(name: str) -> None:
    picture = np.random.default_rng(3).random((6, 7, 2), np.float32)
    grey = tileir.craft(name)(picture[..., :1].copy())
    np.testing.assert_allclose(tileir.craft(name)(picture), grey, rtol=1e-5, atol=1e-6)


def test_channels() -> None:
    picture = photograph(4)
    weights = {"bt709": [0.2126, 0.7152, 0.0722], "bt601": [0.299, 0.587, 0.114], "mean": [1 / 3] * 3}
    for name, row in weights.items():
        result = filtered(f"luminance(standard={name})", picture)
        np.testing.assert_allclose(result[..., 0], picture[..., :3] @ np.array(row), atol=1e-6)
    scikit = color.rgb2gray(picture[..., :3])  # which rounds its weights to four digits
    np.testing.assert_allclose(filtered("luminance", picture)[..., 0], scikit, atol=3e-4)
    for number, name in enumerate(("red", "green", "blue", "alpha")):
        np.testing.assert_array_equal(filtered(f"component(which={name})", picture)[..., 0], picture[..., number])
    mixed = filtered("mix(weights=[1 2 3 4; 0 1 0 -1])", picture)
    np.testing.assert_allclose(mixed, picture @ np.array([[1, 2, 3, 4], [0, 1, 0, -1]]).T, rtol=1e-5)


def overlay(a: Picture, b: Picture) -> Picture:
    return np.where(a <= 0.5, 2 * a * b, 1 - 2 * (1 - a) * (1 - b))


def soft_light(a: Picture, b: Picture) -> Picture:
    bright = np.where(a <= 0.25, ((16 * a - 12) * a + 4) * a, np.sqrt(a))
    return np.asarray(np.where(b <= 0.5, a - (1 - 2 * b) * a * (1 - a), a + (2 * b - 1) * (bright - a)))


MERGES: dict[str, Two] = {
    "magnitude": np.hypot,
    "blend(amount=0.3)": lambda a, b: a * 0.7 + b * 0.3,
    "add": np.add,
    "subtract": np.subtract,
    "difference": lambda a, b: np.abs(a - b),
    "multiply": np.multiply,
    "divide": lambda a, b: np.divide(a, b, where=b != 0, out=np.zeros_like(a)),
    "screen": lambda a, b: 1 - (1 - a) * (1 - b),
    "overlay": overlay,
    "soft_light": soft_light,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "compare": lambda a, b: np.where(a > b, 1.0, 0.0),
    "compare(relation=less, tolerance=0.201)": lambda a, b: np.where(a < b - 0.201, 1.0, 0.0),
    "compare(relation=equal, tolerance=0.201)": lambda a, b: np.where(np.abs(a - b) <= 0.201, 1.0, 0.0),
    "keep_alpha": lambda a, b: np.concatenate([b[..., :3], a[..., 3:]], 2),
}


@pytest.mark.parametrize("text", MERGES)
def test_merges(text: str) -> None:
    for channels in (1, 3, 4):
        first = photograph(channels)
        second = first[::-1, ::-1].copy()
        second[3:6] = first[3:6] = 0
        expected = MERGES[text](first.astype(np.float64), second.astype(np.float64))
        result = filtered(f"inputs a, b\n{text} of a, b", first, second)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-6, err_msg=str(channels))


def test_over_lays_pictures_above_others() -> None:
    below = photograph(4)
    above = below[::-1, ::-1].copy()
    result = filtered("inputs a, b\nover of a, b", below, above)
    part, behind = above[..., 3:].astype(np.float64), below[..., 3:]
    whole = part + behind * (1 - part)
    mixed = above[..., :3] * part + below[..., :3] * behind * (1 - part)
    np.testing.assert_allclose(result[..., 3:], whole, atol=1e-6)
    np.testing.assert_allclose(result[..., :3], mixed / np.where(whole == 0, 1, whole), atol=1e-5)
    opaque = filtered("inputs a, b\nover of a, b", below[..., :3], above[..., :3])
    np.testing.assert_array_equal(opaque, above[..., :3])


def test_noise_is_what_its_name_says() -> None:
    flat = np.full((200, 300, 4), 0.5, np.float32)
    for kind, spread in (("normal", 0.2), ("uniform", 0.2 / np.sqrt(3))):
        noise = filtered(f"noise(kind={kind}, amount=0.2)", flat) - 0.5
        assert abs(noise[..., :3].mean()) < 2e-3
        assert noise[..., :3].std() == pytest.approx(spread, rel=0.01)
        assert (noise[..., 3] == 0).all()
        channels = np.corrcoef(noise[..., :3].reshape(-1, 3).T)
        assert np.abs(channels - np.eye(3)).max() < 0.02
        alike = filtered(f"noise(kind={kind}, amount=0.2, coloured=no)", flat)
        assert np.ptp(alike[..., :3], axis=2).max() == 0
    assert np.abs(noise).max() <= 0.2
    even, normal = (filtered(f"noise(kind={kind}, amount=1)", flat * 0)[..., :3] for kind in ("uniform", "normal"))
    expected = special.erfinv(even.astype(np.float64) + 2.0**-24) * np.sqrt(2)
    np.testing.assert_allclose(normal, expected, rtol=2e-6, atol=1e-6)
    pepper = filtered("noise(kind=salt, amount=0.1, coloured=no)", flat)[..., :3]
    for value in (0, 1):
        assert (pepper == value).mean() == pytest.approx(0.05, rel=0.1)
    assert ((pepper == 0) | (pepper == 0.5) | (pepper == 1)).all()
    first, again, other = (filtered(f"noise(seed={seed})", flat) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert (first[..., :3] != other[..., :3]).mean() > 0.99
