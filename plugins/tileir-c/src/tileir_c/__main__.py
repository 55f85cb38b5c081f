"""`python -m tileir_c`: a Tile file becomes C that needs neither Python nor tileir.

Exit codes are those of the command `tileir`: 0 for success, 1 for a fault in the program or its files, 2 for wrong
usage, 3 for a fault of a back end.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

import tileir
from tileir.core.errors import BackendError, TileError, fail
from tileir_c.aot.sources import sources

if TYPE_CHECKING:
    from collections.abc import Sequence

_TYPE: Final = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>\s*(?:\d+\s*(?:,\s*\d+\s*)*)?)\]")


def main() -> int:
    """Run the command and return its exit code; faults are printed with their places."""
    try:
        code = command.main(prog_name="tileir-c", standalone_mode=False)
    except TileError as error:
        click.echo(str(error), err=True)
        return 3 if isinstance(error, BackendError) else 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Abort:
        return 130
    return code if isinstance(code, int) else 0


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tileir-c")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("values", nargs=-1, metavar="[NAME=DTYPE[SIZES]]...")
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=".", help="Where to write.")
@click.option("--name", help="Name of the function and of the files; by default that of FILE.")
@click.option("--main/--no-main", "with_main", default=True, help="Write a program that reads and writes .npy files.")
@click.option(
    "--vector-bytes",
    type=click.Choice(["16", "32", "64"]),
    default="32",
    show_default=True,
    help="Width of the vectors of the processor that the code is for; it runs on all.",
)
def command(
    file: Path, values: tuple[str, ...], output: Path, name: str | None, with_main: bool, vector_bytes: str
) -> None:
    """Write C for FILE: a header, a source, a Makefile, and a program that calls the function on .npy files.

    FILE has a Tile function, or a model where its front end is installed. The inputs need dtype and sizes, as in
    `A=f32[3,4]`.
    """
    function = tileir.parse(file)
    types = _types(function, values)
    texts = sources(function, types, name or file.stem, vector_bytes=int(vector_bytes), main=with_main)
    for path, content in texts.items():
        _write(output / path, content)
        click.echo(output / path)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise fail("TIL901", f"cannot write {path}: {error}") from None


def _types(function: tileir.Function, values: Sequence[str]) -> dict[str, tileir.TensorType]:
    """Return the type of each input; all faults at once.

    Raises:
        TileError: TIL902, a value is malformed, repeated, missing, or of an input that does not exist.

    """
    names = [tensor.name for tensor in function.inputs]
    found: dict[str, tileir.TensorType] = {}
    faults: list[str] = []
    for value in values:
        name, _, text = value.partition("=")
        match = _TYPE.fullmatch(text)
        if match is None or match["dtype"] not in {dtype.value for dtype in tileir.DType}:
            faults.append(f"{value!r} is not of the form NAME=DTYPE[SIZES], such as A=f32[3,4]")
        elif name not in names:
            faults.append(f"there is no input {name!r}; the inputs are {', '.join(names) or 'none'}")
        elif name in found:
            faults.append(f"input {name!r} is given twice")
        else:
            sizes = match["sizes"].strip()
            found[name] = tileir.TensorType(
                tileir.DType(match["dtype"]), tuple(map(int, sizes.split(","))) if sizes else ()
            )
    faults.extend(f"input {name!r} is missing; add {name}=DTYPE[SIZES]" for name in names if name not in found)
    if faults:
        raise TileError(tileir.Diagnostic("TIL902", fault) for fault in faults)
    return found


if __name__ == "__main__":
    sys.exit(main())
