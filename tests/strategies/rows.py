"""Rows of parametrised tests that a plain run leaves to the nightly one: the marker `sampled` and `--every-row`."""

from __future__ import annotations

import pytest

from strategies.effort import spread


def add_option(parser: pytest.Parser) -> None:
    """Make ``--every-row`` known."""
    parser.addoption("--every-row", action="store_true", help="run all rows of the tests that are marked `sampled`")


def drop_rows(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take rows out of ``items``: of a test with the marker ``sampled(most)`` as many stay, spread over all of them.

    None are taken out with ``--every-row``.
    """
    if config.getoption("every_row"):
        return
    rows_of: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            rows_of.setdefault(item.nodeid.partition("[")[0], []).append(item)
    dropped = {row for rows in rows_of.values() for row in set(rows) - set(spread(rows, _most_rows(rows[0])))}
    config.hook.pytest_deselected(items=[item for item in items if item in dropped])
    items[:] = [item for item in items if item not in dropped]


def _most_rows(item: pytest.Item) -> int:
    marker = item.get_closest_marker("sampled")
    assert marker is not None
    return int(marker.args[0])
