"""The commands of formulas, on files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from tileir.core.dtype import DType
from tileir.runtime.array_files import declared, loaded
from tileir_cli import main as cli

EDGES = """\
// Edges
x = convolve(weights=[-1 0 1]) // across
gaussian(sigma=1)
"""
HALVE = "/// halve: halves.\nfunction (Image[H, W, C]) -> (R) { R = Image * 0.5; }\n"

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Run a command in a folder with a formula and pictures; return the exit code, and what was printed."""
    monkeypatch.chdir(tmp_path)
    Path("e.formula").write_text(EDGES)
    Path("halve.tile").write_text(HALVE)
    for name in ("a", "b"):
        picture = np.random.default_rng(ord(name)).integers(0, 256, (9, 11, 3), np.uint8)
        Image.fromarray(picture).save(f"{name}.png")
        Path("video").mkdir(exist_ok=True)
        Image.fromarray(picture).save(f"video/{name}.png")
    np.save("stack.npy", np.random.default_rng(2).random((4, 9, 11), np.float32))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", "formula", *arguments])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def pixels(name: str) -> Any:
    with Image.open(name) as opened:
        return np.asarray(opened)


def test_formulas_are_checked(command: Command) -> None:
    assert command("check", "e.formula") == (0, "e.formula: 2 steps, reads image\n", "")
    Path("broken.formula").write_text("gausian\nblend")
    code, _, err = command("check", "broken.formula")
    assert code == 1
    assert "broken.formula:1:1: error[TIL206]" in err
    assert "broken.formula:2:1: error[TIL222]" in err


def test_formulas_are_printed(command: Command) -> None:
    assert command("print", "e.formula")[1].endswith("gaussian(sigma=1)\n")
    assert json.loads(command("print", "e.formula", "--stage", "json")[1])["format"] == "tileir.formula.Formula"
    assert command("print", "e.formula", "--stage", "tile")[1].startswith("function (")


def test_pictures_and_arrays(command: Command) -> None:
    code, out, _ = command("run", "e.formula", "a.png", "-o", "out.png")
    assert (code, out) == (0, "Result: f32[9, 11, 3] written to out.png\n")
    assert pixels("out.png").shape == (9, 11, 3)
    Path("two.formula").write_text("inputs a, b\nblend of a, b\nhalve\nresults $1, $2")
    outputs = ("-o", "x.npy", "-o", "y.npy")
    assert command("run", "two.formula", "a.png", "b.png", "--functions", "halve.tile", *outputs)[0] == 0
    np.testing.assert_allclose(np.load("x.npy") / 2, np.load("y.npy"), rtol=1e-6)


def test_a_photograph_is_turned_as_viewers_show_it(command: Command) -> None:
    Path("invert.formula").write_text("invert\n")
    exif = Image.Exif()
    exif[0x0112] = 6
    photograph = np.random.default_rng(0).integers(0, 256, (8, 12, 3)).astype(np.uint8)
    for ending in ("png", "tif", "webp"):
        Image.fromarray(photograph).save(f"p.{ending}", exif=exif, lossless=True)
        assert command("run", "invert.formula", f"p.{ending}", "-o", "o.png")[0] == 0
        with Image.open(f"p.{ending}") as opened, Image.open("o.png") as written:
            np.testing.assert_array_equal(np.asarray(written), 255 - np.asarray(ImageOps.exif_transpose(opened)))
            assert written.getexif().get(0x0112, 1) == 1


@pytest.mark.parametrize("name", ["deep.png", "deep.tif"])
def test_sixteen_bits_that_come_in_go_out(command: Command, name: str) -> None:
    Path("same.formula").write_text("gamma(gamma=1)\n")
    deep = np.arange(0, 65536, 331, dtype=np.uint16)[:192].reshape(12, 16)
    Image.fromarray(deep).save(name)
    assert command("run", "same.formula", name, "-o", f"out-{name}")[0] == 0
    np.testing.assert_array_equal(pixels(f"out-{name}"), deep)
    assert command("run", "same.formula", name, "-o", "out.bmp")[0] == 0
    np.testing.assert_array_equal(pixels("out.bmp"), np.rint(deep / 257))
    Path("deep").mkdir()
    Image.fromarray(deep).save(f"deep/{name}")
    assert command("run", "same.formula", "deep", "-o", "frames")[0] == 0
    np.testing.assert_array_equal(pixels("frames/deep.png"), deep)


@pytest.mark.parametrize("ending", ["webp", "gif", "ppm"])
def test_further_formats_come_in(command: Command, ending: str) -> None:
    Path("invert.formula").write_text("invert\n")
    Image.fromarray(np.zeros((8, 12, 3), np.uint8)).save(f"p.{ending}")
    assert command("run", "invert.formula", f"p.{ending}", "-o", "o.png")[0] == 0
    assert (pixels("o.png") == 255).all()


def test_opacity_needs_a_format_that_has_it(command: Command) -> None:
    Path("invert.formula").write_text("invert\n")
    Image.fromarray(np.zeros((8, 12, 4), np.uint8)).save("p.png")
    code, _, err = command("run", "invert.formula", "p.png", "-o", "o.jpg")
    assert code == 1
    assert "error[TIL904]: a result of four channels has opacity, which .jpg files have not; write .png" in err
    assert not Path("o.jpg").exists()


def test_videos(command: Command) -> None:
    code, out, _ = command("run", "e.formula", "video", "-o", "frames")
    assert (code, out) == (0, "2 frames written to frames\n")
    command("run", "e.formula", "a.png", "-o", "one.png")
    assert Path("frames/a.png").read_bytes() == Path("one.png").read_bytes()
    assert command("run", "e.formula", "stack.npy", "-o", "made.npy")[0] == 0
    assert np.load("made.npy").shape == (4, 9, 11)
    assert command("run", "e.formula", "stack.npy", "-o", "pictures")[0] == 0
    assert sorted(path.name for path in Path("pictures").iterdir()) == ["0.png", "1.png", "2.png", "3.png"]
    Path("two.formula").write_text("inputs a, b\nblend of a, b")
    assert command("run", "two.formula", "video", "b.png", "-o", "mixed.npy")[0] == 0
    np.testing.assert_allclose(np.load("mixed.npy")[1], pixels("b.png") / 255, atol=1e-6)


@pytest.mark.parametrize("shape", [(9, 11, 3), (2, 9, 11, 3)])
def test_arrays_that_numpy_has_no_name_for(command: Command, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(3).random(shape).astype(DType.BF16.numpy)
    np.save("half.npy", array)
    np.save("whole.npy", array.astype(np.float32))
    assert command("run", "e.formula", "bf16:half.npy", "-o", "out.npy")[0] == 0
    assert command("run", "e.formula", "bf16:out.npy", "-o", "twice.npy")[0] == 0
    assert command("run", "e.formula", "whole.npy", "-o", "expected.npy")[0] == 0
    found = declared(loaded(Path("out.npy")), DType.BF16)
    np.testing.assert_allclose(found.astype(np.float32), np.load("expected.npy"), atol=0.02)
    code, _, err = command("run", "e.formula", "half.npy", "-o", "none.npy")
    assert code == 1
    assert "half.npy has elements of 2 bytes and no type; write bf16:half.npy" in err
    code, _, err = command("run", "e.formula", "bf16:whole.npy", "-o", "none.npy")
    assert code == 1
    assert "whole.npy has elements of type f32, not bf16" in err
    assert not Path("none.npy").exists()


def test_what_is_wrong_leaves_no_file(command: Command) -> None:
    Path("empty").mkdir()
    Path("torn.npy").write_bytes(b"\x93NUMPY")
    Path("two.formula").write_text("inputs a, b\nblend of a, b")
    for arguments, code in (
        (("e.formula", "nowhere.png", "-o", "o.png"), "TIL901"),
        (("e.formula", "empty", "-o", "o.npy"), "TIL901"),
        (("e.formula", "torn.npy", "-o", "o.npy"), "TIL901"),
        (("e.formula", "a.png", "-o", "o.gif"), "TIL902"),
        (("e.formula", "a.png", "b.png", "-o", "o.png"), "TIL705"),
        (("e.formula", "video", "-o", "o.npy", "-o", "p.npy"), "TIL902"),
        (("two.formula", "video", "stack.npy", "-o", "o.npy"), "TIL902"),
        (("e.formula", "video", "-o", "a.png/o"), "TIL901"),
        (("e.formula", "3", "-o", "o.png"), "TIL90"),
    ):
        status, _, err = command("run", *arguments)
        assert status == 1
        assert code in err, arguments
    assert not list(Path().glob("*o.*p*y"))


def test_formulas_are_explained(command: Command) -> None:
    assert "2 steps" in command("explain", "e.formula", "a.png")[1]
    assert "kernels" in json.loads(command("explain", "e.formula", "a.png", "--json", "--measure")[1])


def test_edits_keep_all_other_characters(command: Command) -> None:
    assert command("edit", "e.formula", "steps[1].arguments.sigma", "2.5")[0] == 0
    assert Path("e.formula").read_text() == EDGES.replace("sigma=1", "sigma=2.5")
    command("edit", "e.formula", "steps[1]", "convolve", "--insert", "-o", "f.formula")
    assert Path("f.formula").read_text() == EDGES.replace("gaussian(sigma=1)", "convolve\ngaussian(sigma=2.5)")
    command("edit", "f.formula", "steps[1]", "--remove")
    assert Path("f.formula").read_text() == Path("e.formula").read_text()
    command("edit", "f.formula", "steps[1]", "--duplicate")
    command("edit", "f.formula", "steps[1]", "steps[0]", "--move")
    assert Path("f.formula").read_text().count("gaussian(sigma=2.5)\n") == 2
    before = Path("f.formula").read_text()
    for arguments in (
        ("steps[9]", "--remove"),
        ("steps[1].arguments.sigma", "1000"),
        ("steps[1]", "nothing_such", "--insert"),
        ("steps[1]",),
        ("steps[1]", "x", "--remove"),
        ("steps[1]", "x", "--insert", "--move"),
    ):
        assert command("edit", "f.formula", *arguments)[0] == 1
    assert Path("f.formula").read_text() == before


def test_edits_write_what_controls_write(command: Command) -> None:
    Path("g.formula").write_text("x = gaussian(sigma=1) // soft\nblend of x, image\n")
    assert command("edit", "g.formula", "steps[0].function", "median")[0] == 0
    assert Path("g.formula").read_text() == "x = median // soft\nblend of x, image\n"
    assert command("edit", "g.formula", "steps[0].name", "calm")[0] == 0
    assert Path("g.formula").read_text() == "calm = median // soft\nblend of calm, image\n"
    for arguments in (("steps[0]", "--remove"), ("steps[0]", "median", "--insert", "--redirect")):
        assert command("edit", "g.formula", *arguments)[0] == 1
    assert command("edit", "g.formula", "steps[0]", "--remove", "--redirect")[0] == 0
    assert Path("g.formula").read_text() == "blend of image, image\n"
