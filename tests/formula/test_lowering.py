"""Formulas as Tile functions: against NumPy, and with every fault told at its step."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tileir import evaluate
from tileir.core.errors import TileError
from tileir.driver.calls.arguments import tensor_types
from tileir.tile.ir import Scan
from tileir.typed.inference.inference import infer
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.lower.lowering import craft
from tileir_formula.text.parser import parse
from tileir_formula.verifier import faults_of

Picture = npt.NDArray[Any]

PHOTO = np.random.default_rng(3).random((12, 15, 3), np.float32)
PAPER = np.random.default_rng(4).random((12, 15, 3), np.float32)
ACROSS = "[-1 0 1; -2 0 2; -1 0 1]"
DOWN = "[-1 -2 -1; 0 0 0; 1 2 1]"
MODES = {"clamp": "edge", "mirror": "reflect", "wrap": "wrap", "constant": "constant"}


def run(text: str, *pictures: Picture, pixels: str = "f32") -> Any:
    crafted = craft(parse(text), own_functions(), pixels=pixels)
    return evaluate(crafted.function, [*(pictures or (PHOTO,)), *crafted.arguments.values()])


def convolved(picture: Picture, weights: list[list[float]], mode: str) -> Picture:
    rows, columns = np.shape(weights)
    padded = np.pad(picture, ((rows // 2,) * 2, (columns // 2,) * 2, (0, 0)), mode=mode)  # type: ignore[call-overload]
    height, width, _ = picture.shape
    taps = [(y, x) for y in range(rows) for x in range(columns)]
    total: Picture = sum(weights[y][x] * padded[y : y + height, x : x + width].astype(np.float64) for y, x in taps)
    return total


@pytest.mark.parametrize("boundary", MODES)
@pytest.mark.parametrize("weights", [[[1.0, 2.0, 3.0]], [[1.0], [-2.0]], [[0.5, 1, 2], [3, 4, 5], [6, 7, 8]]])
def test_windows_see_what_lies_outside(boundary: str, weights: list[list[float]]) -> None:
    text = "; ".join(" ".join(map(repr, row)) for row in weights)
    result = run(f"convolve(weights=[{text}]) outside {boundary}")
    np.testing.assert_allclose(result, convolved(PHOTO, weights, MODES[boundary]), rtol=1e-5, atol=1e-5)


def test_sobel_of_the_seed() -> None:
    text = f"""
        x = convolve(weights={ACROSS})
        y = convolve(weights={DOWN}) of image
        magnitude of x, y
    """
    across = convolved(PHOTO, [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], "reflect")
    down = convolved(PHOTO, [[-1, -2, -1], [0, 0, 0], [1, 2, 1]], "reflect")
    np.testing.assert_allclose(run(text), np.hypot(across, down), rtol=1e-5, atol=1e-5)
    for spelt in ("magnitude of $1, $2", "convolve(weights=[0 0 0; 0 1 0; 0 0 0]) of $2 with magnitude $1"):
        result = run(text.replace("magnitude of x, y", spelt))
        np.testing.assert_allclose(result, np.hypot(across, down), rtol=1e-5, atol=1e-5)


def test_several_inputs_and_results() -> None:
    first, second = run("inputs a, b\nm = blend(amount=0.25) of a, b\nconvolve\nresults $2, a", PHOTO, PAPER)
    np.testing.assert_allclose(first, PHOTO + (PAPER - PHOTO) * np.float32(0.25), rtol=1e-6)
    np.testing.assert_array_equal(second, PHOTO)


def test_conditions_choose_pixels() -> None:
    made = convolved(PHOTO, [[2.0]], "edge").astype(np.float32)
    step = "convolve(weights=[2])"
    orange = np.array([255, 128, 0], np.float32) / np.float32(255)
    near = (np.abs(PHOTO - orange) <= 0.6).all(2, keepdims=True)
    cases = {
        "input within 0.6 of #ff8000": near,
        "not input within 0.6 of #ff8000": ~near,
        "output within 0.8 of pixel": (np.abs(made - PHOTO) <= np.float32(0.8)).all(2, keepdims=True),
        "output within 101% of pixel": np.ones((1, 1, 1), bool),
        "original within 0 of pixel": np.ones((1, 1, 1), bool),
        "region(2, 3, 4, 50)": np.pad(np.ones((4, 12, 1), bool), ((2, 6), (3, 0), (0, 0))),
        "not region(0, 0, 100, 100)": np.zeros((1, 1, 1), bool),
    }
    for condition, holds in cases.items():
        np.testing.assert_array_equal(run(f"{step} where {condition}"), np.where(holds, made, PHOTO), condition)
    mask = (np.arange(12 * 15).reshape(12, 15, 1) % 3).astype(np.float32)
    result = run(f"inputs image, spots\n{step} where mask spots", PHOTO, mask)
    np.testing.assert_array_equal(result, np.where(mask != 0, made, PHOTO))


@pytest.mark.parametrize("rounds", [0, 1, 3, 40])
def test_groups_are_written_out_or_loop(rounds: int) -> None:
    text = f"inputs a, b\nhalf = blend of a, b\nrepeat {rounds} {{\n blend(amount=0.5) of previous, half\n}}"
    half = PHOTO + (PAPER - PHOTO) * np.float32(0.5)
    expected = half
    for _ in range(rounds):
        expected = expected + (half - expected) * np.float32(0.5)
    np.testing.assert_allclose(run(text, PHOTO, PAPER), expected, rtol=1e-5)
    statements = craft(parse(text), own_functions()).function.statements
    assert any(isinstance(statement, Scan) for statement in statements) == (rounds == 40)


def test_groups_settle() -> None:
    text = "inputs a, b\nrepeat 50 until change below 0.01 {\n blend(amount=0.5) of previous, b\n}"
    expected = PHOTO
    while True:
        after = expected + (PAPER - expected) * np.float32(0.5)
        change = np.abs(after - expected).max()
        expected = after
        if change < 0.01:
            break
    np.testing.assert_allclose(run(text, PHOTO, PAPER), expected, rtol=1e-5)


def test_groups_loop_over_pictures_of_computed_sizes() -> None:
    halves = PHOTO[:, :14].reshape(6, 2, 7, 2, 3).mean(axis=(1, 3))
    for group in ("repeat 40 {\n blend of previous, $1\n}", "repeat 9 until change below 0.1 {\n convolve\n}"):
        result = run(f"pool(size=2, kind=mean)\n{group}", PHOTO[:, :14])
        np.testing.assert_allclose(result, halves, rtol=1e-5)


def test_groups_within_groups() -> None:
    text = "repeat 2 {\n x = convolve(weights=[2])\n repeat 20 {\n  blend of previous, x\n  convolve\n }\n}"
    np.testing.assert_allclose(run(text), PHOTO * 4, rtol=1e-4)


def test_pixels_of_integers() -> None:
    for dtype, white in (("u8", 255), ("u16", 65535)):
        pixels = np.round(PHOTO * white).astype(f"uint{dtype[1:]}")
        halved = run("convolve(weights=[0.5])", pixels, pixels=dtype)
        assert halved.dtype == pixels.dtype
        assert np.abs(halved - pixels / 2).max() <= 0.51
        bright = run("convolve(weights=[-3])", pixels, pixels=dtype)
        assert (bright == 0).all()
        assert (run("convolve(weights=[3])", pixels, pixels=dtype)[pixels > white / 2] == white).all()
    assert run("convolve(weights=[0.5])", PHOTO.astype(np.float64), pixels="f64").dtype == np.float64
    with pytest.raises(TileError, match="has no white"):
        craft(parse("convolve"), own_functions(), pixels="i8")


def test_names_never_clash() -> None:
    text = "inputs Result, H_Result, S1_amount\nRows = blend of Result, H_Result\nblend of $1, S1_amount"
    np.testing.assert_allclose(run(text, PHOTO, PHOTO, PHOTO), PHOTO, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "code", "message", "place"),
    [
        ("gausian", "TIL206", "did you mean gaussian", "gausian"),
        ("gaussian(sgma=1)", "TIL206", "did you mean sigma", "sgma=1"),
        ("gaussian(sigma=1, sigma=1)", "TIL202", "given twice", "sigma=1"),
        ("gaussian(sigma=99)", "TIL224", "sigma is from", "99"),
        ("blend", "TIL222", "blend reads 2", "blend"),
        ("gaussian of image, image", "TIL222", "gaussian reads 1", "gaussian of image, image"),
        ("gaussian of imag", "TIL223", "did you mean image", "imag"),
        ("gaussian of $1", "TIL223", "$1 is nothing yet", "$1"),
        ("gaussian of previous", "TIL223", "this is in none", "previous"),
        ("gaussian with gaussian image", "TIL222", "cannot merge two", "with gaussian image"),
        ("gaussian with blend paper", "TIL223", "named 'paper'", "paper"),
        ("blend of image, image outside clamp", "TIL225", "drop `outside`", "blend of image, image outside clamp"),
        ("image = gaussian", "TIL202", "'image' is defined before", "image = gaussian"),
        ("gaussian where mask spots", "TIL223", "named 'spots'", "spots"),
        ("gaussian where input within -1 of pixel", "TIL104", "negative distance", "-1"),
        ("gaussian where region(0, 0.5, 3, 4)", "TIL104", "whole pixels", "0.5"),
        ("repeat 2.5 {\n gaussian\n}", "TIL104", "rounds are", "2.5"),
        ("repeat 2 {\n}", "TIL213", "a group has a step", "repeat 2 {\n}"),
        ("repeat 2 until change below -1 {\n gaussian\n}", "TIL104", "negative number", "-1"),
        ("repeat 2 {\n x = gaussian\n}\ngaussian of x", "TIL223", "named 'x'", "x"),
        ("gaussian\nresults y", "TIL223", "named 'y'", "y"),
        ("", "TIL213", "a formula has a step", ""),
    ],
)
def test_faults_have_a_place(text: str, code: str, message: str, place: str) -> None:
    with pytest.raises(TileError) as caught:
        craft(parse(text), own_functions())
    fault = caught.value.diagnostics[0]
    assert (fault.code, fault.underlined) == (code, place)
    assert message in fault.message


def test_all_faults_at_once() -> None:
    text = "a = gausian\nb = blend of c, $7\na = gaussian(sigma=-1)"
    assert [fault.code for fault in faults_of(parse(text), own_functions())] == [
        "TIL206", "TIL223", "TIL223", "TIL224", "TIL202"
    ]  # fmt: skip


def test_values_have_paths() -> None:
    crafted = craft(parse("repeat 2 {\n gaussian(sigma=1) where output within 5% of pixel\n}"), own_functions())
    assert crafted.arguments == {"S1_1_sigma": 1.0, "S1_1_Radius": 4, "S1_1_condition_limit": 5.0}
    assert crafted.paths["S1_1_sigma"] == "steps[0].steps[0].arguments.sigma"
    assert set(crafted.labels.values()) == {"steps[0].steps[0]"}


def sizes(text: str) -> tuple[int, ...]:
    """Return the sizes of a result."""
    crafted = craft(parse(text), own_functions(), pixels="f32")
    graph = infer(crafted.function, tensor_types(crafted.function, [PHOTO, *crafted.arguments.values()]))
    return next(operation.shape for operation in graph.operations if operation.name == graph.outputs[0])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", own_functions())
def test_what_each_function_makes_can_be_read_with_a_border(name: str) -> None:
    """The border asks for the sizes of what it is put around, which a body may have written in any way."""
    step = f"{name} of image, image" if len(own_functions()[name].pictures) == 2 else name
    assert sizes(f"{step}\nbox") == sizes(step)
