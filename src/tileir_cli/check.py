"""The commands `tileir check` and `tileir bisect`: verification of programs and of passes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TypeGuard

import attrs
import click

from tileir.core import BackendError, Diagnostic, DType, Target, TileError, fail
from tileir.core.protocols import mistakes
from tileir.driver.executable import compile_for
from tileir.driver.programs import Program, output_names, size_of
from tileir.driver.targets import TargetChoice
from tileir.passes.base import Pass
from tileir.runtime.context import default_context
from tileir.tile.checks.unused import in_order
from tileir.tile.ir import Function, Input, IntLiteral
from tileir_cli import values as cli_values
from tileir_cli.reporting import report
from tileir_cli.stages import need_types
from tileir_cli.targets import chosen, target_options

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
_values = click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
warn_option = click.option(
    "--warn",
    "levels",
    multiple=True,
    type=click.Choice(("none", "all", "error")),
    help="`error` fails where there are warnings, `all` tells what may well be meant, too; may be repeated.",
)
"""How loud warnings are."""

_device = click.option("--device", metavar="ID", help="Device id, as `tileir devices` lists it.")


@click.command()
@_file
@_values
@click.option("--passes", metavar="PIPELINE", help="Check these passes on FILE: text, JSON, or the name of a target.")
@warn_option
@click.option("--from", "module", metavar="MODULE", help="Python module with passes of your own, for the pipeline.")
@target_options
@_device
def check(
    file: Path,
    values: tuple[str, ...],
    passes: str | None,
    levels: tuple[str, ...],
    module: str | None,
    target: str | None,
    settings: tuple[str, ...],
    device: str | None,
) -> int:
    """Parse FILE, or several, and verify it; print every fault with its place, and warnings.

    With types, as in NAME=f32[3,4], the warnings are those about such inputs, too.

    With --passes, run it before and after each pass, on numbers that are added up exactly, and print the first pass
    that changes a result. NAME=f32[3,4] says dtype and dims of an input, NAME=array.npy takes them from a file.
    """
    files = [file, *(Path(word) for word in values if "=" not in word)]
    if len(files) > 1 and (len(files) <= len(values) or passes is not None):
        raise click.UsageError("types and passes are for one file; write NAME=VALUE for each input")
    choice, device = chosen(target, settings, device)
    if passes is None:
        if module:
            raise click.UsageError("--from is for --passes PIPELINE")
        alone = len(files) == 1
        return max(_read(each, values if alone else (), levels, choice, device, hints=alone) for each in files)
    program = cli_values.read_program(file)
    steps = passes if module is None else _pipeline(passes, module)
    return _checked(file, program, values, steps, choice, device)


@click.command()
@_file
@_values
@target_options
@_device
def bisect(
    file: Path, values: tuple[str, ...], target: str | None, settings: tuple[str, ...], device: str | None
) -> int:
    """Name the pass of a target's pipeline that changes what FILE computes.

    It is printed with the smallest shapes found that show it, the kernel and the element. NAME=f32[3,4] says dtype and
    dims of an input, NAME=array.npy takes them from a file.
    """
    program = cli_values.read_program(file)
    choice, device = chosen(target, settings, device)
    return _checked(file, program, values, None, choice, device)


def _read(
    file: Path,
    values: tuple[str, ...],
    levels: tuple[str, ...],
    choice: Target | TargetChoice | None,
    device: str | None,
    *,
    hints: bool,
) -> int:
    """Print the faults of one file, or its contents; return 1 for faults."""
    try:
        program = cli_values.read_program(file)
        found = () if "none" in levels else warnings_about(program, values, levels, choice, device)
    except BackendError:
        raise
    except TileError as error:
        report(error.diagnostics)
        return 1
    report(found)
    if found and "error" in levels:
        return 1
    count, what = size_of(program)
    names = ", ".join(output_names(program))
    click.echo(f"{file}: {count} {what}{'' if count == 1 else 's'}, results {names}")
    if hints and not values and "none" not in levels and isinstance(program, Function) and program.inputs:
        click.echo(f"with types of all inputs, as in {_described(program.inputs[0])}, more is checked", err=True)
    return 0


def _described(parameter: Input) -> str:
    """Return a type of an input as it is written in a command."""
    dims = (None, None) if parameter.dims is None else parameter.dims
    sizes = (dim.value if isinstance(dim, IntLiteral) else size for size, dim in enumerate(dims, start=3))
    return f"{parameter.name}={(parameter.dtype or DType.F32).value}[{','.join(map(str, sizes))}]"


def warnings_about(
    program: Program,
    values: tuple[str, ...],
    levels: tuple[str, ...],
    choice: Target | TargetChoice | None,
    device: str | None,
) -> tuple[Diagnostic, ...]:
    """Return warnings; without types, those that hold for all types. Warnings on memory depend on the device."""
    from tileir_performance.warnings.programs import warnings_of  # only who checks needs it

    types = cli_values.types(program, values)
    if not types or not isinstance(program, Function):
        return warnings_of(program)
    numbers = cli_values.numbers(program, values)
    found = warnings_of(program, {**types, **numbers}, every="all" in levels)
    try:
        compiled = compile_for(program, types, default_context(), device, None, None, choice)
    except BackendError:
        if device is not None:
            raise
        return found
    return in_order((*found, *compiled.warnings), every="all" in levels)


def _checked(
    file: Path,
    program: Program,
    values: tuple[str, ...],
    passes: tuple[Pass, ...] | str | None,
    choice: Target | TargetChoice | None,
    device: str | None,
) -> int:
    from tileir.testing import check_passes  # only who checks loads the interpreters

    types = cli_values.types(program, values)
    need_types(program, types)
    finding = check_passes(program, types, passes, target=choice, device=device)
    click.echo(f"{file}: {'no pass changes a result' if finding is None else finding}")
    return 0 if finding is None else 1


def _pipeline(text: str, module: str) -> tuple[Pass, ...]:
    """Return the passes that a text names, those of a module among them.

    Raises:
        TileError: TIL902, the module cannot be imported, or a pass in it has an optional part that is misspelt; or the
            text is no pipeline.
    """
    from tileir.passes.base import Pass
    from tileir.passes.offers import OFFERS
    from tileir.passes.pipelines import pipeline
    from tileir.passes.pipelines.resolution import passes_called

    sys.path.insert(0, str(Path.cwd()))
    try:
        members = vars(importlib.import_module(module)).values()
    except Exception as error:  # a module may fail in any way
        raise fail("TIL902", f"cannot import {module}: {error}") from None
    finally:
        sys.path.pop(0)
    found = tuple(filter(_is_pass, members))
    for wrong in (each for kind in found for each in mistakes(kind, Pass, OFFERS)):
        raise fail("TIL902", f"in {module}, {wrong}")
    own = {kind.name for kind in found}
    return pipeline.parse(text, lambda names: (*passes_called(name for name in names if name not in own), *found))


def _is_pass(member: object) -> TypeGuard[type[Pass]]:
    if not isinstance(member, type) or not isinstance(getattr(member, "name", None), str):
        return False
    return attrs.has(member) and "__call__" in vars(member)
