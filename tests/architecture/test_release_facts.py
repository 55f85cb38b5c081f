"""Facts that several files of the repository state agree: version, licence, types, checks before a commit."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

import pytest

import tileir
from strategies.sources import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PROJECTS: Final = (ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml")))


def project(folder: Path) -> dict[str, Any]:
    described: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return described


def test_the_version_is_stated_alike() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited
    assert project(ROOT)["version"] == cited[1] == tileir.__version__


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda path: path.name)
def test_each_distribution_has_the_licence_and_says_who_made_it(folder: Path) -> None:
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    described = project(folder)
    assert "LICENSE" in described["license-files"]
    assert "Apache-2.0" in described["license"]
    assert described["authors"]
    assert "Typing :: Typed" in described["classifiers"]


def test_each_package_says_that_it_has_types() -> None:
    places = (ROOT / "src", ROOT / "src/backends", *ROOT.glob("plugins/*/src"))
    packages = [path.parent for place in places for path in place.glob("*/__init__.py")]
    assert len(packages) >= 9
    assert [path.name for path in packages if not (path / "py.typed").exists()] == []


def test_the_supported_versions_of_python_are_those_that_are_tested() -> None:
    named = [re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", each) for each in project(ROOT)["classifiers"]]
    minors = sorted(int(found[1]) for found in named if found)
    settings = (ROOT / "tox.ini").read_text(encoding="utf-8")
    (tested,) = re.findall(r"^env_list = .*py{([\d,]+)}", settings, re.MULTILINE)
    (nightly,) = re.findall(r"^`tox -e nightly,py(\d+),", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M)
    (everything,) = re.findall(r"^description = all tests.*\nbase_python = python3\.(\d+),", settings, re.MULTILINE)
    assert sorted([f"3{everything}", *tested.split(","), nightly]) == [f"3{minor}" for minor in minors]
    assert project(ROOT)["requires-python"] == f">=3.{minors[0]}"


def test_hooks_before_a_commit_run_what_tox_runs() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    entries = re.findall(r"entry: (.+)", hooks)
    settings = (ROOT / "tox.ini").read_text(encoding="utf-8")
    checks = [section.partition("commands =")[2] for section in re.split(r"\n\[", settings) if "commands =" in section]
    lines = [line.strip() for part in checks for line in part.splitlines()]
    for tool in (
        "ruff check",
        "ruff format --check",
        "mypy --exclude ^plugins/.*/tests/ src tools examples docs plugins",
        "stubtest --ignore-missing-stub llvmlite",
    ):
        assert any(tool in line for line in lines), tool
        assert any(tool in entry for entry in entries), tool
