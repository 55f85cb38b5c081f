"""Capabilities that could kill the process are tried in another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strategies.opencl_device import device
from tileir_opencl.device.devices import device_of
from tileir_opencl.device.probe import has_ptx, remembered, survives, works_with

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "program.py"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("print('passed')", True),
        ("print('wrong results')", False),
        ("print('passed'); import os; os.abort()", False),
        ("print('passed'); import time; time.sleep(60)", False),
        ("raise SystemExit(1)", False),
    ],
)
def test_only_a_program_that_says_so_in_time_and_ends_well_has_passed(program: Path, text: str, verdict: bool) -> None:
    program.write_text(text, encoding="utf-8")
    assert survives([str(program)], seconds=5.0 if "sleep" in text else 60.0) is verdict


def test_without_a_python_to_start_nothing_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "")
    assert not survives(["anything"])
    monkeypatch.setattr("sys.executable", "/no/such/python")
    assert not survives(["anything"])


def test_a_verdict_is_found_out_once(program: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    program.write_text(f"open({str(runs)!r}, 'a').write('x'); import os; os.abort()", encoding="utf-8")
    for _ in range(2):
        assert not remembered(f"test {program}", [str(program)])
    assert runs.read_text(encoding="utf-8") == "x"


@pytest.mark.sampled(0)
def test_a_device_works_with_narrow_vectors() -> None:
    assert works_with(device_of(device()).found, 4)


def test_a_processor_has_no_ptx() -> None:
    assert not has_ptx(device_of(device()).found)
