"""Windows along rows in two steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.two_step_window import TwoStepWindow
from tileir.passes.base import run
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

ALWAYS = TwoStepWindow(row=1)


def program(text: str, shape: tuple[int, ...], dtype: DType = DType.I32) -> Program:
    return lower(infer(parse(text), {"X": TensorType(dtype, shape)}))


def along_rows(aggregation: str, width: int, rows: int, columns: int, dtype: DType = DType.I32) -> Program:
    text = f"function (X[H, W]) -> (O) {{ O[y, x : H, {columns}] = {aggregation}(X[y, x + j]), j < {width}; }}"
    return program(text, (rows, columns + width - 1), dtype)


def widths(before: Program) -> list[int]:
    """Return the widths of the windows of each kernel after the pass."""
    return [k.ranges["j"] for k in run((ALWAYS,), before).main.blocks]


@pytest.mark.parametrize(
    ("aggregation", "width", "steps"),
    [("+", 25, [5, 5]), ("*", 15, [3, 5]), ("+", 13, [13]), ("+", 12, [12]), (">", 31, [6, 6]), ("<", 13, [4, 4])],
)
def test_both_steps_are_narrow(aggregation: str, width: int, steps: list[int]) -> None:
    assert widths(along_rows(aggregation, width, 3, 9)) == steps


@examples(80)
@given(
    aggregation=st.sampled_from("+*><"),
    width=st.integers(13, 63),
    rows=st.integers(1, 4),
    columns=st.integers(1, 9),
    channels=st.integers(0, 3),
)
def test_windows_keep_their_meaning(aggregation: str, width: int, rows: int, columns: int, channels: int) -> None:
    more, shape = (", c", (channels,)) if channels else ("", ())
    sizes = f"H, {columns}{', C' if channels else ''}"
    text = f"""function (X[H, W{", C" if channels else ""}]) -> (O) {{
        O[y, x{more} : {sizes}] = {aggregation}(X[y, x + j{more}]), j < {width};
    }}"""
    before = program(text, (rows, columns + width - 1, *shape))
    after = run((ALWAYS,), before)
    verify(after)
    assert_same_meaning(before, after)


@pytest.mark.parametrize(
    "text",
    [
        "function (X[H, W]) -> (O) { O[y, x : 4, W] = +(X[y + j, x]), j < 25; }",  # along columns
        "function (X[H, W]) -> (O) { O[x : 9] = +(X[0, x + j]), j < 25; }",  # in no rows
        "function (X[H, W]) -> (O) { O[y, x : H, 9] = +(X[y, x + j] * X[y, x + j]), j < 25; }",
        "function (X[H, W]) -> (O) { O[y, x : H, 5] = +(X[y, x + 2 * j]), j < 15; }",
        "function (X[H, W]) -> (O) { O[y, x : H, 9] = +(X[y, x - j + 24]), j < 25; }",
        "function (X[H, W]) -> (O) { O[y, x : H, 9] = +(X[y, x + j]), j < 25, x + j < 20; }",
    ],
)
def test_other_windows_stay(text: str) -> None:
    before = program(text, (28, 33))
    assert run((ALWAYS,), before) is before


def test_options_say_which_windows_stay() -> None:
    before = along_rows("+", 25, 3, 9)
    for step in (TwoStepWindow(row=10), TwoStepWindow(row=1, least=26), TwoStepWindow(row=1, most=24)):
        assert run((step,), before) is before


@pytest.mark.parametrize("aggregation", ["+", ">", "<"])
def test_what_is_not_finite_stays_in_its_windows(aggregation: str) -> None:
    before = along_rows(aggregation, 15, 4, 60, DType.F32)
    x = np.random.default_rng(0).random((4, 74)).astype(np.float32)
    x[0, 30], x[1, 40], x[2, 0], x[2, 73] = np.inf, np.nan, -np.inf, np.nan
    expected = interpret(before, {"X": x})["O"]
    result = interpret(run((ALWAYS,), before), {"X": x})["O"]
    np.testing.assert_array_equal(np.isfinite(result), np.isfinite(expected))
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_small_values_beside_great_ones_keep_their_digits() -> None:
    # A running sum, which subtracts what leaves the window, would lose them.
    before = along_rows("+", 25, 1, 60, DType.F32)
    x = np.full((1, 84), 1e-3, np.float32)
    x[0, :20] = 1e8
    exact = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), 25, axis=1).sum(-1)
    result = interpret(run((ALWAYS,), before), {"X": x})["O"]
    np.testing.assert_allclose(result, exact, rtol=2e-6)
