"""The bracket form of formulas: reading undoes printing, and what it cannot hold is told with its place."""

from __future__ import annotations

import re
from random import Random

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.formulas import COMMENTS, FORMULAS, NAMES, STEPS
from strategies.sources import ROOT
from tileir.core.errors import Diagnostic, ParseError, VerifyError
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.ir import Boundary, Formula, Mask, Repeat, Source, Step
from tileir_formula.text import bracket
from tileir_formula.text.parser import parse
from tileir_formula.text.printer import to_text
from tileir_formula.verifier import faults_of

TEXT = """\
// Edges of a photograph
{photo,paper}
[gray=luminance:]
[across=convolve:{gray}(weights=<-1 0 1; -2 0 2; -1 0 1>)~clamp]
[convolve:{1}(weights=<-1 -2 -1; 0 0 0; 1 2 1>)?output<10%:pixel&magnitude(amount=0.5){2}]
[median:{previous}(size=3,mode=soft)?!input<8:#ff8000]
[threshold:(level=0.25)?region(0,0,100,200)]
[blend:{4,paper}?mask{paper}]
"""
HELD = st.builds(
    Formula,
    st.lists(STEPS.map(lambda step: attrs.evolve(step, comments=(), remark=None)), max_size=5).map(tuple),
    st.lists(NAMES, min_size=1, max_size=3).map(tuple),
    st.just(()),
    st.lists(COMMENTS, max_size=2).map(tuple),
)


def test_the_form_means_what_the_text_means() -> None:
    formula = parse(
        """\
// Edges of a photograph
inputs photo, paper
gray = luminance
across = convolve(weights=[-1 0 1; -2 0 2; -1 0 1]) of gray outside clamp
convolve(weights=[-1 -2 -1; 0 0 0; 1 2 1]) of $1 where output within 10% of pixel with magnitude(amount=0.5) $2
median(size=3, mode=soft) where not input within 8 of #ff8000
threshold(level=0.25) of photo where region(0, 0, 100, 200)
blend of $4, paper where mask paper
"""
    )
    assert bracket.parse(TEXT) == formula
    assert bracket.to_text(formula) == TEXT
    assert parse(to_text(bracket.parse(TEXT))) == formula


@given(formula=HELD)
@examples(200)
def test_parse_undoes_print(formula: Formula) -> None:
    text = bracket.to_text(formula)
    assert bracket.parse(text) == formula
    assert bracket.to_text(bracket.parse(text)) == text
    assert bracket.parse(text.replace("\n", " \n") if formula.comments else text.replace("\n", "")) == formula


@given(formula=FORMULAS)
@examples(200)
def test_formulas_are_held_or_refused_with_all_reasons(formula: Formula) -> None:
    spoken = parse(to_text(formula))
    groups = [step for step in spoken.steps if isinstance(step, Repeat)]
    steps = [step for step in spoken.steps if isinstance(step, Step)]
    commented = [step for step in steps if step.comments or step.remark is not None]
    beside = spoken.last_comments or spoken.result_comments
    remarked = spoken.input_remark is not None or spoken.result_remark is not None
    wanted = len(groups) + len(commented) + len(spoken.results) + bool(beside or remarked)
    if not wanted:
        assert bracket.parse(bracket.to_text(spoken)) == spoken
        return
    with pytest.raises(VerifyError) as caught:
        bracket.to_text(spoken)
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL227"] * wanted
    assert all(fault.span is not None for fault in caught.value.diagnostics)


def test_examples_of_the_manual_can_be_read() -> None:
    page = (ROOT / "docs" / "formula.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```formula\n(.*?)```", page, re.DOTALL) if block.startswith("// Edges")]
    line, brackets = sorted(blocks, key=lambda block: "\n[" in block)
    assert faults_of(parse(line), own_functions()) == []
    assert faults_of(bracket.parse(brackets), own_functions()) == []


def test_inputs_are_the_original_unless_named() -> None:
    formula = bracket.parse("[blur:][blur:][blur:{previous}][blur:{1}][blur:{image}][x=blur:{1,image}]")
    sources = [step.sources for step in formula.steps if isinstance(step, Step)]
    image = Source("image")
    assert sources == [(), (image,), (), (Source(1),), (image,), (Source(1), image)]


def test_white_space_means_nothing() -> None:
    spaced = "[ x = blur : { 1 , image } ( radius = 2 , w = < 1 ; 2 > ) ~ wrap ? ! mask { x } & add { 1 } ]"
    formula = bracket.parse(spaced.replace(" ", "\n"))
    assert formula == bracket.parse(spaced.replace(" ", ""))
    step = formula.steps[0]
    assert isinstance(step, Step)
    assert (step.boundary, step.condition) == (Boundary.WRAP, Mask(Source("x"), negated=True))


@pytest.mark.parametrize(
    ("text", "code", "message", "place"),
    [
        ("blur", "TIL102", "expected '[' of a pass but found 'blur'", "blur"),
        ("[blur]", "TIL102", "':' behind the function", "]"),
        ("[:]", "TIL102", "expected a name", ":"),
        ("[blur:", "TIL102", "the rest of the pass, or ']' but found end of text", ""),
        ("[blur:{]", "TIL102", "an original, or a pass", "]"),
        ("[blur:{0}]", "TIL104", "counted from 1", "0"),
        ("[blur:{1.5}]", "TIL104", "counted from 1", "1.5"),
        ("[blur:{previous}]", "TIL223", "no pass is before the first", "previous"),
        ("[blur:][blur:{previous,1}]", "TIL102", "previous stands alone", ","),
        ("[blur:{of}]", "TIL102", "word of the language", "of"),
        ("[blur:(radius)]", "TIL102", "expected '='", ")"),
        ("[blur:(w=[1 2])]", "TIL102", "a number, a word, a colour or weights", "["),
        ("[blur:(w=<1 2; 3>)]", "TIL102", "these have 2, 1", "<1 2; 3>"),
        ("[blur:(w=<1 2)]", "TIL102", "a number, ';' or '>'", ")"),
        ("[blur:~warp]", "TIL102", "did you mean wrap", "warp"),
        ("[blur:?inputs<3:pixel]", "TIL102", "did you mean input", "inputs"),
        ("[blur:?input<3]", "TIL102", "expected '%' or ':'", "]"),
        ("[blur:?input<3:blue]", "TIL102", "expected a colour", "blue"),
        ("[blur:?region(1,2,3)]", "TIL102", "a top, a left, a height and a width", ")"),
        ("[blur:&add]", "TIL102", "'{' and what is read", "]"),
        ("[blur:] // last\n[blur:]", "TIL102", "above its first pass", "// last"),
        ("[blur:$1]", "TIL101", "'$' means nothing here", "$"),
        ("{}[blur:]", "TIL102", "expected a name", "}"),
    ],
)
def test_faults_have_a_place(text: str, code: str, message: str, place: str) -> None:
    with pytest.raises(ParseError) as caught:
        bracket.parse(text)
    fault = caught.value.diagnostics[0]
    assert (fault.code, fault.underlined) == (code, place)
    assert message in fault.message


def test_all_faults_at_once() -> None:
    with pytest.raises(ParseError) as caught:
        bracket.parse("[blur]\n[blur:]\n[blur:{]\n[blur:?mask]\n[blur:(x=#12)]")
    assert [fault.span.line for fault in caught.value.diagnostics if fault.span is not None] == [1, 3, 4, 5]


def test_what_the_form_cannot_hold() -> None:
    text = "// first\nblur // soft\nrepeat 2 {\n  blur\n}\nblur of previous\n// done\nresults $1, $2"
    with pytest.raises(VerifyError) as caught:
        bracket.to_text(parse(text))
    places = [fault.underlined for fault in caught.value.diagnostics]
    assert places == ["blur", "repeat 2 {\n  blur\n}", "previous", "$1", "$2", text]


@pytest.mark.sampled(0)
def test_broken_texts_are_told_or_read() -> None:
    chosen = Random(7)
    readable = 0
    for _ in range(1500):
        characters = list(TEXT)
        for _ in range(chosen.randint(1, 6)):
            place = chosen.randrange(len(characters))
            characters[place : place + chosen.randrange(3)] = chosen.choice([*"=(){}[],;%:<>~?!&#ab1 \n.-/é\0", ""])
        formula, faults = read("".join(characters))
        assert all(fault.span is not None for fault in faults)
        if formula is not None:
            readable += 1
            assert bracket.parse(bracket.to_text(formula)) == formula
    assert readable


def read(text: str) -> tuple[Formula | None, tuple[Diagnostic, ...]]:
    try:
        return bracket.parse(text), ()
    except ParseError as error:
        return None, error.diagnostics
