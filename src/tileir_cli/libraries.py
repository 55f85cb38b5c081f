"""Libraries in C of programs, which need neither Python nor tileir, by the back end that writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tileir.core import BackendError, fail
from tileir.driver.programs import Program, function_of
from tileir.driver.texts import write_whole
from tileir.runtime.context import default_context
from tileir.runtime.interface import Backend
from tileir.typed.ir import TensorType
from tileir_cli.stages import need_types

_WRITER: Final = "c"
"""The back end that writes libraries; its distribution is ``tileir-c``."""


def write_library(program: Program, types: Mapping[str, TensorType], folder: Path, name: str) -> Iterator[Path]:
    """Write the sources of a library, and yield the path of each.

    Args:
        program: A function of Tile, or a typed one.
        types: The types of its inputs.
        folder: Where the sources go; it is made where it is missing.
        name: The name of the library, and of its function.

    Raises:
        BackendError: TIL811, tileir-c is not installed or cannot be loaded.
        TileError: TIL902, types are missing; TIL901, a file cannot be written; else the function is wrong.
        ArgumentError: TIL712, it is a program of a later stage.

    """
    need_types(program, types)
    function, library = function_of(program), _writer().library
    if library is None:
        raise BackendError.of("TIL811", "this tileir-c writes no libraries: pip install --upgrade tileir-c")
    for file, text in library(function, types, name).items():
        path = folder / file
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise fail("TIL901", f"cannot write {path}: {error}") from None
        write_whole(path, text.encode("utf-8"))
        yield path


def _writer() -> Backend[Any]:
    registry = default_context().registry
    if _WRITER not in registry.names():
        raise BackendError.of("TIL811", "--header needs tileir-c, which is not installed: pip install tileir-c")
    return registry.backend(_WRITER)
