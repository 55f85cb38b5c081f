"""Options and fixtures of the kit, as a pytest plug-in; and the summary at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import pytest

from tileir.core import TileError
from tileir_testing.batches import Batches
from tileir_testing.subject import Subject

PROGRAMS: Final = 60
BATCH: Final = 8

_SUMMARY: Final = "--kit-summary"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the kit."""
    group = parser.getgroup("tileir", "conformance kit of tileir")
    group.addoption("--backend", metavar="NAME", help="device, back end, or module:OBJECT of one not installed")
    group.addoption("--programs", type=int, default=PROGRAMS, metavar="N", help="how many programs to generate")
    group.addoption("--seed", type=int, default=0, help="of the generated programs")
    group.addoption("--start", type=int, default=0, help="number of the first generated program")
    group.addoption("--batch", type=int, default=BATCH, metavar="N", help="programs that are compiled as one")
    group.addoption(_SUMMARY, action="store_true", help="print a table of what passed")


@pytest.fixture(scope="session")
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """Yield the device that is tested."""
    name = request.config.getoption("--backend")
    if not name:
        pytest.exit("say what to test: --backend NAME", returncode=2)
    try:
        found = Subject.of(name)
    except TileError as error:
        pytest.exit(str(error), returncode=2)
    with found.context:
        yield found


@pytest.fixture(scope="session")
def batches(subject: Subject, request: pytest.FixtureRequest) -> Batches:
    """Return runners of named and generated programs, several programs at a time."""
    return Batches(subject, request.config.getoption("--batch"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make as many tests of generated programs as are asked for."""
    if "position" in metafunc.fixturenames:
        start, count = (metafunc.config.getoption(option) for option in ("--start", "--programs"))
        metafunc.parametrize("position", range(count), ids=[str(start + number) for number in range(count)])


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the device."""
    return [f"tileir back end: {config.getoption('--backend')}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how many tests of each area passed, where that is asked for."""
    if not config.getoption(_SUMMARY):
        return
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    seconds: dict[str, float] = defaultdict(float)
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.getreports(outcome):
            area = report.nodeid.partition("::")[0].rpartition("/")[2].removeprefix("test_").removesuffix(".py")
            counts[area]["failed" if outcome == "error" else outcome] += 1
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                area = report.nodeid.partition("::")[0].rpartition("/")[2].removeprefix("test_").removesuffix(".py")
                seconds[area] += report.duration
    terminalreporter.section(f"conformance of {config.getoption('--backend')}")
    terminalreporter.write_line(f"{'area':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for area in sorted(counts):
        row = counts[area]
        line = f"{area:<14}{row['passed']:>8}{row['failed']:>8}{row['skipped']:>9}{seconds[area]:>9.1f}"
        terminalreporter.write_line(line, red=row["failed"] > 0)
