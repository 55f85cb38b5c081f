"""The command that writes C ahead of time."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from tileir.runtime.discovery import Registry
from tileir_c import BACKEND
from tileir_c.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mat-mul.tile"
    path.write_text(SOURCE)
    return path


def command(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["tileir-c", *map(str, words)])
    return main()


def test_from_text_to_a_program(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    assert command(monkeypatch, file, "A=f32[5, 6]", "B=f32[6,7]", "-o", folder, "--vector-bytes", "16") == 0
    assert sorted(path.name for path in folder.iterdir()) == ["Makefile", "mat_mul.c", "mat_mul.h", "mat_mul_main.c"]
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    subprocess.run(["make"], cwd=folder, check=True, capture_output=True)
    left, right = np.arange(30, dtype=np.float32).reshape(5, 6), np.ones((6, 7), np.float32)
    np.save(folder / "a.npy", left)
    np.save(folder / "b.npy", right)
    subprocess.run([str(folder / "mat_mul"), "a.npy", "b.npy", "c.npy"], cwd=folder, check=True)
    np.testing.assert_array_equal(np.load(folder / "c.npy"), tileir.evaluate(SOURCE, (left, right)))
    subprocess.run(["make", "clean"], cwd=folder, check=True, capture_output=True)
    assert not (folder / "mat_mul").exists()


def test_without_main(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, file, "A=f32[5,6]", "B=f32[6,7]", "-o", tmp_path / "o", "--no-main", "--name", "f") == 0
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["Makefile", "f.c", "f.h"]
    assert "all: f.o" in (tmp_path / "o" / "Makefile").read_text()


def test_no_compiler_is_needed(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert command(monkeypatch, file, "A=f32[5,6]", "B=f32[6,7]", "-o", tmp_path / "o") == 0


def test_all_faults_of_the_arguments_at_once(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, file, "A=f32[5,6]", "A=f32[5,6]", "X=f32[1]", "Y", "Z=f99[1]", "W=f32[1,]") == 1
    said = capsys.readouterr().err
    for part in (
        "input 'A' is given twice",
        "no input 'X'; the inputs are A, B",
        "'Y' is not of the form NAME=DTYPE[SIZES]",
        "'Z=f99[1]' is not of",
        "'W=f32[1,]' is not of",
        "input 'B' is missing; add B=DTYPE[SIZES]",
    ):
        assert part in said
    assert said.count("error[TIL902]") == 6


def test_faults_have_the_exit_codes_of_tileir(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, file, "A=f32[5,6]", "B=f32[7,7]", "-o", tmp_path) == 1
    assert "error[TIL304]" in capsys.readouterr().err
    assert command(monkeypatch, tmp_path / "missing.tile") == 1
    assert "error[TIL901]: cannot read" in capsys.readouterr().err
    file.with_suffix(".bad").write_text("function (")
    assert command(monkeypatch, file.with_suffix(".bad")) == 1
    assert "error[TIL102]" in capsys.readouterr().err
    assert command(monkeypatch, file, "A=f32[5,6]", "B=f32[6,7]", "-o", file / "below") == 1
    assert "cannot write" in capsys.readouterr().err
    assert command(monkeypatch, file, "--vector-bytes", "24") == 2
    assert command(monkeypatch) == 2


def test_constants_are_no_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.full((3, 2), 0.34375, np.float32)
    tileir.save(
        tileir.bind("function (X[N], W[N, K]) -> (Y) { Y[k : K] = +(X[n] * W[n, k]); }", W=weights),
        tmp_path / "f.tileir",
    )
    assert command(monkeypatch, tmp_path / "f.tileir", "X=f32[3]", "-o", tmp_path) == 0
    header, source = (tmp_path / "f.h").read_text(), (tmp_path / "f.c").read_text()
    assert "//   // W: f32[3, 2]\n//   Y[k : K] = +(X[n] * W[n, k]);\n" in header
    assert "34375" not in header
    assert not [line for line in source.splitlines() if line.lstrip().startswith("//") and "34375" in line]


def emitted(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    context = tileir.Context(registry=Registry.of(BACKEND))
    monkeypatch.setattr("tileir_cli.libraries.default_context", lambda: context)
    monkeypatch.setattr(sys, "argv", ["tileir", "emit", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        next(iter(entry_points(group="console_scripts", name="tileir"))).load()()
    return int(caught.value.code or 0)


def test_a_library_with_a_header_by_the_command_of_tileir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = np.arange(6, dtype=np.float32).reshape(3, 2)
    text = "function (X: f32[3], W[N, K]) -> (Y) { Y[k : K] = +(X[n] * W[n, k]); }"
    tileir.save(tileir.bind(text, W=weights), tmp_path / "dense.tileir")
    assert emitted(monkeypatch, tmp_path / "dense.tileir", "--header", "-o", tmp_path / "out") == 0
    written = capsys.readouterr().out.split()
    assert sorted(written) == [str(tmp_path / "out" / name) for name in ("Makefile", "dense.c", "dense.h")]
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "dense.h"\nint main(void) {\n'
        "  static _Alignas(DENSE_WORKSPACE_ALIGNMENT) char memory[DENSE_WORKSPACE_BYTES + 1];\n"
        "  float x[3] = {1, 2, 3}, y[2];\n  dense(x, y, memory);\n"
        '  printf("%g %g\\n", y[0], y[1]);\n  return 0;\n}\n'
    )
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    sources = [tmp_path / "main.c", tmp_path / "out" / "dense.c"]
    subprocess.run([compiler, "-I", tmp_path / "out", *sources, "-o", tmp_path / "main", "-lm"], check=True)
    found = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["16", "22"]  # 0 + 2 * 2 + 3 * 4 and 1 + 2 * 3 + 3 * 5


def test_wrong_uses_of_a_header(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emitted(monkeypatch, file, "--header", "A=f32[5,6]", "B=f32[6,7]", "--form", "c") == 1
    assert "leave out --form" in capsys.readouterr().err
    assert emitted(monkeypatch, file, "--header") == 1
    assert "say what A, B are" in capsys.readouterr().err
    assert emitted(monkeypatch, file, "--header", "A=f32[5,6]", "B=f32[6,7]", "-o", file / "below") == 1
    assert "error[TIL901]: cannot write" in capsys.readouterr().err


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "tileir_c", "--help"], capture_output=True, text=True, check=True)
    assert "NAME=DTYPE[SIZES]" in done.stdout
