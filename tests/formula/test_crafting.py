"""Formulas that run: pictures of all shapes, edits without compiling, and what is said of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from tileir.core.errors import ArgumentError, TileError
from tileir.runtime.caches.disk_cache import DiskCache
from tileir_formula.definitions.function_file import read_functions

if TYPE_CHECKING:
    from tileir_formula.editing.given_values import GivenValue

PHOTO = np.random.default_rng(5).random((20, 31, 3), np.float32)
SOBEL = """\
// Edges
x = convolve(weights=[-1 0 1; -2 0 2; -1 0 1])
y = convolve(weights=[-1 -2 -1; 0 0 0; 1 2 1]) of image // down
magnitude of x, y
gaussian(sigma=1)
"""


@pytest.mark.sampled(0)
def test_pictures_with_and_without_channels() -> None:
    edges = tileir.craft(SOBEL)
    whole = edges(PHOTO)
    for channel in range(3):
        np.testing.assert_allclose(edges(PHOTO[..., channel]), whole[..., channel], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            edges(PHOTO[..., channel : channel + 1]), whole[..., [channel]], rtol=1e-5, atol=1e-6
        )
    out = np.empty((20, 31), np.float32)
    assert edges(PHOTO[..., 0], out=out) is out
    np.testing.assert_allclose(out, whole[..., 0], rtol=1e-5, atol=1e-6)
    strided = PHOTO[::2, ::-1]
    np.testing.assert_array_equal(edges(strided), edges(np.ascontiguousarray(strided)))


def test_pixels_of_all_dtypes() -> None:
    halve = tileir.craft("convolve(weights=[0.5])")
    for dtype in ("uint8", "uint16", "float16", "float64"):
        picture = np.asarray(PHOTO * (255 if dtype == "uint8" else 65535 if dtype == "uint16" else 1)).astype(dtype)
        assert halve(picture).dtype == picture.dtype
        np.testing.assert_allclose(halve(picture).astype(float), picture / 2.0, atol=0.51 if "int" in dtype else 1e-3)
    mixed = tileir.craft("inputs a, b\nblend of a, b")
    assert mixed((PHOTO * 255).astype(np.uint8), PHOTO).dtype == np.uint8


@pytest.mark.sampled(0)
def test_live_values_change_without_compiling() -> None:
    first = tileir.craft("gaussian(sigma=1) // soft")
    before = first(PHOTO)
    second = first.with_value("steps[0].arguments.sigma", "1.05")
    assert second.text == "gaussian(sigma=1.05) // soft"
    assert first.executable(PHOTO).inputs == ("image",)
    assert second.executable(PHOTO).inputs == ("image", "S1_sigma")
    assert second.with_value("steps[0].arguments.sigma", "1.1").executable(PHOTO) is second.executable(PHOTO)
    assert np.abs(second(PHOTO) - before).max() > 1e-4
    assert second.baked().executable(PHOTO).inputs == ("image",)
    np.testing.assert_allclose(second.baked()(PHOTO), second(PHOTO), rtol=1e-5)
    assert first.baked() is first
    third = tileir.craft("gaussian").with_value("steps[0].arguments.sigma", "3")
    assert third.text == "gaussian(sigma=3)"
    assert str(third.with_value("steps[0].arguments.sigma", "4")) == "gaussian(sigma=4)"


@pytest.mark.sampled(0)
def test_dragging_makes_nothing_anew() -> None:
    dragged = tileir.craft("gaussian(sigma=1)\nblend(amount=0.5) of $1, image where output within 5 of pixel")
    for path, values in (
        ("steps[0].arguments.sigma", ("1.01", "1.02", "1.03")),
        ("steps[1].arguments.amount", ("0.25", "0.75")),
        ("steps[1].condition.limit", ("0.1", "0.3")),
    ):
        dragged = dragged.with_value(path, values[0])
        before, made = dragged(PHOTO), dragged._function([PHOTO])
        for value in values[1:]:
            dragged = dragged.with_value(path, value)
            after = dragged(PHOTO)
            np.testing.assert_allclose(after, tileir.craft(dragged.text)(PHOTO), rtol=1e-4, atol=1e-6)
            assert np.abs(after - before).max() > 0
            assert dragged._function([PHOTO]).call is made.call
        assert path in dragged.live
    wider = dragged.with_value("steps[0].arguments.sigma", "3")  # has another radius
    np.testing.assert_allclose(wider(PHOTO), tileir.craft(wider.text)(PHOTO), rtol=1e-4, atol=1e-6)


def test_values_of_python_are_written() -> None:
    crafted = tileir.craft("convolve(weights=[1])\nnoise(coloured=no)\ngaussian", live="steps[2].arguments.sigma")
    values: tuple[tuple[str, GivenValue], ...] = (
        ("steps[0].arguments.weights", np.array([[0, 1], [0.5, -2]], np.float32)),
        ("steps[1].arguments.coloured", np.True_),
        ("steps[2].arguments.sigma", 2),
        ("steps[1].arguments.amount", 0.25),
    )
    for path, value in values:
        crafted = crafted.with_value(path, value)
    assert crafted.text == ("convolve(weights=[0 1; 0.5 -2])\nnoise(coloured=yes, amount=0.25)\ngaussian(sigma=2)")


def test_what_is_derived_from_live_values_is_passed() -> None:
    (function,) = read_functions(
        """
        /// shade: divides by a square.
        /// size = 2 from 1 to 9 step 0.5: the root
        /// Square = size * size
        function (Image[H, W, C], Size, Square) -> (R) { R = Image / Square + Size * 0.0; }
    """.replace("        ", "")
    )
    dragged = tileir.craft("shade", {"shade": function}).with_value("steps[0].arguments.size", "3")
    assert dragged.executable(PHOTO).inputs == ("image", "S1_size", "S1_Square")
    np.testing.assert_allclose(dragged.with_value("steps[0].arguments.size", "4")(PHOTO), PHOTO / 16, rtol=1e-6)


@pytest.mark.parametrize(
    ("pictures", "code", "message"),
    [
        ((), "TIL705", "reads 1 pictures, image; it was given 0"),
        ((PHOTO, PHOTO), "TIL705", "it was given 2"),
        ((PHOTO[None],), "TIL904", "image is no picture"),
        ((np.zeros((0, 3), np.float32),), "TIL904", "image is no picture"),
        ((PHOTO.astype(np.int16),), "TIL302", "i16 has no white"),
        ((PHOTO.astype(np.complex64),), "TIL70", "complex64"),
        (("photo.png",), "TIL702", ""),
    ],
)
def test_what_is_no_picture(pictures: tuple[object, ...], code: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        tileir.craft(SOBEL)(*pictures)
    assert caught.value.diagnostics[0].code.startswith(code)
    assert message in caught.value.diagnostics[0].message


def test_faults_of_formulas_are_told_at_once() -> None:
    with pytest.raises(TileError) as caught:
        tileir.craft("gausian\nblend")
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL206", "TIL222"]
    with pytest.raises(TileError, match="sigma is from"):
        tileir.craft("gaussian").with_value("steps[0].arguments.sigma", "1000")
    with pytest.raises(TileError, match="no parameter"):
        tileir.craft("gaussian").with_value("steps[0].arguments.sgma", "1")
    with pytest.raises(ArgumentError, match=r"TIL221.*no parameter 'steps.0..arguments.sgma'"):
        tileir.craft("gaussian", live="steps[0].arguments.sgma")
    with pytest.raises(ArgumentError, match=r"TIL707.*a tolerance is a share"):
        tileir.craft("gaussian", tolerance="little")  # type: ignore[arg-type]
    with pytest.raises(TileError, match="cannot read"):
        tileir.craft(Path("nowhere.formula"))


def test_files_name_themselves(tmp_path: Path) -> None:
    path = tmp_path / "broken.formula"
    path.write_text("gausian")
    with pytest.raises(TileError, match=r"broken\.formula:1:1"):
        tileir.craft(path)
    path.write_text("invert")
    assert tileir.craft(path)(np.zeros((1, 1), np.uint8)) == 255
    path.write_bytes(b"\xff")
    with pytest.raises(TileError, match="cannot read"):
        tileir.craft(path)


@pytest.mark.sampled(0)
def test_a_formula_is_explained() -> None:
    explanation = tileir.craft(SOBEL).explain(PHOTO, measure=True)
    assert [step.path for step in explanation.steps] == [f"steps[{number}]" for number in range(4)]
    assert all(step.kernels for step in explanation.steps)
    assert {path for kernel in explanation.kernels for path in kernel.steps} == {s.path for s in explanation.steps}
    assert all(kernel.measured is not None and kernel.seconds is not None for kernel in explanation.kernels)
    dispatch = explanation.dispatch
    assert dispatch.peak_bytes <= dispatch.temporary_bytes + 256 * len(dispatch.buffers)
    text = str(explanation)
    assert "y = convolve(weights=[-1 -2 -1; 0 0 0; 1 2 1]) of image\n" not in text  # comments are no part of a step
    assert "4 steps" in text
    decoded = json.loads(explanation.to_json())
    assert decoded["steps"][3]["text"] == "gaussian(sigma=1)"
    assert decoded["dispatch"]["buffers"][0]["dtype"] == "f32"


@pytest.mark.sampled(0)
def test_loops_are_explained() -> None:
    formula = tileir.craft("repeat 40 {\n gaussian(sigma=1)\n}\nblend of $1, image")
    explanation = formula.explain(PHOTO)
    looping = [kernel for kernel in explanation.kernels if kernel.runs > 1]
    assert looping
    assert all(kernel.steps == ("steps[0].steps[0]",) for kernel in looping)
    assert explanation.steps[1].kernels == (len(explanation.kernels) - 1,)
    assert "times" in str(explanation)
    with pytest.raises(TileError, match="measured as a whole"):
        formula.explain(PHOTO, measure=True)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("device", ["llvm", "opencl"])
@pytest.mark.parametrize(
    ("shape", "steps"),
    [
        ((64, 97, 3), ["equalise", "to_lab", "stretch", "from_lab", "equalise"]),
        ((64, 97), ["erode", "stretch", "gamma", "stretch", "dilate"]),
        ((32, 48, 4), ["erode", "stretch", "gamma", "stretch", "dilate"]),
    ],
)
def test_steps_in_place_leave_what_is_read_later(device: str, shape: tuple[int, ...], steps: list[str]) -> None:
    picture = np.random.default_rng(6).random(shape, np.float32)
    text = "\n".join(["first = stretch", *steps, f"maximum of ${len(steps) + 1}, first"])
    formula = tileir.craft(text, device=device)
    one_by_one = first = tileir.craft("stretch", device=device)(picture)
    for step in steps:
        one_by_one = tileir.craft(step, device=device)(one_by_one)
    np.testing.assert_allclose(formula(picture), np.maximum(one_by_one, first), rtol=1e-4, atol=1e-4)
    explanation = formula.explain(picture)
    places = [number for number, kernel in enumerate(explanation.kernels) if kernel.in_place]
    assert places
    assert all(f"kernel {number}: writes " in str(explanation) for number in places)
    assert "steps[0]" not in explanation.kernels[places[-1]].steps


@pytest.mark.sampled(0)
def test_windows_of_low_rank_within_a_tolerance() -> None:
    y, x = np.mgrid[-7:8, -7:8]
    disc = "; ".join(" ".join(map(str, row)) for row in (np.hypot(x, y) < 5).astype(int))
    exact = tileir.craft(f"convolve(weights=[{disc}])")
    near = tileir.craft(exact.text, tolerance=0.2)
    assert exact.explain(PHOTO).approximations == ()
    (step,) = near.explain(PHOTO).approximations
    assert (step.path, step.rank) == ("steps[0]", 2)
    assert 0.05 < step.error < 0.2
    assert "2 windows of rank one" in str(near.explain(PHOTO))
    assert np.abs(exact(PHOTO) - near(PHOTO)).max() <= step.error * exact(np.ones_like(PHOTO)).max()
    with pytest.raises(ArgumentError, match="a tolerance is a share"):
        tileir.craft("convolve", tolerance=1)


def test_windows_that_were_written_out_are_explained() -> None:
    explanation = tileir.craft("convolve(weights=[0 1 0; 1 -4 1; 0 1 0])").explain(PHOTO)
    (said,) = {window for kernel in explanation.kernels for window in kernel.windows}
    assert said == "written out: 5 of 9 terms, with constants as immediate values"
    assert f"kernel 0: {said}\n" in str(explanation)
    assert json.loads(explanation.to_json())["kernels"][0]["windows"] == [said]


def test_whether_it_is_compiled_is_known_without_compiling(tmp_path: Path) -> None:
    context = tileir.Context(disk_cache=DiskCache(tmp_path))
    photo = np.random.default_rng(7).random((80, 90, 3), np.float32)
    formula, region = tileir.craft("gaussian(sigma=1)", context=context), (2, 3, 8, 9)
    assert not formula.is_compiled(photo)
    formula(photo)
    assert formula.is_compiled(photo)
    assert not formula.is_compiled(photo, region=region)
    formula.region(region, photo)
    assert formula.is_compiled(photo, region=region)
    assert formula.executable(photo, region=region) is not formula.executable(photo)
    assert not tileir.craft("gaussian(sigma=1.1)", context=context).is_compiled(photo)
    context.programs.clear()
    assert formula.is_compiled(photo), "the cache on disk has it"
    assert not tileir.craft("gaussian(sigma=1)", context=tileir.Context(disk_cache=None)).is_compiled(photo)
    with pytest.raises(TileError) as caught:
        formula.executable(photo, region=(0, 0, photo.shape[0] + 1, 4))
    assert caught.value.diagnostics[0].code == "TIL314"


def test_other_options_compile_it_anew_and_compute_the_same() -> None:
    formula = tileir.craft("gaussian(sigma=1)\nsharpen", context=tileir.Context(disk_cache=None))
    expected = formula(PHOTO)
    quick = formula.with_options(tileir.Options(quick=True))
    assert not quick.is_compiled(PHOTO)
    np.testing.assert_allclose(quick(PHOTO), expected, rtol=1e-5, atol=1e-5)
    assert quick.executable(PHOTO).scheduled != formula.executable(PHOTO).scheduled
    assert formula.with_options(tileir.Options(quick=True)).is_compiled(PHOTO)
    crafted = tileir.craft("sharpen", options=tileir.Options(quick=True), context=tileir.Context(disk_cache=None))
    assert crafted.options == tileir.Options(quick=True)
    moved = crafted.with_value("steps[0].arguments.amount", 2)
    assert moved.options == crafted.options
