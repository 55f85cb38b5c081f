from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tileir.driver.cli import main as cli

MATMUL = "function (A[M, K], B[K, N]) -> (C) {\n    C[i, j : M, N] = +(A[i, k] * B[k, j]);\n}\n"
TYPES = ("A=f32[64,64]", "B=f32[64,64]")

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Explain a product with some arguments; return the exit code, what was printed, and what as errors."""
    path = tmp_path / "matmul.tile"
    path.write_text(MATMUL, encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", "explain", str(path), *arguments])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_kernels_and_their_bounds_are_printed(command: Command) -> None:
    code, out, _ = command(*TYPES)
    assert code == 0
    assert "524k operations" in out
    assert "bound by" in out
    assert "DRAM" in out


def test_json_is_printed(command: Command) -> None:
    code, out, _ = command(*TYPES, "--json", "--after", "accumulate")
    assert code == 0
    assert json.loads(out)["kernels"][0]["blocks"][0]["operations"][0]["count"] == 2 * 64**3


def test_measured_times_are_printed(command: Command) -> None:
    code, out, _ = command(*TYPES, "--measure")
    assert code == 0
    assert "measured" in out
    assert "predicted" in out


def test_types_are_asked_for(command: Command) -> None:
    code, out, err = command()
    assert (code, out) == (1, "")
    assert "TIL902" in err


def test_other_targets_are_explained(command: Command) -> None:
    code, out, _ = command(*TYPES, "--target", "plain", "--json")
    (kernel,) = json.loads(out)["kernels"]
    assert code == 0
    assert [index["tag"] for block in kernel["blocks"] for index in block["indices"]] == ["", "", ""]
    assert command(*TYPES, "--target", "no_such_target")[0] == 1
