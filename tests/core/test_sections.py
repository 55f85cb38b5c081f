from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from tileir.core.errors import TileError
from tileir.core.json.plain import read_json
from tileir.core.targets.target_file import sections_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a"\\/,]}\n é', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), st.sampled_from([None, 1]))
def test_sections_are_the_members_of_an_object(value: dict[str, object], indent: int | None) -> None:
    sections = sections_of(json.dumps(value, indent=indent), "it")
    assert {key: section.read() for key, section in sections.items()} == value


def test_sections_may_be_templates() -> None:
    text = '{ // first\n "a": [[% for i in range(N) %] "S[{{ i }}]", [% endfor %]],\n "b": {{ N }} }'
    sections = sections_of(text, "it")
    assert sections["a"].read({"N": 2}) == ["S[0]", "S[1]"]
    assert sections["b"].read({"N": 2}) == 2
    assert sections["b"].names() == {"N"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", (1, "")),
        ("[]", (1, "[")),
        ('{"a": 1\n "b": 2}', (1, "")),
        ('{"a": 1,\n b: 2}', (2, "b")),
        ('{"a": }', (1, "}")),
        ('{"a" 1}', (1, "1")),
        ('{"a": [}', (1, "")),
        ('{"a": {', (1, "")),
        ('{"a": 1} x', (1, "x")),
        ('{"a": 1', (1, "")),
    ],
)
def test_texts_that_are_no_object_are_refused(text: str, place: tuple[int, str]) -> None:
    with pytest.raises(TileError) as caught:
        _ = [section.read() for section in sections_of(text, "it").values()]
    (fault,) = caught.value.diagnostics
    assert fault.code == "TIL601"
    assert fault.span is not None
    assert place[1] in ("", fault.underlined)
    assert place[1] == "" or fault.span.line == place[0]


def test_a_section_that_stands_twice_is_refused() -> None:
    with pytest.raises(TileError, match="'a' stands twice"):
        sections_of('{"a": 1, "a": 2}', "it")


def test_faults_in_a_section_have_the_place_that_they_have_in_the_text() -> None:
    sections = sections_of('{\n  "a": [1,\n    2 3]\n}', "it")
    with pytest.raises(TileError) as caught:
        sections["a"].read()
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert (span.line, span.column, span.text) == (3, 7, "3")


LAID_OUT = """{
  "hardware": {
    "units": {
      "DSP": { "count": {{ N }}, "ops": { "f32": 64 } },
      "CONV": { "count": 1, "ops": { "f32": 512 } }
    },
    "buses": [
      { "from": ["A[0]"], "to": ["B"] }, // one way
      { "from": ["B"], "to": ["A[0]"] }
    ]
  },
  "passes": [
    { "name": "thread" }
  ]
}
"""


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ('"f32": 64 } },', '"f32": 64 } } },', 4, "}"),
        ('{ "f32": 64 } },', '{ "f32": 64 },', 4, "{"),
        ('"f32": 512 } }', '"f32": 512 }', 5, "{"),
        ('"f32": 512 } }', '"f32": 512 } } }', 5, "}"),
        ('"from": ["A[0]"]', '"from": ["A[0]"]]', 8, "]"),
        ("    },\n", "\n", 3, "{"),
        ("    ]\n  },\n", "  },\n", 7, "["),
        ('\n  },\n  "passes"', '\n  "passes"', 2, "{"),
        ("  ]\n}", "}", 12, "["),
        ("  ]\n}", "  ]\n}\n}", 16, "}"),
        ('["B"] },', '["B"] ] },', 8, "]"),
    ],
)
def test_a_bracket_too_many_or_too_few_is_told_where_it_is(
    whole: bool, old: str, new: str, line: int, text: str
) -> None:
    spoilt = LAID_OUT.replace(old, new, 1)
    assert spoilt != LAID_OUT
    with pytest.raises(TileError) as caught:
        _ = read_json(spoilt.replace("{{ N }}", "4")) if whole else sections_of(spoilt, "slide")
    (fault,) = caught.value.diagnostics
    assert fault.code == "TIL601"
    assert fault.span is not None
    assert (fault.span.line, fault.span.text) == (line, text)


def test_brackets_in_strings_and_comments_are_not_looked_at() -> None:
    text = LAID_OUT.replace("// one way", "// one } way").replace('"thread"', '"thr}ead"').replace("{{ N }}", "4")
    assert read_json(text) is not None
    with pytest.raises(TileError) as caught:
        read_json(text.replace('"f32": 512 } }', '"f32": 512 }'))
    (fault,) = caught.value.diagnostics
    assert fault.span is not None
    assert (fault.span.line, fault.span.text) == (5, "{")
