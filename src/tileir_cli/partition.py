"""The command `tileir partition`: the program of all ranks of a mesh, and their exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from tileir.core import HardwareModel, fail
from tileir.core.text.quantities import seconds_text, size_text
from tileir.driver.distribution.partitioning import WHOLE, partition
from tileir.driver.targets import choice_of, model_of, settings_of
from tileir.typed.ir import Collective
from tileir.typed.sharding.borders import overlapped_exchanges
from tileir.typed.sharding.explanation import cut_text, is_copy, price_text
from tileir.typed.sharding.mesh import Mesh
from tileir.typed.sharding.partitioned import Partitioned
from tileir_cli import values as cli_values
from tileir_cli.stages import need_types
from tileir_cli.targets import target_options
from tileir_cli.values import bind_option, read_bound


@click.command("partition")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@bind_option
@click.option("--mesh", required=True, metavar="AXES", help="Ranks along each axis of the mesh, as in x=2,y=2.")
@click.option(
    "--shard",
    "shardings",
    multiple=True,
    metavar="NAME=AXES",
    help="Cut a value along axes of the mesh, as in A=x,whole or V=x*y; others are chosen. May come again.",
)
@click.option("--explain", "explained", is_flag=True, help="Print shardings and exchanges, with causes and prices.")
@click.option("--no-reshard", is_flag=True, help="Refuse to lay values out anew for who reads them, but for halos.")
@target_options
def partition_(
    file: Path,
    values: tuple[str, ...],
    bindings: tuple[str, ...],
    mesh: str,
    shardings: tuple[str, ...],
    explained: bool,
    no_reshard: bool,
    target: str | None,
    settings: tuple[str, ...],
) -> None:
    """Print the program that all ranks of a mesh run to compute what FILE does.

    NAME=f32[3,4] says dtype and dims of an input, NAME=array.npy takes them from a file. Where neither --shard nor an
    attribute of the program says how a value is cut, that is chosen by the time of work and exchanges.
    """
    program = read_bound(file, bindings)
    types = cli_values.types(program, values)
    need_types(program, types)
    choice = choice_of(target, settings_of(settings))
    asked = {name: _entries(entries) for name, entries in _pairs(shardings, "--shard")}
    made = partition(program, Mesh.of(mesh), asked, arguments=types, reshard=not no_reshard, target=choice)
    if not explained:
        click.echo(str(made), nl=False)
        return
    for line in _explanation(made, model_of(choice)):
        click.echo(line)


def _pairs(words: Sequence[str], option: str) -> list[tuple[str, str]]:
    pairs = [word.partition("=") for word in words]
    for name, equals, value in pairs:
        if not (name.strip() and equals and value.strip()):
            raise fail("TIL902", f"{option} {''.join((name, equals, value))!r} is not of the form NAME=VALUE")
    names = [name.strip() for name, _, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise fail("TIL902", f"{option} says twice what {name} is")
    return [(name, value) for name, (_, _, value) in zip(names, pairs, strict=True)]


def _entries(text: str) -> tuple[tuple[str, ...], ...]:
    entries = [[word.strip() for word in entry.split("*")] for entry in text.split(",")]
    return tuple(() if entry == [WHOLE] else tuple(entry) for entry in entries)


def _explanation(program: Partitioned, model: HardwareModel) -> Iterator[str]:
    """Yield lines on the sharding of each value, the exchanges with reasons, and the replicated operations."""
    values = (*program.function.inputs, *program.function.operations)
    placements = dict(program.placements)
    yield "shardings"
    for each in values:
        if each.shape and not (isinstance(each, Collective) and is_copy(each)):
            yield f"  {each.name}: {each.dtype.value}{list(each.shape)} {cut_text(placements[each.name])}"
    found, beside = program.exchanges(model), overlapped_exchanges(program)
    yield "exchanges"
    for one in found:
        price = price_text(one, is_beside=one.collective.name in beside)
        yield f"  {one.statement}: {one.collective.kind.value} of {one.tensor}, {price}: {one.cause}"
    yield f"  together {size_text(sum(one.size for one in found))}, {seconds_text(sum(one.seconds for one in found))}"
    if program.remarks:
        yield "remarks"
    for remark in program.remarks:
        yield f"  {remark.value}: {remark.message}"
