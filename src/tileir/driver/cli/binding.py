"""`--bind NAME=VALUE` of the commands: inputs of a file's function as constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tileir.core.errors import fail
from tileir.driver.binding import bind
from tileir.driver.cli.values import load, read_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tileir.driver.programs import Program

bind_option = click.option(
    "--bind",
    "bindings",
    metavar="NAME=VALUE",
    multiple=True,
    help="Make an input a constant of the program: a number, or the array of a .npy file or picture. May come again.",
)


def read_bound(file: Path, bindings: Sequence[str]) -> Program:
    """Return the program of a file with the inputs bound that the command line names.

    Raises:
        TileError: TIL901, a file cannot be read; TIL902, a binding is not of the form NAME=VALUE; as
            :func:`tileir.bind`.
    """
    program = read_program(file)
    values: dict[str, object] = {}
    for binding in bindings:
        name, equals, text = binding.partition("=")
        if not equals:
            raise fail("TIL902", f"--bind {binding!r} is not of the form NAME=VALUE")
        if name in values:
            raise fail("TIL902", f"--bind {binding}: {name!r} is bound twice")
        values[name] = load(name, text)
    return bind(program, values) if values else program
