from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tileir.core.errors import TileError
from tileir_cli.pictures.files import is_picture, read_picture, write_picture

GREY = np.arange(6, dtype=np.uint8).reshape(2, 3) * 50
COLOUR = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) * 14


def read(array: np.ndarray[Any, Any], path: Path, mode: str | None = None) -> np.ndarray[Any, Any]:
    """Write an array as a picture with Pillow, and read it with tileir."""
    image = Image.fromarray(array)
    (image if mode is None else image.convert(mode)).save(path)
    return read_picture(path)


def test_grey_and_colour_keep_their_channels(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read(GREY, tmp_path / "a.png"), GREY / np.float32(255))
    np.testing.assert_array_equal(read(COLOUR, tmp_path / "a.png"), COLOUR / np.float32(255))


def test_sixteen_bits_are_not_cut_off(tmp_path: Path) -> None:
    deep = np.array([[0, 255, 256], [1000, 30000, 65535]], np.uint16)
    np.testing.assert_allclose(read(deep, tmp_path / "a.png"), deep / np.float32(65535))


def test_other_modes_become_the_nearest_plain_one(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read(GREY > 100, tmp_path / "a.png"), (GREY > 100).astype(np.float32))
    assert read(GREY, tmp_path / "a.png", "LA").shape == (2, 3, 4)
    assert read(COLOUR, tmp_path / "a.png", "P").shape == (2, 3, 3)
    assert read(COLOUR, tmp_path / "a.tiff", "CMYK").shape == (2, 3, 3)
    floats = np.array([[0.25, 2.0]], np.float32)
    np.testing.assert_array_equal(read(floats, tmp_path / "a.tiff"), floats)


def test_broken_pictures_are_errors_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    read(COLOUR, path)
    for cut in (0, 8, 20, 40):
        (tmp_path / "cut.png").write_bytes(path.read_bytes()[:cut])
        with pytest.raises(OSError, match=r"."):
            read_picture(tmp_path / "cut.png")


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([[-1.0, 0.5, np.nan, 3.0]]), [[0, 128, 0, 255]]),
        (np.array([[-1, 7, 255, 4000]], np.int32), [[0, 7, 255, 255]]),
        (np.array([[7, 255]], np.uint8), [[7, 255]]),
        (np.array([[True, False]]), [[255, 0]]),
        (np.zeros((1, 2, 2, 1), np.float32), [[0, 0], [0, 0]]),
        (np.zeros((1, 2, 1), np.float32), [[0, 0]]),
        (np.ones((1, 1, 3)), [[[255, 255, 255]]]),
    ],
)
def test_pixels(array: np.ndarray[Any, Any], expected: list[list[int]]) -> None:
    with Image.open(io.BytesIO(write_picture(Path("a.png"), array))) as image:
        np.testing.assert_array_equal(np.asarray(image), expected)


@pytest.mark.parametrize("shape", [(), (4,), (2, 2, 2), (0, 3), (0, 3, 1), (2, 2, 3, 3)])
def test_what_is_no_picture_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(TileError) as caught:
        write_picture(Path("a.png"), np.zeros(shape))
    assert caught.value.diagnostics[0].code == "TIL904"


def test_names_tell_pictures() -> None:
    assert is_picture(Path("a.PNG"))
    assert not is_picture(Path("a.npy"))
