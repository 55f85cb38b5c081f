from __future__ import annotations

import json
from typing import ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileir.core.errors import TileError
from tileir.passes.pipeline import from_json, parse, to_json, to_text
from tileir.stripe.ir import Program


def _positive(_: object, __: attrs.Attribute[int], value: int) -> None:
    if value < 1:
        raise ValueError("limit must be at least 1")


@attrs.frozen
class Cut:
    name: ClassVar[str] = "cut"
    limit: int = attrs.field(default=4, validator=_positive)
    ratio: float = 0.5
    deep: bool = False
    label: str = "plain"
    sizes: tuple[int, ...] = ()
    tags: tuple[str, ...] = ("all",)

    def __call__(self, program: Program) -> Program:
        return program


@attrs.frozen
class Join:
    name: ClassVar[str] = "join"

    def __call__(self, program: Program) -> Program:
        return program


CATALOGUE = (Cut, Join)

cuts = st.builds(
    Cut,
    limit=st.integers(1),
    ratio=st.floats(allow_nan=False),
    deep=st.booleans(),
    label=st.text(),
    sizes=st.lists(st.integers()).map(tuple),
    tags=st.lists(st.text() | st.sampled_from(["true", "nan", "kernel"])).map(tuple),
)
pipelines = st.lists(cuts | st.just(Join()), max_size=4).map(tuple)


@given(pipelines)
def test_parse_undoes_print(passes: tuple[Cut | Join, ...]) -> None:
    assert parse(to_text(passes), CATALOGUE) == passes


@given(pipelines)
def test_json_round_trip(passes: tuple[Cut | Join, ...]) -> None:
    assert from_json(to_json(passes), CATALOGUE) == passes


def test_only_options_that_differ_are_written() -> None:
    passes = (Join(), Cut(), Cut(limit=8, sizes=(8, 32), label="two words"))
    assert to_text(passes) == 'join,cut,cut{limit=8,label="two words",sizes=(8,32)}'
    assert json.loads(to_json(passes))[2] == {
        "name": "cut",
        "options": {"limit": 8, "label": "two words", "sizes": [8, 32]},
    }


def test_single_values_and_whole_numbers_are_taken() -> None:
    assert parse(" cut { sizes = 3 , ratio = 2 , tags=(kernel,), }".replace(", }", "}"), CATALOGUE) == (
        Cut(sizes=(3,), ratio=2.0, tags=("kernel",)),
    )


def test_an_empty_text_is_the_empty_pipeline() -> None:
    assert parse(" ", CATALOGUE) == ()
    assert from_json("[]", CATALOGUE) == ()


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("cutt", [("TIL541", "cutt")]),
        ("cut{limti=3}", [("TIL542", "limti")]),
        ("cut{limit=1,limit=2}", [("TIL542", "limit")]),
        ("cut{limit=often}", [("TIL543", "often")]),
        ("cut{limit=1.5}", [("TIL543", "1.5")]),
        ("cut{limit=true}", [("TIL543", "true")]),
        ("cut{sizes=(1, two)}", [("TIL543", "(1, two)")]),
        ("cut{limit=0}", [("TIL543", "cut")]),
        ("cut{deep=1},jion", [("TIL543", "1"), ("TIL541", "jion")]),
        ("cut join", [("TIL102", "join")]),
        ("cut,", [("TIL102", "")]),
        ("cut{limit}", [("TIL102", "}")]),
        ("cut{limit=}", [("TIL102", "}")]),
        ("cut{limit=3", [("TIL102", "")]),
        ("cut{sizes=(1", [("TIL102", "")]),
        ("cut;join", [("TIL102", ";")]),
        ("7", [("TIL102", "7")]),
        ('cut{label="\\x"}', [("TIL102", '"\\x"')]),
        (f"cut{{limit={'9' * 5000}}}", [("TIL102", "9" * 5000)]),
    ],
)
def test_faults_are_underlined(text: str, faults: list[tuple[str, str]]) -> None:
    with pytest.raises(TileError) as caught:
        parse(text, CATALOGUE)
    assert [(d.code, d.underlined) for d in caught.value.diagnostics] == faults


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(TileError, match=r"did you mean cut\?"):
        parse("cutt", CATALOGUE)
    with pytest.raises(TileError, match="known are cut, join"):
        parse("zzz", CATALOGUE)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[", "TIL601"),
        ("[" * 100_000, "TIL601"),
        ("{}", "TIL602"),
        ("[1]", "TIL602"),
        ('[{"name": 1}]', "TIL602"),
        ('[{"name": "cut", "options": []}]', "TIL602"),
        ('[{"name": "cut", "options": {"limit": {}}}]', "TIL602"),
        ('[{"name": "cut", "extra": 1}]', "TIL602"),
        ('[{"name": "cutt"}]', "TIL541"),
        ('[{"name": "cut", "options": {"limti": 1}}]', "TIL542"),
        ('[{"name": "cut", "options": {"sizes": [[1]]}}]', "TIL543"),
    ],
)
def test_bad_json_is_a_diagnostic(text: str, code: str) -> None:
    with pytest.raises(TileError) as caught:
        from_json(text, CATALOGUE)
    assert [d.code for d in caught.value.diagnostics] == [code]
