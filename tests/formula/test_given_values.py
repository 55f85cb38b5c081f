"""Values that Python programs give to parameters of formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tileir.core.errors import ArgumentError
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.editing.given_values import given_text
from tileir_formula.lower.applying import apply
from tileir_formula.text.parser import parse_value
from tileir_formula.text.printer import value_text

if TYPE_CHECKING:
    from tileir_formula.editing.given_values import GivenValue


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("#ff0000", "#ff0000"),
        (True, "yes"),
        (np.False_, "no"),
        (3, "3"),
        (np.uint8(3), "3"),
        (-0.1, "-0.1"),
        (1e-9, "1e-09"),
        (2.0, "2.0"),
        (np.float64(0.1), "0.1"),
        ([[1, 2], [3, 4]], "[1 2; 3 4]"),
        (((0.5,),), "[0.5]"),
        (np.eye(2, dtype=np.uint8), "[1 0; 0 1]"),
    ],
)
def test_values_read_back(value: GivenValue, text: str) -> None:
    assert given_text("steps[0]", value) == text
    assert value_text(parse_value(text)) == text


@pytest.mark.parametrize(
    "value",
    [None, np.inf, float("nan"), 1j, [1, 2], [[1], [2, 3]], [[]], [["a"]], [[np.nan]], np.zeros((1, 1, 1)), object()],
    ids=lambda value: type(value).__name__,
)
def test_what_no_formula_can_say(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"TIL707.*steps\[0\].arguments.x was .*; pass text, a bool"):
        given_text("steps[0].arguments.x", value)


def test_several_controls_get_one_number() -> None:
    paths = ["steps[0].arguments.sigma", "steps[1].arguments.sigma"]
    assert apply("gaussian\ngaussian(sigma=1)", paths, 2.5, own_functions()).edited.text == (
        "gaussian(sigma=2.5)\ngaussian(sigma=2.5)"
    )
