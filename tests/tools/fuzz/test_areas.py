"""The areas of the fuzzer: some cases of each, those that failed once, and that each finds what it is there for."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest

from fuzz import contractions, devices
from fuzz.area import array_of
from fuzz.areas import AREAS
from fuzz.recording import Recorded, cases
from fuzz.worker import fault_of
from tileir.core.dtype import DType

CORPUS: Final = Path(__file__).parents[2] / "corpus"
FOUND: Final = list(cases(CORPUS))
CASES: Final = 30
FEWER: Final = {"cache": 1, "interrupts": 1, "threads": 1, "operations-wide": 8, "gradients": 8}
"""Number of cases of areas that start processes and wait, or whose programs other tests compile by hundreds."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("area", AREAS)
def test_some_cases_of_each_area_hold(area: str) -> None:
    for number in range(FEWER.get(area, CASES)):
        case = AREAS[area].make(Recorded.seeded(f"test/{number}"))
        assert fault_of(AREAS[area], case) is None, case


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("area", "case"), [pytest.param(area, case, id=path.stem) for path, area, case in FOUND])
def test_cases_that_failed_once_hold(area: str, case: dict[str, object]) -> None:
    assert fault_of(AREAS[area], case) is None


def test_brute_force_is_a_sum_over_all_points() -> None:
    case = {
        "inputs": {"A": {"dtype": "i32", "shape": [4], "values": "small", "layout": "plain", "seed": 3}},
        "count": 2, "target": [{"of": [1, 0], "plus": 0, "by": 1}], "sizes": [3], "aggregation": "+",
        "combination": "", "accesses": [[{"of": [1, 1], "plus": 0, "by": 1}]],
        "constraints": [[{"of": [0, 1], "plus": 0, "by": 1}, 2]], "default": False, "order": [0, 1],
    }  # fmt: skip
    a = array_of(case["inputs"]["A"])  # type: ignore[index]
    points = list(contractions._points(case))
    found = contractions.brute_force(case, {"A": a}, points, DType.I32)
    np.testing.assert_array_equal(found, a[:3] + a[1:])
    assert contractions.check(case) > 1


@pytest.mark.sampled(0)
def test_a_wrong_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = devices.results_by_device

    def wrong(*arguments: object) -> object:
        results = right(*arguments)  # type: ignore[arg-type]
        return {device: {name: array + 1 for name, array in values.items()} for device, values in results.items()}

    monkeypatch.setattr(contractions, "results_by_device", wrong)
    choices = (Recorded.seeded(str(number)) for number in range(50))
    faults = [fault_of(AREAS["tile"], AREAS["tile"].make(record)) for record in choices]
    assert sum(fault is not None and "is" in fault for fault in faults) > 10
