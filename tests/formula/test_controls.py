"""Controls of a formula: they show what its text says, and write nothing but what they stand for."""

from __future__ import annotations

import pytest

from strategies.formulas import FUNCTIONS
from tileir.core.errors import TileError
from tileir.core.json.codec import from_json, to_json
from tileir_formula.definitions.offers import MOST_SOURCES, offers
from tileir_formula.editing.control_tree import controls_of
from tileir_formula.editing.controls import ChoiceControl, Control, FormulaControls, WeightsControl, each_control
from tileir_formula.editing.step_edits import inserted
from tileir_formula.lower.applying import ControlEffect, apply, following
from tileir_formula.text.parser import parse

TEXT = """\
// of a photograph
inputs photo, paper
a = blur( radius = 2 ) of photo  outside clamp where not output within 10 % of pixel with mix(amount=0.3) paper // soft
repeat 3 until change below 0.1 {
  // warmer
  tint(colour=#ff0000, mode=dark, soft=yes)
  add of a, previous where input within 0.5 of #00ff00
}
weigh(weights=[1 2;
  3 4]) where region(0, 1, 2, 3)
halve of $2 where mask a
results a, $2
"""


def known(text: str = TEXT) -> dict[str, Control]:
    return {control.path: control for control in each_control(controls_of(text, FUNCTIONS))}


def applied(text: str, path: str, value: str | None) -> ControlEffect:
    return apply(text, path, value, FUNCTIONS)


def test_controls_know_their_place() -> None:
    controls = known()
    places = {path: TEXT[slice(*each.span)] for path, each in controls.items() if each.span is not None}
    assert places.keys() == {path for path, each in controls.items() if each.given}
    assert places["steps[0].function"] == "blur"
    assert places["steps[0].arguments.radius"] == "2"
    assert places["steps[0].condition.kind"] == "not output within 10 % of pixel"
    assert places["steps[0].merge.arguments.amount"] == "0.3"
    assert places["steps[1].steps[1].sources[1]"] == "previous"
    assert places["steps[2].arguments.weights"] == "[1 2;\n  3 4]"
    assert places["steps[3].condition.source"] == "a"


def test_controls_show_values_and_bounds() -> None:
    controls = known()
    radius = controls["steps[0].arguments.radius"]
    assert (radius.value, radius.default, radius.given, radius.about) == ("2", "1", True, "how far")
    amount = controls["steps[0].arguments.amount"]
    assert (amount.value, amount.default, amount.given) == ("0.5", "0.5", False)
    weights = controls["steps[2].arguments.weights"]
    assert isinstance(weights, WeightsControl)
    assert (weights.rows, weights.most) == (((1.0, 2.0), (3.0, 4.0)), 9)
    values = {path: control.value for path, control in controls.items()}
    assert values["steps[1].steps[0].arguments.soft"] == "yes"
    assert values["steps[1].steps[1].condition.reference"] == "#00ff00"
    assert values["steps[1].steps[0].sources[0]"] == "previous"
    assert values["steps[2].sources[0]"] == "$2"
    assert values["steps[1].limit"] == "0.1"


def test_only_windows_have_a_boundary() -> None:
    boundaries = {path: control.value for path, control in known().items() if path.endswith(".boundary")}
    assert boundaries == {"steps[0].boundary": "clamp", "steps[2].boundary": "clamp"}


def test_controls_are_json() -> None:
    controls = controls_of(TEXT, FUNCTIONS)
    assert from_json(to_json(controls), FormulaControls) == controls


@pytest.mark.sampled(24)
@pytest.mark.parametrize("path", known())
def test_a_control_that_writes_its_own_value_changes_nothing(path: str) -> None:
    control = known()[path]
    edit = applied(TEXT, path, control.value if control.given else None)
    if path == "steps[2].arguments.weights":  # in one line, as controls have it
        assert parse(edit.edited.text) == parse(TEXT)
        return
    assert edit.edited.text == TEXT
    assert edit.changed == ()


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ("blur", "steps[0].arguments.radius", "3", "blur(radius=3)"),
        ("blur(radius=3)", "steps[0].arguments.radius", None, "blur"),
        ("blur()", "steps[0].arguments.radius", "3", "blur(radius=3)"),
        ("blur( radius=3 ,amount=1 )", "steps[0].arguments.radius", None, "blur( amount=1 )"),
        ("blur( radius=3 ,amount=1 )", "steps[0].arguments.amount", None, "blur( radius=3 )"),
        ("blur", "steps[0].name", "x", "x = blur"),
        ("x  =  blur", "steps[0].name", None, "blur"),
        ("x = blur\nblur of x\nresults x", "steps[0].name", "y", "y = blur\nblur of y\nresults y"),
        ("x = blur\nadd of x, $1", "steps[0].name", "", "blur\nadd of $1, $1"),
        ("blur", "steps[0].boundary", "wrap", "blur outside wrap"),
        ("blur of image\toutside wrap where mask image", "steps[0].boundary", None, "blur of image where mask image"),
        ("blur outside wrap", "steps[0].boundary", "clamp", "blur outside clamp"),
        ("blur", "steps[0].sources[0]", "image", "blur of image"),
        ("blur of image  // first", "steps[0].sources[0]", None, "blur  // first"),
        ("add of image,  image", "steps[0].sources[1]", "$1", None),
        ("blur\nadd of image,  image", "steps[1].sources[1]", "$1", "blur\nadd of image,  $1"),
        ("blur", "steps[0].condition.kind", "near", "blur where output within 10% of pixel"),
        ("blur", "steps[0].condition.kind", "mask", "blur where mask image"),
        ("blur where mask image with add image", "steps[0].condition.kind", "none", "blur with add image"),
        ("blur", "steps[0].condition", "not mask image", "blur where not mask image"),
        ("blur where not mask image", "steps[0].condition", None, "blur"),
        ("blur", "steps[0].merge.function", "mix", "blur with mix image"),
        ("blur with mix(amount=0) image", "steps[0].merge.function", "add", "blur with add image"),
        ("blur with mix(amount=0) image", "steps[0].merge.function", None, "blur"),
        ("blur with mix image", "steps[0].merge.arguments.amount", "0", "blur with mix(amount=0) image"),
        ("blur\nblur with mix image", "steps[1].merge.source", "$1", "blur\nblur with mix $1"),
        ("blur", "steps[0].merge", "mix(amount=1) image", "blur with mix(amount=1) image"),
        ("blur with add image", "steps[0].merge", "mix(amount=1) image", "blur with mix(amount=1) image"),
        ("blur(radius=3)", "steps[0].function", "weigh", "weigh"),
        ("blur(radius=3, amount=0)", "steps[0].function", "tint", "tint(amount=0)"),
        ("tint(amount=3)", "steps[0].function", "blur", "blur"),
        ("blur outside wrap where mask image", "steps[0].function", "tint", "tint where mask image"),
        ("blur outside wrap where mask image", "steps[0].function", "halve", "halve"),
        ("blur // x", "steps[0].function", "add", "add of image, image // x"),
        ("blur\nblur outside wrap", "steps[1].function", "add", "blur\nadd of $1, image"),
        ("repeat 2 {\n  blur\n}", "steps[0].steps[0].function", "add", "repeat 2 {\n  add of previous, image\n}"),
        ("blur of image", "steps[0].function", "add", "add of image, image"),
        ("add of image , image", "steps[0].function", "blur", "blur of image"),
        ("repeat 2 {\n blur\n}", "steps[0].count", "5", "repeat 5 {\n blur\n}"),
        ("repeat 2 {\n blur\n}", "steps[0].limit", "0.1", "repeat 2 until change below 0.1 {\n blur\n}"),
        ("repeat 2  until change below 1 {\n blur\n}", "steps[0].limit", None, "repeat 2 {\n blur\n}"),
        ("blur", "results[0]", "$1", "blur\nresults $1\n"),
        ("blur\nresults $1", "results[1]", "image", "blur\nresults $1, image"),
        ("blur\nresults $1, image", "results[0]", None, "blur\nresults image"),
        ("blur\nblur", "steps[0]", None, "blur"),
        ("blur\nblur", "steps[1]", "tint(amount=1)", "blur\ntint(amount=1)"),
        ("blur\nrepeat 2 {\n blur\n}", "steps[1]", "blur", "blur\nblur"),
    ],
)  # fmt: skip
def test_a_control_writes_its_own_characters(before: str, path: str, value: str | None, after: str | None) -> None:
    if after is None:
        with pytest.raises(TileError, match="nothing yet"):
            applied(before, path, value)
        return
    assert applied(before, path, value).edited.text == after


@pytest.mark.parametrize(
    ("before", "part", "value", "after"),
    [
        ("mask image", "kind", "region", "region(0, 0, 64, 64)"),
        ("mask image", "negated", "yes", "not mask image"),
        ("not   mask image", "negated", "no", "mask image"),
        ("mask image", "source", "image", "mask image"),
        ("region(1,2,3,4)", "height", "9", "region(1,2,9,4)"),
        ("input within 1 of pixel", "relative", "yes", "input within 1% of pixel"),
        ("input within 1 % of pixel", "relative", "no", "input within 1 of pixel"),
        ("input within 1 of pixel", "subject", "output", "output within 1 of pixel"),
        ("input within 1 of pixel", "limit", "0.5", "input within 0.5 of pixel"),
        ("input within 1 of pixel", "pixel", "no", "input within 1 of #808080"),
        ("input within 1 of #010203", "pixel", "yes", "input within 1 of pixel"),
        ("input within 1 of #010203", "reference", "#ffffff", "input within 1 of #ffffff"),
    ],
)
def test_controls_of_conditions(before: str, part: str, value: str, after: str) -> None:
    edit = applied(f"blur where {before}  // here", f"steps[0].condition.{part}", value)
    assert edit.edited.text == f"blur where {after}  // here"


def test_taking_the_last_result_away() -> None:
    assert applied("blur\nresults $1\n", "results[0]", None).edited.formula == parse("blur")


@pytest.mark.parametrize(
    ("text", "path", "value", "code", "message"),
    [
        ("blur", "steps[0].arguments.radius", "99", "TIL224", "radius is from"),
        ("blur", "steps[0].arguments.radius", "1, amount=0", "TIL102", "the end of the value"),
        ("blur", "steps[0].arguments.radius", "1) of image // ", "TIL102", "the end of the value"),
        ("blur", "steps[0].arguments.size", "1", "TIL206", "no parameter 'size'"),
        ("blur(radius=1)", "steps[0].arguments.radius", "1\n", "TIL102", "the end of the value"),
        ("blur", "steps[0].function", "blurr", "TIL206", "did you mean blur"),
        ("blur", "steps[0].name", "of", "TIL102", "word of the language"),
        ("blur", "steps[0].name", "image", "TIL202", "defined before"),
        ("blur", "steps[0].boundary", "warp", "TIL221", "did you mean wrap"),
        ("tint", "steps[0].boundary", "wrap", "TIL225", "drop `outside`"),
        ("blur", "steps[0].sources[0]", "$1", "TIL223", "nothing yet"),
        ("blur", "steps[0].sources[1]", "image", "TIL221", "no element"),
        ("blur", "steps[0].condition.limit", "1", "TIL221", "no element"),
        ("blur", "steps[0].condition.kind", "naer", "TIL221", "did you mean near"),
        ("blur where mask image", "steps[0].condition.negated", "maybe", "TIL221", "yes or no"),
        ("blur where mask image", "steps[0].condition.relative", "yes", "TIL221", "no element"),
        ("blur where mask image", "steps[0].condition", "mask image with add image", "TIL102", "the end of the value"),
        ("blur", "steps[0].merge.function", "blur", "TIL222", "cannot merge"),
        ("blur", "steps[0].merge.source", "image", "TIL221", "no element"),
        ("blur", "steps[0].merge", "add", "TIL102", "expected an input"),
        ("blur", "steps[0]", "blur\nblur", "TIL221", "one step"),
        ("x = blur\nblur of x", "steps[0]", None, "TIL228", "redirect"),
        ("x = blur\nblur of x", "steps[0]", "blur", "TIL223", "named 'x'"),
        ("repeat 2 {\n  x = blur\n  blur of x\n}", "steps[0].steps[0].name", None, "TIL223", "named 'x'"),
        ("repeat 2 {\n  blur\n  blur\n}", "steps[0].steps[1].function", "add", "TIL222", "a name"),
        ("repeat 2 {\n  blur\n}", "steps[0].count", None, "TIL221", "no element"),
        ("repeat 2 {\n  blur\n}", "steps[0].count", "2.5", "TIL104", "rounds"),
        ("repeat 2 {\n  blur\n}", "steps[0].name", "x", "TIL221", "no element"),
        ("blur", "steps[1].function", "blur", "TIL221", "no element"),
        ("blur", "steps[0]function", "blur", "TIL221", "no element"),
        ("blur", "steps[0].colour", "1", "TIL221", "no element"),
        ("blur", "results[1]", "$1", "TIL221", "no element"),
        ("blur", "", None, "TIL221", "no element"),
        ("blur(", "steps[0].function", "tint", "TIL102", "expected"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_told(text: str, path: str, value: str | None, code: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        applied(text, path, value)
    fault = caught.value.diagnostics[0]
    assert fault.code == code
    assert message in fault.message


def test_what_is_wrong_elsewhere_is_no_obstacle() -> None:
    text = "glow(size=3) of nothing outside wrap with glow $7\nblur(radius=77)\nblur of $9"
    assert [each.path for each in each_control(controls_of(text, FUNCTIONS)) if each.path.startswith("steps[0]")]
    assert applied(text, "steps[1].arguments.amount", "0.25").edited.text == text.replace("=77", "=77, amount=0.25")
    assert applied(text, "steps[0].function", "blur").edited.text.startswith("blur of nothing outside wrap")
    with pytest.raises(TileError, match="amount is from"):
        applied(text, "steps[1].arguments.amount", "2")


def test_one_control_stands_for_several_steps() -> None:
    text = "blur // across\nblur(amount=0) // down\n"
    made = apply(text, ["steps[0].arguments.radius", "steps[1].arguments.radius"], "3", FUNCTIONS)
    assert made.edited.text == "blur(radius=3) // across\nblur(amount=0, radius=3) // down\n"
    assert [path for path, _ in made.changed] == ["steps[0].arguments.radius", "steps[1].arguments.radius"]
    both = apply(text, ["steps[0].arguments.radius", "steps[0].arguments.amount"], "1", FUNCTIONS)
    assert both.edited.text == "blur(radius=1, amount=1) // across\nblur(amount=0) // down\n"


def test_an_edit_says_which_controls_changed() -> None:
    made = applied("blur\nblur(radius=2)\n", "steps[0].arguments.radius", "3")
    assert made.changed == (("steps[0].arguments.radius",) * 2,)
    assert [each.value for each in each_control(made.controls) if each.path.endswith("radius")] == ["3", "2"]
    before = parse("blur\nadd of $1, image\n")
    after = following(before, inserted("blur\nadd of $1, image\n", "steps[1]", "tint"), FUNCTIONS)
    changed = dict(after.changed)
    assert changed["steps[1].function"] == "steps[2].function"
    assert "steps[0].arguments.radius" not in changed
    assert (None, "steps[1].arguments.colour") in after.changed
    gone = applied("blur\ntint\n", "steps[0]", None)
    assert ("steps[0].arguments.radius", None) in gone.changed
    assert ("steps[1].arguments.soft", "steps[0].arguments.soft") in gone.changed


def test_what_may_be_offered_is_computed() -> None:
    text = "x = blur\ntint\nrepeat 2 {\n  blur\n  y = tint\n}\n"
    formula = parse(text)
    everywhere = tuple(FUNCTIONS)
    assert offers(formula, "steps[0]", FUNCTIONS).sources == ("image",)
    assert offers(formula, "steps[2]", FUNCTIONS).sources == ("image", "x", "$2")
    assert offers(formula, "steps[2].steps[2]", FUNCTIONS).sources == ("image", "previous", "x", "$2", "y")
    assert offers(formula, "steps[3]", FUNCTIONS).sources == ("image", "x", "$2", "$3")
    assert offers(formula, "steps[2].steps[0]", FUNCTIONS).functions == everywhere
    unnamed = offers(formula, "steps[2].steps[1]", FUNCTIONS)
    assert unnamed.implied is None
    assert unnamed.functions == ("blur", "weigh", "tint", "halve")
    assert unnamed.merges == ("add", "mix")
    assert offers(parse("halve"), "steps[0]", FUNCTIONS).conditions == ()
    with pytest.raises(TileError, match="no place"):
        offers(formula, "steps[4]", FUNCTIONS)


def test_what_is_offered_is_bounded() -> None:
    formula = parse("".join(f"x{number} = blur\n" for number in range(3 * MOST_SOURCES)))
    offered = offers(formula, f"steps[{3 * MOST_SOURCES}]", FUNCTIONS).sources
    assert len(offered) == 1 + MOST_SOURCES
    assert offered[-1] == f"x{3 * MOST_SOURCES - 1}"


@pytest.mark.sampled(0)
def test_what_is_offered_can_be_written() -> None:
    for path, control in known().items():
        if isinstance(control, ChoiceControl):
            for word in control.words:
                assert apply(TEXT, path, word, FUNCTIONS).edited.formula is not None, (path, word)
