"""Errors of formulas that depend on the sizes of pictures."""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from strategies.photographs import filtered
from tileir.core.errors import TileError
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.definitions.function_file import read_functions

ODD = """\
/// odd: needs three channels
function (Image[H, W, C]) -> (Result) {
    Three[y, x, c : H, W, 3] = =(Image[y, x, c]);
    Result = Three + Image;
}
"""
PHOTO = np.random.default_rng(3).random((17, 7, 4), dtype=np.float32)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("text", "underlined", "notes"),
    [
        (
            "resize(percent=50)\nadd of $1, image",
            "add of $1, image",
            ("it reads $1: 9 rows, 4 columns, 4 channels", "it reads image: 17 rows, 7 columns, 4 channels"),
        ),
        (
            "invert\ntranspose with blend image",
            "transpose with blend image",
            (
                "it reads the picture before it: 17 rows, 7 columns, 4 channels",
                "it reads image: 17 rows, 7 columns, 4 channels",
                "it makes 7 rows, 17 columns, 4 channels",
            ),
        ),
        (
            "a = luminance\nresize(percent=50)\ninvert where mask a",
            "invert where mask a",
            (
                "it reads the picture before it: 9 rows, 4 columns, 1 channel",
                "it reads a: 17 rows, 7 columns, 1 channel",
                "it makes 9 rows, 4 columns, 1 channel",
            ),
        ),
        (
            "repeat 2 {\n  b = pool\n  repeat 2 {\n    invert\n    add of b, image\n  }\n}",
            "add of b, image",
            ("it reads b: 9 rows, 4 columns, 4 channels", "it reads image: 17 rows, 7 columns, 4 channels"),
        ),
    ],
)
def test_the_step_and_what_it_reads_are_told(text: str, underlined: str, notes: tuple[str, ...]) -> None:
    crafted = tileir.craft(text)
    for call in (crafted, crafted.executable, crafted.explain, lambda picture: crafted.region((0, 0, 2, 2), picture)):
        with pytest.raises(TileError) as caught:
            call(PHOTO)
        (fault,) = caught.value.diagnostics
        assert fault.underlined == underlined
        assert fault.notes == notes
        assert "sizes of pictures do not go together; resize or crop one" in fault.message


def test_a_group_that_changes_sizes() -> None:
    with pytest.raises(TileError, match="a round of the group does not make a picture of the size that it reads"):
        tileir.craft("repeat 40 {\n  resize(percent=50)\n}")(PHOTO)


def test_a_fault_of_a_body_names_the_step() -> None:
    functions = {**own_functions(), **{each.name: each for each in read_functions(ODD)}}
    with pytest.raises(TileError) as caught:
        tileir.craft("invert\nodd", functions)(PHOTO)
    (fault,) = caught.value.diagnostics
    assert fault.underlined == "odd"
    assert fault.notes[-1] == "it reads the picture before it: 17 rows, 7 columns, 4 channels"


def test_other_errors_stay() -> None:
    with pytest.raises(TileError, match=r"TIL701.*'Result' has shape"):
        tileir.craft("invert")(PHOTO, out=np.empty((1, 1, 4), np.float32))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_colours_beside_all_numbers_of_channels(channels: int) -> None:
    picture = PHOTO[..., :channels]
    colours = np.concatenate([picture, np.repeat(picture[..., -1:], 3, 2)], 2)[..., :3]
    near = (np.abs(colours - np.array([1, 0, 0], np.float32)) <= np.float32(0.6)).all(-1, keepdims=True)
    text = "invert where input within 0.6 of #ff0000"
    expected = np.where(near, filtered("invert", picture), picture)
    np.testing.assert_allclose(tileir.craft(text)(picture), expected, rtol=1e-6)
    np.testing.assert_array_equal(filtered(text, picture), expected)
