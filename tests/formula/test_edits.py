"""Edits of formulas change the characters of one element, and nothing else."""

from __future__ import annotations

import pytest

from strategies.formulas import SOBEL
from tileir.core.errors import ArgumentError, ParseError
from tileir_formula.editing.edits import elements, replaced, with_argument, without_argument
from tileir_formula.ir import Number
from tileir_formula.text.parser import parse


def lines_of(text: str) -> list[str]:
    return text.splitlines()


def changed_lines(before: str, after: str) -> list[str]:
    return [line for line in lines_of(after) if line not in lines_of(before)]


def test_every_element_has_a_path_and_its_characters() -> None:
    known = dict(elements(parse(SOBEL)))
    spans = {path: element.span.text for path, element in known.items() if element.span is not None}
    assert len(spans) == len(known)
    assert spans["steps[1].arguments.weights"] == "[-1 0 1; -2 0 2; -1 0 1]"
    assert spans["steps[4].limit"] == "0.01"
    assert spans["steps[4].steps[0].merge.arguments.amount"] == "0.5"
    assert spans["steps[4].steps[1].condition.reference"] == "#ff8000"
    assert spans["results[1]"] == "$6"


def test_a_value_is_replaced() -> None:
    edited = replaced(SOBEL, "steps[4].steps[0].arguments.radius", "12.5")
    assert changed_lines(SOBEL, edited.text) == [lines_of(SOBEL)[8].replace("radius=2", "radius=12.5")]
    assert edited.text[edited.start : edited.stop] == "12.5"
    assert dict(elements(edited.formula))["steps[4].steps[0].arguments.radius"] == Number(12.5)


def test_what_would_be_no_formula_is_refused() -> None:
    with pytest.raises(ParseError):
        replaced(SOBEL, "steps[5].arguments.level", "(")


@pytest.mark.parametrize("path", ["steps[9]", "steps[0].arguments.radius", "steps[4].steps[2]", "", "results[2]"])
def test_paths_that_lead_nowhere(path: str) -> None:
    with pytest.raises(ArgumentError, match="no element"):
        replaced(SOBEL, path, "1")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("blur", "blur(radius=3)"),
        ("blur()", "blur(radius=3)"),
        ("blur = blur of blur // blur", "blur = blur(radius=3) of blur // blur"),
        ("blur(sigma=1)", "blur(sigma=1, radius=3)"),
        ("blur( radius = 1 )", "blur( radius = 3 )"),
    ],
)
def test_a_parameter_is_given(step: str, expected: str) -> None:
    assert with_argument(step, "steps[0]", "radius", "3").text == expected


def test_a_parameter_of_a_merge_is_given() -> None:
    edited = with_argument("blend of blend with blend blend", "steps[0].merge", "amount", "1")
    assert edited.text == "blend of blend with blend(amount=1) blend"
    with pytest.raises(ArgumentError, match="takes no parameters"):
        with_argument("repeat 2 {\n}", "steps[0]", "amount", "1")


def test_a_parameter_goes_back_to_its_default() -> None:
    text = "blur(a=1, b=2, c=3) of x"
    assert without_argument(text, "steps[0]", "a").text == "blur(b=2, c=3) of x"
    assert without_argument(text, "steps[0]", "b").text == "blur(a=1, c=3) of x"
    assert without_argument(text, "steps[0]", "c").text == "blur(a=1, b=2) of x"
    assert without_argument("blur(a=1) of x", "steps[0]", "a").text == "blur of x"
    with pytest.raises(ArgumentError, match="no element"):
        without_argument(text, "steps[0]", "d")
