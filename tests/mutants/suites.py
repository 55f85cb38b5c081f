"""Tests as a net: they run in the process where a fault has been planted."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import attrs
import pytest

_TESTS = Path(__file__).parents[1]


def first_failure(path: str) -> str | None:
    """Run a file of tests until one fails, and return which one and why; None where all pass."""
    seen = _Seen()
    # What is imported already is not rewritten, of which pytest warns.
    options = ["-q", "-x", "-n0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*options, str(_TESTS / path)], plugins=[seen])
    return seen.failure


@attrs.define
class _Seen:
    failure: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first failure."""
        if report.failed and self.failure is None:
            self.failure = f"test {report.nodeid} fails: {report.longreprtext.strip()[-2000:]}"
