"""Every row of the conformance table, inferred and interpreted, and again after simplification."""

import pytest

from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.verifier import verify
from tileir_testing.programs.case import Conformance
from tileir_testing.programs.catalog import CASES


@pytest.mark.sampled(109)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_interpreter_agrees_with_numpy(case: Conformance) -> None:
    function = infer(parse(case.text), case.types)
    verify(function)
    case.check(interpret(function, case.inputs))


@pytest.mark.sampled(109)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_simplified_functions_agree_with_numpy(case: Conformance) -> None:
    function = simplify(infer(parse(case.text), case.types))
    verify(function)
    case.check(interpret(function, case.inputs))


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
