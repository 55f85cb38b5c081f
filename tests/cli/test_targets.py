from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tileir.core.targets.target_file import target_called
from tileir.core.targets.target_names import names_of_targets
from tileir_cli import main as cli

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
FILE = """{
  "name": "mine",
  "parameters": { "GROUPS": { "default": 2, "meaning": "groups" } },
  "passes": [
    { "name": "make_registers", "accumulate": {} },
    { "name": "spread", "thread": { "groups": {{ GROUPS }} } },
    { "localize": {} },
  ],
}"""

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tileir", *map(str, arguments)])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def product(tmp_path: Path) -> Path:
    path = tmp_path / "product.tile"
    path.write_text(PRODUCT, encoding="utf-8")
    return path


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.json"
    path.write_text(FILE, encoding="utf-8")
    return path


SHAPES = ("A=f32[8,8]", "B=f32[8,16]")


def test_targets_are_listed(command: Command) -> None:
    code, out, _ = command("targets")
    assert code == 0
    assert all(name in out for name in names_of_targets())
    assert "PARTS=" in out
    listed = json.loads(command("targets", "--json")[1])
    own = set(names_of_targets())  # wheels that are installed bring others
    assert [each["name"] for each in listed if each["name"] in own] == list(names_of_targets())
    cpu = next(each for each in listed if each["name"] == "cpu")
    assert cpu["parameters"]["PARTS"]["default"] == target_called("cpu").values({})["PARTS"]


def test_a_target_is_printed_as_it_is_written(command: Command, mine: Path) -> None:
    assert command("targets", "cpu") == (0, target_called("cpu").text, "")
    assert command("targets", mine)[1] == FILE


def test_a_target_is_filled_in_for_a_device(command: Command, mine: Path) -> None:
    filled = json.loads(command("targets", mine, "--json", "--set", "GROUPS=3")[1])
    assert filled["parameters"] == {"GROUPS": 3}
    assert filled["passes"][1] == {"name": "spread", "thread": {"groups": 3}}
    assert filled["hardware"]["mem_units"]["DRAM"]["count"] == 1
    assert json.loads(command("targets", f"{mine}:GROUPS=5", "--json")[1])["parameters"] == {"GROUPS": 5}


def test_print_shows_what_a_target_makes(command: Command, product: Path, mine: Path) -> None:
    plain = command("print", product, *SHAPES, "--stage", "scheduled", "--target", "plain")[1]
    assert "#grid" not in plain
    few = command("print", product, *SHAPES, "--stage", "scheduled", "--target", mine)[1]
    more = command("print", product, *SHAPES, "--stage", "scheduled", "--target", mine, "--set", "GROUPS=100")[1]
    assert 0 < few.count("#grid") < more.count("#grid")
    assert command("print", product, *SHAPES, "--stage", "sem", "--target", mine)[0] == 0


@pytest.mark.parametrize("name", ["spread", "thread", "localise", "localize", "all"])
def test_print_shows_the_program_after_a_step_or_pass(command: Command, product: Path, mine: Path, name: str) -> None:
    code, out, _ = command("print", product, *SHAPES, "--after", name, "--target", mine)
    heads = [line for line in out.splitlines() if line.startswith("// ") and line[3].isdigit()]
    every = ["// 1: make_registers", "// 2: spread", "// 3: localise"]
    expected = {"all": every, "localise": every[2:], "localize": every[2:]}
    assert (code, heads) == (0, expected.get(name, every[1:2]))


def test_emit_and_run_take_a_target(command: Command, product: Path, mine: Path, tmp_path: Path) -> None:
    usual = command("emit", product, *SHAPES, "--form", "llvm", "--device", "llvm")[1]
    other = command("emit", product, *SHAPES, "--form", "llvm", "--device", "llvm", "--target", mine)[1]
    assert usual != other
    scalar = tmp_path / "scalar.tile"
    scalar.write_text("function (A) -> (B) { B = A * 2.0; }", encoding="utf-8")
    assert command("run", scalar, "A=1.5", "--target", f"{mine}:GROUPS=1")[1] == "B: f32[]\n3.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "cpuu"), "error[TIL547]: there is neither a target nor a file 'cpuu'; did you mean cpu?"),
        (
            ("--target", "cpu", "--set", "PRATS=1"),
            "error[TIL547]: target cpu has no parameter PRATS; did you mean",
        ),
        (("--set", "PARTS=1"), "error[TIL547]: PARTS: only a target that is named has parameters"),
        (("--target", "cpu", "--set", "PARTS"), "error[TIL902]: write NAME=VALUE to set a parameter, not 'PARTS'"),
    ],
)
def test_wrong_targets_are_told(command: Command, product: Path, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = command("print", product, *SHAPES, "--stage", "scheduled", *arguments)
    assert (code, out) == (1, "")
    assert message in err
