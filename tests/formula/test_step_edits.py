"""Steps are inserted, removed, copied and moved; what others read stays what they read."""

from __future__ import annotations

import pytest

from strategies.formulas import SOBEL
from tileir.core.errors import ArgumentError
from tileir_formula.editing.step_edits import duplicated, inserted, moved, removed


def lines_of(text: str) -> list[str]:
    return text.splitlines()


def numbered(lines: list[str]) -> list[str]:
    """Return the lines of the formula above after a step was put before its numbers."""
    return [line.replace("$6", "$7").replace("$4", "$5") for line in lines]


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
    assert lines_of(edited.text) == numbered([*lines[:4], lines[3].removeprefix("across = "), *lines[4:]])
    assert duplicated("blur", "steps[0]").text == "blur\nblur\n"


def test_steps_are_moved() -> None:
    lines = lines_of(SOBEL)
    up = moved(SOBEL, "steps[2]", "steps[1]")
    assert lines_of(up.text) == [*lines[:3], lines[4], lines[3], *lines[5:]]
    assert moved(SOBEL, "steps[1]", "steps[3]").text == up.text
    out = moved(SOBEL, "steps[4].steps[0]", "steps[1]")
    assert lines_of(out.text) == numbered([*lines[:3], *lines[7:9], *lines[3:7], *lines[9:]])
    assert moved("a = blur\nb = blur", "steps[1]", "steps[0]").text == "b = blur\na = blur\n"
    assert moved("a = blur\nb = blur", "steps[0]", "steps[2]").text == "b = blur\na = blur\n"
    assert moved("repeat 2 {\n  blur\n}\n", "steps[0].steps[0]", "steps[1]").text == "repeat 2 {\n}\n  blur\n"
    for same in ("steps[1]", "steps[2]"):
        assert moved(SOBEL, "steps[1]", same).text == SOBEL
    with pytest.raises(ArgumentError, match="lies inside"):
        moved(SOBEL, "steps[4]", "steps[4].steps[1]")
    with pytest.raises(ArgumentError, match="no element"):
        moved(SOBEL, "steps[0]", "steps[1].steps[0]")


def test_numbers_follow_their_steps() -> None:
    text = (
        "blur\nblur of $1\nrepeat 2 {\n  blend of $2, $1\n}\n"
        "blend of $1, $3 where mask $2 with blend $1\nresults $4, $2\n"
    )
    after = inserted(text, "steps[1]", "sharpen of $1")
    assert after.text == (
        "blur\nsharpen of $1\nblur of $1\nrepeat 2 {\n  blend of $3, $1\n}\n"
        "blend of $1, $4 where mask $3 with blend $1\nresults $5, $3\n"
    )
    assert after.moved == {
        "steps[1]": "steps[2]",
        "steps[2]": "steps[3]",
        "steps[2].steps[0]": "steps[3].steps[0]",
        "steps[3]": "steps[4]",
    }
    assert removed(after.text, "steps[1]").text == text
    assert moved("a = blur\nblur of image\nblend of $1, $2\n", "steps[1]", "steps[0]").text == (
        "blur of image\na = blur\nblend of $2, $1\n"
    )
    inside = moved("x = blur\nblur of image\nblend of x, $2", "steps[0]", "steps[2]").text
    assert inside == "blur of image\nx = blur\nblend of x, $1"


@pytest.mark.parametrize(
    ("text", "path", "target", "place"),
    [
        ("x = blur\nblur of x", "steps[0]", "steps[2]", "x"),
        ("blur\nblur of $1", "steps[1]", "steps[0]", "$1"),
        ("blur\nrepeat 2 {\n  blur\n}\nblur of $1", "steps[0]", "steps[1].steps[0]", "$1"),
        ("repeat 2 {\n  x = blur\n  blur of x\n}", "steps[0].steps[0]", "steps[0].steps[2]", "x"),
        ("repeat 2 {\n  blur of previous\n  blur\n}", "steps[0].steps[0]", "steps[0]", "previous"),
        (
            "repeat 2 {\n  blur of previous\n  blur\n}\nrepeat 2 {\n  blur\n}",
            "steps[0].steps[0]",
            "steps[1].steps[0]",
            "previous",
        ),
    ],
)
def test_what_others_read_is_not_moved_behind_them(text: str, path: str, target: str, place: str) -> None:
    with pytest.raises(ArgumentError, match="would not be made before it") as caught:
        moved(text, path, target)
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.underlined) == ("TIL228", place)


def test_what_others_read_is_removed_only_where_they_are_redirected() -> None:
    text = "a = gaussian\nb = sharpen of image\nmedian\nblend of b, a with blend $2\nresults b\n"
    with pytest.raises(ArgumentError, match="redirect") as caught:
        removed(text, "steps[1]")
    assert [fault.underlined for fault in caught.value.diagnostics] == ["b", "$2", "b"]
    assert {fault.code for fault in caught.value.diagnostics} == {"TIL228"}
    assert removed(text, "steps[1]", redirect=True).text == (
        "a = gaussian\nmedian of image\nblend of image, a with blend image\nresults image\n"
    )
    assert removed(text, "steps[0]", redirect=True).text == (
        "b = sharpen of image\nmedian\nblend of b, image with blend $1\nresults b\n"
    )
    assert removed("blur\nx = blur\nblend of x, $1", "steps[1]", redirect=True).text == "blur\nblend of $1, $1"
    assert removed(text, "steps[2]").text == text.replace("median\n", "")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("repeat 2 {\n  blur\n  x = blur\n  blur of x\n}", "steps[0].steps[1]"),
        ("repeat 2 {\n  x = blur\n  repeat 2 {\n    blur of x\n  }\n}", "steps[0].steps[0]"),
    ],
)
def test_redirecting_needs_something_to_read(text: str, path: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        removed(text, path, redirect=True)
    assert caught.value.diagnostics[0].code == "TIL228"


@pytest.mark.parametrize("steps", ["", "// nothing", "inputs a\nblur", "blur\nresults $1"])
def test_only_steps_are_inserted(steps: str) -> None:
    with pytest.raises(ArgumentError, match="write steps here"):
        inserted(SOBEL, "steps[1]", steps)


def test_steps_of_a_formula_without_steps_stand_before_its_results() -> None:
    assert inserted("inputs a\nresults a\n", "steps[0]", "blur").text == "inputs a\nblur\nresults a\n"
