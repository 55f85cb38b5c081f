"""The command `tileir targets`: available targets, their contents, and the hardware of the device."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Column, Table

from tileir.core import Target, TileError, fail
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.core.targets.hardware_json import to_json as hardware_text, to_value as hardware_value
from tileir.core.targets.target_file import Parameter, TargetFile, hardware_of, target_called
from tileir.core.targets.target_names import names_of_targets
from tileir.driver.targets import TargetChoice, choice_of, scheduling_target, settings_of, target_file
from tileir.passes.pipelines.pipeline import to_value as passes_value
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.runtime.context import default_context
from tileir_cli.reporting import report
from tileir_performance.tuning.measured_hardware import measured_hardware

NVPTX: Final = "nvptx:"
"""What names of targets begin with that stand for an architecture of NVIDIA's cards, whether one is there or not."""


def target_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command the options `--target` and `--set`, which reach it as ``target`` and ``settings``."""
    target = click.option(
        "--target",
        metavar="TARGET",
        help="Compute passes for this target, not the device's own: a name that `tileir targets` lists, a file, or"
        " nvptx:sm_90a for NVIDIA's cards of that architecture.",
    )
    settings = click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the target; may be repeated."
    )
    return target(settings(command))


def chosen(
    target: str | None, settings: tuple[str, ...], device: str | None
) -> tuple[Target | TargetChoice | None, str | None]:
    """Return the target and the device of the options; ``nvptx:sm_90a`` names a device with its own target.

    Raises:
        TileError: TIL547, as of :func:`choice_of`; TIL902 for a device together with a target that names one.
    """
    if target is not None and target.startswith(NVPTX):
        if device is not None:
            raise fail("TIL902", f"the target {target} stands for a device: leave --device {device} out")
        return choice_of(None, settings_of(settings)), f"cuda.{target.removeprefix(NVPTX)}"
    return choice_of(target, settings_of(settings)), device


@click.command("targets")
@click.argument("name", required=False)
@click.option("--json", "json_", is_flag=True, help="Print JSON; of one target, what it says for the device.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter; may be repeated.")
@click.option("--measure", is_flag=True, help="Measure the device, a processor, and print its hardware model as JSON.")
@click.option("--device", metavar="ID", help="Device whose facts fill in a target, as `tileir devices` lists it.")
def targets(name: str | None, json_: bool, settings: tuple[str, ...], measure: bool, device: str | None) -> None:
    """List the targets that come with tileir, or print the one called NAME, or the one in that file."""
    if measure:
        if name is not None:
            raise click.UsageError("--measure is for a device; leave NAME out")
        context = default_context()
        click.echo(hardware_text(measured_hardware(context, context.device(device))), nl=False)
    elif name is None:
        _listed(json_)
    elif not json_:
        click.echo(target_file(name).text, nl=False)
    else:
        choice = choice_of(name, settings_of(settings))
        target = scheduling_target(choice, default_context().device(device).target, None)
        click.echo(json.dumps(_filled(target_file(name.partition(":")[0]), target), indent=2))


def _listed(json_: bool) -> None:
    files = [target_called(name) for name in names_of_targets()]
    for name in EXTENSIONS.names(Kind.TARGET):
        try:
            files.append(target_called(name))
        except TileError as error:
            report(error.diagnostics)
    if json_:
        listed = [{"name": f.name, "about": f.about, "parameters": _parameters(f)} for f in files]
        click.echo(json.dumps(listed, indent=2))
        return
    table = Table(Column("name", no_wrap=True), "for", Column("parameters", no_wrap=True))
    for file in files:
        table.add_row(file.name, file.about, "\n".join(map(_in_short, file.parameters)))
    Console().print(table)


def _in_short(parameter: Parameter) -> str:
    return f"{parameter.name}={'?' if parameter.default is None else json.dumps(parameter.default)}"


def _parameters(file: TargetFile) -> dict[str, Any]:
    return {p.name: {"default": p.default, "meaning": p.meaning} for p in file.parameters}


def _filled(file: TargetFile, target: Target) -> dict[str, Any]:
    """Return a target's values for a device."""
    return {
        "name": file.name,
        "about": file.about,
        "parameters": file.values(dict(target.parameters)),
        "hardware": hardware_value(hardware_of(target)),
        "passes": passes_value(pipeline_for(target)),
    }
