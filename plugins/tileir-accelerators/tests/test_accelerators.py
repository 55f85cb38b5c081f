"""The wheel: its passes and targets are found by name, are as extensions are to be, and keep what programs mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
import tileir_accelerators
from fuzz import pipelines
from fuzz.recording import cases
from strategies.catalogue import OF_ACCELERATORS, OFFERED
from strategies.effort import examples
from strategies.passes import arrays_for, programs
from tileir.core.errors import ParseError
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.core.protocols import mistakes
from tileir.core.targets.target import Target
from tileir.passes.base import Pass, run
from tileir.passes.offers import OFFERS
from tileir.passes.pipelines.catalog import load_pipeline, parse_pipeline, pipeline_for
from tileir.passes.pipelines.pipeline import to_json, to_text
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.stripe.interpret.interpreter import interpret
from tileir_testing.extensions import check_installed

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

FACTS = (Target(), Target(vector_bytes=16, threads=4), Target(vector_bytes=64, vector_registers=32, cache_bytes=()))
NAMES = [*OFFERED["tileir.targets"]]
CORPUS = list(cases(Path(__file__).parent / "corpus"))


def test_all_is_installed() -> None:
    assert set(OFFERED["tileir.passes"]) <= set(EXTENSIONS.names(Kind.PASS))
    assert set(OFFERED["tileir.targets"]) <= set(EXTENSIONS.names(Kind.TARGET))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*OFFERED["tileir.passes"]])
def test_passes_are_what_the_kit_asks_for(name: str) -> None:
    check_installed(Kind.PASS, name)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", NAMES)
def test_targets_are_what_the_kit_asks_for(name: str) -> None:
    check_installed(Kind.TARGET, name)


@pytest.mark.parametrize("kind", OF_ACCELERATORS, ids=lambda kind: kind.name)
def test_each_pass_is_a_frozen_value_with_defaults(kind: type[Pass]) -> None:
    step = kind()
    assert step == kind()
    assert hash(step) == hash(kind())
    assert parse_pipeline(kind.name) == (step,)
    assert not list(mistakes(kind, Pass, OFFERS))


def test_both_spellings_of_a_name() -> None:
    assert parse_pipeline("tensorize") == parse_pipeline("tensorise")
    assert load_pipeline('[{"tensorize": {}}]') == parse_pipeline("tensorise")


def test_tags_of_programs_cannot_be_set() -> None:
    with pytest.raises(ParseError, match=r"TIL543.*swap_in_set cannot hold main"):
        parse_pipeline("schedule{swap_in_set=main}")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", FACTS, ids=str)
def test_targets_go_through_text_and_json(name: str, target: Target) -> None:
    passes = pipeline_for(attrs.evolve(target, pipeline=name))
    assert parse_pipeline(to_text(passes)) == passes
    assert load_pipeline(to_json(passes)) == passes
    text = getattr(tileir_accelerators, name.upper()).read_text(encoding="utf-8")
    assert pipeline_for(attrs.evolve(target, pipeline=text)) == passes


@pytest.mark.parametrize("name", NAMES)
@given(program=programs(10), facts=st.sampled_from(FACTS))
@examples(40)
def test_targets_keep_the_meaning_down_to_kernels(name: str, program: Program, facts: Target) -> None:
    target, arrays = attrs.evolve(facts, pipeline=name), arrays_for(program)
    actual = run_program(lower(run(pipeline_for(target), program), target), arrays)
    expected = interpret(program, arrays)
    for output in program.outputs:
        np.testing.assert_array_equal(actual[output], expected[output], err_msg=output)


@pytest.mark.parametrize("target", NAMES)
def test_programs_run_for_a_target_by_name(target: str) -> None:
    product = "function (A[M, K], B[K, N]) -> (C) { T[i, j : M, N] = +(A[i, k] * B[k, j]); C = max(T, 0); }"
    a, b = (np.random.default_rng(seed).integers(-4, 5, (19, 19)).astype(np.float32) for seed in (1, 2))
    compiled = tileir.compile(product, [a, b], target=target)
    np.testing.assert_array_equal(compiled(a, b), np.maximum(a @ b, 0))


@pytest.mark.parametrize("case", [pytest.param(case, id=path.stem) for path, _, case in CORPUS])
def test_cases_that_failed_once_hold(case: dict[str, Any]) -> None:
    assert pipelines.check(case) > 0
