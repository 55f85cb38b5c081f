"""The suite of the standard's cases: what counts as wrong, and cases that end their process."""

from __future__ import annotations

import os
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attrs import evolve
from onnx import TensorProto, helper

from tileir_onnx import suite
from tileir_onnx.suite import Case, difference

BF16 = ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("found", "wanted", "told"),
    [
        (np.array([1, 2], np.float32), np.array([1, 2.001], np.float32), ""),
        (np.array([1, 2], np.float32), np.array([1, 2.1], np.float32), "differs in 1 of 2: 2.0 and not 2.0999"),
        (np.array([1], np.float32), np.array([1], np.float64), r"float32\[1\] and not float64\[1\]"),
        (np.array([[1]], np.float32), np.array([1], np.float32), r"float32\[1, 1\] and not"),
        (np.array([np.nan, np.inf], np.float32), np.array([np.nan, np.inf], np.float32), ""),
        (np.array([np.inf], np.float32), np.array([1], np.float32), "differs in 1"),
        (np.array([1], np.float32), np.array([np.nan], np.float32), "differs in 1"),
        (np.array([2**64 - 1], np.uint64), np.array([1], np.uint64), "differs in 1"),
        (np.array([1.0078125], BF16), np.array([1], BF16), ""),
        (np.array([1.015625], BF16), np.array([1], BF16), "differs in 1"),
        ([np.array([1], np.float32)], [np.array([1], np.float32), np.array([2], np.float32)], "no sequence of 2"),
        (None, None, ""),
    ],
)
def test_what_differs(found: Any, wanted: Any, told: str) -> None:
    said = difference(found, wanted, 1e-3, 1e-6)
    assert re.search(told, said) if told else not said


def negation(wanted: float) -> Case:
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [port], [result])
    data = (((np.array([2], np.float32),), (np.array([wanted], np.float32),)),)
    model = helper.make_model(graph).SerializeToString()
    return Case(f"neg{wanted}", "node", model, data, 1e-3, 1e-6, ours=True, op="Neg")


@pytest.mark.sampled(0)
def test_outcomes() -> None:
    right, wrong = negation(-2), negation(2)
    broken = evolve(right, name="broken", model=b"\x0a\xff")
    found = {each.case: each.outcome for each in suite.verdicts([right, wrong, broken], 1, None, interpret=True)}
    assert found == {"neg-2": "pass", "neg2": "wrong", "broken": "refused"}
    table = suite.report({each.name: (each, suite.run(each, interpret=True)) for each in (right, wrong, broken)})
    assert "wrong: neg2: result 'y' differs in 1 of 1" in table
    assert "refused: Neg (1)" in table


@pytest.mark.sampled(0)
def test_a_case_that_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [evolve(negation(-2), name=name) for name in "abc"]

    def run(case: Case, **_: object) -> suite.Verdict:
        if case.name == "b":
            os._exit(3)
        return suite.Verdict(case.name, "pass")

    monkeypatch.setattr(suite, "run", run)
    found = [(each.case, each.outcome, each.reason) for each in suite.verdicts(cases, 1, None, interpret=False)]
    assert found == [("a", "pass", ""), ("b", "crash", "the process ended with 3"), ("c", "pass", "")]


@pytest.mark.parametrize(
    ("found", "expected", "told"),
    [
        (3.0, 3.03125, "0.00 units from exact values, expected ones 2.00"),
        (3.015625, 3.0, "1.00 units from exact values, expected ones 0.00"),
        (3.03125, 3.03125, "2.00 units from exact values, expected ones 2.00"),
        (3.03125, 3.015625, ""),
    ],
)
def test_rounding_of_16_bits_is_judged_by_exact_values(found: float, expected: float, told: str) -> None:
    x, y = np.array([1.0], BF16), np.array([2.0], BF16)
    ports = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [1]) for name in "xyz"]
    nodes = [
        helper.make_node("Cast", ["x"], ["w"], to=TensorProto.BFLOAT16),
        helper.make_node("Add", ["w", "y"], ["z"]),
    ]
    model = helper.make_model(helper.make_graph(nodes, "g", ports[:2], ports[2:])).SerializeToString()
    case = Case("sum", "node", model, (), 0.0, 0.0, ours=True, op="Cast")
    assert suite.judged(case, (x, y), 0, np.array([found], BF16), np.array([expected], BF16)) == told
    other = np.array([found], np.float16), np.array([expected], BF16)
    assert not suite.judged(case, (x, y), 0, *other)


def test_cases_of_small_models() -> None:
    found = suite.cases(["simple"])
    assert len(found) == 23
    assert all(each.data for each in found)
