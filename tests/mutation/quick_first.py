"""A plugin of pytest for mutation runs: quick tests first, so that most mutants die within a second.

mutmut leaves the seconds that each test took in the folder where it runs them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by the seconds on record; tests without any stay in front."""
    record = Path("mutmut-stats.json")
    seconds = json.loads(record.read_text(encoding="utf-8"))["duration_by_test"] if record.exists() else {}
    items.sort(key=lambda item: seconds.get(item.nodeid, 0.0))
