"""JSON of formulas and functions: like every other stage; what no text can spell is told."""

from __future__ import annotations

from math import inf, nan

import attrs
import pytest

from fuzz import formulas, json_values
from fuzz.area import Refused
from strategies.formulas import FUNCTIONS, SOBEL
from tileir.core.errors import TileError
from tileir.core.json.codec import content_hash, from_json, to_json
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.definitions.function_file import faults_of as faults_of_function
from tileir_formula.definitions.functions import DerivedInput, Function
from tileir_formula.definitions.parameters import NumberParameter
from tileir_formula.editing.control_tree import controls_of
from tileir_formula.ir import (
    Argument,
    Colour,
    Formula,
    Near,
    Number,
    Region,
    Repeat,
    Source,
    Step,
    Subject,
    Value,
    Weights,
    Word,
)
from tileir_formula.text.parser import parse
from tileir_formula.verifier import faults_of
from tileir_testing.generated.choices import Seeded


def test_hashes_stay() -> None:
    """A golden number for each: a change of it is a change of the format."""
    assert content_hash(parse(SOBEL)) == content_hash(parse(SOBEL.replace("// small steps", "//   small steps")))
    assert content_hash(parse("blur(radius=2)"))[:16] == "f92b78139915ec36"
    assert content_hash(FUNCTIONS["mix"])[:16] == "b6bb9e384554df13"


@pytest.mark.parametrize("name", [*own_functions(), *FUNCTIONS])
def test_functions_come_back(name: str) -> None:
    function = {**FUNCTIONS, **own_functions()}[name]
    again = from_json(to_json(function), Function)
    assert again == function
    assert content_hash(again) == content_hash(function)


def test_formulas_of_json_have_controls() -> None:
    formula = from_json(to_json(parse("blur(radius=2)")), Formula)
    assert controls_of(formula, FUNCTIONS) == controls_of("blur(radius=2)\n", FUNCTIONS)


def blurred(value: Value) -> Formula:
    return Formula((Step("blur", arguments=(Argument("radius", value),)),))


def tinted(value: Value) -> Formula:
    return Formula((Step("tint", arguments=(Argument("colour", value),)),))


def weighed(value: Value) -> Formula:
    return Formula((Step("weigh", arguments=(Argument("weights", value),)),))


def near(limit: float, reference: Colour | None = None) -> Formula:
    return Formula((Step("blur", condition=Near(Subject.INPUT, Number(limit), False, reference)),))


def nested(depth: int) -> Formula:
    steps: tuple[Step | Repeat, ...] = (Step("blur"),)
    for _ in range(depth):
        steps = (Repeat(Number(1), steps),)
    return Formula(steps)


@pytest.mark.parametrize(
    ("formula", "code"),
    [
        (Formula((Step("blur", name="a b"),)), "TIL211"),
        (Formula((Step("blur", name="of"),)), "TIL211"),
        (Formula((Step("blur"),), inputs=("é",)), "TIL211"),
        (Formula((Step("blur"),), inputs=()), "TIL213"),
        (Formula((Step("blur", comments=("a\nblur",)),)), "TIL211"),
        (Formula((Step("blur", remark=" a"),)), "TIL211"),
        (Formula((Step("blur"),), last_comments=("a\n",)), "TIL211"),
        (Formula((Step("blur"),), input_remark="a\n"), "TIL211"),
        (Formula((Step("blur"),), result_comments=("a",)), "TIL211"),
        (Formula((Step("blur"),), result_remark="a"), "TIL211"),
        (Formula((Step("blur", sources=(Source(0),)),)), "TIL223"),
        (Formula((Step("blur"), Step("blur", sources=(Source(-1),)))), "TIL223"),
        (blurred(Number(10**5000)), "TIL224"),
        (blurred(Number(nan)), "TIL224"),
        (blurred(Number(-inf)), "TIL224"),
        (blurred(Word("a b")), "TIL224"),
        (tinted(Colour(0, 0, 256)), "TIL224"),
        (tinted(Colour(-1, 0, 0)), "TIL224"),
        (weighed(Weights(())), "TIL224"),
        (weighed(Weights(((),))), "TIL224"),
        (weighed(Weights(((1.0,), (1.0, 2.0)))), "TIL224"),
        (weighed(Weights(((nan,),))), "TIL224"),
        (near(nan), "TIL212"),
        (near(inf), "TIL212"),
        (near(1, Colour(300, 0, 0)), "TIL104"),
        (Formula((Step("blur", condition=Region(Number(0), Number(0), Number(inf), Number(1))),)), "TIL212"),
        (Formula((Repeat(Number(nan), (Step("blur"),)),)), "TIL212"),
        (Formula((Repeat(Number(2), (Step("blur"),), Number(10**400)),)), "TIL212"),
        (nested(21), "TIL103"),
        (nested(400), "TIL103"),
    ],
)
def test_what_no_text_can_spell(formula: Formula, code: str) -> None:
    assert [fault.code for fault in faults_of(formula, FUNCTIONS)] == [code]


def test_what_can_be_spelt_is_no_fault() -> None:
    assert faults_of(nested(20), FUNCTIONS) == []
    assert faults_of(near(0.5, Colour(0, 0, 255)), FUNCTIONS) == []


BLUR = FUNCTIONS["blur"]
RADIUS = BLUR.parameters[0]
assert isinstance(RADIUS, NumberParameter)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (attrs.evolve(BLUR, parameters=(attrs.evolve(RADIUS, step=0.0), BLUR.parameters[1])), "step above 0"),
        (attrs.evolve(BLUR, parameters=(attrs.evolve(RADIUS, low=nan), BLUR.parameters[1])), "the lower one first"),
        (attrs.evolve(BLUR, parameters=(attrs.evolve(RADIUS, high=-1.0), BLUR.parameters[1])), "the lower one first"),
        (attrs.evolve(BLUR, parameters=(attrs.evolve(RADIUS, default=Number(inf)), BLUR.parameters[1])), "the default"),
        (attrs.evolve(BLUR, parameters=(attrs.evolve(RADIUS, default=Number(99)), BLUR.parameters[1])), "the default"),
        (attrs.evolve(BLUR, parameters=BLUR.parameters[:1], derived=(DerivedInput("Amount", "1 +"),)), "no expression"),
    ],
)
def test_functions_of_json_are_checked(function: Function, message: str) -> None:
    again = from_json(to_json(function), Function)
    faults = faults_of_function(again)
    assert {fault.code for fault in faults} == {"TIL226"}
    assert any(message in fault.message for fault in faults)


def test_json_of_broken_formulas_is_told_or_has_a_text() -> None:
    refused = 0
    for number in range(300):
        choices = Seeded(f"json/{number}")
        document = json_values.spoilt(choices, to_json(parse(formulas.formula_text(choices))))
        try:
            json_values.check({"kind": "formula", "document": document})
        except Refused:
            refused += 1
    assert 0 < refused < 300


def test_json_that_is_no_formula() -> None:
    with pytest.raises(TileError, match="lacks the key"):
        from_json(to_json(parse("blur")).replace(b'"steps"', b'"stops"'), Formula)
