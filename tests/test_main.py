"""``python -m tileir``, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tileir
from tileir import __main__ as command


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tileir", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.sampled(0)
def test_the_module_is_the_command() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"tileir {tileir.__version__}\n", "")


@pytest.mark.sampled(0)
def test_wrong_usage_has_an_exit_code_of_its_own() -> None:
    done = run("fly")
    assert done.returncode == 2
    assert "fly" in done.stderr


def test_without_the_extra_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "tileir_cli.main", raising=False)
    with pytest.raises(SystemExit, match=r"needs click: pip install 'tileir\[cli\]'"):
        command.main()


def test_a_missing_module_of_another_kind_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tileir_cli.main", None)
    with pytest.raises(ModuleNotFoundError):
        command.main()
