"""Random Tile functions on the device, and by all interpreters, for several devices and pass pipelines."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from strategies import means
from strategies.effort import examples
from strategies.families import FAMILIES, written
from strategies.large import large
from strategies.tile import Case, assert_equal, cases
from tileir.tile.text.parser import parse

targets = st.sampled_from(sorted(means.TARGETS))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("passes", means.PASSES)
@given(case=cases(special=True, empty=True), target=targets)
@examples(150)
def test_all_means_agree_exactly(case: Case, target: str, passes: str) -> None:
    """Values are such that rounding, the order of sums and fused multiply-adds make no difference."""
    expected = case.expected()
    compiled = means.stages(case.function, case.inputs, target, passes)
    assert_equal(means.on_device(compiled, case.inputs), expected)
    assert_equal(means.by_kernel_interpreter(compiled, case.inputs), expected)
    assert_equal(means.by_stripe_interpreter(compiled, case.inputs, scheduled=True), expected)
    assert_equal(means.by_stripe_interpreter(compiled, case.inputs, scheduled=False), expected)


@given(case=cases(special=True, functions=True), target=targets, passes=st.sampled_from(sorted(means.PASSES)))
@examples(120)
def test_mathematical_functions_agree_closely(case: Case, target: str, passes: str) -> None:
    compiled = means.stages(case.function, case.inputs, target, passes)
    on_device = means.on_device(compiled, case.inputs)
    assert_equal(on_device, case.expected(), case.tolerance)
    assert_equal(on_device, means.by_kernel_interpreter(compiled, case.inputs), case.tolerance)


@given(case=cases(special=True, largest_size=9), target=targets, passes=st.sampled_from(["cpu", "gpu", "small"]))
@examples(120)
def test_axes_longer_than_a_vector(case: Case, target: str, passes: str) -> None:
    compiled = means.stages(case.function, case.inputs, target, passes)
    assert_equal(means.on_device(compiled, case.inputs), case.expected())


@given(case=large(points=1 << 17), target=targets, passes=st.sampled_from(["cpu", "gpu", "small"]))
@examples(80)
def test_axes_of_hundreds_of_elements(case: Case, target: str, passes: str) -> None:
    """Register tiles, packed panels, remainders, chunks, split reductions and several threads take part."""
    compiled = means.stages(case.function, case.inputs, target, passes)
    assert_equal(means.on_device(compiled, case.inputs), case.expected())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data(), target=targets, passes=st.sampled_from((*["cpu"] * 8, *sorted(means.PASSES))))
@examples(80)
def test_what_passes_join_and_split_agrees(family: str, data: st.DataObject, target: str, passes: str) -> None:
    program = data.draw(written(family))
    inputs = program.arrays()
    compiled = means.stages(parse(program.text), inputs, target, passes)
    expected = means.by_stripe_interpreter(compiled, inputs, scheduled=False)
    assert_equal(means.by_stripe_interpreter(compiled, inputs, scheduled=True), expected)
    assert_equal(means.on_device(compiled, inputs), expected)
