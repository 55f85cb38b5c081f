"""Cases in processes of their own: outcomes, exceptions, processes that end, and time."""

from __future__ import annotations

import os
import signal

import pytest

from tileir_testing import processes


def run(case: int) -> str:
    match case:
        case 3:
            os._exit(7)
        case 5:
            raise ValueError("five\nof them")
        case 6:
            os.kill(os.getpid(), signal.SIGKILL)
    return f"{case} is right"


def crashed(case: int, told: str) -> str:
    return f"{case} crashed: {told}"


@pytest.mark.sampled(0)
@pytest.mark.parametrize("jobs", [1, 2])
def test_what_kills_its_process_ends_nothing_else(jobs: int) -> None:
    found = list(processes.outcomes(range(9), run, crashed, jobs=jobs, most=4))
    told = {3: "the process ended with 7", 5: "ValueError: five", 6: "the process ended with -9"}
    wanted = [f"{case} crashed: {told[case]}" if case in told else f"{case} is right" for case in range(9)]
    assert sorted(found) == sorted(wanted)
    if jobs == 1:
        assert found == wanted


@pytest.mark.sampled(0)
def test_a_case_without_an_end_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def turn(case: int) -> str:
        while case:
            pass
        return "done"

    monkeypatch.setattr(processes, "SECONDS", 0.1)
    found = list(processes.outcomes([0, 1, 0], turn, crashed))
    assert found == ["done", "1 crashed: TimeoutError: it takes more than 0.1 seconds", "done"]
