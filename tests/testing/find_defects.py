"""Runs tests of the kit on back ends with defects, all in one process, and prints which of them failed, as JSON.

Arguments: the name of a back end in `broken_backends.py`, an area and a test, as often as wanted.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

import pytest

from tileir_testing.__main__ import FOLDER

OPTIONS = ("-c", str(FOLDER / "kit.ini"), "--noconftest", "-p", "tileir_testing.plugin", "-p", "no:cacheprovider")


class Failures:
    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.names.append(report.nodeid.partition("::")[2])


found = {}
for backend, area, test in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3], strict=True):
    failures = Failures()
    arguments = [*OPTIONS, "-q", "--backend", f"broken_backends:{backend}", f"{FOLDER / f'test_{area}.py'}::{test}"]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(arguments, plugins=[failures])
    found[backend] = failures.names
sys.stdout.write(json.dumps(found))
