"""No pass and no stage behind the passes changes what a program computes, on numbers that are added up exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, strategies as st

from strategies import contractions, means
from strategies.effort import examples
from strategies.steps import STEPS
from strategies.tile import Case, cases
from tileir.core.numbers.arithmetic import dtype_of
from tileir.core.targets.target import Target
from tileir.core.targets.target_names import names_of_targets
from tileir.driver.targets import TargetChoice, choice_of
from tileir.passes.pipelines.pipeline import to_text
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared
from tileir_testing.checking.check import check_function, check_program

if TYPE_CHECKING:
    from tileir.passes.base import Pass
    from tileir.typed.ir import Function


def _shipped(name: str) -> Target:
    choice = choice_of(name)
    assert isinstance(choice, TargetChoice)
    return choice.applied(Target())


SHIPPED: Final = {name: _shipped(name) for name in names_of_targets()}
HARSH: Final = ("bold", "pieces", "small")


def typed(case: Case) -> Function:
    types = {name: TensorType(dtype_of(array), array.shape) for name, array in case.inputs.items()}
    return prepared(infer(case.function, types))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", SHIPPED)
@given(case=cases(functions=True, empty=True) | cases(functions=True, largest_size=9))
@examples(25)
def test_pipelines_of_shipped_targets(target: str, case: Case) -> None:
    facts = SHIPPED[target]
    assert (found := check_function(typed(case), pipeline_for(facts), facts)) is None, str(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pipeline", HARSH)
@given(case=cases(functions=True, largest_size=9), target=st.sampled_from(sorted(means.TARGETS)))
@examples(40)
def test_pipelines_that_cut_and_join_all_that_can_be(pipeline: str, case: Case, target: str) -> None:
    facts = means.TARGETS[target]
    assert (found := check_function(typed(case), means.PASSES[pipeline](facts), facts)) is None, str(found)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", SHIPPED)
@given(case=contractions.contractions())
@examples(6)
def test_contractions_as_people_write_them(target: str, case: contractions.Case) -> None:
    facts = SHIPPED[target]
    assert (found := check_program(case.program(), pipeline_for(facts), facts)) is None, str(found)


@given(case=cases(functions=True, largest_size=6), passes=st.lists(st.sampled_from(STEPS), min_size=1, max_size=6))
@examples(150)
def test_passes_in_any_order(case: Case, passes: list[Pass]) -> None:
    """A pass may refuse only a request."""
    found = check_function(typed(case), passes)
    assert found is None or "TIL543" in found.problem, f"{to_text(passes)}: {found}"
