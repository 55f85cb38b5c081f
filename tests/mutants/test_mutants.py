"""Faults can be planted, and some of each kind are caught; ``python -m mutants`` in ``tests`` tries them all."""

from __future__ import annotations

import importlib
import multiprocessing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mutants.nets import caught, prepared_programs
from mutants.planted import PLANTED
from mutants.planting import plant

if TYPE_CHECKING:
    from mutants.planted import Mutant

pytestmark = pytest.mark.once

QUICK = [
    mutant for mutant in PLANTED if mutant.name in ("guard of a tile off by one", "part of a reduction off by one")
]


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_every_fault_can_be_planted(mutant: Mutant) -> None:
    module = importlib.import_module(f"tileir.{mutant.module}")
    assert module.__file__ is not None
    assert Path(module.__file__).read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.old != mutant.new


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="faults are planted in forks")
@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_planted_faults_are_caught(mutant: Mutant) -> None:
    prepared_programs()
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.SimpleQueue[str] = context.SimpleQueue()

    def judge() -> None:
        plant(mutant)
        queue.put(str(caught(mutant)))

    process = context.Process(target=judge)
    process.start()
    told = queue.get()
    process.join()
    assert "pass 1, " in told
