"""The command line: arguments in, driver calls, exit codes out.

Exit codes: 0 for success, 1 for a fault in a program or its data, 2 for wrong usage, 3 for a fault of a
device or back end.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from tileir.core import BackendError, TileError, fail, to_json
from tileir.core.version import VERSION
from tileir.driver.programs import made, refuse_schedules
from tileir.driver.texts import write_whole
from tileir.runtime.context import default_context
from tileir.stripe.text.printer import STYLES
from tileir_cli import devices as cli_devices, values as cli_values
from tileir_cli.cache import cache
from tileir_cli.check import bisect, check, warn_option, warnings_about
from tileir_cli.explain import explain_
from tileir_cli.extensions import Commands, extensions
from tileir_cli.grad import grad
from tileir_cli.graph import graph
from tileir_cli.libraries import write_library
from tileir_cli.new import new
from tileir_cli.partition import partition_
from tileir_cli.reporting import report
from tileir_cli.save import save_
from tileir_cli.stages import CODE, STAGES, listing, stage_of, stage_program, stage_text, texts_after
from tileir_cli.targets import NVPTX, chosen, target_options, targets
from tileir_cli.tune import tune_
from tileir_cli.values import bind_option, read_origin

FAULT: Final = 1
DEVICE_FAULT: Final = 3

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
_device = click.option("--device", metavar="ID", help="Device id, as `tileir devices` lists it.")
_passes = click.option(
    "--passes",
    metavar="PIPELINE",
    help="Stripe passes instead of the target's: text such as `accumulate,thread`, JSON, or a name such as `plain`.",
)
_values = click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")


def run() -> int:
    """Run the command and return its exit code; faults are printed with their places."""
    try:
        code = commands.main(prog_name="tileir", standalone_mode=False)
    except TileError as error:
        report(error.diagnostics)
        return DEVICE_FAULT if isinstance(error, BackendError) else FAULT
    except OSError as error:  # the standard output is full, or gone
        _give_up_output()
        report(fail("TIL901", f"cannot write the output: {error}").diagnostics)
        return FAULT
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Abort:
        return 130
    return code if isinstance(code, int) else 0


def _give_up_output() -> None:
    """Write nothing more when Python ends: that would fail again, and change the exit status to 120."""
    with contextlib.suppress(OSError):  # there may be no file behind it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="%(prog)s %(version)s")
def commands() -> None:
    """Check, print, compile and run Tile programs."""


for command in (bisect, cache, check, explain_, extensions, grad, graph, new, partition_, save_, tune_, targets):
    commands.add_command(command)


@commands.command()
@click.option("--json", "json_", is_flag=True, help="Print JSON, with all features.")
def devices(json_: bool) -> None:
    """List the devices of all back ends, and why others are missing."""
    context = default_context()
    if json_:
        click.echo(cli_devices.as_json(context))
        return
    console = Console()
    for part in cli_devices.as_table(context):
        console.print(part, soft_wrap=isinstance(part, Text))


@commands.command("print")
@_file
@_values
@bind_option
@click.option("--stage", type=click.Choice(STAGES), help="What to print; by default FILE as it is.")
@click.option("--json", "json_", is_flag=True, help="Print JSON, which all commands read, too.")
@click.option("--after", metavar="PASS", help="Print the Stripe program after this pass; `all` means after each one.")
@click.option(
    "--style", type=click.Choice(STYLES), default=STYLES[0], help="How Stripe is written: seed, as on slides."
)
@_passes
@target_options
@_device
def print_(
    file: Path,
    values: tuple[str, ...],
    bindings: tuple[str, ...],
    stage: str | None,
    json_: bool,
    after: str | None,
    style: str,
    passes: str | None,
    target: str | None,
    settings: tuple[str, ...],
    device: str | None,
) -> None:
    """Print FILE at one stage of its way down.

    Stages after `tile` need the inputs: NAME=f32[3,4] says dtype and dims, NAME=array.npy takes them from a file.
    The target nvptx:sm_90a, or another architecture of NVIDIA's, stands for cards of it, of which none need be there;
    without a stage, their code is printed.
    """
    program = read_origin(file, bindings)
    types = cli_values.types(program, values)
    if style != STYLES[0] and (stage or stage_of(program)) != "stripe" and after is None:
        raise fail("TIL902", f"--style {style} is of texts of Stripe: add --stage stripe")
    if stage is None and after is None and (target or "").startswith(NVPTX):
        stage = CODE
    choice, device = chosen(target, settings, device)
    refuse_schedules(program, choice, passes)
    stage = stage or stage_of(program)
    if json_ and (after is not None or stage == CODE):
        raise fail("TIL902", "JSON is there of programs: leave --json out, or --after and --stage code")
    if json_:
        shown = stage_program(program, types, stage, passes=passes, device=device, choice=choice)
        text = to_json(shown).decode() + "\n"
    elif after is None:
        text = stage_text(program, types, stage, passes=passes, device=device, choice=choice, style=style)
    else:
        text = texts_after(program, types, after, passes=passes, device=device, choice=choice, style=style)
    click.echo(text, nl=False)


@commands.command()
@_file
@_values
@bind_option
@click.option("--form", help="Form of the code, one that the device's back end offers; by default its first one.")
@click.option("--header", is_flag=True, help="Write a C library: a header, a source, a Makefile. It needs tileir-c.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write here instead of printing; of a library, the folder."
)
@_passes
@target_options
@_device
def emit(
    file: Path,
    values: tuple[str, ...],
    bindings: tuple[str, ...],
    form: str | None,
    header: bool,
    output: Path | None,
    passes: str | None,
    target: str | None,
    settings: tuple[str, ...],
    device: str | None,
) -> None:
    """Compile FILE for a device and print the generated code.

    With --header, write a library in C for any processor, by default beside FILE; it needs neither Python nor tileir.
    """
    program = read_origin(file, bindings)
    if header:
        if form or passes or target or settings or device:
            raise fail("TIL902", "a C library is for any processor: leave out --form, --passes, --target and --device")
        for path in write_library(made(program), cli_values.types(program, values), output or file.parent, file.stem):
            click.echo(path)
        return
    choice, device = chosen(target, settings, device)
    refuse_schedules(program, choice, passes)
    types = cli_values.types(program, values)
    text = listing(program, types, form, passes=passes, device=device, choice=choice)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_whole(output, text.encode("utf-8"))


@commands.command("run")
@_file
@_values
@bind_option
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Write a result to a .npy or picture file; without NAME, the next one in declared order.",
)
@warn_option
@click.option("--interpret", is_flag=True, help="Run through the interpreter instead of a device.")
@target_options
@_device
def run_(
    file: Path,
    values: tuple[str, ...],
    bindings: tuple[str, ...],
    outputs: tuple[str, ...],
    levels: tuple[str, ...],
    interpret: bool,
    target: str | None,
    settings: tuple[str, ...],
    device: str | None,
) -> int:
    """Run FILE on arrays, pictures and numbers: NAME=array.npy, NAME=picture.png, NAME=0.5.

    With --warn, print its warnings first, as `tileir check` does.
    """
    program = read_origin(file, bindings)
    arrays = cli_values.arrays(program, values)
    destinations = cli_values.destinations(program, outputs)
    choice, device = chosen(target, settings, device)
    refuse_schedules(program, choice)
    found = warnings_about(made(program), values, levels, choice, device) if set(levels) - {"none"} else ()
    report(found)
    if found and "error" in levels:
        return 1
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("compiling")
        call = cli_values.callable_for(program, arrays, interpret=interpret, device=device, target=choice)
        progress.update(task, description="running")
        results = call()
        progress.update(task, description="writing")
        for name, destination in destinations.items():
            cli_values.save(destination, results[name], cli_values.depth_of_pictures(values))
    for name, result in results.items():
        if name in destinations:
            click.echo(f"{name}: {cli_values.type_of(result)} written to {destinations[name]}")
        else:
            click.echo(f"{name}: {cli_values.type_of(result)}\n{cli_values.shown(result)}")
    return 0
