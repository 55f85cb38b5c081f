"""Words of bodies of functions: against NumPy and SciPy, and what they make of the functions that say them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import ndimage

from tileir import evaluate
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.definitions.function_file import read_functions
from tileir_formula.lower.lowering import craft
from tileir_formula.text.parser import parse

PHOTO = np.random.default_rng(5).random((7, 9, 3), np.float32)
MODES = {"clamp": "nearest", "mirror": "mirror", "wrap": "grid-wrap", "constant": "grid-constant"}
FILE = """\
/// shifted: picks rows, then columns.
/// down = 0 from -1000 to 1000 step 1: rows
/// right = 0 from -1000 to 1000 step 1: columns
function (Image[H, W, C], Down, Right) -> (Result) {
    One = 1;
    Rows[y : H] = =(One[]);
    Columns[x : W] = =(One[]);
    Below = index(Rows, 0) + Down;
    Beside = index(Columns, 0) + Right;
    Lines = pick(Image, Below, 0);
    Result = pick(Lines, Beside, 1);
}

/// moved: samples.
/// down = 0 from -1e12 to 1e12 step 0.01: rows
/// right = 0 from -1e12 to 1e12 step 0.01: columns
function (Image[H, W, C], Down, Right) -> (Result) {
    One = 1;
    Place[y, x : H, W] = =(One[]);
    Rows = index(Place, 0) + Down;
    Columns = index(Place, 1) + Right;
    Result = sample(Image, Rows, Columns);
}

/// ranks: ranks.
/// rows = 3 from 1 to 9 step 2: rows
/// columns = 3 from 1 to 9 step 2: columns
/// percent = 50 from 0 to 100 step 1: rank
function (Image[H, W, C], Rows, Columns, Percent) -> (Result) {
    Result = ranked(Image, Rows, Columns, Percent);
}

/// middle: calls the function above.
/// rows = 3 from 1 to 9 step 2: rows
function (Image[H, W, C], Rows) -> (Result) {
    Two = Image * 2.0;
    Twice = ranks(Two, Rows, 1, 50);
    Result = Twice * 0.5;
}

/// swapped: exchanges red and blue.
function (Image[H, W, C]) -> (Result) {
    R = channel(Image, 0);
    G = channel(Image, 1);
    B = channel(Image, 2);
    Result = coloured(Image, B, G, R, 2);
}

/// half: is of elements.
/// which = one among one, other: which
function (Image[H, W, C], Which) -> (Result) {
    Result = max(Image, 0.25) * (Which == 0 ? 0.5 : 0.25);
}

/// quarter: calls a function of elements.
function (Image[H, W, C]) -> (Result) {
    Half = half(Image, 0);
    Result = half(Half, 0);
}

/// turned: looks elsewhere.
function (Image[H, W, C]) -> (Result) {
    Result = reshape(reshape(Image, H * W * C), H, W, C);
}
"""
FUNCTIONS = {**own_functions(), **{function.name: function for function in read_functions(FILE)}}


def run(text: str, picture: npt.NDArray[np.float32] = PHOTO) -> Any:
    crafted = craft(parse(text), FUNCTIONS)
    return evaluate(crafted.function, [picture, *crafted.arguments.values()])


@pytest.mark.parametrize("boundary", MODES)
def test_pick_takes_rows_and_columns(boundary: str) -> None:
    for down, right in ((0, 0), (2, -3), (-8, 30), (1000, -1000)):
        expected = ndimage.shift(PHOTO, (-down, -right, 0), order=0, mode=MODES[boundary])
        result = run(f"shifted(down={down}, right={right}) outside {boundary}")
        np.testing.assert_array_equal(result, expected, str((down, right)))


@pytest.mark.parametrize("boundary", MODES)
def test_sample_looks_between_pixels(boundary: str) -> None:
    rows, columns = np.indices(PHOTO.shape[:2], np.float64)
    for down, right in ((0.25, 0.75), (-2.5, 3.125), (40.5, -33.25), (0, 0)):
        places = [rows + down, columns + right]
        expected = [
            ndimage.map_coordinates(PHOTO[..., c], places, order=1, mode=MODES[boundary], output=np.float64)
            for c in range(3)
        ]
        result = run(f"moved(down={down}, right={right}) outside {boundary}")
        np.testing.assert_allclose(result, np.stack(expected, 2), atol=2e-6)


@pytest.mark.parametrize("boundary", MODES)
def test_sample_far_away_and_of_one_pixel(boundary: str) -> None:
    far = run(f"moved(down=1e12, right=-1e12) outside {boundary}")
    assert np.isfinite(far).all()
    if boundary == "clamp":
        np.testing.assert_array_equal(far, np.broadcast_to(PHOTO[-1, 0], PHOTO.shape))
    one = run(f"moved(down=0.5, right=7.5) outside {boundary}", PHOTO[:1, :1])
    np.testing.assert_allclose(one, np.zeros((1, 1, 3)) if boundary == "constant" else PHOTO[:1, :1], rtol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 3), (1, 5), (7, 1), (5, 3), (5, 5)])
def test_ranked_sorts_windows(rows: int, columns: int) -> None:
    for percent in (0, 10, 25, 50, 77, 100):
        rank = (percent * (rows * columns - 1) + 50) // 100
        expected = ndimage.rank_filter(PHOTO, rank, size=(rows, columns, 1), mode="mirror")
        result = run(f"ranks(rows={rows}, columns={columns}, percent={percent})")
        np.testing.assert_array_equal(result, expected, str(percent))


def test_functions_call_those_above_them() -> None:
    expected = ndimage.median_filter(PHOTO, size=(5, 1, 1), mode="nearest")
    np.testing.assert_array_equal(run("middle(rows=5) outside clamp"), expected)
    assert FUNCTIONS["middle"].fixed == {"rows"}
    assert FUNCTIONS["middle"].has_window


def test_values_that_choose_statements_are_no_inputs() -> None:
    crafted = craft(parse("repeat 50 {\n ranks(rows=1)\n half(which=other)\n}"), FUNCTIONS)
    assert (list(crafted.arguments), len(crafted.function.inputs)) == ([], 1)
    expected = PHOTO
    for _ in range(50):
        expected = np.maximum(ndimage.median_filter(expected, size=(1, 3, 1), mode="mirror"), 0.25) * np.float32(0.25)
    np.testing.assert_array_equal(evaluate(crafted.function, [PHOTO]), expected)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_channels_of_pictures_that_have_fewer_or_more(channels: int) -> None:
    picture = np.concatenate([PHOTO, PHOTO[..., :1]], 2)[..., :channels]
    planes = [picture[..., min(number, channels - 1)] for number in (2, 1, 0)]
    expected = np.stack([*planes, picture[..., -1]], 2)[..., : max(channels, 2)]
    np.testing.assert_array_equal(run("swapped", picture), expected)


def test_functions_of_elements_may_overwrite() -> None:
    pointwise = {name for name in ("half", "quarter", "turned", "ranks", "swapped") if FUNCTIONS[name].is_pointwise}
    assert pointwise == {"half", "quarter"}
