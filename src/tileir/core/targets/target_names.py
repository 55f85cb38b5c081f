"""The names of the targets that come with tileir, which are all that most calls need of their files."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from tileir.core.errors import fail

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

SUFFIX: Final = ".json"


@cache
def names_of_targets() -> tuple[str, ...]:
    """Return the names of the targets that come with tileir, sorted.

    Raises:
        TileError: TIL547, the files are missing, for example in a program that was packed without them.
    """
    folder = folder_of_targets()
    files = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    names = tuple(sorted(name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX)))
    if not names:
        message = f"the target files of tileir are missing: there are none in {folder}"
        raise fail("TIL547", f"{message}; install tileir again, or pack the data files of the package tileir with it")
    return names


def folder_of_targets() -> Traversable:
    """Return the location of the targets that come with tileir: a folder, or an archive."""
    from importlib.resources import files  # slow to import

    return files("tileir") / "targets"
