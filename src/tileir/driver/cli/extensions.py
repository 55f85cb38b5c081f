"""The command `tileir extensions`: what installed distributions offer by name, and what of it cannot be loaded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tileir.core.errors import TileError
from tileir.core.extensions import EXTENSIONS, Kind, distribution_of
from tileir.core.targets.target_file import target_called
from tileir.driver.cli.installed import wrong_command
from tileir.driver.listings import wrong_listing
from tileir.ops.shared.installed import wrong_operation
from tileir.passes.pipelines.installed import passes_installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOADERS: Final[dict[Kind, Callable[[str], object]]] = {
    Kind.PASS: lambda name: passes_installed([name]),
    Kind.SCHEDULE: lambda name: passes_installed([name]),
    Kind.TARGET: target_called,
    Kind.OPERATION: lambda name: EXTENSIONS.get(Kind.OPERATION, name, wrong_operation),
    Kind.LISTING: lambda name: EXTENSIONS.get(Kind.LISTING, name, wrong_listing),
    Kind.COMMAND: lambda name: EXTENSIONS.get(Kind.COMMAND, name, wrong_command),
}
"""What loads one of each kind, as whoever uses its name does."""


@click.command()
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
def extensions(json_: bool) -> None:
    """List passes, schedules, targets, operations, listings and commands of other distributions.

    Each is loaded, and those that cannot be are told with the reason. Back ends are listed by `tileir devices`.
    """
    rows = list(_rows())
    if json_:
        keys = ("kind", "name", "distribution", "problem")
        click.echo(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))
        return
    console = Console()
    if not rows:
        click.echo("no distribution offers extensions")
        return
    table = Table("kind", Column("name", no_wrap=True), "distribution")
    for kind, name, distribution, _ in rows:
        table.add_row(kind, name, distribution)
    console.print(table)
    for _, _, _, problem in rows:
        if problem is not None:
            console.print(Text(problem, style="yellow"), soft_wrap=True)


def _rows() -> Iterator[tuple[str, str, str, str | None]]:
    """Yield kind, name and distributions of each, and why it cannot be loaded."""
    for kind in Kind:
        for name, entries in sorted(EXTENSIONS.entries(kind).items()):
            problem = None
            try:
                _LOADERS[kind](name)
            except TileError as error:
                problem = error.diagnostics[0].message
            yield kind.noun, name, ", ".join(map(distribution_of, entries)), problem
