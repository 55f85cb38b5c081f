"""The command `tileir extensions`: installed extensions by name, with failures to load.

Also the commands of installed distributions, which are loaded when they run or are listed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

import click
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tileir.core.companions import PACKAGES, not_installed
from tileir.core.distributions import distribution_of, name_of
from tileir.core.errors import BackendError, TileError
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.core.targets.target_file import target_called
from tileir.driver.distribution.engines import engine_called
from tileir.driver.frontends import frontend_called
from tileir.driver.languages import language_called
from tileir.driver.listings import wrong_listing
from tileir.ops.shared.installed import wrong_operation
from tileir.passes.pipelines.installed import passes_installed
from tileir_cli.reporting import report


class Commands(click.Group):
    """A group whose further commands are entry points."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, working or not."""
        return sorted({*super().list_commands(ctx), *EXTENSIONS.names(Kind.COMMAND)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, tileir's own before others; one that cannot be loaded gives the reason when it runs."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        if cmd_name not in EXTENSIONS.entries(Kind.COMMAND):
            missing = cmd_name in PACKAGES
            return _broken(cmd_name, not_installed(f"the command {cmd_name}", cmd_name)) if missing else None
        try:
            found = EXTENSIONS.get(Kind.COMMAND, cmd_name, wrong_command)
        except BackendError as error:
            return _broken(cmd_name, error)
        assert isinstance(found, click.Command)  # it is checked
        return found


def wrong_command(offer: object) -> str | None:
    """Return the reason why an object cannot serve as a command; None where it can."""
    return None if isinstance(offer, click.Command) else f"is a {type(offer).__name__}, not a click.Command"


def _broken(name: str, error: BackendError) -> click.Command:
    def run(_: tuple[str, ...]) -> int:
        report(error.diagnostics)
        return 1

    words = click.Argument(["_"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True}
    return click.Command(name, settings, run, [words], short_help="(cannot be loaded)", add_help_option=False)


_LOADERS: Final[dict[Kind, Callable[[str], object]]] = {
    Kind.PASS: lambda name: passes_installed([name]),
    Kind.SCHEDULE: lambda name: passes_installed([name]),
    Kind.TARGET: target_called,
    Kind.OPERATION: lambda name: EXTENSIONS.get(Kind.OPERATION, name, wrong_operation),
    Kind.LISTING: lambda name: EXTENSIONS.get(Kind.LISTING, name, wrong_listing),
    Kind.COMMAND: lambda name: EXTENSIONS.get(Kind.COMMAND, name, wrong_command),
    Kind.LANGUAGE: language_called,
    Kind.FRONTEND: frontend_called,
    Kind.TRANSPORT: engine_called,
}
"""What loads one of each kind, as whoever uses its name does."""


@click.command()
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
def extensions(json_: bool) -> None:
    """List what other distributions offer by name: passes, schedules, targets, operations, front ends and more.

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
            if all(name_of(entry) == "tileir" for entry in entries):
                continue
            problem = None
            try:
                _LOADERS[kind](name)
            except TileError as error:
                problem = error.diagnostics[0].message
            yield kind.noun, name, ", ".join(map(distribution_of, entries)), problem
