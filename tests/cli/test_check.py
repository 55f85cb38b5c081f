"""`tileir check --passes` and `tileir bisect`."""

from __future__ import annotations

import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tileir_cli import main as cli

if TYPE_CHECKING:
    from collections.abc import Callable

SUM = "function (A[N, M]) -> (O) {\n    O[i : N] = +(A[i, j]);\n}\n"
OWN = """
import attrs
from typing import ClassVar

@attrs.frozen
class Shorten:
    name: ClassVar[str] = "shorten"
    by: int = 1

    def __call__(self, program):
        from tileir.passes.base import map_kernels
        return map_kernels(program, self._shortened)

    def _shortened(self, kernel):
        *others, last = kernel.indices
        return attrs.evolve(kernel, indices=(*others, attrs.evolve(last, range=last.range - self.by)))
"""


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Run a command where there are a program and a module with a pass; return exit code, output and errors."""
    (tmp_path / "sum.tile").write_text(SUM, encoding="utf-8")
    (tmp_path / "own_passes_of_check.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", *arguments])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_passes_that_are_right(command: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = command("check", "sum.tile", "A=f32[5,9]", "--passes", "plain")
    assert (code, out) == (0, "sum.tile: no pass changes a result\n")


def test_a_wrong_pass_of_a_module(command: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = command(
        "check", "sum.tile", "A=f32[5,9]", "--from", "own_passes_of_check", "--passes", "shorten{by=1},accumulate"
    )
    assert code == 1
    assert out.splitlines()[0] == "sum.tile: pass 1, 'shorten', changes what the program computes"
    assert "kernel: kernel_0(A)" in out
    assert "inputs: A=f32[1, 2]" in out


def test_bisect_checks_the_pipeline_of_a_target(command: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = command("bisect", "sum.tile", "A=f32[5,9]", "--target", "fused")
    assert (code, out) == (0, "sum.tile: no pass changes a result\n")


def test_programs_of_stripe(command: Callable[..., tuple[int, str, str]]) -> None:
    code, text, _ = command("print", "sum.tile", "A=f32[5,9]", "--stage", "stripe")
    Path("sum.stripe").write_text(text, encoding="utf-8")
    assert command("bisect", "sum.stripe")[:2] == (0, "sum.stripe: no pass changes a result\n")
    options = ("--from", "own_passes_of_check", "--passes", "shorten{by=1},accumulate")
    code, out, _ = command("check", "sum.stripe", "A=f32[5,9]", *options)
    assert code == 1
    assert out.splitlines()[0] == "sum.stripe: pass 1, 'shorten', changes what the program computes"
    assert "inputs: A=f32[5, 9]" in out


def test_kernels_have_costs_and_no_passes(command: Callable[..., tuple[int, str, str]]) -> None:
    _, text, _ = command("print", "sum.tile", "A=f32[5,9]", "--stage", "sem")
    Path("sum.sem").write_text(text, encoding="utf-8")
    code, out, _ = command("explain", "sum.sem")
    assert code == 0
    assert "bound by" in out
    for verb in ("bisect", "tune"):
        code, _, error = command(verb, "sum.sem")
        assert code == 1
        assert "TIL712" in error
    for arguments in (("print", "sum.sem", "--stage", "code"), ("emit", "sum.sem"), ("run", "sum.sem", "A=ones.npy")):
        np.save("ones.npy", np.ones((5, 9), np.float32))
        assert command(*arguments)[0] == 0
        code, _, error = command(*arguments, "--target", "nvidia-hopper")
        assert code == 1
        assert "error[TIL712]: a program of the semtree is compiled as it stands" in error


def test_bisect_needs_types(command: Callable[..., tuple[int, str, str]]) -> None:
    code, _, error = command("bisect", "sum.tile")
    assert code == 1
    assert "TIL902" in error


def test_an_optional_part_of_a_pass_that_is_misspelt(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    wrong = OWN.replace("    by: int = 1", "    sees_loop: ClassVar[bool] = True\n    by: int = 1")
    (tmp_path / "misspelt_passes_of_check.py").write_text(wrong, encoding="utf-8")
    code, _, error = command(
        "check", "sum.tile", "A=f32[5,9]", "--from", "misspelt_passes_of_check", "--passes", "shorten"
    )
    assert code == 1
    assert "Shorten has 'sees_loop', which is not used; did you mean 'sees_loops'?" in error


def test_a_module_that_cannot_be_imported(command: Callable[..., tuple[int, str, str]]) -> None:
    code, _, error = command("check", "sum.tile", "A=f32[5,9]", "--from", "no_such_module", "--passes", "shorten")
    assert code == 1
    assert "TIL902" in error
    assert "no_such_module" in error


def test_a_module_without_passes_is_wrong_usage(command: Callable[..., tuple[int, str, str]]) -> None:
    assert command("check", "sum.tile", "--from", "own_passes_of_check")[0] == 2


SWAPPED = "function (A[M, K], B) -> (C) {\n    C[j, i : M, K] = =(A[i, j]);\n}\n"


def test_warnings_without_types(command: Callable[..., tuple[int, str, str]]) -> None:
    Path("swapped.tile").write_text(SWAPPED, encoding="utf-8")
    code, out, error = command("check", "swapped.tile")
    assert (code, out) == (0, "swapped.tile: 1 statement, results C\n")
    assert error.splitlines()[0] == (
        "swapped.tile:1:20: warning[TIL231]: no result depends on input 'B'; remove it, or use it"
    )


def test_types_are_asked_for_where_none_are_given(command: Callable[..., tuple[int, str, str]]) -> None:
    hint = "with types of all inputs, as in A=f32[3,4], more is checked\n"
    assert command("check", "sum.tile") == (0, "sum.tile: 1 statement, results O\n", hint)
    for arguments in (["A=f32[5,9]"], ["--warn", "none"], ["sum.tile"]):
        assert command("check", "sum.tile", *arguments)[2] == ""
    Path("constant.tile").write_text("function () -> (C) { C = 2.0; }", encoding="utf-8")
    assert command("check", "constant.tile")[2] == ""
    Path("typed.tile").write_text("function (A: i8[N, 16], B) -> (C) { C = A * B; }", encoding="utf-8")
    assert command("check", "typed.tile")[2] == "with types of all inputs, as in A=i8[3,16], more is checked\n"
    code, _, error = command("check", "typed.tile", "A=i8[3,4]", "B=f32[4]")
    assert code == 1
    assert "typed.tile:1:20: error[TIL317]: axis 1 of 'A' is declared as 16, but its argument has 4" in error
    assert command("print", "typed.tile")[1].startswith("function (A: i8[N, 16], B) -> (C) {")
    Path("scalar.tile").write_text("function (A[], B) -> (C) { C = A * B; }", encoding="utf-8")
    assert "as in A=f32[], more" in command("check", "scalar.tile")[2]
    reads_past_the_end = "function (A[N, M]) -> (C) { C[i : N] = =(A[i, 7]); }"
    Path("column.tile").write_text(reads_past_the_end, encoding="utf-8")
    assert "as in A=f32[3,4]" in command("check", "column.tile")[2]
    assert "TIL411" in command("check", "column.tile", "A=f32[3,4]")[2]


def test_warnings_for_types(command: Callable[..., tuple[int, str, str]]) -> None:
    Path("swapped.tile").write_text(SWAPPED, encoding="utf-8")
    code, _, error = command("check", "swapped.tile", "A=f32[5,3]", "B=0.1")
    assert code == 0
    assert [line.split()[1][:-1] for line in error.splitlines() if "warning" in line] == [
        "warning[TIL231]",
        "warning[TIL413]",
        "warning[TIL412]",
    ]


def test_warnings_as_errors_and_none_at_all(command: Callable[..., tuple[int, str, str]]) -> None:
    Path("swapped.tile").write_text(SWAPPED, encoding="utf-8")
    assert command("check", "--warn", "error", "swapped.tile")[0] == 1
    assert command("check", "--warn", "none", "swapped.tile")[::2] == (0, "")
    assert command("check", "--warn", "error", "sum.tile", "A=f32[5,9]")[0] == 0


def test_warnings_about_what_may_be_meant(command: Callable[..., tuple[int, str, str]]) -> None:
    text = "function (A[N]) -> (O) { O[i : N] = +(A[i + j - 1]), j < 3; }"
    Path("window.tile").write_text(text, encoding="utf-8")
    assert command("check", "window.tile", "A=f32[9]")[2] == ""
    assert "TIL412" in command("check", "window.tile", "A=f32[9]", "--warn", "all")[2]


def test_several_files_are_all_told_of(command: Callable[..., tuple[int, str, str]]) -> None:
    Path("swapped.tile").write_text(SWAPPED, encoding="utf-8")
    Path("wrong.tile").write_text("function (A) -> (B) { B = C; }", encoding="utf-8")
    code, out, error = command("check", "wrong.tile", "swapped.tile", "sum.tile", "missing.tile")
    assert code == 1
    assert [line.partition(":")[0] for line in out.splitlines()] == ["swapped.tile", "sum.tile"]
    assert all(word in error for word in ("TIL201", "TIL231", "TIL901"))
    assert command("check", "sum.tile", "swapped.tile", "A=f32[3,4]")[0] == 2
    assert command("check", "sum.tile", "swapped.tile", "--passes", "plain")[0] == 2


def test_runs_warn_as_checks_do(command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("swapped.tile").write_text(SWAPPED, encoding="utf-8")
    np.save("a.npy", np.ones((5, 3), np.float32))
    code, out, error = command("run", "swapped.tile", "A=a.npy", "B=0.1", "--warn", "error")
    assert (code, out) == (1, "")
    assert "TIL231" in error
    assert "TIL413" in error
    code, out, error = command("run", "swapped.tile", "A=a.npy", "B=0.1", "--warn", "all")
    assert (code, out[:2]) == (0, "C:")
    assert "TIL231" in error
    code, _, error = command("run", "swapped.tile", "A=a.npy", "B=0.1")
    assert (code, error) == (0, "")
    typed = command("print", "sum.tile", "A=f32[5,3]", "--stage", "typed")[1]
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(typed.encode())))
    assert command("run", "-", "A=a.npy", "--warn", "error")[0] == 0


def test_faults_of_the_standard_input_have_its_name(
    command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"function (A) -> (B) { B = C; }")))
    code, _, error = command("check", "-")
    assert code == 1
    assert error.startswith("<stdin>:1:27: error[TIL201]")


def test_the_slides_style_is_for_stripe(command: Callable[..., tuple[int, str, str]]) -> None:
    code, out, error = command("print", "sum.tile", "A=f32[5,3]", "--stage", "typed", "--style", "seed")
    assert (code, out) == (1, "")
    assert error == "error[TIL902]: --style seed is of texts of Stripe: add --stage stripe\n"
    assert command("print", "sum.tile", "A=f32[5,3]", "--stage", "stripe", "--style", "seed")[0] == 0
