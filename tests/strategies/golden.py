"""Golden texts: files beside tests that say what a text was, and are written anew by ``--update-golden``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def add_golden_option(parser: pytest.Parser) -> None:
    """Add the option ``--update-golden``."""
    parser.addoption("--update-golden", action="store_true", help="write the golden texts instead of comparing")


def golden_of(request: pytest.FixtureRequest, folder: Path) -> Callable[[str], None]:
    """Return a function that compares a text with the file of a test, below ``folder`` under the name of its module."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", request.node.name).strip("_")
    path = folder / request.path.stem.removeprefix("test_") / f"{name}.txt"

    def check(actual: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
        assert actual == path.read_text(encoding="utf-8")

    return check
