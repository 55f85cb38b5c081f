"""Choice of a target other than the device's own: a file, a name, or a value."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tileir.core import ArgumentError, HardwareModel, Target, attrs, fail

if TYPE_CHECKING:
    from tileir.core.targets.target_file import Scalar, TargetFile


@attrs.frozen
class TargetChoice:
    """Target file that replaces a device's own pipeline and hardware model.

    Attributes:
        pipeline: Its name if it comes with tileir, otherwise its text.
        parameters: Values of its parameters, sorted by name.
    """

    pipeline: str
    parameters: tuple[tuple[str, Scalar], ...]

    def applied(self, target: Target) -> Target:
        """Return the facts of a device with this pipeline, and with the overrides of its file."""
        from tileir.core.targets.target_file import with_facts

        return with_facts(attrs.evolve(target, pipeline=self.pipeline, parameters=self.parameters))


Named: TypeAlias = "str | os.PathLike[str] | Target | TargetFile | TargetChoice"
"""A target of tileir, by name; a file, by path; or a value. ``NAME:PARAMETER=VALUE,…`` sets parameters."""


def choice_of(named: object, settings: Mapping[str, Scalar] | None = None) -> Target | TargetChoice | None:
    """Return the target of an argument; None for the device's own.

    Args:
        named: The argument: any :data:`Named`, or None.
        settings: Values of parameters, which override those in ``named``.

    Raises:
        TileError: TIL547 for an unknown target or parameter, a missing parameter, or a value with a wrong type; TIL901
            for a file that cannot be read; TIL601 and TIL602 for one that is not a target file.
        ArgumentError: TIL707, it is something else.
    """
    if named is None and settings:
        raise fail("TIL547", f"{', '.join(settings)}: only a target that is named has parameters")
    if named is None or isinstance(named, Target | TargetChoice):
        return named
    from tileir.core.targets.target_file import TargetFile  # only needed for named targets

    written: dict[str, Scalar] = {}
    if isinstance(named, TargetFile):
        file, path = named, named.name
    elif isinstance(named, str | os.PathLike):
        path, written = _split(str(os.fspath(named)))
        file = target_file(path)
    else:
        message = (
            "a target is a name, the path of a file, what tileir.parse(…, stage='target') returns, or a tileir.Target,"
            f" not a value of type {type(named).__name__}"
        )
        raise ArgumentError.of("TIL707", message)
    values = {**(settings or {}), **written}
    file.values(values)
    return TargetChoice(path if file.builtin else file.text, tuple(sorted(values.items())))


def target_file(path: str) -> TargetFile:
    """Return the target of that name, or that in a file.

    Raises:
        TileError: As :func:`choice_of`.
    """
    from tileir.core.companions import nearest_or_wheel
    from tileir.core.targets.target_file import (  # only needed for named targets
        all_names_of_targets,
        loaded,
        target_called,
    )
    from tileir.core.targets.target_names import names_of_targets

    if path in names_of_targets():
        return target_called(path)
    file = Path(path)
    try:
        if not file.is_file() and path in all_names_of_targets():
            return target_called(path)
        return loaded(file.read_text(encoding="utf-8-sig"), path)
    except FileNotFoundError:
        hint = nearest_or_wheel(path, all_names_of_targets())
        raise fail("TIL547", f"there is neither a target nor a file {path[:200]!r}{hint}") from None
    except (OSError, ValueError) as error:
        raise fail(
            "TIL901", f"cannot read {path[:200]}: {error.strerror if isinstance(error, OSError) else error}"
        ) from None


def settings_of(words: Iterable[str]) -> dict[str, Scalar]:
    """Return the settings of words such as ``NUM_SRAM=4``.

    Raises:
        TileError: TIL902 for a word in another form, or a repeated name.
    """
    settings: dict[str, Scalar] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.strip().isidentifier():
            raise fail("TIL902", f"write NAME=VALUE to set a parameter, not {word[:64]!r}")
        if name.strip() in settings:
            raise fail("TIL902", f"parameter {name.strip()} is set twice; drop one")
        settings[name.strip()] = _scalar(value.strip())
    return settings


def scheduling_target(choice: Target | TargetChoice | None, device: Target, threads: int | None) -> Target:
    """Return the target of a program's passes on a device with this many threads; None for all of its threads.

    A device whose groups have many threads runs on all its processors, regardless of ``threads``.
    """
    target = choice.applied(device) if isinstance(choice, TargetChoice) else device if choice is None else choice
    if threads is None or target.group_threads > 1:
        return target
    return attrs.evolve(target, threads=min(threads, target.threads))


def model_of(target: Named | None) -> HardwareModel:
    """Return the hardware model for choices of a target, or that of any device."""
    choice = choice_of(target)
    if choice is None:
        from tileir.typed.sharding.prices import ANY_MODEL  # only needed for partitioning

        return ANY_MODEL
    from tileir.core.targets.target_file import hardware_of  # only needed for named targets
    from tileir.runtime.context import default_context

    own = choice if isinstance(choice, Target) else default_context().device(None).target
    return hardware_of(scheduling_target(choice, own, None))


def _split(text: str) -> tuple[str, dict[str, Scalar]]:
    path, sign, words = text.rpartition(":")
    if not sign or "=" not in words:
        return text, {}
    return path, settings_of(words.split(","))


def _scalar(text: str) -> Scalar:
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float | str) else text
