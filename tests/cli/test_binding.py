"""`--bind` of the commands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tileir_cli import main as cli

MATMUL = "function (A[M, K], B[K, N]) -> (C) {\n    C[i, j : M, N] = +(A[i, k] * B[k, j]);\n}\n"

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    (tmp_path / "matmul.tile").write_text(MATMUL, encoding="utf-8")
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(tmp_path / "b.npy", np.ones((3, 2), np.float32))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", *map(str, arguments)])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_bound_inputs_need_no_values(command: Command) -> None:
    assert command("run", "matmul.tile", "--bind", "B=b.npy", "A=a.npy") == command(
        "run", "matmul.tile", "A=a.npy", "B=b.npy"
    )
    code, out, _ = command("run", "matmul.tile", "--bind", "B=b.npy", "--bind", "A=a.npy")
    assert (code, out.split("\n", 1)[0]) == (0, "C: f32[2, 2]")


def test_bound_programs_are_printed_emitted_explained_and_differentiated(command: Command) -> None:
    code, out, _ = command("print", "matmul.tile", "--bind", "B=b.npy")
    assert code == 0
    assert "constant B[K, N] = f32[3, 2](1.0, 1.0, 1.0, 1.0, 1.0, 1.0);" in out
    for name in ("emit", "explain"):
        code, _, err = command(name, "matmul.tile", "--bind", "B=b.npy", "A=f32[2, 3]")
        assert (code, err) == (0, "")
    code, out, _ = command("grad", "matmul.tile", "--bind", "B=b.npy")
    assert code == 0
    assert out.startswith("function (A[M, K]) -> (DA) {\n  constant B")


@pytest.mark.parametrize(
    ("binding", "code", "words"),
    [
        ("B", "TIL902", "not of the form NAME=VALUE"),
        ("Z=1", "TIL711", "there is no input 'Z'"),
        ("C=1", "TIL711", "is an output"),
        ("B=none.npy", "TIL901", "cannot read"),
        ("B=1", "TIL305", "has no axes"),
        ("B=", "TIL902", "has no value"),
    ],
)
def test_bad_bindings(command: Command, binding: str, code: str, words: str) -> None:
    exit_code, out, err = command("print", "matmul.tile", "--bind", binding)
    assert (exit_code, out) == (1, "")
    assert code in err
    assert words in err


def test_an_input_is_bound_once(command: Command) -> None:
    exit_code, _, err = command("print", "matmul.tile", "--bind", "B=b.npy", "--bind", "B=b.npy")
    assert exit_code == 1
    assert "TIL902" in err
    assert "bound twice" in err
