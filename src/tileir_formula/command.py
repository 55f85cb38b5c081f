"""The commands `tileir formula …`: check, print, run, explain and edit formulas."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tileir.core import fail, to_json
from tileir.driver.texts import write_whole
from tileir.tile.text.printer import to_text as tile_text
from tileir_cli.pictures.files import depth_of
from tileir_cli.values import destinations, save, type_of
from tileir_formula.definitions.catalogue import default_catalogue, read_file
from tileir_formula.editing import step_edits
from tileir_formula.lower.conditions import count_of
from tileir_formula.running.crafting import CraftedFormula, craft
from tileir_formula.running.frames import frames_of, load_picture, written_to
from tileir_formula.text.printer import to_text

Array = np.ndarray[Any, np.dtype[Any]]

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
_pictures = click.argument("pictures", nargs=-1, required=True, type=click.Path(path_type=Path))
_functions = click.option(
    "--functions",
    "libraries",
    multiple=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file that describes further functions.",
)
_device = click.option("--device", metavar="ID", help="Device id, as `tileir devices` lists it.")


@click.group()
def formula() -> None:
    """Check, print, run, explain and edit formulas: computations on pictures, described as steps."""


@formula.command()
@_file
@_functions
def check(file: Path, libraries: tuple[Path, ...]) -> None:
    """Check FILE: every fault is told with its place."""
    crafted = _crafted(file, libraries)
    crafted.tile()
    described = crafted.formula
    click.echo(f"{file}: {count_of(described.steps)} steps, reads {', '.join(described.inputs)}")


@formula.command("print")
@_file
@_functions
@click.option(
    "--stage",
    type=click.Choice(["formula", "json", "tile"]),
    default="formula",
    show_default=True,
    help="Print the formula in canonical form, as JSON, or the Tile function that it becomes.",
)
def print_(file: Path, libraries: tuple[Path, ...], stage: str) -> None:
    """Print FILE."""
    crafted = _crafted(file, libraries)
    if stage == "tile":
        click.echo(tile_text(crafted.tile().function), nl=False)
    else:
        click.echo(to_json(crafted.formula) if stage == "json" else to_text(crafted.formula), nl=stage == "json")


@formula.command()
@_file
@_pictures
@_functions
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Where a result goes: a picture, a .npy file, or a folder for frames; one for each result.",
)
@_device
def run(
    file: Path, pictures: tuple[Path, ...], libraries: tuple[Path, ...], outputs: tuple[str, ...], device: str | None
) -> None:
    """Run FILE on pictures, .npy files, or videos: folders of pictures, and .npy stacks."""
    crafted = _crafted(file, libraries, device)
    frames = frames_of(pictures[0])
    if frames is None:
        results = _results(crafted(*map(load_picture, pictures)))
        wanted = destinations(crafted.tile().function, outputs)
        for (name, path), result in zip(wanted.items(), results, strict=False):
            save(path, result, max(map(depth_of, pictures)))
            click.echo(f"{name}: {type_of(result)} written to {path}")
        return
    if len(outputs) != 1:
        raise fail("TIL902", "the results of a video go to one folder or stack: give one -o")
    _run_video(crafted, [frames, *map(_series, pictures[1:])], Path(outputs[0]))


def _run_video(crafted: CraftedFormula, series: Sequence[Any], path: Path) -> None:
    """Run a formula on each frame; pictures that are no videos are the same for all."""
    lengths = {len(each) for each in series if not callable(each)}
    if len(lengths) > 1:
        raise fail("TIL902", f"videos have equally many frames; these have {', '.join(map(str, sorted(lengths)))}")
    columns = (TextColumn("frames"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with (
        Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress,
        written_to(path, series[0]) as write,
    ):
        for number in progress.track(range(len(series[0]))):
            frame = [each() if callable(each) else each[number] for each in series]
            write(number, _results(crafted(*frame))[0])
    click.echo(f"{len(series[0])} frames written to {path}")


def _series(path: Path) -> Any:
    """Return the frames of a video, or what gives a picture that stays the same."""
    frames = frames_of(path)
    if frames is not None:
        return frames
    picture = load_picture(path)
    return lambda: picture


@formula.command()
@_file
@_pictures
@_functions
@click.option("--measure", is_flag=True, help="Run each kernel on the device as well.")
@click.option("--json", "json_", is_flag=True, help="Print JSON: bytes and seconds as numbers.")
@_device
def explain(
    file: Path,
    pictures: tuple[Path, ...],
    libraries: tuple[Path, ...],
    measure: bool,
    json_: bool,
    device: str | None,
) -> None:
    """Say which kernels the steps of FILE become for such pictures, which buffers these use, and what they cost."""
    explanation = _crafted(file, libraries, device).explain(*map(load_picture, pictures), measure=measure)
    click.echo(explanation.to_json() if json_ else str(explanation), nl=json_)


@formula.command()
@_file
@click.argument("path")
@click.argument("value", required=False)
@_functions
@click.option("--insert", is_flag=True, help="Write VALUE, a step, before the one at PATH.")
@click.option("--remove", is_flag=True, help="Take the step at PATH away.")
@click.option("--redirect", is_flag=True, help="With --remove: let what reads the step read what that read.")
@click.option("--duplicate", is_flag=True, help="Write the step at PATH twice.")
@click.option("--move", is_flag=True, help="Move the step at PATH before the one at VALUE.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of FILE.")
def edit(
    file: Path,
    path: str,
    value: str | None,
    libraries: tuple[Path, ...],
    insert: bool,
    remove: bool,
    redirect: bool,
    duplicate: bool,
    move: bool,
    output: Path | None,
) -> None:
    """Change one element of FILE, such as steps[0].arguments.sigma; all other characters stay."""
    crafted = _crafted(file, libraries)
    chosen = [name for name, is_chosen in _flags(insert, remove, duplicate, move) if is_chosen]
    if len(chosen) > 1:
        raise fail("TIL902", f"choose one of --{', --'.join(chosen)}")
    action = chosen[0] if chosen else "replace"
    if (value is None) != (action in ("remove", "duplicate")):
        raise fail("TIL902", f"--{action} takes a PATH only" if value is not None else "say which VALUE is to be there")
    if redirect and action != "remove":
        raise fail("TIL902", "--redirect goes with --remove")
    edited = crafted.with_text(_EDITS["redirect" if redirect else action](crafted, path, value or ""))
    target = output or file
    write_whole(target, edited.text.encode("utf-8"))
    click.echo(f"{target}: written")


def _flags(*values: bool) -> list[tuple[str, bool]]:
    return list(zip(("insert", "remove", "duplicate", "move"), values, strict=True))


_EDITS: dict[str, Callable[[CraftedFormula, str, str], str]] = {
    "replace": lambda crafted, path, value: crafted.with_value(path, value).text,
    "insert": lambda crafted, path, value: step_edits.inserted(crafted.text, path, value).text,
    "remove": lambda crafted, path, _: step_edits.removed(crafted.text, path).text,
    "redirect": lambda crafted, path, _: step_edits.removed(crafted.text, path, redirect=True).text,
    "duplicate": lambda crafted, path, _: step_edits.duplicated(crafted.text, path).text,
    "move": lambda crafted, path, value: step_edits.moved(crafted.text, path, value).text,
}


def _crafted(file: Path, libraries: Sequence[Path], device: str | None = None) -> CraftedFormula:
    functions = [function for path in libraries for function in read_file(path)]
    return craft(file, functions=default_catalogue().extended(functions).functions, device=device)


def _results(results: Any) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)
