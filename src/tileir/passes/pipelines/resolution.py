"""Resolution of pipelines for a device; only the passes that they name are imported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Final

from tileir.core import Span, Target, TileError, attrs, fail
from tileir.core.json.plain import Path as Way
from tileir.core.targets.target_file import TargetFile, file_of, passes_places, passes_value, target_called
from tileir.passes.base import Pass, for_target
from tileir.passes.pipelines import pipeline
from tileir.passes.pipelines.files import FILES

_MOST_DEPTH: Final = 8
"""Maximum depth of targets that include one another."""


@lru_cache(maxsize=64)
def pipeline_for(target: Target) -> tuple[Pass, ...]:
    """Return the default passes of a target.

    Raises:
        TileError: ``target.pipeline`` is no pipeline, as :func:`resolve_pipeline` says.
    """
    return resolve_pipeline(target.pipeline, target)


def resolve_pipeline(text: str, target: Target) -> tuple[Pass, ...]:
    """Return the passes of a pipeline for a device.

    Args:
        text: The name of a target that comes with tileir, a pipeline as text or JSON, or a whole target file.
        target: The facts that templates may use.

    Raises:
        TileError: As :func:`tileir.passes.pipelines.pipeline.parse`,
            :func:`tileir.passes.pipelines.pipeline.from_json` and :mod:`tileir.core.targets.target_file`.
    """
    return for_target(_passes_of(text, target), target)


def _passes_of(text: str, target: Target) -> tuple[Pass, ...]:
    if (file := file_of(text)) is not None:
        entries = _entries(file, target, 0)
        values = [entry.value for entry in entries]
        return pipeline.from_value(values, passes_called, lambda: _places(entries, target))
    if text.lstrip().startswith(("[", "//")):
        return pipeline.from_json(text, passes_called)
    return pipeline.parse(text, passes_called)


def passes_called(names: Iterable[str]) -> Sequence[type[Pass]]:
    """Return the passes of these names, those of tileir first; all passes if a name is unknown.

    Only the modules of these passes are imported, of about fifty.

    Raises:
        BackendError: TIL811 or TIL812, an installed pass cannot be loaded.
    """
    wanted = list(dict.fromkeys(names))
    strange = [name for name in wanted if name not in FILES]
    if not strange:
        return [_loaded(name) for name in wanted]
    from tileir.passes.pipelines.installed import names_installed, passes_installed  # few pipelines name others

    installed = set(names_installed())
    if set(strange) <= installed:
        return [*(_loaded(name) for name in wanted if name in FILES), *passes_installed(strange)]
    others = [_named(name) for name in installed.difference(strange)]  # messages show only their names
    return [*others, *map(_loaded, FILES), *passes_installed(installed.intersection(strange))]


def _named(name: str) -> type[Pass]:
    return type("Unloaded", (), {"name": name})


def _loaded(name: str) -> type[Pass]:
    members = vars(import_module(f"tileir.passes.{FILES[name]}")).values()
    return next(kind for kind in members if isinstance(kind, type) and vars(kind).get("name") == name)


@attrs.frozen(repr=False)
class _Entry:
    """An entry of a pipeline, with its file and position there."""

    value: object
    file: TargetFile
    number: int


def _entries(file: TargetFile, target: Target, depth: int) -> list[_Entry]:
    """Return the entries of a pipeline with each ``{"include": target}`` expanded."""
    if depth > _MOST_DEPTH:
        raise fail("TIL547", "these targets include one another without end")
    value = passes_value(file, target)
    if not isinstance(value, list):
        raise fail("TIL602", "a pipeline in JSON is a list of passes", passes_places(file, target).get(()))
    entries: list[_Entry] = []
    for number, entry in enumerate(value):
        if isinstance(entry, dict) and entry.keys() == {"include"}:
            entries += _entries(_included(str(entry["include"]), number, file, target), target, depth + 1)
        else:
            entries.append(_Entry(entry, file, number))
    return entries


def _included(name: str, number: int, file: TargetFile, target: Target) -> TargetFile:
    try:
        return target_called(name)
    except TileError as error:
        place = passes_places(file, target).get((number, "include"))
        raise TileError(attrs.evolve(fault, span=place) for fault in error.diagnostics) from None


def _places(entries: Sequence[_Entry], target: Target) -> dict[Way, Span]:
    """Return the source spans of the entries and their parts."""
    places: dict[Way, Span] = {}
    for file in dict.fromkeys(entry.file for entry in entries):
        written = passes_places(file, target)
        for number, entry in enumerate(entries):
            if entry.file == file:
                places |= {(number, *path[1:]): span for path, span in written.items() if path[:1] == (entry.number,)}
    return places
