"""Front ends of installed distributions, which make programs of files: ONNX models, and anybody's.

An entry point of the group ``tileir.frontends`` serves the files whose names end with its own: ``onnx`` those that end
with ``.onnx``. Wherever a program is taken, in Python and by commands, the :class:`pathlib.Path` of such a file is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from tileir.core import BackendError
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.core.protocols import members
from tileir.driver.known_functions import KnownFunction
from tileir.tile.ir import Function

_WHEELS: Final[Mapping[str, str]] = MappingProxyType({"onnx": "tileir-onnx"})
"""Distributions of front ends that tileir's developers keep, by the endings of files."""


class Frontend(Protocol):
    """Makes Tile functions of files; an entry point of the group ``tileir.frontends`` names it."""

    @property
    def name(self) -> str:
        """The ending of its files without the dot, which is the name of the entry point."""

    def load(self, path: Path) -> Function | KnownFunction:
        """Return the function of a file, whose constants are a part of it, or what :func:`recalled` knows of it.

        Raises:
            TileError: The file cannot be read, or asks for what there is not; one diagnostic for each fault.
        """


def frontend_of(path: Path) -> Frontend | None:
    """Return the front end of a file by the ending of its name; None where no front end has it.

    Raises:
        BackendError: TIL811, it is not installed or cannot be loaded; TIL812, two distributions provide it.
    """
    ending = path.suffix.lower().removeprefix(".")
    if ending not in EXTENSIONS.entries(Kind.FRONTEND):
        if ending in _WHEELS:
            wheel = _WHEELS[ending]
            raise BackendError.of("TIL811", f"{path} needs {wheel}, which is not installed: pip install {wheel}")
        return None
    return frontend_called(ending)


def frontend_called(name: str) -> Frontend:
    """Return the installed front end with a name.

    Raises:
        BackendError: TIL811 or TIL812, it cannot be loaded.
    """
    found: Any = EXTENSIONS.get(Kind.FRONTEND, name, wrong_frontend(name))
    frontend: Frontend = found
    return frontend


def wrong_frontend(name: str) -> Callable[[object], str | None]:
    """Return a check whether an offer can serve as a front end: it returns the reason against it, or None."""

    def wrong(offer: Any) -> str | None:
        missing = [member for member in members(Frontend) if not hasattr(offer, member)]
        if missing:
            return f"is a {type(offer).__name__} without {' and '.join(missing)}"
        return None if offer.name == name else f"calls itself {offer.name!r:.64}"

    return wrong
