"""The command `tileir save`: a program with its constants in one file."""

from __future__ import annotations

from pathlib import Path

import click

from tileir.driver.bundles import save
from tileir_cli.values import bind_option, read_bound


@click.command("save")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@bind_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the bundle goes; by custom FILE.tileir.",
)
def save_(file: Path, bindings: tuple[str, ...], output: Path) -> None:
    """Write FILE and its constants to a bundle, which all commands read, those of later versions too."""
    save(read_bound(file, bindings), output)
    click.echo(f"{output}: written")
