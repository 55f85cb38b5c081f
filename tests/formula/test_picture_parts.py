"""Parts of results are the same as those of whole results, and places that count are noticed."""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir.core.errors import ArgumentError
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.definitions.function_file import read_functions
from tileir_formula.running import crafting, function as formula_function
from tileir_formula.running.picture_parts import Rectangle

PHOTO = np.random.default_rng(6).random((120, 90, 3), np.float32)
LOCAL = {
    "gaussian(sigma=1)\nconvolve(weights=[1 2 3; 4 5 6; 7 8 9]) outside clamp": (5, 5, 5, 5),
    "x = convolve(weights=[1; 2; 3])\ny = convolve(weights=[1 0 0 0 0]) of image\nmagnitude of x, y": (1, 1, 2, 2),
    "repeat 34 {\n convolve(weights=[1 2 1])\n}": (0, 0, 34, 34),
}
PLACES = """\
/// flipped: turns upside down.
function (Image[H, W, C]) -> (R) { R[y, x, c : H, W, C] = =(Image[H - 1 - y, x, c]); }
/// wide: twice as wide.
function (Image[H, W, C]) -> (R) { R[y, 2 * x + s, c : H, 2 * W, C] = =(Image[y, x, c]), s < 2; }
/// rows: adds the number of each row.
function (Image[H, W, C]) -> (R) { R = Image + index(Image, 0); }
/// stretched: less by its mean.
function (Image[H, W, C]) -> (R) { S[c : C] = +(Image[y, x, c]); R = Image - S / (H * W); }
/// doubled: takes every second row twice.
function (Image[H, W, C]) -> (R) {
    R[2 * y + s, x, c : H, W, C] = =(Image[2 * y, x, c]), s < 2;
}
"""
RECTANGLES = ((0, 0, 20, 30), (40, 37, 11, 13), (100, 60, 20, 30), (0, 0, 120, 90), (119, 89, 1, 1))


@pytest.mark.sampled(0)
@pytest.mark.parametrize("text", sorted(LOCAL))
def test_rectangles_are_those_of_the_whole(text: str) -> None:
    formula = tileir.craft(text)
    whole = formula(PHOTO)
    reach = formula._function([PHOTO]).reach([PHOTO])
    assert reach is not None
    assert (reach.above, reach.below, reach.left, reach.right) == LOCAL[text]
    for top, left, height, width in RECTANGLES:
        part = formula.region((top, left, height, width), PHOTO)
        expected = whole[top : top + height, left : left + width]
        np.testing.assert_allclose(part, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [function.name for function in read_functions(PLACES)])
def test_places_that_count(name: str) -> None:
    functions = {**own_functions(), **{each.name: each for each in read_functions(PLACES)}}
    formula = tileir.craft(f"convolve\n{name}", functions)
    assert formula._function([PHOTO]).reach([PHOTO]) is None
    whole = formula(PHOTO)
    np.testing.assert_array_equal(formula.region((5, 6, 7, 8), PHOTO), whole[5:12, 6:14])


@pytest.mark.parametrize(
    "text", ["gaussian outside wrap", "gaussian where region(1, 2, 30, 40)", "repeat 300 {\n gaussian(sigma=3)\n}"]
)
def test_formulas_that_need_all(text: str) -> None:
    assert tileir.craft(text)._function([PHOTO]).reach([PHOTO]) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["doubled", "pixelate(size=8)"])
@pytest.mark.parametrize("around", ["box(size=31) of image", "gaussian(sigma=6) of image"])
def test_places_that_count_are_noticed_among_what_lies_around(name: str, around: str) -> None:
    """Both read the same rows and columns, all in all, at every place."""
    functions = {**own_functions(), **{each.name: each for each in read_functions(PLACES)}}
    formula = tileir.craft(f"a = {name} of image\nb = {around}\nadd of a, b\n", functions)
    whole = formula(PHOTO)
    for top in (41, 42, 45):
        np.testing.assert_allclose(formula.region((top, 33, 9, 8), PHOTO), whole[top : top + 9, 33:41], rtol=1e-5)


@pytest.mark.sampled(0)
def test_large_pictures_go_in_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "inputs a, b\ngaussian(sigma=1)\nblend of $1, b\nresults $1, $2"
    mask = np.random.default_rng(7).random((120, 90, 1), np.float32)
    formula = tileir.craft(text)
    whole = formula(PHOTO, mask)
    monkeypatch.setattr(crafting, "MOST_PIXELS", 1000)
    for pixels in (90 * 25, 90 * 119, 1):
        monkeypatch.setattr(formula_function, "STRIP_PIXELS", pixels)
        for one, other in zip(formula(PHOTO, mask), whole, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    grey = tileir.craft("gaussian(sigma=1)")
    assert grey(PHOTO[..., 0]).shape == (120, 90)


@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (40, 13)])
def test_small_pictures_have_parts(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    formula, photo = tileir.craft("subtract of image, image"), PHOTO[: shape[0], : shape[1]]
    whole = formula(photo)
    np.testing.assert_array_equal(formula.region((0, 0, 1, 1), photo), whole[:1, :1])
    assert [place for place, _ in formula.parts((0, 0, 1, 1), photo)] == [Rectangle(0, 0, *shape)]
    monkeypatch.setattr(crafting, "MOST_PIXELS", 0)
    np.testing.assert_array_equal(formula(photo), whole)


def test_parts_share_one_size_and_cover_the_whole() -> None:
    formula = tileir.craft("gaussian(sigma=1)\nresults image, $1")
    whole = formula(PHOTO)
    found = np.full_like(whole[1], -1)
    places = []
    for place, (_, part) in formula.parts((40, 30, 50, 32), PHOTO):
        places.append(place)
        found[place.slices] = part
    assert places[0] == Rectangle(40, 30, 50, 32)
    assert {(place.height, place.width) for place in places} == {(50, 32)}
    np.testing.assert_allclose(found, whole[1], rtol=1e-5)
    ((place, part),) = tileir.craft("flip").parts((1, 2, 3, 4), PHOTO)
    assert place == Rectangle(0, 0, *PHOTO.shape[:2])
    assert part.shape == PHOTO.shape
    with pytest.raises(ArgumentError) as caught:
        next(formula.parts((0, 0, 500, 1), PHOTO))
    assert caught.value.diagnostics[0].code == "TIL314"


def test_rectangles_outside_are_refused() -> None:
    formula = tileir.craft("convolve")
    for rectangle in ((0, 0, 121, 1), (0, 90, 1, 1), (-1, 0, 2, 2), (3, 3, 0, 4)):
        with pytest.raises(ArgumentError) as caught:
            formula.region(rectangle, PHOTO)
        assert caught.value.diagnostics[0].code == "TIL314"
