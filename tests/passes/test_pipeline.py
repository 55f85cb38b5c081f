from __future__ import annotations

import json
from typing import ClassVar

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.kernels import stripe_program
from tileir.core.dtype import DType
from tileir.core.errors import MAX_FAULTS, ParseError, TileError
from tileir.passes.base import Named, Pass, label_of, run, unnamed
from tileir.passes.pipelines.pipeline import from_json, parse, to_json, to_text
from tileir.stripe.ir import Program


def _positive(_: object, __: attrs.Attribute[int], value: int) -> None:
    if value < 1:
        raise ValueError("limit must be at least 1")


def _positive_or_all(_: object, __: attrs.Attribute[int], value: int) -> None:
    if value < 1 and value != -1:
        raise ValueError("size must be at least 1, or -1 for all")


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


@attrs.frozen
class Part:
    name: str
    size: int = attrs.field(default=-1, validator=_positive_or_all)
    strides: tuple[int, ...] = ()
    dtype: DType | None = None


@attrs.frozen
class Group:
    parts: tuple[Part, ...] = ()
    pair: tuple[str, int] = ("", 0)


@attrs.frozen
class Match:
    name: ClassVar[str] = "match"
    aliases: ClassVar[tuple[str, ...]] = ("compare",)
    groups: tuple[Group, ...] = ()
    main: Part = Part("main")
    other: Part | None = None
    mem_kib: float | None = None

    def __call__(self, program: Program) -> Program:
        return program


CATALOGUE = (Cut, Join, Match)

cuts = st.builds(
    Cut,
    limit=st.integers(1),
    ratio=st.floats(allow_nan=False),
    deep=st.booleans(),
    label=st.text(),
    sizes=st.lists(st.integers()).map(tuple),
    tags=st.lists(st.text() | st.sampled_from(["true", "nan", "kernel"])).map(tuple),
)
parts = st.builds(
    Part,
    name=st.text(max_size=3) | st.sampled_from(["none", "SRAM"]),
    size=st.integers(1, 3) | st.just(-1),
    strides=st.lists(st.integers(-1, 3), max_size=2).map(tuple),
    dtype=st.none() | st.sampled_from(DType),
)
matches = st.builds(
    Match,
    groups=st.lists(
        st.builds(
            Group, parts=st.lists(parts, max_size=2).map(tuple), pair=st.tuples(st.text(max_size=2), st.integers())
        ),
        max_size=2,
    ).map(tuple),
    main=parts,
    other=st.none() | parts,
    mem_kib=st.none() | st.floats(allow_nan=False),
)
steps = cuts | st.just(Join()) | matches
labels = st.sampled_from(["fuse_CONV_add", "loc", "cut"])
pipelines = st.lists(steps | st.builds(Named, labels, steps), max_size=4).map(tuple)


@given(pipelines)
def test_parse_undoes_print(passes: tuple[Pass, ...]) -> None:
    assert parse(to_text(passes), CATALOGUE) == passes


@given(pipelines)
def test_json_round_trip(passes: tuple[Pass, ...]) -> None:
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
        ("a:", [("TIL102", "")]),
        ("a:b:cut", [("TIL102", ":")]),
        ("match{main={name=a,name=b}}", [("TIL542", "name")]),
        ("match{main=" + "(" * 60, [("TIL103", "(")]),
        ("match{groups=({parts=({name=a,size=0})})}", [("TIL543", "({parts=({name=a,size=0})})")]),
        ("match{main={},other=3,mem_kib=x}", [("TIL543", "{}"), ("TIL543", "3"), ("TIL543", "x")]),
        ("match{mem_kib=1,mem_KiB=2}", [("TIL542", "mem_KiB")]),
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


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("cut{limit=}, join, cut{=3}, 7", [("TIL102", "}"), ("TIL102", "="), ("TIL102", "7")]),
        ("cut{limit=,sizes=(1,2)}, join{", [("TIL102", ",")]),
        ("cut}, join, (", [("TIL102", "}"), ("TIL102", "(")]),
        ("a:;, cut;", [("TIL102", ";"), ("TIL102", ";")]),
        ("match{main={name=a,name=b}}, cut{limit=?}", [("TIL542", "name"), ("TIL102", "?")]),
    ],
)
def test_faults_of_all_passes_are_reported(text: str, faults: list[tuple[str, str]]) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, CATALOGUE)
    assert [(d.code, d.underlined) for d in caught.value.diagnostics] == faults


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["cut{," * 100_000, "?" * 1_000_000, "cut{limit=}," * 100_000, ")," * 100_000])
def test_the_rest_of_a_hostile_text_is_not_read(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, CATALOGUE)
    assert len(caught.value.diagnostics) <= MAX_FAULTS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{main=()}", "option main of pass match takes a record of name, size, strides, dtype"),
        ("{main={size=1}}", "option main of pass match needs the field name"),
        ("{other={name=1}}", "option other.name of pass match takes a text"),
        ("{main={name=a,sise=1}}", "option main of pass match has no field sise; did you mean size?"),
        ("{main={name=a,Name=b}}", "option main of pass match has field name twice; drop one"),
        (
            "{groups=({},{parts=({name=a,strides=(1,x)})})}",
            "option groups[1].parts[0].strides[1] of pass match takes an integer",
        ),
        (
            "{groups={parts={name=a,size=0}}}",
            "option groups.parts of pass match is refused: size must be at least 1, or -1 for all",
        ),
        ("{groups={pair=(1,2,3)}}", "option groups.pair of pass match takes 2 items, not 3"),
        ("{groups={pair=(a,b)}}", "option groups.pair[1] of pass match takes an integer"),
        ("{main={name=a,dtype=f31}}", "option main.dtype of pass match takes one of bool, i8, i16, i32, i64, u8,"),
        ("{mem_kib=(1,)}", "option mem_kib of pass match takes a number or none"),
    ],
)
def test_faults_inside_of_values_are_told_with_their_place(text: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        parse(f"match{text}".replace(",)", ")"), CATALOGUE)
    assert [(d.code, d.message[: len(message)]) for d in caught.value.diagnostics] == [("TIL543", message)]


SLIDES = """// as on Stripe's slides
[
  { "name": "first", "compare": { "main": "SRAM", "mem_KiB": 64, // not all
      "groups": [ { "parts": [ { "name": "i1", "size": 32, "strides": [-1] }, { "name": "c" } ] }, ] } },
  { "join": {} },
  { "name": "cut", "options": { "limit": 2 } },
  { "name": "join" },
]
"""


def test_the_form_of_the_slides_is_read() -> None:
    groups = (Group((Part("i1", 32, (-1,)), Part("c"))),)
    expected = (Named("first", Match(groups, Part("SRAM"), mem_kib=64.0)), Join(), Cut(limit=2), Join())
    assert from_json(SLIDES, CATALOGUE) == expected
    text = "first:match{groups=({parts=({name=i1,size=32,strides=(-1)},{name=c})}),main={name=SRAM},mem_kib=64.0}"
    assert to_text(expected) == f"{text},join,cut{{limit=2}},join"


def test_steps_have_the_name_that_they_are_given() -> None:
    seen: list[str] = []
    passes = parse("one: cut, two: join{}, cut", CATALOGUE)
    run(passes, stripe_program("matmul"), dump=lambda name, _: seen.append(name))
    assert seen == ["one", "two", "cut"]
    assert [unnamed(step) for step in passes] == [Cut(), Join(), Cut()]
    assert [label_of(step) for step in passes] == seen


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(TileError, match=r"did you mean cut\?"):
        parse("cutt", CATALOGUE)
    with pytest.raises(TileError, match="known are compare, cut, join, match"):
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
        ('[{"name": "cut", "options": {"limit": {}}}]', "TIL543"),
        ('[{"name": "cut", "extra": 1}]', "TIL602"),
        ('[{"name": "cut", "extra": {}, "more": {}}]', "TIL602"),
        ('[{"name": "a", "cutt": {}}]', "TIL541"),
        ('[{"options": {}}]', "TIL602"),
        ("[{}]", "TIL602"),
        ('[{"name": "cut", "name": "cut"}]', "TIL602"),
        ('[{"name": "cut", "options": {"limit": null}}]', "TIL543"),
        ('[{"name": "cutt"}]', "TIL541"),
        ('[{"name": "cut", "options": {"limti": 1}}]', "TIL542"),
        ('[{"name": "cut", "options": {"sizes": [[1]]}}]', "TIL543"),
    ],
)
def test_bad_json_is_a_diagnostic(text: str, code: str) -> None:
    with pytest.raises(TileError) as caught:
        from_json(text, CATALOGUE)
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_a_pass_as_a_bare_name_in_json_is_told_the_entry_to_write() -> None:
    with pytest.raises(TileError, match=r"TIL602.*entry 1 of the pipeline must be .*; here \{\"name\": \"match\"\}"):
        from_json('[{"name": "match"}, "match"]', CATALOGUE)
