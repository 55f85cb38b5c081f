"""The command `tileir save`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tileir_cli import main as cli

if TYPE_CHECKING:
    from pathlib import Path


def test_a_saved_program_runs_like_the_one_that_it_was_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.tile").write_text("function (A[N], B[N]) -> (C) { C = A - B; }", encoding="utf-8")
    np.save("b.npy", np.arange(400, dtype=np.float32))
    np.save("a.npy", np.ones(400, np.float32))

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", *words])
        return cli.run(), capsys.readouterr().out

    assert run("save", "f.tile", "--bind", "B=b.npy", "-o", "f.tileir") == (0, "f.tileir: written\n")
    assert run("run", "f.tileir", "A=a.npy", "-o", "c.npy") == (0, "C: f32[400] written to c.npy\n")
    np.testing.assert_array_equal(np.load("c.npy"), 1 - np.arange(400, dtype=np.float32))
