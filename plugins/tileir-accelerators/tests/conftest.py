"""The Hypothesis profiles, golden texts and the marker `sampled` of tileir's own tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strategies.effort import register_profiles
from strategies.golden import add_golden_option, golden_of
from strategies.rows import add_option, drop_rows

if TYPE_CHECKING:
    from collections.abc import Callable

register_profiles()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_golden_option(parser)
    add_option(parser)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    drop_rows(config, items)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with the file of this test under golden/<test file>/."""
    return golden_of(request, Path(__file__).parent / "golden")
