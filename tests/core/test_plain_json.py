from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from tileir.core.errors import TileError
from tileir.core.json.plain import Reader, places_of, read_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a"\\/,]}\n é', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 1]))
def test_what_json_writes_is_read_back(value: object, indent: int | None) -> None:
    assert read_json(json.dumps(value, indent=indent)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // why\n}', {"a": 1}),
        ('["//", "a,]", 2, // , ]\n  // more\n]', ["//", "a,]", 2]),
        ('{"memory": "SRAM" // "pipeline_depth": 2\n}', {"memory": "SRAM"}),
        ("[[1,],]", [[1]]),
        ("1 // end", 1),
    ],
)
def test_comments_and_last_commas_are_read(text: str, value: object) -> None:
    assert read_json(text) == value


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1,\n "b" 2}', (2, "2")),
        ("[1,,2]", (1, ",")),
        ("[,]", (1, ",")),
        ("[1,,]", (1, ",")),
        ("// no value\n", (1, "\n")),
        ("", (1, "")),
        ('{"a": "never closed}', (1, '"')),
    ],
)
def test_what_is_not_json_is_refused_at_its_place(text: str, place: tuple[int, str]) -> None:
    with pytest.raises(TileError) as caught:
        read_json(text, "it")
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.span and (fault.span.line, fault.underlined)) == ("TIL601", place)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a": 1, "a": 2}', "TIL602"),
        ("[" * 600 + "]" * 600, "TIL602"),
        ("[" * 100_000, "TIL601"),
        ("1" * 10_000, "TIL601"),
    ],
    ids=["twice", "deep", "deeper", "digits"],
)
def test_hostile_texts_are_refused(text: str, code: str) -> None:
    with pytest.raises(TileError) as caught:
        read_json(text)
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_a_reader_collects_what_does_not_fit() -> None:
    reader = Reader()
    members = reader.members({"size": "big", "flag": 1, "list": [1], "half": 0.5}, "it", ("size", "flags", "list"))
    assert reader.members([], "list") == {}
    assert reader.items({}, "items") == []
    assert reader.text(members, "name", "it") == ""
    assert reader.text(members, "flag", "it") == ""
    assert reader.texts(members, "list", "it") == ()
    assert reader.flag(members, "flag", "it") is False
    assert reader.number(members, "size", "it") == 1
    assert reader.integer(members, "half", "it") == 1
    assert [d.message for d in reader.faults] == [
        "it: there is no key 'flag'; did you mean flags?",
        "it: there is no key 'half'; known are flags, list, size",
        "list: write an object {…} here, not a list",
        "items: write a list […] here, not an object",
        'it: the key "name" is missing; it takes a text',
        "it.flag: write a text here, not the number 1",
        "it.list: write a list of texts here, not a list",
        "it.flag: write true or false here, not the number 1",
        "it.size: write a number here, not the text 'big'",
        "it.half: write a number without a fraction here, not 0.5",
    ]


def test_a_reader_returns_what_fits() -> None:
    reader = Reader()
    members = reader.members({"a": 2.0, "b": "x", "c": ["y"], "d": True, "e": 0.5}, "it")
    assert reader.integer(members, "a", "it") == 2
    assert reader.integer(members, "z", "it", 7) == 7
    assert reader.text(members, "b", "it") == "x"
    assert reader.texts(members, "c", "it") == ("y",)
    assert reader.flag(members, "d", "it")
    assert reader.number(members, "e", "it") == 0.5
    assert reader.faults == []


def ways(value: object, way: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], object]:
    """Return the values inside a value, and the names of members, by the way to them."""
    found = {way: value}
    if isinstance(value, dict):
        found |= {(*way, key, ":"): key for key in value}
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        found |= ways(item, (*way, key))
    return found


@given(VALUES, st.sampled_from([None, 1]))
def test_places_are_where_the_values_are(value: object, indent: int | None) -> None:
    text = "// about [it]\n" + json.dumps(value, indent=indent)
    found = {way: read_json(text[start:stop]) for way, (start, stop) in places_of(text).items()}
    assert found == ways(json.loads(json.dumps(value)))
