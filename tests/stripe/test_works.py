"""Programs with loops, whiles and branches: what they mean, and that text, JSON and passes keep that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.executors import DEVICES
from strategies.pipelines import PIPELINES
from strategies.plans import plan_of
from strategies.stripe_works import (
    ALL,
    BRANCH,
    COUNTED,
    GIVEN,
    add,
    arrays,
    copy,
    expected,
    less,
    program,
    programs_of_works,
)
from tileir.core.errors import VerifyError
from tileir.core.json.codec import from_json, to_json
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.pipelines import catalog
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower
from tileir.semtree.transform.in_place import reuse_in_place, share_kernels
from tileir.stripe.check.verifier import diagnose, verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Branch, Carry, Launch, Loop, Program, While, Work
from tileir.stripe.tags import LIFETIMES, PLACES
from tileir.stripe.text.parser import parse
from tileir.stripe.text.printer import to_text
from tileir.stripe.works import launches, local_memory

if TYPE_CHECKING:
    from collections.abc import Callable

PASSES = {"none": lambda _: parse_pipeline("accumulate"), **{name: PIPELINES[name] for name in ("cpu", "gpu", "quick")}}
"""Pipelines, as functions from a device's facts."""

ALONE = tuple(each.name for each in catalog.PASSES)
"""All passes, by name."""


@pytest.mark.parametrize(("x", "y"), GIVEN)
@pytest.mark.parametrize("name", ALL)
def test_works_mean_what_they_say(name: str, x: int, y: int) -> None:
    result = interpret(ALL[name], arrays(x, y))["O"]
    np.testing.assert_array_equal(result, np.full(4, expected(name, x, y), np.int32))


@pytest.mark.parametrize("name", ALL)
def test_text_and_json_keep_works(name: str) -> None:
    whole = ALL[name]
    verify(whole)
    again = parse(to_text(whole))
    assert to_text(again) == to_text(whole)
    assert parse(to_text(again)) == again
    assert from_json(to_json(whole), Program) == whole


@pytest.mark.parametrize("name", ALL)
def test_where_things_stand_is_said_by_text_alone(name: str) -> None:
    whole = parse(to_text(ALL[name]))
    words = {*PLACES, *LIFETIMES}
    tags = [each.tags for each in whole.memory] + [kernel.block.tags for kernel in whole.kernels]
    assert words.isdisjoint(tag for each in tags for tag, _ in each.items)
    text = to_text(whole)
    assert text.count("#user") == len(whole.inputs) + len(whole.outputs)
    assert text.count("#kernel") == sum(1 for _ in launches(whole.works))
    without = re.sub(r"#(program|main|kernel|body|user|tmp) ?", "", text)
    assert parse(without) == whole


def test_a_kernel_that_is_launched_in_and_out_of_loops_is_one() -> None:
    assert [launch.kernel for launch in launches(parse(to_text(COUNTED)).works)] == [0, 1, 0]


def test_what_one_loop_alone_uses_is_its_own() -> None:
    loop = COUNTED.works[1]
    assert local_memory(COUNTED) == {id(loop): frozenset({"M"})}
    assert local_memory(BRANCH) == {}


def test_a_step_finds_nothing_in_what_it_does_not_carry() -> None:
    forgotten = program(copy("X", "K"), Loop(2, (add("K", "M", "M"),)), copy("K", "O"))
    loop = forgotten.works[1]
    assert isinstance(loop, Loop)
    assert local_memory(forgotten)[id(loop)] == {"M"}


@pytest.mark.parametrize(
    ("works", "words"),
    [
        ((Launch(7, ("X", "O")),), "work 0 launches kernel 7, of 3"),
        ((Launch(1, ("X",)),), "a kernel of 2 parameters on 1 arguments"),
        ((copy("X", "Q"),), "launches a kernel on 'Q', which the program does not allocate"),
        ((less("X", "O"),), "'O', an argument of work 0, is not laid out as the parameter 'C'"),
        ((Launch(0, ("X", "X", "O")),), "names memory twice"),
        ((copy("X", "Y"),), "must not write 'Y'"),
        ((Loop(0, (copy("X", "O"),)),), "a loop of 0 steps"),
        ((Loop(While("X"), (copy("X", "O"),)),), "the condition 'X' of work 0 must be memory that holds one bool"),
        ((less("X", "C"), Loop(While("C"), ())), "it would not end"),
        ((Branch("Q", ()),), "the condition 'Q' of work 0"),
        ((Loop(2, (copy("X", "M"),), (Carry("C", "M"),)),), "both must be memory of the same elements"),
        ((Loop(2, (copy("X", "M"),), (Carry("M", "M"),)),), "names memory twice among what its steps keep and make"),
    ],
)
def test_works_that_cannot_run_are_refused(works: tuple[Work, ...], words: str) -> None:
    with pytest.raises(VerifyError, match=words):
        verify(program(*works))


def test_works_nested_without_end_are_a_fault_and_not_a_crash() -> None:
    works: tuple[Work, ...] = (copy("X", "O"),)
    for _ in range(10_000):
        works = (Loop(1, works),)
    deep = attrs.evolve(COUNTED, works=works)
    assert any("nested deeper than 32" in fault.message for fault in diagnose(deep))


@given(whole=programs_of_works(), x=st.integers(-5, 120), y=st.integers(20, 90), name=st.sampled_from(sorted(PASSES)))
@examples(60)
def test_works_keep_their_meaning_down_to_the_kernels(whole: Program, x: int, y: int, name: str) -> None:
    verify(whole)
    given = arrays(x, y)
    wanted = interpret(whole, given)["O"]
    assert to_text(parse(to_text(whole))) == to_text(whole)
    scheduled = run(PASSES[name](Target()), whole)
    np.testing.assert_array_equal(interpret(scheduled, given)["O"], wanted)
    kernels = share_kernels(reuse_in_place(share_kernels(lower(scheduled, Target()))))
    verify_program(kernels)
    np.testing.assert_array_equal(run_program(kernels, given)["O"], wanted)


@given(whole=programs_of_works(), x=st.integers(-5, 120), y=st.integers(20, 90), name=st.sampled_from(ALONE))
@examples(100)
def test_each_pass_keeps_what_works_mean(whole: Program, x: int, y: int, name: str) -> None:
    given = arrays(x, y)
    after = run(parse_pipeline(name), whole)
    np.testing.assert_array_equal(interpret(after, given)["O"], interpret(whole, given)["O"])


@pytest.mark.parametrize("device", DEVICES)
@given(whole=programs_of_works(), x=st.integers(-5, 120), y=st.integers(20, 90))
@examples(15)
def test_works_run_on_any_device(device: Callable[[], Any], whole: Program, x: int, y: int) -> None:
    given = arrays(x, y)
    kernels = lower(run(PASSES["cpu"](Target()), whole), Target())
    plan = plan_of(kernels, device())
    outputs = plan.fresh_outputs()
    plan.run([given[buffer.name] for buffer in plan.inputs], outputs)
    np.testing.assert_array_equal(outputs[0], interpret(whole, given)["O"])
