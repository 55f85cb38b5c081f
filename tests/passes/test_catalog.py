from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import stripe_program
from strategies.passes import arrays_for, assert_same_meaning, programs
from strategies.pipelines import PIPELINES
from tileir.core.errors import ParseError
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import Pass, run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.fusion.inline import Inline
from tileir.passes.pipelines.catalog import PASSES, load_pipeline, parse_pipeline, pipeline_for
from tileir.passes.pipelines.pipeline import to_json, to_text
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.stripe.blocks import Binding
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program

TARGETS = (Target(), Target(vector_bytes=16, threads=4), Target(vector_bytes=64, vector_registers=32, cache_bytes=()))

STRUCTURAL: tuple[Pass, ...] = (
    Accumulate(),
    Canonicalise(),
    Canonicalise(merge=False),
    DeadCode(),
    Fuse(),
    Fuse(max_reductions=3),
    Fuse(siblings=False, max_refs=3),
    Inline(),
    Localise(),
    Scalarise(),
)


def test_the_catalogue_is_sorted_and_its_names_are_unique() -> None:
    names = [kind.name for kind in PASSES]
    assert names == sorted(set(names))


@pytest.mark.parametrize("kind", PASSES, ids=lambda kind: kind.name)
def test_each_pass_is_a_frozen_value_with_defaults(kind: type[Pass]) -> None:
    step = kind()
    assert step == kind()
    assert hash(step) == hash(kind())
    assert parse_pipeline(kind.name) == (step,)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", PIPELINES)
def test_named_pipelines_go_through_text_and_json(name: str, target: Target) -> None:
    passes = PIPELINES[name](target)
    assert parse_pipeline(to_text(passes)) == passes
    assert load_pipeline(to_json(passes)) == passes


def test_a_target_gets_the_processor_pipeline() -> None:
    assert pipeline_for(TARGETS[1]) == PIPELINES["cpu"](TARGETS[1])


@given(programs(12), st.lists(st.sampled_from(STRUCTURAL), max_size=8))
@examples(150)
def test_any_sequence_of_passes_keeps_the_meaning(program: Program, passes: list[Pass]) -> None:
    assert_same_meaning(program, run(passes, program))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PIPELINES)
@given(program=programs(10), target=st.sampled_from(TARGETS))
@examples(40)
def test_named_pipelines_keep_the_meaning_down_to_kernels(name: str, program: Program, target: Target) -> None:
    after = run(PIPELINES[name](target), program)
    arrays = arrays_for(program)
    expected = interpret(program, arrays)
    actual = run_program(lower(after, target), arrays)
    for output in program.outputs:
        np.testing.assert_array_equal(actual[output], expected[output], err_msg=output)


@given(programs(12))
@examples(50)
def test_a_second_round_changes_nothing(program: Program) -> None:
    passes = PIPELINES["fused"](Target())
    once = run(passes, program)
    for step in passes:
        if not isinstance(step, Fuse):
            once_more = step(once)
            assert once_more == once, step.name


def test_options_do_not_change() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(Fuse(), "siblings", False)  # noqa: B010  an attribute that mypy knows to be read-only


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fuse{max_statements=0}", "pass fuse: max_statements must be at least 1"),
        ("matrix_contraction{cluster=0}", "pass matrix_contraction: cluster must be at least 1"),
        ("matrix_contraction{cluster=9}", "pass matrix_contraction: 'cluster' must be <= 8: 9"),
        ("register_tile{registers=0}", "pass register_tile: registers must be at least 1"),
        ("register_tile{rows=-1}", "pass register_tile: rows must be at least 0"),
        ("split_reduction{parts=0}", "pass split_reduction: parts must be at least 1"),
        ("stream_reduction{unroll=0}", "pass stream_reduction: unroll must be at least 1"),
        ("thread{groups=-4}", "pass thread: groups must be at least 1"),
        ("vectorise{vector_bytes=0}", "pass vectorise: vector_bytes must be at least 1"),
        ("vectorise_reduction{unroll=0}", "pass vectorise_reduction: unroll must be at least 1"),
    ],
)
def test_options_are_checked(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_pipeline(text)
    assert [(fault.code, fault.message) for fault in caught.value.diagnostics] == [("TIL543", message)]


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("case", ["matmul", "sum over rows", "sum over columns", "chain"])
def test_no_vector_has_more_lanes_than_the_device(name: str, case: str) -> None:
    pending = list(run(PIPELINES[name](Target(max_lanes=2)), stripe_program(case)).main.blocks)
    while pending:
        block = pending.pop()
        assert all(index.range <= 2 for index in block.indices if index.binding is Binding.LANE)
        pending.extend(block.blocks)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tile{sizes=2,outer_set=loop}", "outer_set cannot hold loop"),
        ("fusion{fused_set=(a,body)}", "fused_set cannot hold body"),
    ],
)
def test_tags_of_programs_cannot_be_set(text: str, words: str) -> None:
    with pytest.raises(ParseError, match=words) as caught:
        parse_pipeline(text)
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL543"]
