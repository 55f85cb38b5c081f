from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tileir
from tileir_cli import main as cli

POOL = "function (X[N], W[N], I) -> (O, P) {\n    O[i : N] = >(X[i + j]), j < 2;\n    P = O * W + I;\n}\n"
ANY_SHAPE = """\
function (X[N], W[N], I) -> (DX) {
  O[i : N] = >(X[i + j]), j < 2;
  P = O * W + I;
  DX = gradient(O, X);
}
"""
WRITTEN_OUT = """\
function (X: f32[4], W: f32[4], I: i32[4]) -> (DX) {
  O[i : 4] = >(X[i + j]), j < 2;
  DX[i + j : 4] = +(X[i + j] == O[i] ? W[i]), j < 2;
}
"""

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Differentiate a pooling with some arguments; return the exit code, what was printed, and what as errors."""
    path = tmp_path / "pool.tile"
    path.write_text(POOL, encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", "grad", str(path), *arguments])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_without_types_it_is_for_all_shapes(command: Command) -> None:
    code, out, err = command("--wrt", "X", "--of", "O")
    assert (code, out, err) == (0, ANY_SHAPE, "")


def test_with_types_gradients_are_written_out(command: Command) -> None:
    code, out, err = command("X=f32[4]", "W=f32[4]", "I=i32[4]", "--wrt", "X", "--of", "P")
    assert (code, out, err) == (0, WRITTEN_OUT, "")


def test_all_floats_are_taken_by_default(command: Command) -> None:
    code, out, _ = command("X=f32[4]", "W=f32[4]", "I=i32[4]")
    assert code == 0
    assert [output.name for output in tileir.parse(out).outputs] == ["DX", "DW"]


def test_types_come_from_files(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    code, out, _ = command(f"X={tmp_path / 'x.npy'}", "W=f32[4]", "I=i32[4]", "--wrt", "X", "--of", "P")
    assert (code, out) == (0, WRITTEN_OUT)


def test_several_names_are_separated_by_commas(command: Command) -> None:
    code, out, _ = command("--wrt", "W, X", "--of", "O,P")
    assert code == 0
    assert "gradient(tuple(O, P), W, X)" in out


def test_ties_can_be_even(command: Command) -> None:
    code, out, _ = command("--wrt", "X", "--of", "O", "--ties", "even")
    assert code == 0
    assert "[[ties(even)]] DX = gradient(O, X);" in out
    assert command("--ties", "odd")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--wrt", "Y"), "TIL710"),
        (("--of", ""), "TIL710"),
        (("--wrt", "I", "X=f32[4]", "W=f32[4]", "I=i32[4]"), "TIL321"),
        (("X=f32[4]",), "TIL902"),
        (("X=f32[4]", "W=f32[5]", "I=f32[]"), "TIL304"),
    ],
)
def test_faults_are_told(command: Command, arguments: tuple[str, ...], fault: str) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (1, "")
    assert fault in err
