"""A little of what `python -m fuzz --area cache` and `--area threads` do for hours."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from soak.interrupts import OPERATIONS, faults_of_chosen_moments, faults_of_signals, interrupted, moments
from soak.processes import faults_of_killed_processes
from soak.threads import faults_of_threads
from tileir.core.text.names import nearest

if TYPE_CHECKING:
    from pathlib import Path

posix = pytest.mark.skipif(os.name != "posix", reason="this system has no such signals")


LOCKED = {
    "the result is computed inside": """
def locked():
    with lock:
        numbers = [
            number + 1
            for number in range(3)
        ]
        return sorted(numbers)
""",
    "the result is constant": """
def locked():
    with lock:
        sorted([1])
        return 7
""",
    "the end is reached": """
def locked():
    with lock:
        sorted([1])
    return 7
""",
    "a loop around goes on and ends": """
def locked():
    for number in range(3):
        with lock:
            if number == 1:
                continue
            if number == 2:
                break
            sorted([number])
""",
    "a loop inside returns": """
def locked():
    with lock:
        for number in range(3):
            if number == 1:
                return sorted([number])
""",
    "another with is inside": """
def locked():
    with lock:
        with open(__import__("os").devnull) as file:
            return file.read(
                1
            )
""",
    "a try is inside": """
def locked():
    with lock:
        try:
            return sorted([1])
        finally:
            sorted([2])
""",
    "an error leaves it": """
def locked():
    try:
        with lock:
            raise ValueError(
                1
            )
    except ValueError:
        return 2
""",
}
"""Functions that hold a lock, and leave it in different ways."""


@pytest.mark.sampled(0)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("device", ["llvm", "opencl"])
def test_interrupts_at_chosen_moments_leave_nothing(device: str, operation: str, tmp_path: Path) -> None:
    assert faults_of_chosen_moments(device, operation, 4, 1, tmp_path / "cache") == []


@pytest.mark.sampled(0)
@posix
def test_signals_at_random_moments_leave_nothing() -> None:
    assert faults_of_signals("llvm", 1, 8, 3) == []


def test_threads_on_one_context() -> None:
    assert faults_of_threads("llvm", 12, 8, 1) == []


@pytest.mark.sampled(0)
@posix
def test_killed_processes_on_a_cold_cache(tmp_path: Path) -> None:
    assert faults_of_killed_processes("llvm", tmp_path / "cache", 5, 3, 1) == []


def test_each_moment_of_our_code_can_be_chosen() -> None:
    count = moments(_some_lines)
    assert [interrupted(_some_lines, moment) for moment in range(1, count + 2)] == [True] * count + [False]


@pytest.mark.parametrize("form", LOCKED)
def test_no_moment_leaves_a_lock_taken(form: str) -> None:
    lock = threading.Lock()
    names: dict[str, Any] = {"lock": lock}
    exec(compile(LOCKED[form], f"{os.sep}tileir{os.sep}locked.py", "exec"), names)
    count = moments(names["locked"])
    assert count >= 3
    for moment in range(1, count + 1):
        assert interrupted(names["locked"], moment)
        assert not lock.locked()


def test_no_moment_leaves_a_condition_taken() -> None:
    condition = threading.Condition(threading.Lock())

    def waited() -> None:
        with condition:
            condition.wait(0)

    count = moments(waited)
    assert count >= 5
    for moment in range(1, count + 1):
        assert interrupted(waited, moment)
        assert condition.acquire(blocking=False)
        condition.release()


def test_no_moment_is_while_python_closes_a_generator(recwarn: pytest.WarningsRecorder) -> None:
    names: dict[str, Any] = {}
    text = "def found():\n    return any(number == 1 for number in range(3))\n"
    exec(compile(text, f"{os.sep}tileir{os.sep}closed.py", "exec"), names)
    ignored: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, ignored.append
    try:
        count = moments(names["found"])
        assert count >= 3
        assert [interrupted(names["found"], moment) for moment in range(1, count + 2)] == [True] * count + [False]
    finally:
        sys.unraisablehook = before
    assert ignored == []
    assert not recwarn.list


def _some_lines() -> str:
    return nearest("colunm", ["row", "column"])
