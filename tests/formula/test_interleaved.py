"""Text and controls change a formula by turns: what no edit names stays to the byte, and controls say all of it."""

from __future__ import annotations

import re
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest

from fuzz import formulas
from fuzz.area import Refused
from strategies.effort import share_of
from strategies.formulas import FUNCTIONS
from tileir.core.errors import TileError
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.editing.changes import Change, changed, composed, edited
from tileir_formula.editing.control_edits import ControlEdits
from tileir_formula.editing.control_tree import controls_of
from tileir_formula.editing.controls import (
    ChoiceControl,
    FlagControl,
    GroupControls,
    NumberControl,
    StepControls,
    each_control,
)
from tileir_formula.editing.step_edits import duplicated, inserted, moved, removed
from tileir_formula.ir import Formula, Repeat, Step
from tileir_formula.lower.applying import apply
from tileir_formula.references import places_of
from tileir_formula.text.parser import parse
from tileir_testing.generated.choices import Seeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tileir_formula.editing.changes import EditedText
    from tileir_formula.editing.controls import Control

TEXT = """\
// of a photograph
inputs image,  paper
a = blur( radius = 2 ) of image  outside clamp // soft

repeat 3 until change below 0.1 {
  // warmer
  tint(colour=#ff0000, mode=dark)
  add of a, previous where not input within 5 % of pixel
  // last
}
weigh(weights=[1 2;
  3 4]) where region(0, 1, 2, 3)  with mix(amount=0.3) $1
\ttint of $2 where mask a // é 😀
// done
results a, $2
"""


def test_edits_by_turns() -> None:
    chosen = Random(11)
    text, done, refused = TEXT, 0, 0
    while done < share_of(1000):
        if not 120 < len(text) < 3000:
            text = TEXT
        edit = chosen.choice([by_hand, by_control, by_control, of_steps])
        try:
            after = edit(text, chosen)
        except TileError:
            refused += 1
            assert refused < 4000
            continue
        done += 1
        assert parse(after) is not None
        text = after


def by_hand(text: str, chosen: Random) -> str:
    """Change a text as people do: a digit, a space, a comment."""
    place = chosen.choice([match.start() for match in re.finditer(r"\n|(?<=[ (])\d", text)])
    if text[place] == "\n":
        after = text[:place] + chosen.choice(["\n", "\n// by hand"]) + text[place:]
    else:
        after = text[:place] + chosen.choice("0123456789") + text[place + 1 :]
    parse(after)
    return after


def by_control(text: str, chosen: Random) -> str:
    """Change a text by a control, and check that its own characters alone are other ones."""
    controls = list(each_control(controls_of(text, FUNCTIONS)))
    control = chosen.choice(controls)
    value = value_for(control, chosen)
    made = apply(text, control.path, value, FUNCTIONS)
    assert changed(text, made.edited.changes) == made.edited.text
    assert comments_of(text) == comments_of(made.edited.text)
    if control.span is not None and value is not None and is_plain(control):
        start, stop = control.span
        assert made.edited.text == text[:start] + value + text[stop:]
    now = {each.path: each for each in each_control(made.controls)}
    for before, after in made.changed:
        assert before is None or before in {each.path for each in controls}
        assert after is None or after in now
    if is_plain(control) and value is not None and not control.path.startswith("results"):
        shown = now[control.path].value
        assert shown == value or float(shown) == float(value)
    return made.edited.text


def is_plain(control: Control) -> bool:
    """Return whether a control writes its value and nothing else."""
    return ".arguments." in control.path or control.path.endswith((".limit", ".count", ".subject", ".boundary", "]"))


def value_for(control: Control, chosen: Random) -> str | None:
    """Return something that a control may be given."""
    if control.default is not None and chosen.random() < 0.2:
        return None
    match control:
        case ChoiceControl(words=words):
            return chosen.choice(words)
        case FlagControl():
            return chosen.choice(["yes", "no"])
        case NumberControl(low=low, high=high, whole=whole):
            number = chosen.uniform(low or 0, min(10, high or 10))
            return str(round(number) if whole else round(number, 2))
        case _:
            return {"name": chosen.choice(["b", "c2", "tone"]), "colour": "#0102ff"}.get(control.label, "[1 2 1]")


def of_steps(text: str, chosen: Random) -> str:
    """Insert, remove, copy or move a step, and check that the lines of others differ in numbers and new names alone."""
    places = [(path, step) for path, step, _ in places_of(parse(text))]
    path = chosen.choice([path for path, step in places if step is not None])
    target, _ = chosen.choice(places)
    lines = unnumbered(text)
    match chosen.choice(["insert", "remove", "duplicate", "move"]):
        case "insert":
            made = never_refused(partial(inserted, text, target, "blur(radius=7) // inserted"))
            assert sorted(unnumbered(made.text)) == sorted([*lines, "blur(radius=7) // inserted"])
        case "duplicate":
            made = never_refused(partial(duplicated, text, path))
            assert set(lines) <= set(unnumbered(made.text))
        case "remove":
            made = removed(text, path)
            assert set(unnumbered(made.text)) <= set(lines)
        case _:
            made = moved(text, path, target)
            assert sorted(unnumbered(made.text)) == sorted(lines)
    assert changed(text, made.changes) == made.text
    return made.text


def never_refused(edit: Callable[[], EditedText]) -> EditedText:
    try:
        return edit()
    except TileError as error:
        raise AssertionError("steps can always be added") from error


def unnumbered(text: str) -> list[str]:
    return [re.sub(r"\$\d+", "$", line.strip()) for line in text.split("\n") if line.strip()]


def comments_of(text: str) -> list[str]:
    return re.findall(r"//[^\n]*", text)


@pytest.mark.sampled(39)
@pytest.mark.parametrize("seed", range(60))
def test_controls_say_all_that_a_text_says(seed: int) -> None:
    """From a generated text to controls, and from these to a text that means the same."""
    text = formulas.formula_text(Seeded(f"controls/{seed}"))
    functions = own_functions()
    formula = parse(text)
    controls = controls_of(formula, functions)
    plain = "".join(skeleton(controls.steps, ""))
    if controls.inputs != ("image",):
        plain = f"inputs {', '.join(controls.inputs)}\n{plain}"
    for control in each_control(controls):
        if is_written(control):
            edits = ControlEdits.of(plain, parse(plain), functions)
            plain = edited(plain, edits.changes(control.path, control.value)).text
    assert without_comments(parse(plain)) == without_comments(formula)


def is_written(control: Control) -> bool:
    """Return whether a control has something to say of steps whose functions stand there, and of new conditions."""
    if control.path.endswith(".count") or re.fullmatch(r"(steps\[\d+\]\.?)+function", control.path):
        return False
    return control.given or ".condition." in control.path


def skeleton(steps: tuple[StepControls | GroupControls, ...], indent: str) -> Iterator[str]:
    """Yield the functions of steps alone."""
    for step in steps:
        if isinstance(step, StepControls):
            yield f"{indent}{step.function.value}\n"
        else:
            yield f"{indent}repeat {step.count.value} {{\n"
            yield from skeleton(step.steps, f"{indent}  ")
            yield f"{indent}}}\n"


def without_comments(formula: Formula) -> Formula:
    steps = tuple(map(bare, formula.steps))
    return attrs.evolve(
        formula,
        steps=steps,
        comments=(),
        input_remark=None,
        result_comments=(),
        result_remark=None,
        last_comments=(),
    )


def bare(step: Step | Repeat) -> Step | Repeat:
    if isinstance(step, Step):
        return attrs.evolve(step, comments=(), remark=None)
    steps = tuple(map(bare, step.steps))
    return attrs.evolve(step, steps=steps, comments=(), remark=None, last_comments=())


def test_edits_one_after_the_other_are_one_edit() -> None:
    chosen = Random(13)
    for _ in range(500):
        text = "abcdefghijklmnopqrstuvwxyz"
        first = some_changes(text, chosen)
        between = changed(text, first)
        second = some_changes(between, chosen)
        both = composed(text, first, second)
        assert changed(text, both) == changed(between, second)


def some_changes(text: str, chosen: Random) -> tuple[Change, ...]:
    places = sorted(chosen.sample(range(len(text) + 1), 2 * chosen.randint(0, 3)))
    pairs = zip(places[::2], places[1::2], strict=True)
    return tuple(Change(start, chosen.choice([start, stop]), chosen.choice(["", "1", "23"])) for start, stop in pairs)


def test_broken_formulas_are_told_with_a_place() -> None:
    """As many as make sense at each change; the fuzzer makes more."""
    refused, count = 0, share_of(1500)
    for number in range(count):
        case = formulas.make(Seeded(f"broken/{number}"))
        try:
            formulas.check(case)
        except Refused:
            refused += 1
    assert 0.2 * count < refused < 0.94 * count
