from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from tileir.core.errors import BackendError, TileError
from tileir.runtime.context import Context
from tileir.runtime.discovery import Registry
from tileir_reference import BACKEND
from tileir_testing.batches import Batches, merged
from tileir_testing.subject import Subject
from tileir_testing.tables import Evaluated


def item(text: str, **inputs: Any) -> Evaluated:
    return Evaluated("an item", text, {name: np.asarray(value) for name, value in inputs.items()})


SUM = item("function (A[N]) -> (S) { S[] = +(A[i]); }", A=np.arange(5))
MANY = item("function (A[N, M], B) -> (P, Q) { P = A * M + B; Q[i : N] = >(P[i, 0]); }", A=np.ones((2, 3)), B=2.0)
NONE = item("function () -> (O) { O = 3; }")
WRONG = item("function (A) -> (O) { O = A + nothing; }", A=1)


@attrs.frozen(eq=False)
class Counting(Subject):
    runs: list[str] = attrs.field(factory=list)

    def run(self, text: str, inputs: Any) -> Any:
        self.runs.append(text)
        return super().run(text, inputs)


@pytest.fixture
def subject() -> Counting:
    context = Context(registry=Registry.of(BACKEND), disk_cache=None)
    return Counting(context, context.device("reference"))


def test_merged_functions_keep_apart() -> None:
    text, inputs = merged([SUM, NONE, MANY])
    assert list(inputs) == ["A_of_0", "A_of_2", "B_of_2"]
    assert "function (A_of_0[N_of_0], A_of_2[N_of_2, M_of_2], B_of_2) -> (S_of_0, O_of_1, P_of_2, Q_of_2)" in text


def test_only_functions_are_merged() -> None:
    with pytest.raises(ValueError, match="not one function"):
        merged([item("this is no function")])


def test_a_batch_runs_once(subject: Counting) -> None:
    items, batches = [SUM, MANY, NONE, SUM], Batches(subject, 3)
    for index in (2, 0, 1, 0):
        batches.check(items, index)
    assert len(subject.runs) == 1
    batches.check(items, 3)
    assert len(subject.runs) == 2


def test_without_batches_each_runs_alone(subject: Counting) -> None:
    batches = Batches(subject, 1)
    for index in range(3):
        batches.check([SUM, MANY, NONE], index)
    assert len(subject.runs) == 3


def test_the_blame_falls_on_the_right_one(subject: Counting) -> None:
    items, batches = [SUM, WRONG, MANY], Batches(subject, 3)
    with pytest.raises(TileError, match="nothing"):
        batches.check(items, 1)
    with pytest.raises(AssertionError, match="right alone, but as a part of this it is wrong"):
        batches.check(items, 0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tileir_reference:NOTHING", "has no attribute 'NOTHING'"),
        ("tileir_reference:TARGET", "is of type Target, not Backend"),
        ("no_such_module:BACKEND", "No module named"),
        ("no_such_device", "there is no device 'no_such_device'"),
    ],
)
def test_what_cannot_be_tested_is_named(name: str, reason: str) -> None:
    with pytest.raises(BackendError, match=reason):
        Subject.of(name)


def test_a_back_end_need_not_be_installed() -> None:
    assert Subject.of("tileir_reference:BACKEND").device.id == "reference.0"
