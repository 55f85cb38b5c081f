"""Values of the command line: NAME=VALUE arguments in, arrays, pictures and numbers out.

`--bind NAME=VALUE` of the commands: inputs of a file's function as constants.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from tileir.core import Diagnostic, DType, Target, TileError, attrs, fail, nearest
from tileir.driver.binding import bind
from tileir.driver.calls.arguments import declared_types, type_of_text
from tileir.driver.jit import evaluate, jit
from tileir.driver.programs import Compilable, Program, framed, input_names, made, origin_of, output_names, types_of
from tileir.driver.targets import TargetChoice
from tileir.driver.texts import parse_any, write_whole
from tileir.runtime.array_files import as_saved, declared, is_nameless, loaded, possible_dtypes
from tileir.tile.ir import Function
from tileir.typed.ir import TensorType
from tileir_cli.pictures.files import depth_of, endings, is_picture, read_picture, unwritable, write_picture

Array = np.ndarray[Any, np.dtype[Any]]
Value = Array | bool | int | float


def read_program(file: Path) -> Program:
    """Return the program of a file, or of standard input for ``-``: text or JSON of any stage.

    Raises:
        TileError: TIL901, the file cannot be read; or its content is invalid.
    """
    return made(_read(file))


def _read(file: Path) -> Compilable:
    return origin_of(file) if str(file) != "-" else parse_any(sys.stdin.buffer.read(), "<stdin>")


def _pairs(program: Compilable, values: Sequence[str], typed: Container[str] = ()) -> dict[str, str]:
    """Split NAME=VALUE arguments; report unknown, repeated, malformed and missing ones together.

    Those that are ``typed`` may be missing.
    """
    known = list(input_names(program))
    found: dict[str, str] = {}
    faults = []
    for value in values:
        name, equals, text = value.partition("=")
        if not equals:
            faults.append(f"{value!r} is not of the form NAME=VALUE")
        elif name not in known:
            faults.append(f"there is no input {name[:64]!r}{nearest(name, known)}")
        elif name in found:
            faults.append(f"input {name!r} is given twice")
        else:
            found[name] = text
    missing = (name for name in known if name not in found and name not in typed)
    faults.extend(f"input {name!r} is missing; add {name}=VALUE" for name in missing)
    if faults:
        raise TileError(Diagnostic("TIL902", fault) for fault in faults)
    return found


def types(origin: Compilable, values: Sequence[str]) -> dict[str, TensorType]:
    """Return the type of each input; none at all where no value is given, and not all have types: it can be printed so.

    Programs of later stages have types, and inputs of Tile functions that declare dtypes and numbers for all sizes.
    """
    program = framed(origin)
    typed = declared_types(program) if isinstance(program, Function) else input_names(program)
    if not values and len(typed) < len(input_names(program)):
        return {}
    given: dict[str, object] = {}
    for name, text in _pairs(program, values, typed).items():
        try:
            described = type_of_text(text)
        except TileError as error:
            raise fail("TIL902", f"input {name!r}: {error.diagnostics[0].message}") from None
        if described is None and _resembles_type(text):
            forms = "f32[3, 4], or f32[] for a number"
            raise fail("TIL902", f"input {name!r}: write dtype and sizes as in {forms}, not {text[:64]!r}")
        given[name] = described or load(name, text)
    return types_of(program, given)


def numbers(program: Program, values: Sequence[str]) -> dict[str, bool | int | float]:
    """Return the numbers among the values."""
    found = {name: number_of(text) for name, text in _pairs(program, values).items()}
    return {name: number for name, number in found.items() if number is not None}


def _resembles_type(text: str) -> bool:
    """Return whether a value is meant as a type, in any form; names of files are not."""
    word, bracket, _ = text.partition("[")
    known = word.strip() in {dtype.value for dtype in DType}
    return (known or bool(bracket)) and not Path(text).suffix and not _exists(text)


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # a name that is too long, or has NUL in it
        return False


def type_of(array: Array) -> TensorType:
    """Return the dtype and shape of an array whose dtype tileir knows."""
    dtype = DType.of(array.dtype)
    if dtype is None:
        raise fail("TIL702", f"dtype {array.dtype} has no equal in tileir; convert the array first")
    return TensorType(dtype, tuple(array.shape))


def arrays(program: Compilable, values: Sequence[str]) -> dict[str, Value]:
    """Return the array or number for each input."""
    return {name: load(name, text) for name, text in _pairs(program, values).items()}


def load(name: str, text: str) -> Value:
    """Return the value of VALUE: a number, or the array of a picture or of a ``.npy`` file, maybe after its dtype."""
    if not text:
        raise fail("TIL902", f"input {name!r} has no value; write {name}=FILE or {name}=NUMBER")
    number = number_of(text)
    if number is not None:
        return number
    if _resembles_type(text):
        raise fail("TIL902", f"input {name!r}: {text[:64]!r} is no value; write {name}=FILE or {name}=NUMBER")
    if "," in text and not Path(text).suffix and not _exists(text):
        raise fail("TIL902", f"input {name!r}: write one number, or save the array as .npy and name the file")
    dtype, path = dtype_and_file(text)
    try:
        return read_picture(path) if is_picture(path) else read_array(path, dtype)
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, OSError) or is_picture(path) or path.suffix in ("", ".npy", ".npz"):
            raise fail("TIL901", f"input {name!r}: cannot read {path}: {error}") from None
        advice = f"convert it to a .npy array, or to a picture: {endings()} are read"
        raise fail("TIL901", f"input {name!r}: {path} is no file of a known kind; {advice}") from None
    except TileError as error:
        raise TileError(
            attrs.evolve(each, message=f"input {name!r}: {each.message}") for each in error.diagnostics
        ) from None


def dtype_and_file(text: str) -> tuple[DType | None, Path]:
    """Return the file that a text names, and the dtype of its elements where that stands in front (``bf16:a.npy``)."""
    word, colon, file = text.partition(":")
    dtype = next((each for each in DType if colon and each.value == word), None)
    return dtype, Path(text if dtype is None else file)


def read_array(path: Path, dtype: DType | None, *, mapped: bool = False) -> Array:
    """Return the array of a ``.npy`` file; a given dtype must match.

    Raises:
        OSError: There is no such file.
        ValueError: It is not a ``.npy`` file.
        TileError: TIL702, its elements have another dtype, or an unknown one and none was given.
    """
    array = loaded(path, mapped=mapped)
    if dtype is None:
        if is_nameless(array):
            ways = " or ".join(f"{each.value}:{path}" for each in possible_dtypes(array))
            raise fail("TIL702", f"{path} has elements of {array.dtype.itemsize} bytes and no type; write {ways}")
        return array
    found = declared(array, dtype)
    if found.dtype != dtype.numpy:
        has = DType.of(found.dtype)
        message = f"{path} has elements of type {found.dtype if has is None else has.value}, not {dtype.value}"
        raise fail("TIL702", f"{message}; convert them, or leave {dtype.value}: out")
    return found


def number_of(text: str) -> bool | int | float | None:
    """Return the number or truth value that a text spells; None where it spells none."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def destinations(program: Compilable, outputs: Sequence[str]) -> dict[str, Path]:
    """Return the destination of each named result; unnamed destinations go to results in declared order.

    Raises:
        TileError: TIL902, a result that does not exist or has a file already, or a file of unknown kind.
    """
    names = output_names(program)
    result: dict[str, Path] = {}
    for text in outputs:
        name, equals, path = text.partition("=")
        if equals and name not in names and name.isidentifier():
            raise fail("TIL902", f"-o {text}: there is no result {name!r}{nearest(name, names)}")
        if equals and name in result:
            raise fail("TIL902", f"-o {text}: result {name!r} goes to {result[name]} already")
        if not equals or name not in names:
            free = [n for n in names if n not in result]
            if not free:
                raise fail("TIL902", f"there are {len(names)} results, so -o {text} has none left to write")
            name, path = free[0], text
        why = None if Path(path).suffix == ".npy" else unwritable(Path(path))
        if why:
            raise fail("TIL902", f"-o {path}: {why}")
        result[name] = Path(path)
    return result


def depth_of_pictures(values: Sequence[str]) -> int:
    """Return the bits of the deepest picture among NAME=VALUE arguments, with which results are written."""
    return max((depth_of(Path(value.partition("=")[2])) for value in values), default=8)


def save(path: Path, array: Array, depth: int = 8) -> None:
    """Write a result, whole or not at all; floats to pictures of ``depth`` bits where their format can."""
    if is_picture(path):
        write_whole(path, write_picture(path, array, depth))
        return
    buffer = io.BytesIO()
    np.save(buffer, as_saved(array), allow_pickle=False)
    write_whole(path, buffer.getvalue())


def callable_for(
    program: Compilable,
    arrays: Mapping[str, Value],
    *,
    interpret: bool,
    device: str | None,
    target: Target | TargetChoice | None = None,
) -> Callable[[], dict[str, Array]]:
    """Return a compiled program for these arrays; calls return results by name."""
    names = output_names(program)

    def by_name(results: Any) -> dict[str, Array]:
        return dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))

    if interpret:
        return lambda: by_name(evaluate(program, dict(arrays)))
    executable = jit(program, device, target=target).specialise(**arrays)
    return lambda: by_name(executable(**arrays))


def shown(array: Array) -> str:
    """Return a result as text, shortened where it is long."""
    return np.array2string(array, threshold=64, separator=", ")


bind_option = click.option(
    "--bind",
    "bindings",
    metavar="NAME=VALUE",
    multiple=True,
    help="Make an input a constant of the program: a number, or the array of a .npy file or picture. May come again.",
)


def read_bound(file: Path, bindings: Sequence[str]) -> Program:
    """Return the program of a file with the inputs bound that the command line names; as :func:`read_origin`."""
    return made(read_origin(file, bindings))


def read_origin(file: Path, bindings: Sequence[str]) -> Compilable:
    """Return the program of a file, or a known function, with the inputs bound that the command line names.

    Raises:
        TileError: TIL901, a file cannot be read; TIL902, a binding is not of the form NAME=VALUE; as
            :func:`tileir.bind`.
    """
    program = _read(file)
    values: dict[str, object] = {}
    for binding in bindings:
        name, equals, text = binding.partition("=")
        if not equals:
            raise fail("TIL902", f"--bind {binding!r} is not of the form NAME=VALUE")
        if name in values:
            raise fail("TIL902", f"--bind {binding}: {name!r} is bound twice")
        values[name] = load(name, text)
    return bind(program, values) if values else program
