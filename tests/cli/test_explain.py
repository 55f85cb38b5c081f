from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tileir_cli import main as cli

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


def test_remarks_are_printed(command: Command) -> None:
    wide = ("A=f64[64,64]", "B=f64[64,64]", "--target", "nvidia-hopper")
    code, out, _ = command(*wide, "--remarks")
    assert code == 0
    lines = out.splitlines()
    kernel = lines.index("kernel_0(A,B)")
    assert "matrix_contraction" in lines[kernel + 1]
    assert (
        "left TR429  the target has no instructions for products and sums of these dtypes (left=f64"
        in lines[kernel + 1]
    )
    assert "group_contraction" in lines[kernel + 2]
    assert "done TR001" in lines[kernel + 2]
    assert "TR114" not in out
    _, every, _ = command(*wide, "--all-remarks")
    assert "left TR114  the kernel contains loops" in every
    _, plain, _ = command(*wide)
    assert "TR429" not in plain


def test_remarks_are_in_the_json_where_they_are_asked_for(command: Command) -> None:
    wide = ("A=f64[64,64]", "B=f64[64,64]", "--target", "nvidia-hopper", "--json")
    assert "remarks" not in json.loads(command(*wide)[1])
    found = json.loads(command(*wide, "--remarks")[1])["remarks"]
    (left,) = [each for each in found if each["code"] == "TR429"]
    assert left["step"] == "matrix_contraction"
    assert left["facts"].items() >= {"left": "f64", "right": "f64", "sum": "f64"}.items()
    assert (left["fired"], left["relevant"], left["launches"]) == (False, True, [left["kernel"]])


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
