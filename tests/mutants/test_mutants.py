"""Faults can be planted, and some of each kind are caught; ``python -m mutants`` in ``tests`` tries them all."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mutants import table
from mutants.planted import PLANTED, QUICK
from mutants.verdicts import CAUGHT, judged

if TYPE_CHECKING:
    from mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "tileir": ROOT / "src",
    "tileir_llvm": ROOT / "src/backends",
    "tileir_emit": ROOT / "src/backends",
    "tileir_opencl": ROOT / "src/backends",
    "tileir_c": ROOT / "plugins/tileir-c/src",
    "tileir_accelerators": ROOT / "plugins/tileir-accelerators/src",
}


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_every_fault_can_be_planted(mutant: Mutant) -> None:
    source = (FOLDERS[mutant.path.partition(".")[0]] / mutant.path.replace(".", "/")).with_suffix(".py")
    assert source.read_text(encoding="utf-8").count(mutant.old) == 1
    assert mutant.old != mutant.new


def test_faults_have_names_of_their_own() -> None:
    assert len({mutant.name for mutant in PLANTED}) == len(PLANTED)


def test_the_table_tells_which_run_catches_each_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = table.read()
    missing = [mutant.name for mutant in PLANTED if runs.get(mutant.name) not in (table.PUSH, table.NIGHTLY)]
    assert missing == [], "python -m mutants NAME, in tests, judges a fault and writes its row"
    text = table.FILE.read_text(encoding="utf-8")
    monkeypatch.setattr(table, "FILE", tmp_path / "caught.md")
    table.write(runs)
    assert table.FILE.read_text(encoding="utf-8") == text


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="faults are planted in forks")
@pytest.mark.parametrize("name", QUICK)
def test_planted_faults_are_caught(name: str) -> None:
    (mutant,) = (mutant for mutant in PLANTED if mutant.name == name)
    verdict = judged(mutant)
    assert verdict.word == CAUGHT
    assert ("wrong: " if mutant.is_emitter else "pass 1, ") in verdict.message
