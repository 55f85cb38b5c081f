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


def test_outcomes() -> None:
    right, wrong = negation(-2), negation(2)
    broken = evolve(right, name="broken", model=b"\x0a\xff")
    found = {each.case: each.outcome for each in suite.verdicts([right, wrong, broken], 1, None, interpret=True)}
    assert found == {"neg-2": "pass", "neg2": "wrong", "broken": "refused"}
    table = suite.report({each.name: (each, suite.run(each, interpret=True)) for each in (right, wrong, broken)})
    assert "wrong: neg2: result 'y' differs in 1 of 1" in table
    assert "refused: Neg (1)" in table


def test_a_case_that_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [evolve(negation(-2), name=name) for name in "abc"]

    def run(case: Case, *_: object) -> suite.Verdict:
        if case.name == "b":
            os._exit(3)
        return suite.Verdict(case.name, "pass")

    monkeypatch.setattr(suite, "run", run)
    found = [(each.case, each.outcome, each.reason) for each in suite.verdicts(cases, 1, None, interpret=False)]
    assert found == [("a", "pass", ""), ("b", "crash", "the process ended with 3"), ("c", "pass", "")]


def test_cases_of_small_models() -> None:
    found = suite.cases(["simple"])
    assert len(found) == 23
    assert all(each.data for each in found)
