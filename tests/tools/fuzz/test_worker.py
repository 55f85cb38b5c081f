"""One process of the fuzzer: what it tells of cases that fail, are refused, or are right."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fuzz.area import Area, Refused
from fuzz.worker import Worker, fault_of, kind_of

if TYPE_CHECKING:
    import pytest

    from fuzz.area import Case
    from tileir_testing.generated.choices import Choices


def make(choices: Choices) -> Case:
    return {"values": [choices.integer(0, 50) for _ in range(choices.integer(0, 6))]}


def check(case: Case) -> int:
    if not case["values"]:
        raise Refused("empty")
    if max(case["values"]) > 40:
        raise AssertionError(f"A[{len(case['values'])}] is {max(case['values'])}\nand more")
    if 13 in case["values"]:
        raise KeyError("thirteen")
    return len(case["values"])


AREA = Area("numbers", make, check)


def test_each_kind_of_finding_is_told_once_and_small(capsys: pytest.CaptureFixture[str]) -> None:
    worker = Worker(AREA, seed=0)
    worker.run(first=0, step=1, programs=300, seconds=60)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [line for line in lines if "finding" in line]
    assert sorted(str(line["finding"]["values"]) for line in found) == ["[13]", "[41]"]
    assert [line["at"] for line in lines if "at" in line] == list(range(300))
    assert lines[-1]["next"] == 300
    assert worker.counts["cases"] == 300
    assert worker.counts["refused empty"] > 0
    assert worker.counts["repeated"] > 10


def test_a_seed_makes_the_same_cases(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for _ in range(2):
        Worker(AREA, seed=5).run(first=3, step=2, programs=20, seconds=60)
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_faults_name_the_exception_and_its_place() -> None:
    assert fault_of(AREA, {"values": [1]}) is None
    assert fault_of(AREA, {"values": []}) is None
    assert fault_of(AREA, {"values": [13]}) == "KeyError (check, test_worker.py): 'thirteen'"
    assert fault_of(AREA, {"values": [50]}) == "AssertionError: A[1] is 50\nand more"


def test_kinds_leave_numbers_and_names_out_but_keep_codes() -> None:
    one, other = (
        "VerifyError (f): error[TIL504]: 'A' has 3, not -1.5",
        "VerifyError (f): error[TIL504]: 'Tmp' has 77, not nan",
    )
    assert kind_of(one) == kind_of(other)
    assert kind_of(one) != kind_of(one.replace("504", "506"))
