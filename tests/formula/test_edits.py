"""Edits of formulas change the characters of one element, and nothing else."""

from __future__ import annotations

from random import Random

import pytest

from strategies.formulas import SOBEL
from tileir.core.errors import ArgumentError, ParseError
from tileir.formula.edits import (
    duplicated,
    elements,
    inserted,
    moved,
    removed,
    replaced,
    with_argument,
    without_argument,
)
from tileir.formula.ir import Number, Repeat, Step
from tileir.formula.parser import parse


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


def test_steps_are_inserted() -> None:
    edited = inserted(SOBEL, "steps[4].steps[1]", "// sharper\nsharpen(amount=2)")
    assert lines_of(edited.text)[9:12] == ["  // sharper", "  sharpen(amount=2)", lines_of(SOBEL)[9]]
    assert lines_of(inserted(SOBEL, "steps[4].steps[2]", "invert").text)[10] == "  invert"
    assert lines_of(inserted(SOBEL, "steps[6]", "invert").text)[12] == "invert"
    assert inserted("", "steps[0]", "blur").text == "blur\n"
    assert inserted("blur", "steps[1]", "invert").text == "blur\ninvert\n"
    assert inserted("repeat 2 {\n}\n", "steps[0].steps[0]", "blur").text == "repeat 2 {\n  blur\n}\n"
    with pytest.raises(ArgumentError, match="no element"):
        inserted(SOBEL, "steps[7]", "blur")


def test_steps_are_removed_with_their_comments() -> None:
    edited = removed(SOBEL, "steps[4].steps[0]")
    assert lines_of(edited.text) == lines_of(SOBEL)[:7] + lines_of(SOBEL)[9:]
    assert removed("a = blur\nb = blur", "steps[1]").text == "a = blur\n"


def test_a_copy_has_no_name() -> None:
    edited = duplicated(SOBEL, "steps[1]")
    lines = lines_of(SOBEL)
    assert lines_of(edited.text) == [*lines[:4], lines[3].removeprefix("across = "), *lines[4:]]
    assert duplicated("blur", "steps[0]").text == "blur\nblur\n"


def test_steps_are_moved() -> None:
    lines = lines_of(SOBEL)
    down = moved(SOBEL, "steps[0]", "steps[3]")
    assert lines_of(down.text) == [*lines[:2], *lines[3:5], lines[2], *lines[5:]]
    up = moved(SOBEL, "steps[4].steps[0]", "steps[1]")
    assert lines_of(up.text) == [*lines[:3], *lines[7:9], *lines[3:7], *lines[9:]]
    assert moved("a = blur\nb = blur", "steps[1]", "steps[0]").text == "b = blur\na = blur\n"
    with pytest.raises(ArgumentError, match="lies inside"):
        moved(SOBEL, "steps[4]", "steps[4].steps[1]")


def test_edits_one_after_the_other_keep_all_other_lines() -> None:
    chosen = Random(3)
    text = SOBEL
    for number in range(300):
        known = dict(elements(parse(text)))
        steps = [path for path, element in known.items() if isinstance(element, Step | Repeat)]
        numbers = [path for path, element in known.items() if isinstance(element, Number)]
        before = lines_of(text)
        path = chosen.choice(steps)
        match chosen.choice(["replace", "insert", "duplicate", "remove", "move"]):
            case "replace":
                edited = replaced(text, chosen.choice(numbers), str(number))
                assert len(lines_of(edited.text)) == len(before)
                assert len(changed_lines(text, edited.text)) <= 1
            case "insert":
                edited = inserted(text, path, f"blur(radius={number})")
                assert [line for line in lines_of(edited.text) if f"radius={number})" not in line] == before
            case "duplicate":
                edited = duplicated(text, path)
                assert set(before) <= set(lines_of(edited.text))
            case "remove" if len(steps) > 8:
                edited = removed(text, path)
                assert changed_lines(text, edited.text) == []
            case _:
                target = chosen.choice(steps)
                if target.startswith(path):
                    continue
                edited = moved(text, path, target)
                assert sorted(lines_of(edited.text)) == sorted(before)
        assert edited.formula == parse(edited.text)
        text = edited.text
