"""Formulas as people and controls break them: told with a place, or read, printed, crafted, and edited.

Nothing but a ``TileError`` refuses a formula or an edit, and whatever is said of its text has a place there. What an
edit does not name is as before, to the byte.
"""

from __future__ import annotations

from typing import Any, Final

from fuzz.area import Area, Case, Refused
from tileir.core.errors import TileError
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.definitions.functions import Function
from tileir_formula.definitions.parameters import (
    ChoiceParameter,
    ColourParameter,
    FlagParameter,
    NumberParameter,
    Parameter,
)
from tileir_formula.editing.changes import EditedText, changed
from tileir_formula.editing.control_tree import controls_of
from tileir_formula.editing.controls import ChoiceControl, each_control
from tileir_formula.editing.step_edits import duplicated, inserted, moved, moved_path, removed
from tileir_formula.ir import Formula, Repeat, Step
from tileir_formula.lower.applying import apply
from tileir_formula.lower.lowering import craft
from tileir_formula.references import places_of, references_of
from tileir_formula.text import bracket
from tileir_formula.text.parser import parse
from tileir_formula.text.printer import number_text, to_text, value_text
from tileir_formula.verifier import faults_of
from tileir_testing.generated.choices import Choices

PIECES: Final = (
    *'()[]{}:;,=+*<>?!~&%$#/-."_0279abx \n\t\r',
    *(
        "//",
        "of",
        "outside",
        "where",
        "with",
        "not",
        "within",
        "mask",
        "region",
        "pixel",
        "previous",
        "repeat",
        "until",
    ),
    *(
        "inputs",
        "results",
        "#ff8000",
        "#12",
        "1.5",
        "1e999",
        "-1",
        "99999999999999999999",
        "$1",
        "$0",
        "$99",
        "}\n",
        "{\n",
    ),
    *("\0", "\ud800", "\u00e9", "\u2028", "\U0001f600", "gaussian", "image", "clamp", "10%", "change below"),
)
"""Insertions that spoil a text."""

VALUES: Final = (
    None,
    "",
    "1",
    "2.5",
    "-3",
    "1e400",
    "yes",
    "none",
    "image",
    "$1",
    "$2",
    "previous",
    "#ff8000",
    "[1 2; 3]",
)
"""Values for controls besides their own words, many of them wrong."""

_CHEAP: Final = 4
"""Steps of a formula that is crafted: the bodies of some functions are long."""


def make(choices: Choices) -> Case:
    """Write a formula that may break rules, spoil its text in up to four places, or choose edits of it."""
    text = formula_text(choices)
    match choices.pick(("text", "text", "bracket", "edits")):
        case "edits":
            edits = [_edit(choices) for _ in range(choices.integer(1, 6))]
            return {"form": "edits", "text": text, "edits": edits}
        case "bracket":
            return {"form": "bracket", "text": _spoilt(choices, _bracketed(text))}
        case form:
            return {"form": form, "text": _spoilt(choices, text)}


def formula_text(choices: Choices) -> str:
    """Write a formula that can be read; it may break any other rule."""
    functions = tuple(own_functions().values())
    lines = ["inputs image, paper\n"] if choices.integer(0, 2) == 0 else []
    for number in range(choices.integer(1, 4)):
        lines += [f"// {choices.pick(('é', 'above', '$1'))}\n"] if choices.integer(0, 4) == 0 else []
        if choices.integer(0, 5) == 0:
            until = choices.pick(("", " until change below 0.01"))
            lines += [f"repeat {choices.integer(0, 40)}{until} {{\n", f"  {_step(choices, functions, number)}\n", "}\n"]
        else:
            lines.append(_step(choices, functions, number) + choices.pick(("\n", "\n", " // soft\n")))
    if choices.integer(0, 4) == 0:
        lines.append(f"results {_source(choices)}, {_source(choices)}\n")
    return "".join(lines)


def _step(choices: Choices, functions: tuple[Function, ...], number: int) -> str:
    function = choices.pick(functions)
    parts = [choices.pick(("", "", f"s{number} = ")), function.name, _arguments(choices, function)]
    count = len(function.pictures) if choices.integer(0, 7) else choices.integer(0, 2)
    if count > 1 or choices.integer(0, 2) == 0:
        parts.append(f" of {', '.join(_source(choices) for _ in range(max(1, count)))}")
    if choices.integer(0, 3) == 0:
        parts.append(f" outside {choices.pick(('clamp', 'mirror', 'wrap', 'constant'))}")
    if choices.integer(0, 3) == 0:
        conditions = (
            "output within 10% of pixel",
            "not input within 0.2 of #ff8000",
            "region(1, 2, 3, 4)",
            "mask image",
        )
        parts.append(f" where {choices.pick(conditions)}")
    if choices.integer(0, 3) == 0:
        merge = choices.pick(functions) if choices.integer(0, 4) == 0 else own_functions()["blend"]
        parts.append(f" with {merge.name}{_arguments(choices, merge)} {_source(choices)}")
    return "".join(parts)


def _arguments(choices: Choices, function: Function) -> str:
    given = [f"{each.name}={_value(choices, each)}" for each in function.parameters if choices.integer(0, 2) == 0]
    return f"({', '.join(given)})" if given else ""


def _value(choices: Choices, parameter: Parameter) -> str:
    if choices.integer(0, 9) == 0:
        return choices.pick(("0", "-7", "1e30", "yes", "#000000", "[1]"))
    match parameter:
        case NumberParameter(low=low, high=high, default=default):
            return choices.pick((number_text(low), number_text(high), value_text(default)))
        case ChoiceParameter(words=words):
            return choices.pick(words)
        case FlagParameter():
            return choices.pick(("yes", "no"))
        case ColourParameter():
            return "#ff8000"
        case _:
            return choices.pick(("[1]", "[1 2 1]", "[1 0; -2 3.5]"))


def _source(choices: Choices) -> str:
    return choices.pick(("image", "image", "paper", "$1", "$1", "$2", "s0", "s1", "previous"))


def _bracketed(text: str) -> str:
    """Return the bracket form of a formula, without what that cannot hold."""
    try:
        return bracket.to_text(parse(text))
    except TileError:
        return (
            "[gaussian:(sigma=2)]\n[convolve:{1}(weights=<1 2; 3 4>)~wrap?output<10%:pixel&blend(amount=0.5){image}]\n"
        )


def _spoilt(choices: Choices, text: str) -> str:
    for _ in range(choices.integer(0, 4)):
        start = choices.integer(0, len(text))
        end = min(len(text), start + choices.pick((0, 0, 1, 1, 2, 3, 8, 30)))
        other = choices.integer(0, len(text))
        middle = choices.pick((choices.pick(PIECES), choices.pick(PIECES), text[other : other + 10], ""))
        text = text[:start] + middle + text[end:]
    return text


def _edit(choices: Choices) -> list[Any]:
    """Choose an edit: what it does, numbers that choose its places, and a value."""
    kind = choices.pick(("control", "control", "control", "insert", "remove", "redirect", "duplicate", "move"))
    value = choices.pick(VALUES) if choices.integer(0, 2) == 0 else "word"
    return [kind, choices.integer(0, 999), choices.integer(0, 999), value]


def check(case: Case) -> int:
    """Read a text, and do with it what can be done with formulas; or edit it."""
    if case["form"] == "edits":
        return sum(_check_edit(case["text"], edit) for edit in case["edits"])
    read, printed = (bracket.parse, bracket.to_text) if case["form"] == "bracket" else (parse, to_text)
    try:
        formula = read(case["text"])
    except TileError as error:
        _check_places(error, case["text"])
        raise Refused(error.diagnostics[0].code) from error
    assert read(printed(formula)) == formula, f"reads as something else after printing: {case['text']}"
    if case["form"] == "text":
        _check_controls(case["text"], formula)
    functions = own_functions()
    faults = faults_of(formula, functions)
    assert all(fault.span is not None for fault in faults), f"a fault without a place: {faults}"
    if faults or len(formula.steps) > _CHEAP:
        return 1
    try:
        craft(formula, functions)
    except TileError as error:
        _check_places(error, case["text"])
        raise Refused(error.diagnostics[0].code) from error
    return 2


def check_node(formula: Formula) -> None:
    """Check that a formula that no text was read for is told to break rules, or has a text that reads as it."""
    if not faults_of(formula, own_functions()):
        assert parse(to_text(formula)) == formula, f"reads as something else after printing: {to_text(formula)}"


def _check_places(error: TileError, text: str) -> None:
    for fault in error.diagnostics:
        assert fault.message, "an error without a message"
        assert fault.span is not None, f"a fault without a place: {fault.message}"
        assert 0 <= fault.span.start <= fault.span.stop <= len(text), f"a place outside of the text: {fault.message}"


def _check_controls(text: str, formula: Formula) -> None:
    """Check that each control stands where it says."""
    for control in each_control(controls_of(formula, own_functions())):
        assert control.given == (control.span is not None), control
        if control.span is not None:
            assert text[slice(*control.span)].strip(), control


def _check_edit(text: str, edit: list[Any]) -> int:
    """Edit a text, and check that all else is as it was; the number of edits, 0 where this one is refused."""
    formula = parse(text)
    try:
        edited = _edited(text, formula, edit)
    except TileError:
        return 0
    assert edited.text == changed(text, edited.changes), "the text is not what the changes say"
    assert edited.formula == parse(edited.text), "the formula is not what the text says"
    if edit[0] != "control":
        _check_references(formula, edited, edit)
    return 1


def _edited(text: str, formula: Formula, edit: list[Any]) -> EditedText:
    kind, first, second, value = edit
    places = [(path, step) for path, step, _ in places_of(formula)]
    steps = [path for path, step in places if step is not None]
    if kind == "control" or not steps:
        controls = list(each_control(controls_of(formula, own_functions())))
        control = controls[first % len(controls)]
        if value == "word":
            words = control.words if isinstance(control, ChoiceControl) else (control.value,)
            value = words[second % len(words)]
        return apply(text, control.path, value, own_functions()).edited
    path, target = steps[first % len(steps)], places[second % len(places)][0]
    match kind:
        case "insert":
            return inserted(text, target, "gaussian(sigma=3)\nmedian // of it")
        case "duplicate":
            return duplicated(text, path)
        case "move":
            return moved(text, path, target)
        case _:
            return removed(text, path, redirect=kind == "redirect")


def _check_references(before: Formula, edited: EditedText, edit: list[Any]) -> None:
    """Check that what a step read by a name or number is what it reads now, or what the step that is gone read."""
    after = {each.path: each.target for each in references_of(edited.formula)}
    for each in references_of(before):
        own = moved_path(each.path, edited.moved)
        wanted = None if each.target is None else moved_path(each.target, edited.moved)
        if own is not None and wanted is not None:
            assert after[own] == wanted, f"{each.path} read {each.target}, and reads {after[own]} after {edit}"
    names = [step.name for _, step, _ in places_of(before) if isinstance(step, Step) and step.name]
    groups = [step for _, step, _ in places_of(before) if isinstance(step, Repeat)]
    if edit[0] == "move":
        now = [step for _, step, _ in places_of(edited.formula) if step is not None]
        assert sorted(names) == sorted(step.name for step in now if isinstance(step, Step) and step.name)
        assert len(groups) == sum(isinstance(step, Repeat) for step in now)


AREA: Final = Area("formulas", make, check)
