"""Processes that are killed on one cache, threads on one context, and interrupts at any moment.

What goes wrong here depends on timing, so a case that failed once may hold when it is tried again; it shrinks little.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from fuzz.area import Area, Case, Refused, is_there
from soak.interrupts import OPERATIONS, faults_of_chosen_moments, faults_of_signals
from soak.processes import faults_of_killed_processes
from soak.threads import faults_of_threads
from tileir_testing.generated.choices import Choices

DEVICE: Final = "llvm"


def make_cache(choices: Choices) -> Case:
    """Choose how many processes begin on one cold cache, and how many of them are killed."""
    processes = choices.integer(2, 8)
    return {"processes": processes, "kills": choices.integer(1, processes - 1), "seed": choices.integer(0, 9999)}


def check_cache(case: Case) -> int:
    """See that survivors are right, and that the cache harms nobody who comes later."""
    _need_device()
    with tempfile.TemporaryDirectory() as folder:
        faults = faults_of_killed_processes(
            DEVICE, Path(folder, "cache"), case["processes"], case["kills"], case["seed"]
        )
    return _none(faults, case["processes"])


def make_threads(choices: Choices) -> Case:
    """Choose how many threads use one context."""
    return {"threads": choices.pick((2, 5, 16, 64)), "rounds": choices.integer(1, 8), "seed": choices.integer(0, 9999)}


def check_threads(case: Case) -> int:
    """See that all of them get right results."""
    _need_device()
    return _none(faults_of_threads(DEVICE, case["threads"], case["rounds"], case["seed"]), case["threads"])


def make_interrupts(choices: Choices) -> Case:
    """Choose what is interrupted: an operation at chosen moments, or processes by signals."""
    operation = choices.pick((*OPERATIONS, "signals"))
    return {"operation": operation, "trials": choices.integer(1, 6), "seed": choices.integer(0, 9999)}


def check_interrupts(case: Case) -> int:
    """See that nothing crashes, hangs, or stays wrong afterwards."""
    _need_device()
    if case["operation"] == "signals":
        return _none(faults_of_signals(DEVICE, 1, case["trials"], case["seed"]), case["trials"])
    with tempfile.TemporaryDirectory() as folder:
        faults = faults_of_chosen_moments(DEVICE, case["operation"], case["trials"], case["seed"], Path(folder))
    return _none(faults, case["trials"])


def _need_device() -> None:
    if not is_there(DEVICE):
        raise Refused(f"no device {DEVICE}")


def _none(faults: list[str], count: int) -> int:
    if faults:
        raise AssertionError("\n".join(faults))
    return count


CACHE: Final = Area("cache", make_cache, check_cache)
THREADS: Final = Area("threads", make_threads, check_threads)
INTERRUPTS: Final = Area("interrupts", make_interrupts, check_interrupts)
