"""Tests as a net: they run in the process where a fault has been planted."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

_TESTS = Path(__file__).parents[1]

PUSH: Final = ("--hypothesis-profile=push",)
NIGHTLY: Final = ("--hypothesis-profile=fast", "--every-row")
"""Arguments of pytest in the environments `all` and `nightly` of `tox.ini`."""


def first_failure(path: str, effort: Sequence[str]) -> str | None:
    """Run a file of tests until one fails, and return which one and why; None where all pass.

    Args:
        path: The file, below ``tests``.
        effort: Options of pytest that say how many examples and rows there are: :data:`PUSH` or :data:`NIGHTLY`.

    """
    seen = _Seen()
    # What is imported already is not rewritten, of which pytest warns.
    options = ["-q", "-x", "-n0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning", *effort]
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
