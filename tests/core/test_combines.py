"""Tuple reductions as data: identities, and that grouping does not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tileir.core.combines import Combine, reduce_elements
from tileir.core.dtype import DType
from tileir.core.numbers.number_system import REAL

VALUES = st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.5, 1.5, -2.0, 7.0])


@given(
    combine=st.sampled_from(list(Combine)),
    values=st.lists(VALUES, min_size=1, max_size=12),
    turns=st.lists(st.integers(0, 100), min_size=12, max_size=12),
    lanes=st.integers(1, 4),
)
def test_any_grouping_gives_the_same(combine: Combine, values: list[float], turns: list[int], lanes: int) -> None:
    if combine is Combine.MOMENTS:
        values = [value if np.isfinite(value) else 4.0 for value in values]
    rule = combine.rule(DType.F64, DType.I32)
    identity = [REAL.constant(value, dtype) for value, dtype in zip(rule.identity, rule.state, strict=True)]
    states = []
    for lane in range(lanes):  # each takes its own in order, as lanes and parts do
        state = tuple(identity)
        for place in range(lane, len(values), lanes):
            element, position = np.asarray(values[place]), np.asarray(place, np.int32)
            state = rule.step.run(REAL, *state, element, position)
        states.append(state)
    for turn in turns:
        if len(states) == 1:
            break
        first = states.pop(turn % len(states))
        other = turn % len(states)
        states[other] = rule.merge.run(REAL, *first, *states[other])
    while len(states) > 1:
        states.append(rule.merge.run(REAL, *states.pop(), *states.pop()))
    positions = np.arange(len(values), dtype=np.int32)
    whole = reduce_elements(rule, np.asarray(values), positions, REAL)
    for got, want in zip(states[0], whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("combine", Combine)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.I8, DType.U64, DType.BOOL])
def test_rules_are_well_typed(combine: Combine, dtype: DType) -> None:
    element = combine.element(dtype)
    rule = combine.rule(element, DType.I64)
    assert len(rule.state) == len(rule.identity) == combine.components
    assert rule.step.inputs == (*rule.state, element, DType.I64)
    assert rule.merge.inputs == (*rule.state, *rule.state)
    for program in (rule.step, rule.merge):
        dtypes = list(program.inputs)
        for step in program.steps:
            if step.op is None:
                assert type(step.value) is (bool if step.dtype.is_bool else float if step.dtype.is_float else int)
            else:
                operands = [dtypes[number] for number in step.inputs]
                typed = operands[1:] if len(operands) == 3 else operands
                assert len(set(typed)) == 1
                assert step.op.works_on(typed[0])
                assert step.dtype is (DType.BOOL if step.op.info.compares else typed[0])
            dtypes.append(step.dtype)
        assert tuple(dtypes[number] for number in program.outputs) == rule.state


@pytest.mark.parametrize("combine", Combine)
def test_no_elements_are_the_identity(combine: Combine) -> None:
    rule = combine.rule(DType.F32, DType.I32)
    found = reduce_elements(rule, np.zeros((0, 3), np.float32), np.zeros((0, 1), np.int32), REAL)
    assert [value.tolist() for value in found] == [[value] * 3 for value in rule.identity]
