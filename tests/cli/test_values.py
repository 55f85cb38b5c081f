from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.driver.texts import write_whole
from tileir.runtime.array_files import REGISTERED
from tileir.tile.text.parser import parse
from tileir_cli.values import depth_of_pictures, destinations, load, save

TWO = parse("function (A, S) -> (P, Q) { P = A + S; Q = A * S; }")


def test_results_go_where_they_are_sent() -> None:
    assert destinations(TWO, ["Q=q.png", "p.npy"]) == {"Q": Path("q.png"), "P": Path("p.npy")}
    assert destinations(TWO, ["out/a=b.npy"]) == {"P": Path("out/a=b.npy")}


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["R=r.npy"], "-o R=r.npy: there is no result 'R'; known are P, Q"),
        (["P=a.npy", "P=b.npy"], "-o P=b.npy: result 'P' goes to a.npy already"),
        (["a.npy", "b.npy", "c.npy"], "there are 2 results, so -o c.npy has none left to write"),
        (["a.gif"], "-o a.gif: pictures are read from .gif, which has 256 colours, and not written; write .png"),
        (
            ["a.txt"],
            "-o a.txt: the name must end in .npy or in that of a picture: .bmp, .jpeg, .jpg, .pgm, .png, .pnm, .ppm, "
            ".tif, .tiff and .webp are written",
        ),
    ],
)
def test_wrong_destinations_are_told(outputs: list[str], message: str) -> None:
    with pytest.raises(TileError) as caught:
        destinations(TWO, outputs)
    assert [(fault.code, fault.message) for fault in caught.value.diagnostics] == [("TIL902", message)]


@pytest.mark.parametrize("ending", ["heic", "svg", "txt", "psd", "avif"])
def test_files_of_unknown_kinds_are_told_what_is_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(b"some other file, which is long enough for any header")
    with pytest.raises(TileError) as caught:
        load("A", str(path))
    message = (
        f"input 'A': {path} is no file of a known kind; convert it to a .npy array, or to a picture: .bmp, .gif, "
        ".jpeg, .jpg, .pbm, .pgm, .png, .pnm, .ppm, .tif, .tiff and .webp are read"
    )
    assert [(fault.code, fault.message) for fault in caught.value.diagnostics] == [("TIL901", message)]


def test_arrays_may_have_other_endings(tmp_path: Path) -> None:
    with (tmp_path / "a.dat").open("wb") as file:
        np.save(file, np.arange(3))
    np.testing.assert_array_equal(load("A", str(tmp_path / "a.dat")), np.arange(3))


def test_results_have_the_depth_of_the_deepest_picture(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((2, 2), np.uint16)).save(tmp_path / "deep.png")
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "flat.png")
    deep, flat = f"A={tmp_path}/deep.png", f"B={tmp_path}/flat.png"
    assert depth_of_pictures([deep, flat]) == 16
    assert depth_of_pictures([flat, "C=0.5", "D=missing.png"]) == 8
    assert depth_of_pictures([]) == 8


def test_a_value_is_needed() -> None:
    with pytest.raises(TileError, match="input 'A' has no value; write A=FILE or A=NUMBER"):
        load("A", "")


def test_a_link_stays_one_and_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    real, link = tmp_path / "folder" / "real", tmp_path / "link"
    real.parent.mkdir()
    link.symlink_to(real)
    write_whole(link, b"first")
    real.chmod(0o640)
    write_whole(link, b"second")
    assert link.is_symlink()
    assert real.read_bytes() == b"second"
    assert real.stat().st_mode & 0o777 == 0o640
    assert [*real.parent.iterdir()] == [real]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        found = pool.submit(pipe.read_bytes)
        write_whole(pipe, b"whole")
        assert found.result() == b"whole"
    assert pipe.is_fifo()


@pytest.mark.parametrize("dtype", DType)
def test_results_can_be_read_again(dtype: DType, tmp_path: Path) -> None:
    array = np.array([[0, 1], [1, 0]]).astype(dtype.numpy)
    save(tmp_path / "a.npy", array)
    found = load("A", f"{dtype.value}:{tmp_path / 'a.npy'}")
    assert isinstance(found, np.ndarray)
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()
    if dtype not in REGISTERED:
        np.testing.assert_array_equal(load("A", str(tmp_path / "a.npy")), array)


@pytest.mark.parametrize(
    ("dtype", "said", "message"),
    [
        ("V2", "", "FILE has elements of 2 bytes and no type; write bf16:FILE"),
        ("V1", "", "FILE has elements of 1 bytes and no type; write f8e4m3fn:FILE or f8e5m2:FILE"),
        ("V2", "f8e5m2:", "FILE has elements of type |V2, not f8e5m2; convert them, or leave f8e5m2: out"),
        ("V2", "f16:", "FILE has elements of type |V2, not f16; convert them, or leave f16: out"),
        ("f4", "bf16:", "FILE has elements of type f32, not bf16; convert them, or leave bf16: out"),
    ],
)
def test_elements_that_are_not_what_is_said(dtype: str, said: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    np.save(file, np.zeros(3, dtype))
    with pytest.raises(TileError) as caught:
        load("A", f"{said}{file}")
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.message) == ("TIL702", f"input 'A': {message.replace('FILE', str(file))}")


def test_a_dtype_needs_a_file() -> None:
    with pytest.raises(TileError, match="TIL901"):
        load("A", "bf16:nowhere.npy")
