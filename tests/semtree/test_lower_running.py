from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strategies.passes import program_of
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.semtree.text.printer import to_text
from tileir.stripe.interpret.interpreter import interpret

RUNNING = """
block []:1 (
    in X[0] fp32:I(8):(1):32 B
    out O[0] fp32:I(8):(1):32 B
    none new@0x00000000 last<REGISTER>[] fp32:I():():4 B
) {{
  0: $first = (fp32){first}
  1: last = store($first)
  2: block [(#serial s:2), {lanes}]:8 (
      in X[{place}] fp32:I(1):(1):4 B
      inout last[]:{aggregation} fp32:I():():4 B
      in now = last[] fp32:I():():4 B
      out O[{place}] fp32:I(1):(1):4 B
  ) {{
    0: $x = load(X)
    1: last = store($x)
    2: $now = load(now)
    3: O = store($now)
  }}
}}
"""
SIZES: dict[str, tuple[int, ...]] = {"X": (8,), "O": (8,)}
VALUES: dict[str, Any] = {"X": np.array([3, -1, 4, 1, -5, 9, -2, 6], np.float32)}


def text(**parts: str) -> str:
    usual = {
        "first": "0.0",
        "place": "l + 4*s",
        "aggregation": "add",
        "lanes": "(#serial #vector l:4)",
    }
    return RUNNING.format(**{**usual, **parts})


@pytest.mark.parametrize(
    ("aggregation", "first", "wanted"),
    [
        ("add", "0.0", np.add),
        ("mul", "1.0", np.multiply),
        ("max", "-inf", np.maximum),
        ("min", "inf", np.minimum),
    ],
)
def test_lanes_run_one_after_the_other(aggregation: str, first: str, wanted: np.ufunc) -> None:
    program = program_of([text(aggregation=aggregation, first=first)], SIZES)
    expected = interpret(program, VALUES, seed=3)
    np.testing.assert_array_equal(expected["O"], wanted.accumulate(VALUES["X"]))
    np.testing.assert_array_equal(run_program(lower(program, Target()), VALUES)["O"], expected["O"])


def test_lanes_that_go_down_are_turned_around() -> None:
    program = program_of([text(place="7 - l - 4*s")], SIZES)
    expected = interpret(program, VALUES)["O"]
    np.testing.assert_array_equal(expected, np.add.accumulate(VALUES["X"][::-1])[::-1])
    kernels = lower(program, Target())
    np.testing.assert_array_equal(run_program(kernels, VALUES)["O"], expected)
    kernel = to_text(kernels.kernels[0])
    assert "ramp" not in kernel
    assert "shuffle<3, 2, 1, 0>" in kernel


def test_four_lanes_take_two_steps() -> None:
    (kernel,) = lower(program_of([text()], SIZES), Target()).kernels
    body = to_text(kernel)
    assert body.count("shuffle<") == 3  # two steps, and the last lane
    assert "shuffle<0, 4, 5, 6>(f32x4(-0.0), " in body  # nothing, and then the lanes before


@pytest.mark.parametrize("lanes", ["(#vector l:4)", "(#serial #vector l:4), (#serial z:1)"])
def test_lanes_must_be_the_last_index_in_order(lanes: str) -> None:
    program = program_of([text(lanes=lanes)], SIZES)
    with pytest.raises(TileError, match="its last index must be its lanes"):
        lower(program, Target())
