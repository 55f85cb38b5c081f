"""Fixtures of all tests: the effort of property tests, a cache on disk, and golden texts."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strategies.effort import register_profiles
from strategies.golden import add_golden_option, golden_of
from strategies.rows import add_option, drop_rows
from strategies.versions import depends_on_python

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

register_profiles()

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
CACHE = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_golden_option(parser)
    add_option(parser)


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
    """Leave out files without tests of Python before they are imported, which takes longer than the tests of many."""
    if config.getoption("markexpr") == "python" and collection_path.suffix == ".py":
        return None if depends_on_python(collection_path) else True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let every other worker start with the last files: each finds those that the others have already rewritten.

    Without files that an earlier run wrote, half of the time of a collection is spent on rewriting assertions.
    """
    report = yield
    if isinstance(collector, pytest.Directory) and _worker_of(collector.config) % 2:
        report.result = list(reversed(report.result))
    return report


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put all workers' tests in one order, mark tests of Python, and leave out rows of tests with ``sampled``."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.nodeid.partition("::")[0].split("/"))
    for item in items:
        if depends_on_python(item.path):
            item.add_marker("python")
    drop_rows(config, items)


def _worker_of(config: pytest.Config) -> int:
    """Return the number of this worker; 0 where there are none."""
    return int(getattr(config, "workerinput", {}).get("workerid", "gw0").removeprefix("gw"))


def pytest_collection_finish() -> None:
    """Keep the collector from walking all tests and modules, which stay, and from walking the rest often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure(config: pytest.Config) -> None:
    if CACHE in config.stash:
        shutil.rmtree(config.stash[CACHE], ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def _collected(request: pytest.FixtureRequest) -> None:
    """Let calls of the collector walk only a test's own objects: those that earlier tests left take a second."""
    if hasattr(request.module, "gc"):
        gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with the file of this test under tests/golden/<stage>/<test file>/."""
    return golden_of(request, GOLDEN / request.path.parent.name)
