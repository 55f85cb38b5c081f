"""The command `tileir grad`: the gradients of a program, as a program."""

from __future__ import annotations

from pathlib import Path

import click

from tileir.driver.differentiation import Ties, gradient
from tileir.driver.programs import function_of
from tileir.tile.text.printer import to_text
from tileir_cli import values as cli_values
from tileir_cli.values import bind_option, read_bound


@click.command("grad")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@bind_option
@click.option("--wrt", metavar="NAMES", help="The inputs whose gradients are asked for; by default all of floats.")
@click.option("--of", metavar="NAMES", help="The outputs that are differentiated; by default all of floats.")
@click.option(
    "--ties",
    type=click.Choice(("all", "even")),
    default="all",
    show_default=True,
    help="What the elements get that share a maximum or minimum: each all of the gradient, or an even part.",
)
def grad(
    file: Path, values: tuple[str, ...], bindings: tuple[str, ...], wrt: str | None, of: str | None, ties: Ties
) -> None:
    """Print the gradients of FILE as a Tile program; NAMES are separated by commas.

    The program takes the inputs of FILE, and its outputs are called D<NAME>. Without types of the inputs it works for
    all shapes, and takes all but indices for floats; where NAME=f32[3,4] says dtype and dims, or NAME=array.npy a file
    to take them from, gradients are written out for these.
    """
    program = read_bound(file, bindings)
    types = cli_values.types(program, values)
    result = gradient(function_of(program), wrt=_names(wrt), of=_names(of), arguments=types or None, ties=ties)
    click.echo(to_text(result), nl=False)


def _names(text: str | None) -> tuple[str, ...] | None:
    """Split names at commas."""
    return None if text is None else tuple(name.strip() for name in text.split(","))
