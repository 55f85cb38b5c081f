"""What all tests share: the effort of property tests, a cache on disk, and the fixture for golden texts."""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strategies.effort import BRIEF, files_outside, register_profiles, spread

if TYPE_CHECKING:
    from collections.abc import Callable

register_profiles()

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
TABLES = frozenset(
    {
        "conformance/test_conformance.py",
        "differential/test_regressions.py",
        "ops/test_case_devices.py",
        "ops/test_case_gradients.py",
        "ops/test_cases.py",
        "typed/test_conformance.py",
    }
)
"""Tests with a row for each of hundreds of programs, which are compiled alike on all versions of Python."""
WHOLE = ("runtime", "tile", "testing/test_soak.py")
"""Tests of what leans on the language and its standard library: ``--part`` leaves nothing of them out, but for the
versions between the oldest and the newest, which have ``--between``."""
ROWS = 40
"""Most rows of a test in :data:`WHOLE` with the profile ``brief``."""
CACHE = pytest.StashKey[str]()
OTHERS = pytest.StashKey[frozenset[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts instead of comparing")
    parser.addoption(
        "--part",
        default="1/1",
        help="as 1/2: run every second file of tests, or 1,3/3: two of three, beside what leans on Python",
    )
    parser.addoption("--between", action="store_true", help="leave what leans on Python to other versions")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Leave a run for a lesser processor to those for the host's own where the two have the same vectors."""
    if "TILEIR_LLVM_PROCESSOR" in os.environ and not hasattr(session.config, "workerinput"):
        from strategies.processors import named_is_the_hosts

        if named_is_the_hosts():
            pytest.exit("this processor has no vectors beyond the named one: other runs try the same", returncode=0)


def pytest_configure(config: pytest.Config) -> None:
    """Give this session, with its workers and all processes that tests start, a cache on disk of its own."""
    if not hasattr(config, "workerinput"):
        config.stash[CACHE] = os.environ["TILEIR_CACHE_DIR"] = tempfile.mkdtemp(prefix="tileir-cache-")
        os.environ.pop("TILEIR_CACHE", None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of other parts before they are imported, which takes longer than the tests of many."""
    if OTHERS not in config.stash:
        files = [path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")]
        brief = config.getoption("hypothesis_profile") == BRIEF
        outside = files_outside(config.getoption("part"), files, WHOLE, TABLES | _once(), brief=brief)
        config.stash[OTHERS] = outside.union(filter(_is_whole, files) if config.getoption("between") else ())
    if collection_path.is_relative_to(HERE) and collection_path.relative_to(HERE).as_posix() in config.stash[OTHERS]:
        return True
    return None


def _is_whole(file: str) -> bool:
    return file in WHOLE or file.partition("/")[0] in WHOLE


def _once() -> frozenset[str]:
    """Return the files with tests that are run once, and by no brief run."""
    found = (path for path in HERE.rglob("test_*.py") if "pytest.mark.once" in path.read_text(encoding="utf-8"))
    return frozenset(path.relative_to(HERE).as_posix() for path in found)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, with the profile ``brief``, nine tenths of long tables, and what is tested once.

    Of tests with many rows that every version has, it has some that are spread over them.
    """
    ours = [item for item in items if item.path.is_relative_to(HERE)]  # and not those of the installed kit
    dropped: set[str] = set()
    if config.getoption("hypothesis_profile") == BRIEF:
        rows = [item for item in ours if item.path.relative_to(HERE).as_posix() in TABLES]
        dropped.update(item.nodeid for number, item in enumerate(rows) if number % 10)
        rows_of: dict[str, list[str]] = {}
        for item in ours:
            file = item.path.relative_to(HERE).as_posix()
            if _is_whole(file):
                rows_of.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
        for names in rows_of.values():
            dropped.update(set(names) - set(spread(names, ROWS)))
        dropped.update(item.nodeid for item in items if item.get_closest_marker("once"))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in dropped])
    items[:] = [item for item in items if item.nodeid not in dropped]


def pytest_collection_finish() -> None:
    """Keep the collector from walking all tests and modules, which stay, whenever a test collects its garbage."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if CACHE in config.stash:
        shutil.rmtree(config.stash[CACHE], ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def _collected(request: pytest.FixtureRequest) -> None:
    """Where tests call the collector, let it walk only what they make: all that earlier ones left takes a second."""
    if hasattr(request.module, "gc"):
        gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with the file of this test under tests/golden/<stage>/<test file>/."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", request.node.name).strip("_")
    path = GOLDEN / request.path.parent.name / request.path.stem.removeprefix("test_") / f"{name}.txt"

    def check(actual: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
        assert actual == path.read_text(encoding="utf-8")

    return check
