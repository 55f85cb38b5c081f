"""The page in the wheel is built from its sources, whose types are right."""

from __future__ import annotations

import hashlib
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest

from browser.conftest import PAGE, node
from strategies.sources import ROOT

STATIC: Final = ROOT / "src/tileir_studio/static"
IN_PLACE: Final = not any(str(path).startswith("tileir_studio/") for path in distribution("tileir").files or ())


def test_no_source_changed_since_the_page_was_built() -> None:
    sources = [PAGE / "build.mjs", *PAGE.glob("*.json"), *(PAGE / "src").iterdir()]
    results = [path for path in STATIC.iterdir() if path.name != "digests.txt"]
    lines = sorted(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in [*sources, *results])
    written = (STATIC / "digests.txt").read_text("utf-8").splitlines()
    assert lines == written, f"npm ci && npm run build in {PAGE.relative_to(ROOT)}, then commit what comes of it"


@pytest.mark.sampled(0)
def test_what_is_committed_is_what_the_sources_are_built_to(page_folder: Path, tmp_path: Path) -> None:
    done = node(page_folder / "build.mjs", str(tmp_path), folder=page_folder)
    assert done.returncode == 0, done.stderr
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_bytes() for path in STATIC.iterdir()}
    assert sorted(built) == sorted(committed)
    different = [name for name in built if built[name] != committed[name]]
    assert different == [], f"npm ci && npm run build in {PAGE.relative_to(ROOT)}, then commit what comes of it"


@pytest.mark.sampled(0)
def test_types_of_the_page_are_right(page_folder: Path) -> None:
    done = node(page_folder / "node_modules/typescript/bin/tsc", "--noEmit", folder=page_folder)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(IN_PLACE, reason="tileir is installed in place; tox -e studio installs its wheel")
def test_the_wheel_has_the_page_and_not_its_sources() -> None:
    names = {str(path) for path in distribution("tileir").files or () if str(path).startswith("tileir_studio/")}
    assert {f"tileir_studio/static/{path.name}" for path in STATIC.iterdir()} <= names
    others = {name for name in names if "/static/" not in name}
    assert {name for name in others if not name.endswith((".py", ".pyc", "py.typed"))} == set()


def test_the_page_asks_nobody_else() -> None:
    for path in STATIC.iterdir():
        text = path.read_text("utf-8")
        addresses = [part.split('"')[0][:60] for part in text.split("http")[1:] if part.startswith(("://", "s://"))]
        known = ("://www.w3.org/",)
        assert [each for each in addresses if not each.startswith(known)] == [], path.name
