from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tileir_cli import main as cli
from tileir_performance.tuning import candidates, contest, drawn_scripts

MATMUL = "function (A[M, K], B[K, N]) -> (C) {\n    C[i, j : M, N] = +(A[i, k] * B[k, j]);\n}\n"
TYPES = ("A=f32[40,40]", "B=f32[40,48]")

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Tune a product with some arguments; return the exit code, what was printed, and what as errors."""
    path = tmp_path / "matmul.tile"
    path.write_text(MATMUL, encoding="utf-8")
    monkeypatch.setattr(candidates, "SPACES", {"register_tile": ({"rows": (2, 3)},)})
    for name in ("TRIAL_SECONDS", "WARM_SECONDS", "ROUND_SECONDS"):
        monkeypatch.setattr(contest, name, 0.0)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", "tune", str(path), *arguments])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_trials_and_the_winner_are_printed(command: Command) -> None:
    code, out, _ = command(*TYPES, "--top", "2", "--device", "llvm")
    assert code == 0
    assert "(the usual pipeline)" in out
    assert "times as fast as without tuning" in out


def test_json_is_printed(command: Command) -> None:
    code, out, _ = command(*TYPES, "--top", "1", "--device", "llvm", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["device"] == "llvm.0"
    assert len(document["trials"]) == 2
    assert {"passes", "predicted", "seconds", "fault"} == set(document["trials"][0])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [((), 1, "TIL902"), ((*TYPES, "--time-limit", "0"), 2, "time-limit"), ((*TYPES, "--top", "0"), 2, "top")],
)
def test_wrong_requests_are_refused(command: Command, arguments: tuple[str, ...], code: int, message: str) -> None:
    found, out, err = command(*arguments)
    assert (found, out) == (code, "")
    assert message in err


def test_scripts_are_searched_and_printed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_scripts, "FIRST_DRAWN", 6)
    code, out, _ = command(*TYPES, "--top", "2", "--device", "llvm", "--scripts", "--seed", "3")
    assert code == 0
    assert out.count("script{steps=(") >= 2
    assert "(the usual pipeline)" in out


@pytest.mark.parametrize("search", [(), ("--scripts", "--seed", "3")])
def test_programs_with_names_in_quotes_are_tuned(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, search: tuple[str, ...]
) -> None:
    monkeypatch.setattr(drawn_scripts, "FIRST_DRAWN", 6)
    names = {"A": '"gpu_0/a"', "B": '"my b"', "C": '"c*/"'}
    text = re.sub(r"\b[ABC]\b", lambda found: names[found[0]], MATMUL)
    (tmp_path / "matmul.tile").write_text(text, encoding="utf-8")
    code, out, _ = command("gpu_0/a=f32[40,40]", "my b=f32[40,48]", "--top", "2", "--device", "llvm", *search)
    assert code == 0
    assert "(the usual pipeline)" in out
