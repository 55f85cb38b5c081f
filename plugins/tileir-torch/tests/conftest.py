"""The marker `sampled` of tileir's own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strategies.rows import add_option, drop_rows

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    drop_rows(config, items)
