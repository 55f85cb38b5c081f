"""Front ends of installed distributions, which make programs from files such as ONNX models.

An entry point of the group ``tileir.frontends`` serves the files with its name as suffix: ``onnx`` those that end with
``.onnx``. The :class:`pathlib.Path` of such a file is accepted wherever a program is, in Python and by commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from tileir.core import BackendError
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.core.protocols import wrong_offer
from tileir.driver.function_cache import KnownFunction
from tileir.tile.ir import Function

_WHEELS: Final[Mapping[str, str]] = MappingProxyType({"onnx": "tileir-onnx"})
"""Distributions of front ends that tileir's developers maintain, by file suffixes."""


class Frontend(Protocol):
    """Maker of Tile functions from files; an entry point of the group ``tileir.frontends`` names it."""

    @property
    def name(self) -> str:
        """Suffix of its files without the dot, and name of the entry point."""

    def load(self, path: Path) -> Function | KnownFunction:
        """Return the function of a file, including its constants, or the result of :func:`recalled` for it.

        Raises:
            TileError: The file cannot be read, or uses unsupported features; one diagnostic for each fault.
        """


def frontend_of(path: Path) -> Frontend | None:
    """Return the front end of a file by its suffix; None if there is none.

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
    found: Any = EXTENSIONS.get(Kind.FRONTEND, name, wrong_offer(Frontend, name))
    frontend: Frontend = found
    return frontend
