"""The text of formulas: reading undoes printing, and whatever is wrong is told with its place."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.formulas import FORMULAS, SOBEL
from tileir.core.errors import MAX_FAULTS, ArgumentError, Diagnostic, ParseError
from tileir.core.json.codec import from_json, to_json
from tileir_formula.ir import Formula, Number, Repeat, Step
from tileir_formula.text.lexer import MAX_CHARACTERS
from tileir_formula.text.parser import parse
from tileir_formula.text.printer import to_text
from tileir_formula.text.spelling import MAX_DEPTH


@given(formula=FORMULAS)
@examples(200)
def test_parse_undoes_print(formula: Formula) -> None:
    text = to_text(formula)
    assert parse(text) == formula
    assert to_text(parse(text)) == text
    assert from_json(to_json(formula), Formula) == formula


def test_a_text_in_canonical_form_stays() -> None:
    formula = parse(SOBEL)
    assert to_text(formula) == SOBEL
    step = formula.steps[1]
    assert isinstance(step, Step)
    assert step.span is not None
    assert step.span.text == SOBEL.splitlines()[3]


def test_lines_go_on_inside_of_brackets() -> None:
    formula = parse("blur(\n  radius=2,\n\n  sigma=1)\n\n\nconvolve(weights=[1 2\n;3 4])")
    assert to_text(formula) == "blur(radius=2, sigma=1)\nconvolve(weights=[1 2; 3 4])\n"


@pytest.mark.parametrize(
    ("text", "code", "message", "place"),
    [
        ("a = ", "TIL102", "expected a name but found end of text", ""),
        ("a = blur(x=)", "TIL102", "expected a number, a word, a colour or weights but found ')'", ")"),
        ("blur @ 3", "TIL101", "'@' means nothing here", "@"),
        ("blur(radius=2", "TIL102", "expected ',' or ')' but found end of text", ""),
        ("repeat 3 {\n blur\n", "TIL102", "expected '}' but found end of text", ""),
        ("blur }", "TIL102", "expected the end of the line but found '}'", "}"),
        ("}", "TIL102", "expected a step but found '}'", "}"),
        ("blur of where", "TIL102", "'where' is a word of the language", "where"),
        ("of = blur", "TIL102", "'of' is a word of the language", "of"),
        ("blur outside mirrored", "TIL102", "expected 'clamp' or 'mirror' or 'wrap' or 'constant'", "mirrored"),
        ("blur where inpt within 3 of pixel", "TIL102", "expected 'input' or", "inpt"),
        ("blur where region(1, 2, 3)", "TIL102", "there are 3 numbers", "region(1, 2, 3)"),
        ("blur(colour=#12345)", "TIL104", "six digits from 0 to f", "#12345"),
        ("blur(colour=#12345g)", "TIL104", "six digits from 0 to f", "#12345g"),
        ("blur(radius=1e999)", "TIL104", "too large", "1e999"),
        ("blur of $0", "TIL104", "counted from $1", "$0"),
        ("convolve(weights=[1 2; 3])", "TIL102", "these have 2, 1", "[1 2; 3]"),
        ("blur\ninputs a", "TIL102", "before all steps", "inputs"),
        ("results a\nresults b", "TIL102", "named once", "results"),
        ("repeat 1 {\n" * (MAX_DEPTH + 1) + "}\n" * (MAX_DEPTH + 1), "TIL103", "nested at most", "repeat"),
    ],
)
def test_faults_have_a_place(text: str, code: str, message: str, place: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    fault = caught.value.diagnostics[0]
    assert (fault.code, fault.underlined) == (code, place)
    assert message in fault.message


def test_all_faults_at_once() -> None:
    with pytest.raises(ParseError) as caught:
        parse("a = \nb = conv(x=) of\nrepeat 3 {\n x = blur @\n  y = 4\n}\n")
    lines = [fault.span.line for fault in caught.value.diagnostics if fault.span is not None]
    assert lines == [1, 2, 4, 5]


def test_one_mistake_is_one_fault() -> None:
    with pytest.raises(ParseError) as caught:
        parse("bl~ur\na = b ! c\nx = = y\nblur(")
    found = [(fault.code, fault.underlined) for fault in caught.value.diagnostics]
    assert found == [("TIL101", "~"), ("TIL101", "!"), ("TIL102", "=")]


def test_so_many_faults_are_told() -> None:
    with pytest.raises(ParseError) as caught:
        parse("= 1\n" * (MAX_FAULTS + 1))
    assert len(caught.value.diagnostics) == MAX_FAULTS
    assert caught.value.diagnostics[-1].notes == ("the rest is not read",)


def test_texts_are_bounded() -> None:
    with pytest.raises(ArgumentError) as caught:
        parse("/" * (MAX_CHARACTERS + 1))
    assert caught.value.diagnostics[0].code == "TIL105"


def test_what_is_near_a_word_is_named() -> None:
    with pytest.raises(ParseError, match="did you mean output"):
        parse("blur where outptu within 3 of pixel")


@pytest.mark.sampled(0)
def test_broken_texts_are_told_or_read() -> None:
    chosen = Random(5)
    readable = 0
    for _ in range(2000):
        characters = list(SOBEL)
        for _ in range(chosen.randint(1, 6)):
            place = chosen.randrange(len(characters))
            characters[place : place + chosen.randrange(3)] = chosen.choice([*"=(){}[],;%$#ab1 \n.-/é\0", ""])
        text = "".join(characters)
        formula, faults = read(text)
        assert all(fault.span is not None for fault in faults)
        if formula is not None:
            readable += 1
            assert parse(to_text(formula)) == formula
    assert readable


def read(text: str) -> tuple[Formula | None, tuple[Diagnostic, ...]]:
    try:
        return parse(text), ()
    except ParseError as error:
        return None, error.diagnostics


def test_groups_hold_steps() -> None:
    group = parse("repeat 2 {\n  blur\n}\n").steps[0]
    assert isinstance(group, Repeat)
    assert (group.count, group.limit, group.steps) == (Number(2), None, (Step("blur"),))


def test_comments_beside_inputs_and_results_stay() -> None:
    text = "// above\ninputs a, b // inputs\n// step\nx = blur of a // made\n// results\nresults x, b // both\n// end\n"
    assert to_text(parse(text)) == text


def test_results_are_named_last() -> None:
    with pytest.raises(ParseError, match="results are named last, behind all steps") as caught:
        parse("blur\nresults $1\nblur // one\nrepeat 2 {\n  blur\n}\n// end")
    assert [fault.underlined for fault in caught.value.diagnostics] == ["blur", "repeat"]
