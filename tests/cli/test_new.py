"""`tileir new`: each kind of wheel has tests that pass, installed or not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tileir_cli import main as cli
from tileir_cli.new import TEMPLATES, contents_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Run a command in an empty folder; return exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tileir", *words])
        code = cli.run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def installed(folder: Path, kind: str, name: str) -> Path:
    """Leave what an installer leaves of the wheel in ``folder``: the package, and where its entry point is."""
    site = folder.parent / "site"
    info = site / f"tileir_{name}-0.1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copytree(folder / "src" / f"tileir_{name}", site / f"tileir_{name}")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tileir-{name}\nVersion: 0.1.0\n")
    made = next(line for line in (folder / "pyproject.toml").read_text().splitlines() if line.startswith(f"{name} = "))
    (info / "entry_points.txt").write_text(f"[{TEMPLATES[kind].group}]\n{made.replace(chr(34), '')}\n")
    return site


@pytest.mark.sampled(0)
@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_tests_of_a_wheel_pass(kind: str, command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    name = f"my_{kind}"
    code, out, _ = command("new", kind, name)
    folder = tmp_path / f"tileir-my-{kind}"
    assert (code, out.partition(":")[0]) == (0, folder.name)
    site = installed(folder, kind, name)
    environment = {**os.environ, "PYTHONPATH": str(site), "TILEIR_CACHE_DIR": str(tmp_path / "cache")}
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(pytest_, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.parametrize("kind", TEMPLATES)
def test_modules_of_wheels_are_typed_and_in_order(kind: str, tmp_path: Path) -> None:
    for path, text in contents_of(kind, f"my_{kind}").items():
        assert "@" not in text.replace("@attrs", "").replace("@pytest", ""), path
        assert all(len(line) <= 120 for line in text.splitlines()), path


def test_the_back_end_emits_in_few_lines_and_takes_no_meaning_from_interpreters() -> None:
    text = contents_of("backend", "my_backend")["src/tileir_my_backend/__init__.py"]
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 100
    imported = re.findall(r"^(?:from|import) (tileir\S*)", text, re.MULTILINE)
    assert "tileir_emit.c_like" in imported
    assert not [module for module in imported if "interpret" in module or module == "tileir.core.numbers.arithmetic"]


@pytest.mark.parametrize("name", ["", "1st", "a b", "class", "_private", "ümlaut", "../up", "x-y"])
def test_what_is_no_name(name: str, command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    code, _, error = command("new", "pass", name)
    assert code == 1
    assert "TIL902" in error
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    assert command("new", "pass", "mine", "-o", "here")[0] == 0
    (tmp_path / "here" / "README.md").write_text("mine")
    code, _, error = command("new", "target", "mine", "-o", "here")
    assert code == 1
    assert "exists" in error
    assert (tmp_path / "here" / "README.md").read_text() == "mine"
    (tmp_path / "file").write_text("")
    assert "TIL901" in command("new", "pass", "mine", "-o", "file/inside")[2]
