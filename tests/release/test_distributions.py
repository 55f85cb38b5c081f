"""Distributions as ``tox -e release`` builds them: their content, and a new user's first steps.

The environment variable ``TILEIR_DIST`` names the folder where they are. A plain run of the tests has none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

from strategies.sources import BACKENDS, ROOT

DIST: Final = Path(os.environ.get("TILEIR_DIST", ROOT / "nowhere"))
WHEELS: Final = sorted(DIST.glob("*.whl"))
SOURCES: Final = sorted(DIST.glob("*.tar.gz"))
PAGE: Final = ROOT / "src/tileir_studio/page"

if "TILEIR_DIST" not in os.environ:
    pytest.skip("nothing is built; tox -e release does", allow_module_level=True)


def files_of(archive: Path) -> dict[str, bytes]:
    """Return the files of a wheel, or of a source distribution without the folder that all of it is in."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(archive) as opened:
        members = ((member.name.partition("/")[2], opened.extractfile(member)) for member in opened.getmembers())
        return {name: file.read() for name, file in members if file}


def distribution(archive: Path) -> str:
    return archive.name.partition("-")[0]


def test_each_distribution_is_built_in_both_forms() -> None:
    projects = ["tileir", *(path.parent.name.replace("-", "_") for path in ROOT.glob("plugins/*/pyproject.toml"))]
    assert sorted(map(distribution, WHEELS)) == sorted(projects) == sorted(map(distribution, SOURCES))


@pytest.mark.parametrize("archive", [*WHEELS, *SOURCES], ids=lambda path: path.name)
def test_the_licence_is_in_it_and_no_tests_are(archive: Path) -> None:
    files = files_of(archive)
    licence = (ROOT / "LICENSE").read_bytes()
    places = [name for name, content in files.items() if content == licence]
    assert any(name.endswith(("dist-info/licenses/LICENSE", "LICENSE")) for name in places)
    assert [name for name in files if re.match(r"(tests|tools|benchmarks|examples|docs)/", name)] == []
    assert [name for name in files if "__pycache__" in name or "node_modules" in name] == []


@pytest.mark.parametrize("archive", WHEELS, ids=lambda path: path.name)
def test_packages_of_a_wheel_say_that_they_have_types(archive: Path) -> None:
    files = files_of(archive)
    packages = {name.partition("/")[0] for name in files if re.fullmatch(r"\w+/__init__\.py", name)}
    assert packages
    assert [name for name in sorted(packages) if f"{name}/py.typed" not in files] == []


def test_the_wheel_has_what_the_page_contains_and_its_licences() -> None:
    (wheel,) = (path for path in WHEELS if distribution(path) == "tileir")
    files = files_of(wheel)
    static = ROOT / "src/tileir_studio/static"
    assert [path.name for path in static.iterdir() if f"tileir_studio/static/{path.name}" not in files] == []
    licences = [content for name, content in files.items() if re.search(r"dist-info/licenses/.*licences\.txt$", name)]
    assert licences == [(static / "licences.txt").read_bytes()]
    assert all(word in licences[0] for word in (b"@codemirror/view", b"lit-html", b"BSD-3-Clause", b"MIT License"))
    assert {"tileir/targets/cpu.json", "tileir_pytest.py", "tileir_formula/library/edges.tile"} <= files.keys()


def test_the_wheel_has_every_module() -> None:
    (wheel,) = (path for path in WHEELS if distribution(path) == "tileir")
    places = [ROOT / "src", BACKENDS]
    modules = {path.relative_to(place).as_posix() for place in places for path in place.glob("tileir*/**/*.py")}
    modules |= {path.name for path in (ROOT / "src").glob("*.py")}
    assert {name for name in files_of(wheel) if name.endswith(".py")} == modules


def test_the_source_distribution_has_the_sources_of_the_page() -> None:
    (source,) = (path for path in SOURCES if distribution(path) == "tileir")
    wanted = {path.relative_to(ROOT).as_posix() for path in PAGE.rglob("*.ts") if "node_modules" not in path.parts}
    assert wanted - files_of(source).keys() == set()


def test_a_new_user_runs_the_first_program_of_the_readme(tmp_path: Path) -> None:
    (wheel,) = (path for path in WHEELS if distribution(path) == "tileir")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "new")], check=True)
    python = tmp_path / "new" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", f"{wheel}[llvm,cli]"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TILEIR"))}
    environment["TILEIR_CACHE_DIR"] = str(tmp_path / "cache")
    subprocess.run(install, check=True, env=environment)

    def told(*words: str) -> str:
        done = subprocess.run(
            [str(python), *words], check=True, capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        return done.stdout

    page = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert first
    assert told("-c", first[1]) == first[2]
    assert told("-m", "tileir", "--version") == f"tileir {wheel.name.split('-')[1]}\n"
    assert "llvm.0" in told("-m", "tileir", "devices")
