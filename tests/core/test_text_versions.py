"""The version that a text names in its first line."""

from __future__ import annotations

import pytest

import tileir
from tileir.core.text.span import Source
from tileir.core.text.versions import LINE, check_version, unversioned
from tileir.core.version import VERSION
from tileir_formula.definitions.function_file import read_functions
from tileir_formula.text.parser import parse as parse_formula

TILE = "function (A) -> (B) { B = A + 1; }"
FORMULA = "invert\n"
FUNCTIONS = "/// twice: doubles.\nfunction (I[H, W, C]) -> (O) { O = I * 2; }\n"
MAJOR, MINOR = map(int, VERSION.split(".")[:2])


@pytest.mark.parametrize("line", ["", LINE, f"// tileir {VERSION}\n", "//tileir  0.1  \r\n", "// tileir 0.0\n"])
def test_texts_of_this_version_and_of_earlier_ones_mean_the_same(line: str) -> None:
    assert tileir.parse(line + TILE) == tileir.parse(TILE)
    assert tileir.parse(line + TILE, stage="any") == tileir.parse(TILE)
    assert len(parse_formula(line + FORMULA).steps) == 1
    assert [function.name for function in read_functions(line + FUNCTIONS)] == ["twice"]


@pytest.mark.parametrize("newer", [f"{MAJOR}.{MINOR + 1}", f"{MAJOR + 1}.0", f"{MAJOR}.{MINOR + 1}.2", "12.345678"])
def test_texts_of_newer_versions_are_refused_where_they_say_so(newer: str) -> None:
    named = ".".join(newer.split(".")[:2])
    for text, read in ((TILE, tileir.parse), (FORMULA, parse_formula), (FUNCTIONS, read_functions)):
        with pytest.raises(tileir.ParseError) as caught:
            read(f"// tileir {newer}\n{text}")
        (fault,) = caught.value.diagnostics
        assert fault.code == "TIL106"
        assert fault.message == (
            f"this text is written for tileir {named}, and tileir {VERSION} reads it: upgrade tileir"
        )
        assert fault.span
        assert fault.span.text == f"tileir {newer}"


@pytest.mark.parametrize("stage", ["typed", "stripe", "sem"])
def test_texts_of_other_stages_may_name_a_version_too(stage: str) -> None:
    program = getattr(tileir.compile(TILE, ["f32[2]"]), stage)
    text = tileir.to_text(program)
    assert tileir.parse(LINE + text, stage="any") == program
    with pytest.raises(tileir.ParseError, match="upgrade tileir"):
        tileir.parse("// tileir 99.0\n" + text, stage="any")


@pytest.mark.parametrize(
    "start", ["// tileir", "// tileir 9.0 is planned", "/ / tileir 9.0", "\n// tileir 9.0\n", "// a tileir 9.0"]
)
def test_other_first_lines_are_comments(start: str) -> None:
    source = Source(f"{start}\nfunction", "<text>")
    assert check_version(source) is source
    assert unversioned(source.text) == source.text


def test_places_stay_where_the_version_is_taken_out() -> None:
    assert unversioned("// tileir 0.1\nrest") == "             \nrest"


def test_a_formula_keeps_the_line_that_names_its_version() -> None:
    from tileir_formula.text.printer import to_text

    text = f"{LINE}invert\n"
    assert to_text(parse_formula(text)).startswith(LINE)
