"""Runs of the fuzzer: areas in turn, processes that die or hang, and what is kept."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from fuzz.__main__ import main
from fuzz.recording import cases, save
from fuzz.session import Session

if TYPE_CHECKING:
    from pathlib import Path

DIES = """
import json, os, sys
area, start = sys.argv[sys.argv.index("--worker") + 1], int(sys.argv[sys.argv.index("--start") + 1])
for number in range(start, 5):
    print(json.dumps({"at": number}), flush=True)
    if area == "texts" and number == 2:
        print("the last words", file=sys.stderr, flush=True)
        os.abort()
    if area == "json" and number == 1:
        import time
        time.sleep(1000)
print(json.dumps({"counts": {"cases": 5 - start}, "next": 5}))
"""


def session(
    corpus: Path, areas: list[str], command: tuple[str, ...], silence: float = 60.0
) -> tuple[Session, list[str]]:
    said: list[str] = []
    made = Session(areas, 0, float("inf"), 5, 0, 1, corpus, said.append, command=command, silence=silence)
    made.run()
    return made, said


def test_crashes_and_hangs_have_a_case_and_the_rest_goes_on(tmp_path: Path) -> None:
    made, said = session(tmp_path, ["texts", "json"], (sys.executable, "-c", DIES), silence=10.0)
    assert made.findings == 2
    assert [line.partition("\n")[0] for line in said] == [
        "texts: the process ended with -6",
        "json: nothing was heard for 10 seconds",
    ]
    assert "the last words" in said[0]
    assert sorted(area for _, area, _ in cases(tmp_path)) == ["json", "texts"]
    assert made.counts["texts"]["findings"] == made.counts["json"]["findings"] == 1


@pytest.mark.sampled(0)
def test_the_command_runs_areas_and_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--area", "texts", "--area", "tile", "--seed", "3", "--programs", "6", "--jobs", "2"]
    assert main([*arguments, "--corpus", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 3, areas texts, tile"
    table = [dict(zip(lines[-3].split(), line.split(), strict=True)) for line in lines[-3:]]
    assert [(row["area"], row["programs"]) for row in table[1:]] == [("texts", "6"), ("tile", "6")]
    assert table[1]["LLVM"] == "0" < table[2]["LLVM"]
    assert list(tmp_path.iterdir()) == []


def test_a_process_knows_what_others_found(tmp_path: Path) -> None:
    tells = """
import json, sys
known = [word for place, word in enumerate(sys.argv) if sys.argv[place - 1] == "--known"]
start = int(sys.argv[sys.argv.index("--start") + 1])
print(json.dumps({"at": start}), flush=True)
assert bool(known) == (start > 0), known
print(json.dumps({"finding": {"n": start}, "fault": "Error", "number": start}), flush=True)
print(json.dumps({"counts": {"cases": 1}, "next": start + 1}), flush=True)
"""
    made, said = session(tmp_path, ["texts"], (sys.executable, "-c", tells))
    assert made.counts["texts"]["cases"] == 5
    assert len(said) == made.findings == 1, said


def test_replaying_tells_which_cases_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path, "texts", {"language": "tile", "text": "function ("}, "what it was", "--seed 0")
    assert main(["--replay", str(tmp_path)]) == 0
    path = save(tmp_path, "texts", {"language": "latin", "text": ""}, "what it was", "--seed 0")
    assert main(["--replay", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"{path}: KeyError (check, texts.py): 'latin'",
        "1 of 2 cases fail",
    ]
    assert json.loads(path.read_text(encoding="utf-8"))["found"] == "--seed 0"


def test_unknown_areas_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--area", "nothing"])
    assert "invalid choice: 'nothing'" in capsys.readouterr().err
