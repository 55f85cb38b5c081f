"""The command `tileir graph`: the data flow of a program at any stage."""

from __future__ import annotations

from pathlib import Path

import click

from tileir.core.errors import fail
from tileir_cli import values as cli_values
from tileir_cli.stages import PROGRAMS, stage_of, stage_program
from tileir_cli.targets import chosen, target_options
from tileir_cli.values import bind_option, read_bound


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@bind_option
@click.option("--stage", type=click.Choice(PROGRAMS), help="The graph of what; by default of FILE as it is.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a picture, FILE.svg, or the graph for other tools, FILE.dot or FILE.json; by default DOT is printed.",
)
@click.option("--passes", metavar="PIPELINE", help="Stripe passes instead of the target's: text, JSON, or a name.")
@target_options
@click.option("--device", metavar="ID", help="Device id, as `tileir devices` lists it.")
def graph(
    file: Path,
    values: tuple[str, ...],
    bindings: tuple[str, ...],
    stage: str | None,
    output: Path | None,
    passes: str | None,
    target: str | None,
    settings: tuple[str, ...],
    device: str | None,
) -> None:
    """Draw what FILE hands on from where to where: values, or from `stripe` on the memory of kernels.

    Stages after `tile` need the inputs: NAME=f32[3,4] says dtype and dims, NAME=array.npy takes them from a file.
    """
    from tileir_cli.drawing.files import FORMATS  # networkx is slow to import

    form = "dot" if output is None else output.suffix.removeprefix(".")
    if form not in FORMATS:
        raise fail("TIL902", f"write the graph to a file that ends in {', '.join(f'.{each}' for each in FORMATS)}")
    program = read_bound(file, bindings)
    types = cli_values.types(program, values)
    choice, device = chosen(target, settings, device)
    shown = stage_program(program, types, stage or stage_of(program), passes=passes, device=device, choice=choice)
    text = FORMATS[form](shown.graph())
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise fail("TIL901", f"cannot write {output}: {error}") from None
