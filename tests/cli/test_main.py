from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tileir_cli import main as cli

MATMUL = "function (A[M, K], B[K, N]) -> (C) {\n    C[i, j : M, N] = +(A[i, k] * B[k, j]);\n}\n"
TWO = "function (A, S) -> (P, Q) { P = A + S; Q = A * S; }"

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command line, and return the exit code, what it printed, and what it printed as errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", *map(str, arguments)])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def matmul(tmp_path: Path) -> Path:
    path = tmp_path / "matmul.tile"
    path.write_text(MATMUL, encoding="utf-8")
    return path


def test_devices_are_listed(command: Command) -> None:
    code, out, _ = command("devices")
    assert code == 0
    assert "llvm.0" in out


def test_a_good_file_passes_the_check(command: Command, matmul: Path) -> None:
    code, out, _ = command("check", matmul)
    assert (code, out) == (0, f"{matmul}: 1 statement, results C\n")


def test_faults_are_shown_with_carets(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "wrong.tile"
    path.write_text("function (A[N]) -> (B) {\n    B[i : N] = +(C[i]);\n}\n", encoding="utf-8")
    code, out, err = command("check", path)
    assert (code, out) == (1, "")
    assert f"{path}:2:18: error[TIL201]" in err
    lines = err.splitlines()
    assert lines[2].index("^") == lines[1].index("C[i]")


def test_a_missing_file_is_an_error(command: Command, tmp_path: Path) -> None:
    code, _, err = command("check", tmp_path / "none.tile")
    assert code == 1
    assert "error[TIL901]" in err


def test_wrong_usage_has_its_own_exit_code(command: Command) -> None:
    assert command("check")[0] == 2
    assert command("fly")[0] == 2


@pytest.mark.parametrize(
    ("stage", "part"),
    [
        ("tile", "C[i, j : M, N] = +(A[i, k] * B[k, j])"),
        ("typed", "f32"),
        ("stripe", "#contraction"),
        ("scheduled", "#vector"),
        ("sem", "kernel"),
    ],
)
def test_each_stage_can_be_printed(command: Command, matmul: Path, stage: str, part: str) -> None:
    code, out, err = command("print", matmul, "A=f32[8,8]", "B=f32[8,32]", "--stage", stage)
    assert (code, err) == (0, "")
    assert part in out


def test_passes_can_be_chosen(command: Command, matmul: Path) -> None:
    types = ("A=f32[8,8]", "B=f32[8,32]")
    code, out, _ = command("print", matmul, *types, "--stage", "scheduled", "--passes", "accumulate,thread{groups=8}")
    assert code == 0
    assert "#grid" in out
    assert "#vector" not in out
    code, _, err = command("print", matmul, *types, "--stage", "scheduled", "--passes", "acumulate")
    assert code == 1
    assert "accumulate" in err


@pytest.mark.sampled(0)
@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no device is always full")
def test_a_full_output_is_told(matmul: Path) -> None:
    program = [sys.executable, "-m", "tileir", "print", str(matmul)]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "error[TIL901]: cannot write the output: [Errno 28] No space left on device\n"


def test_types_are_needed_after_tile(command: Command, matmul: Path) -> None:
    code, _, err = command("print", matmul, "--stage", "typed")
    assert code == 1
    assert "error[TIL902]: say what A, B are" in err


def test_generated_code_is_printed_or_written(command: Command, matmul: Path, tmp_path: Path) -> None:
    code, out, _ = command("emit", matmul, "A=f32[8,8]", "B=f32[8,32]", "--form", "llvm")
    assert code == 0
    assert "define void @" in out
    path = tmp_path / "matmul.s"
    assert command("emit", matmul, "A=f32[8,8]", "B=f32[8,32]", "--form", "asm", "-o", path)[:2] == (0, "")
    assert path.stat().st_size > 0
    code, _, err = command("emit", matmul, "A=f32[8,8]", "B=f32[8,32]", "--form", "spirv")
    assert code == 3
    assert "TIL806" in err


@pytest.mark.parametrize("extra", [(), ("--interpret",)])
def test_arrays_run_and_are_written(command: Command, matmul: Path, tmp_path: Path, extra: tuple[str, ...]) -> None:
    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    result = tmp_path / "c.npy"
    code, out, err = command("run", matmul, f"A={tmp_path / 'a.npy'}", f"B={tmp_path / 'b.npy'}", "-o", result, *extra)
    assert (code, err) == (0, "")
    assert out == f"C: f32[2, 4] written to {result}\n"
    np.testing.assert_array_equal(np.load(result), a @ b)


def test_a_path_names_one_of_several_functions(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "layers.tile"
    (tmp_path / "more.tile").write_text("function twice(A) -> (B) { B = A + A; }", encoding="utf-8")
    text = (
        'import twice from "more.tile"; function four(A) -> (B) { B = twice(twice(A)); } function (A) -> (C) { C = A; }'
    )
    path.write_text(text, encoding="utf-8")
    assert command("check", f"{path}:four")[:2] == (0, f"{path}:four: 2 statements, results B\n")
    code, out, _ = command("run", "--interpret", f"{path}:four", "A=3")
    assert (code, out) == (0, "B: i32[]\n12\n")
    assert command("run", "--interpret", path, "A=3")[1] == "C: i32[]\n3\n"
    code, out, err = command("run", "--interpret", f"{path}:fore", "A=3")
    assert (code, out) == (1, "")
    assert "error[TIL206]: the text has no function 'fore'; did you mean 'four'?" in err
    assert "TIL901" in command("run", "--interpret", f"{tmp_path / 'none.tile'}:four", "A=3")[2]


def test_pictures_and_numbers_run(command: Command, tmp_path: Path) -> None:
    program = tmp_path / "two.tile"
    program.write_text(TWO, encoding="utf-8")
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    Image.fromarray(pixels).save(tmp_path / "in.png")
    code, out, _ = command("run", program, f"A={tmp_path / 'in.png'}", "S=2.0", "-o", f"Q={tmp_path / 'q.png'}")
    assert code == 0
    assert out.startswith("P: f32[4, 4, 3]\n[[[")
    with Image.open(tmp_path / "q.png") as written:
        np.testing.assert_array_equal(np.asarray(written), pixels * 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("A=a.npy",), "input 'B' is missing"),
        (("A=a.npy", "B=1", "C=2"), "there is no input 'C'"),
        (("A=a.npy", "A=a.npy", "B=1"), "input 'A' is given twice"),
        (("A", "B=1"), "'A' is not of the form NAME=VALUE"),
        (("A=none.npy", "B=1"), "input 'A': cannot read none.npy"),
        (("A=f32", "B=1"), "input 'A': 'f32' is no value; write A=FILE or A=NUMBER"),
        (("A=f32[3]", "B=1"), "input 'A': 'f32[3]' is no value; write A=FILE or A=NUMBER"),
        (("A=f32[3", "B=1"), "input 'A': 'f32[3' is no value; write A=FILE or A=NUMBER"),
        (("A=1,2,3", "B=1"), "input 'A': write one number, or save the array as .npy and name the file"),
        (("a=1", "B=1"), "there is no input 'a'; did you mean A?"),
        (("A=1", "B=1", "-o", "c.txt"), "must end in .npy"),
        (("A=1", "B=1", "-o", "c.npy", "-o", "d.npy"), "has none left to write"),
    ],
)
def test_wrong_values_are_named(
    command: Command, matmul: Path, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(matmul.parent)
    np.save("a.npy", np.ones((2, 2), np.float32))
    code, _, err = command("run", matmul, *arguments)
    assert code == 1
    assert message in " ".join(err.split())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("f32", "input 'A': write dtype and sizes as in f32[3, 4], or f32[] for a number, not 'f32'"),
        ("f32[3", "input 'A': write dtype and sizes as in f32[3, 4], or f32[] for a number, not 'f32[3'"),
        ("f32[N]", "input 'A': write dtype and sizes as in f32[3, 4], or f32[] for a number, not 'f32[N]'"),
        ("f32[-3]", "not 'f32[-3]'"),
        ("f32[3 4]", "input 'A': write sizes as in f32[3, 4]"),
        (f"f32[{'9' * 5000}]", "input 'A': write sizes as in f32[3, 4]"),
        ("f33[3]", "input 'A': 'f33' is not a dtype"),
        ("i32[" + "x" * 5000, "not 'i32[xxx"),
        ("none", "input 'A': cannot read none"),
    ],
)
def test_wrong_types_are_named(command: Command, matmul: Path, value: str, message: str) -> None:
    code, _, err = command("print", matmul, "--stage", "typed", f"A={value}", "B=f32[3,4]")
    assert code == 1
    assert message in " ".join(err.split())


def test_hostile_files_are_refused(command: Command, matmul: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(matmul.parent)
    Path("pickle.npy").write_bytes(b"\x80\x04K\x01.")
    np.savez("several.npy.npz", a=np.ones(1))
    Path("cut.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    Path("text.tile").write_bytes(b"\xff\xfe")
    for value in ("pickle.npy", "several.npy.npz", "cut.png"):
        code, _, err = command("run", matmul, f"A={value}", "B=1")
        assert code == 1, value
        assert "TIL901" in err, value
    assert command("check", "text.tile")[0] == 1


def test_no_partial_file_is_left(command: Command, matmul: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(matmul.parent)
    np.save("a.npy", np.ones((2, 2), np.float32))
    before = sorted(path.name for path in Path().iterdir())
    code, _, err = command("run", matmul, "A=a.npy", "B=a.npy", "-o", "missing/c.npy")
    assert code == 1
    assert "cannot write" in err
    code, _, err = command("emit", matmul, "A=a.npy", "B=a.npy", "-o", "missing/c.s")
    assert code == 1
    assert sorted(path.name for path in Path().iterdir()) == before


def test_a_result_that_is_no_picture_is_refused(
    command: Command, matmul: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(matmul.parent)
    program = Path("sum.tile")
    program.write_text("function (A[M, N]) -> (S) { S[m : M] = +(A[m, n]); }", encoding="utf-8")
    np.save("a.npy", np.ones((2, 2), np.float32))
    code, _, err = command("run", program, "A=a.npy", "-o", "s.png")
    assert code == 1
    assert "TIL904" in err
    assert not Path("s.png").exists()


def test_inputs_with_declared_types_need_no_values(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "f.tile"
    path.write_text("function (A: f32[4, 3], B[N], S: f32[]) -> (C) { C = A * B + S; }", encoding="utf-8")
    code, out, _ = command("print", path, "--stage", "typed", "B=f32[3]")
    assert code == 0
    assert "A: f32[4, 3]" in out
    code, _, err = command("print", path, "--stage", "typed")
    assert (code, "say what A, B, S are" in err) == (1, True)
    code, _, err = command("print", path, "--stage", "typed", "A=f32[4, 3]")
    assert (code, "input 'B' is missing" in err, "'S'" in err) == (1, True, False)
