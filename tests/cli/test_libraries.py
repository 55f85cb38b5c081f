"""Libraries in C by the command line, where nothing that writes them is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import tileir
from tileir.runtime.discovery import Registry
from tileir.runtime.interface import Backend
from tileir_cli import main as cli


def failing(*_: object) -> Any:
    raise AssertionError("nothing is compiled or run")


@pytest.mark.parametrize(
    ("backends", "told"),
    [
        ((), "--header needs tileir-c, which is not installed: pip install tileir-c"),
        ((Backend("c", tuple, failing, failing),), "this tileir-c writes no libraries: pip install --upgrade tileir-c"),
    ],
)
def test_what_to_install_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    backends: tuple[Backend[Any], ...],
    told: str,
) -> None:
    context = tileir.Context(registry=Registry.of(*backends))
    monkeypatch.setattr("tileir_cli.libraries.default_context", lambda: context)
    (tmp_path / "f.tile").write_text("function (A: f32[3]) -> (B) { B = A; }", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["tileir", "emit", str(tmp_path / "f.tile"), "--header"])
    assert cli.run() == cli.DEVICE_FAULT
    assert f"error[TIL811]: {told}" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["f.tile"]
