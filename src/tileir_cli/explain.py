"""The command `tileir explain`: the cost of a program on a device."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from tileir_cli import values as cli_values
from tileir_cli.stages import need_types
from tileir_cli.targets import chosen, target_options
from tileir_cli.values import bind_option, read_bound
from tileir_performance.explain.explanation import explain
from tileir_performance.explain.text import WIDTH, as_tables, remark_lines
from tileir_performance.explain.tiles import tables_json, tile_tables


@click.command("explain")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@bind_option
@click.option("--after", metavar="PASS", help="Explain the Stripe program after this pass instead of the last one.")
@click.option(
    "--measure", is_flag=True, help="Run each kernel on the device as well, and tell how far off the model is."
)
@click.option("--json", "json_", is_flag=True, help="Print JSON: bytes, operations and seconds as numbers.")
@click.option("--remarks", is_flag=True, help="Say what each pass did to each kernel, or what kept it from that.")
@click.option("--all-remarks", is_flag=True, help="The same, with passes that a kernel is not for at all.")
@click.option(
    "--tiles",
    type=click.IntRange(min=1),
    metavar="COUNT",
    help="Print the cheapest tiles that each step autotile chooses among, with what they cost, instead.",
)
@click.option("--passes", metavar="PIPELINE", help="Stripe passes instead of the target's: text, JSON, or a name.")
@target_options
@click.option("--device", metavar="ID", help="Device id, as `tileir devices` lists it.")
def explain_(
    file: Path,
    values: tuple[str, ...],
    bindings: tuple[str, ...],
    after: str | None,
    measure: bool,
    json_: bool,
    remarks: bool,
    all_remarks: bool,
    tiles: int | None,
    passes: str | None,
    target: str | None,
    settings: tuple[str, ...],
    device: str | None,
) -> None:
    """Say what FILE costs on a device: operations, bytes, and the predicted time of each kernel.

    NAME=f32[3,4] says dtype and dims of an input, NAME=array.npy takes them from a file.
    """
    program = read_bound(file, bindings)
    types = cli_values.types(program, values)
    need_types(program, types)
    choice, device = chosen(target, settings, device)
    if tiles is not None:
        tables = tile_tables(program, types, device=device, target=choice, passes=passes, count=tiles)
        click.echo(tables_json(tables) if json_ else "\n\n".join(map(str, tables)))
        return
    found = explain(program, types, device=device, target=choice, passes=passes, after=after, measure=measure)
    if json_:
        click.echo(found.to_json(remarks=remarks or all_remarks))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    for part in as_tables(found):
        console.print(part, soft_wrap=isinstance(part, str), markup=False)
    if remarks or all_remarks:
        console.print()
        for line in remark_lines(found.remarks, everything=all_remarks):
            console.print(line, soft_wrap=True, markup=False)
