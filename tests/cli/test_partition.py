"""`tileir partition`: the program of all ranks, and what they exchange and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import tileir
from tileir_cli import main as cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BLUR = """function (I[H, W], K[W, N]) -> (B) {
  S[y, x : H, W] = +(I[y + j - 1, x]), j < 3;
  T[y, n : H, N] = +(S[y, x] * K[x, n]);
  [[shard(whole, y)]] B = T / 3;
}"""
TYPES = ("I=f32[2048,2048]", "K=f32[2048,2048]")


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Run the command on a file; return exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blur.tile").write_text(BLUR)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", "partition", "blur.tile", *words])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_program_of_all_ranks_is_printed(command: Callable[..., tuple[int, str, str]]) -> None:
    code, text, _ = command("--mesh", "x=2,y=2", *TYPES)
    types = dict.fromkeys("IK", ("f32", (2048, 2048)))
    assert code == 0
    assert text == str(tileir.partition(BLUR, {"x": 2, "y": 2}, arguments=types))


def test_shardings_and_exchanges_are_explained(command: Callable[..., tuple[int, str, str]]) -> None:
    code, text, _ = command("--mesh", "x=2,y=2", "--explain", *TYPES)
    assert code == 0
    assert text == (
        "shardings\n"
        "  I: f32[2048, 2048] (x, whole)\n"
        "  K: f32[2048, 2048] (whole, y)\n"
        "  S: f32[2048, 2048] (x, whole)\n"
        "  T: f32[2048, 2048] (x, y)\n"
        "  B_local: f32[2048, 2048] (x, y)\n"
        "  B: f32[2048, 2048] (whole, y)\n"
        "exchanges\n"
        "  S: halo of I, 32 KiB, 20.7 us beside work, 256 ns of borders: S reads I beyond the part of a rank along x\n"
        "  B: all_gather of B, 16 MiB, 356 us: B is asked for in another layout than that in which it is made\n"
        "  together 16 MiB, 376 us\n"
    )


def test_options(command: Callable[..., tuple[int, str, str]]) -> None:
    words = ("--mesh", "x=2,y=1", "--shard", "I=whole,x", "--shard", "K=x, whole")
    _, text, _ = command(*words, "--explain", *TYPES)
    assert "K: f32[2048, 2048] (x, whole)" in text
    assert "T: reduce_scatter of T, 16 MiB, 691 us beside work: ranks along x have parts of T" in text
    _, faster, _ = command(*words, "--target", "nvidia-hopper", "--explain", *TYPES)
    assert "T: all_reduce of T, 32 MiB, 77.4 us beside work: ranks along x have parts of T, of which each" in faster


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--mesh", "x=2,y"), "TIL351]: 'x=2,y' is no mesh; write the number of ranks along each axis"),
        (("--mesh", "x=two"), "TIL351]: 'x=two' is no mesh"),
        (("--mesh", "x=²"), "TIL351]: 'x=²' is no mesh"),
        (("--mesh", "x=2,x=3"), "TIL351]: two axes of a mesh are called 'x'"),
        (("--mesh", "y=2", "--shard", "I=y,whole", "--shard", "I=whole,y"), "TIL902]: --shard says twice what I is"),
        (("--mesh", "x=0"), "TIL351]: the axis 'x' of a mesh has 0 ranks"),
        (("--mesh", "x=2"), "TIL352]: the sharding (_, y) of 'B' names the axis 'y'"),
        (("--mesh", "y=2", "--shard", "I"), "TIL902]: --shard 'I' is not of the form NAME=VALUE"),
        (("--mesh", "y=2", "--shard", "I=y"), "TIL352]: the sharding (y) of 'I' has 1 entries"),
        (("--mesh", "y=2", "--shard", "S=y,whole", "--shard", "K=y,whole", "--no-reshard"), "TIL353]: 'T' reads"),
    ],
)
def test_wrong_usage(command: Callable[..., tuple[int, str, str]], words: tuple[str, ...], message: str) -> None:
    code, _, errors = command(*words, *TYPES)
    assert code == 1
    assert message in errors


def test_inputs_need_types(command: Callable[..., tuple[int, str, str]]) -> None:
    code, _, errors = command("--mesh", "y=2")
    assert code == 1
    assert "TIL902]: say what I, K are" in errors
