"""The table of ``caught.md``: which run catches each planted fault, and by what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from mutants.planted import PLANTED, QUICK
from mutants.verdicts import CAUGHT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mutants.mutant import Mutant
    from mutants.verdicts import Verdict

FILE: Final = Path(__file__).with_name("caught.md")
PUSH: Final = "a push"
NIGHTLY: Final = "the nightly run"
_HEAD: Final = """\
# Runs that catch planted faults

`python -m mutants` writes this table, or the rows of the faults that it is asked for.

| fault | module | caught by | with |
| --- | --- | --- | --- |
"""


def run_of(mutant: Mutant, verdict: Verdict) -> str:
    """Return which run catches a fault; the verdict itself where none does."""
    if verdict.word != CAUGHT:
        return verdict.word
    return PUSH if mutant.name in QUICK or verdict.message.startswith(f"in {PUSH}") else NIGHTLY


def read() -> dict[str, str]:
    """Return the run of each fault that has a row."""
    text = FILE.read_text(encoding="utf-8").removeprefix(_HEAD)
    cells = [line.strip("| \n").split(" | ") for line in text.splitlines()]
    return {name: run for name, _, run, _ in cells}


def write(runs: Mapping[str, str]) -> None:
    """Write a row for each planted fault that has a run."""
    rows = [
        f"| {each.name} | {each.path} | {runs[each.name]} | {_net(each)} |\n" for each in PLANTED if each.name in runs
    ]
    FILE.write_text(_HEAD + "".join(rows), encoding="utf-8")


def _net(mutant: Mutant) -> str:
    return f"tests/{mutant.tests}" if mutant.tests else "kernels" if mutant.is_emitter else "programs in pipelines"
