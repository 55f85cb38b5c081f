"""The command `tileir tune`: the fastest pipeline for a program on a device, found by the model and by timing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tileir.core.text.quantities import seconds_text
from tileir.driver.tuned_pipelines import Trial
from tileir.passes.pipelines.catalog import load_pipeline
from tileir.passes.pipelines.pipeline import to_text as pipeline_text
from tileir_cli import values as cli_values
from tileir_cli.stages import need_types
from tileir_cli.targets import chosen, target_options
from tileir_cli.values import bind_option, read_bound
from tileir_performance.tuning import search as tuning
from tileir_performance.tuning.search import Tuned

SHOWN_FAULTS = 5
SHOWN_SCRIPTS = 5
"""A script takes several lines, and the best are of interest."""


@click.command("tune")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@bind_option
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=tuning.TIME_LIMIT,
    show_default=True,
    metavar="SECONDS",
    help="When to stop looking.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"How many candidates to time, the best by the cost model first: {tuning.TOP}, or "
    f"{tuning.SCRIPT_TRIALS} with --scripts.",
)
@click.option("--scripts", is_flag=True, help="Search scripts of steps, from empty ones on, not options of passes.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Where drawing scripts begins.")
@click.option("--resume", is_flag=True, help="Go on with a search that was killed.")
@click.option("--json", "json_", is_flag=True, help="Print JSON, with all trials.")
@click.option("--passes", metavar="PIPELINE", help="Start from these passes: text, JSON, or a name; nothing is kept.")
@target_options
@click.option("--device", metavar="ID", help="Device id, as `tileir devices` lists it.")
def tune_(
    file: Path,
    values: tuple[str, ...],
    bindings: tuple[str, ...],
    time_limit: float,
    top: int | None,
    scripts: bool,
    seed: int,
    resume: bool,
    json_: bool,
    passes: str | None,
    target: str | None,
    settings: tuple[str, ...],
    device: str | None,
) -> None:
    """Find the fastest schedule of FILE for a device, and keep it: later compilations use it.

    NAME=f32[3,4] says dtype and dims of an input; its values are random.
    """
    program = read_bound(file, bindings)
    types = cli_values.types(program, values)
    need_types(program, types)
    choice, device = chosen(target, settings, device)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("searching")

        def show(at: tuning.Progress) -> None:
            best = "" if at.best is None else f", best {seconds_text(at.best)}"
            bar.update(task, description=f"{at.phase}{best}", completed=at.done, total=at.total)

        found = tuning.tune(
            program,
            types,
            device=device,
            target=choice,
            passes=passes,
            time_limit=time_limit,
            top=top,
            resume=resume,
            scripts=scripts,
            seed=seed,
            progress=show,
        )
    if json_:
        click.echo(json.dumps(_as_json(found), indent=2))
    else:
        _print(found, named=passes is not None)


def _print(found: Tuned, *, named: bool) -> None:
    console = Console(highlight=False)
    table = Table("changed options")
    for name in ("predicted", "measured"):
        table.add_column(name, justify="right", no_wrap=True)
    usual = found.trials[0].passes if found.trials else ""
    timed = sorted((trial for trial in found.trials if trial.seconds is not None), key=lambda trial: trial.seconds or 0)
    for trial in timed[:SHOWN_SCRIPTS] if any(map(_scripts, timed)) else timed:
        table.add_row(Text(_difference(trial, usual)), seconds_text(trial.predicted), seconds_text(trial.seconds or 0))
    console.print(table)
    faults = [trial for trial in found.trials if trial.fault]
    for trial in faults[:SHOWN_FAULTS]:
        console.print(Text(f"skipped {_difference(trial, usual)}: {trial.fault}"), soft_wrap=True)
    console.print(Text(str(found)), soft_wrap=True)
    kept = "kept: compilations of this program for this device use it" if found.stored else "the usual pipeline stays"
    console.print(Text("not kept: name it where it is wanted, as in --passes" if named else kept))


def _difference(trial: Trial, usual: str) -> str:
    """Return the scripts of a trial, or the options that differ from the usual ones."""
    parts = _scripts(trial)
    if parts:
        return ", ".join(parts)
    for step, normal in zip(json.loads(trial.passes), json.loads(usual), strict=False):
        options, before = step.get("options", {}), normal.get("options", {})
        names = dict.fromkeys((*options, *before))
        changed = [f"{n}={options.get(n, 'default')}" for n in names if options.get(n) != before.get(n)]
        if changed:
            parts.append(f"{step['name']}{{{', '.join(changed)}}}")
    return ", ".join(parts) or "(the usual pipeline)"


def _scripts(trial: Trial) -> list[str]:
    """Return the texts of the scripts in the pipeline of a trial."""
    passes = load_pipeline(trial.passes) if '"script"' in trial.passes else ()
    return [pipeline_text((step,)) for step in passes if step.name == "script"]


def _as_json(found: Tuned) -> dict[str, Any]:
    return {
        "device": found.device,
        "seconds": found.seconds,
        "default_seconds": found.default_seconds,
        "passes": pipeline_text(found.passes),
        "stored": found.stored,
        "trials": [
            {
                "passes": json.loads(trial.passes),
                "predicted": trial.predicted,
                "seconds": trial.seconds,
                "fault": trial.fault or None,
            }
            for trial in found.trials
        ],
    }
