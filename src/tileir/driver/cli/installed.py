"""Commands of installed distributions beside tileir's own; each is loaded when it is run, or listed."""

from __future__ import annotations

import click

from tileir.core.errors import BackendError
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.driver.cli.reporting import report


class Commands(click.Group):
    """A group whose further commands are entry points."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, working or not."""
        return sorted({*super().list_commands(ctx), *EXTENSIONS.names(Kind.COMMAND)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, tileir's own before others; one that cannot be loaded says why when it is run."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in EXTENSIONS.entries(Kind.COMMAND):
            return own
        try:
            found = EXTENSIONS.get(Kind.COMMAND, cmd_name, wrong_command)
        except BackendError as error:
            return _broken(cmd_name, error)
        assert isinstance(found, click.Command)  # it is checked
        return found


def wrong_command(offer: object) -> str | None:
    """Return why something cannot serve as a command; None where it can."""
    return None if isinstance(offer, click.Command) else f"is a {type(offer).__name__}, not a click.Command"


def _broken(name: str, error: BackendError) -> click.Command:
    def run(_: tuple[str, ...]) -> int:
        report(error.diagnostics)
        return 1

    words = click.Argument(["_"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True}
    return click.Command(name, settings, run, [words], short_help="(cannot be loaded)", add_help_option=False)
