"""Bundles: a Tile program and its constants in one file that later versions of tileir can read.

A bundle is a ZIP archive with uncompressed members: ``bundle.json`` with the version of the format, ``program.tile``
with the text, whose first line names its version, and ``arrays/DIGEST.npy`` for each constant that the text names by
its digest. Kernels are compiled where it runs; a bundle may include some, ``kernels/KIND-KEY``, which are entries of
the cache on disk, for loading as code. Equal programs have equal bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from tileir.core import ArgumentError, ArrayValue, TileError, attrs, fail, with_short_traceback
from tileir.core.text.versions import LINE
from tileir.driver.executable import Executable
from tileir.driver.jit import Jit, jit
from tileir.driver.programs import function_of
from tileir.driver.texts import read as read_file, write_whole
from tileir.runtime import Context, DeviceInfo, Options, default_context, owner_of
from tileir.runtime.array_files import as_saved, declared, possible_dtypes
from tileir.runtime.caches.carried_entries import CarriedEntries
from tileir.tile.ir import Function
from tileir.tile.text.grammar import DIGEST
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text
from tileir.tile.traversal import arrays

if TYPE_CHECKING:
    from tileir.core.array_value import Array
    from tileir.driver.programs import Source

FORMAT: Final = "tileir.bundle"
VERSION: Final = 1
SUFFIX: Final = ".tileir"

_HEADER, _PROGRAM, _ARRAYS, _KERNELS = "bundle.json", "program.tile", "arrays/", "kernels/"
_WHEN: Final = (1980, 1, 1, 0, 0, 0)
"""Time stamp of all members, so that equal programs have equal bytes."""


@with_short_traceback
def save(source: Source, file: Path, *, kernels: Iterable[Executable] = ()) -> None:
    """Write a Tile program with its constants to a file, for :func:`tileir.parse` and everything that takes programs.

    Args:
        source: A function, the text or JSON of one, or the file of it. Typed functions are raised to Tile.
        file: Path of the file, by convention with the suffix ``.tileir``. It is written atomically.
        kernels: Executables of the program, whose code is included: :func:`load` then starts it without compiling, on a
            machine with an equal device and with this version of tileir.

    Raises:
        TileError: TIL901, the file cannot be written; else as :func:`tileir.parse`.
        ArgumentError: TIL712, it is a program of a later stage, which cannot be raised to Tile; TIL707, ``kernels``
            were compiled from another program.
    """
    function = function_of(source)
    text = to_text(function)
    values = {value.digest: value for value in arrays(function) if f"{DIGEST}{value.digest}" in text}
    header = json.dumps({"format": FORMAT, "version": VERSION}, sort_keys=True)
    members = [(_HEADER, header.encode()), (_PROGRAM, (LINE + text).encode())]
    members += [(f"{_ARRAYS}{digest}.npy", _content(values[digest].numpy())) for digest in sorted(values)]
    members += [(f"{_KERNELS}{name}", content) for name, content in sorted(_code(function, kernels).items())]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name, _WHEN), content)
    write_whole(Path(file), buffer.getvalue())


@with_short_traceback
def load(
    file: Path | str,
    device: str | DeviceInfo | None = None,
    *,
    kernels: bool = True,
    context: Context | None = None,
    options: Options | None = None,
) -> Jit:
    """Return a callable for the program of a file that :func:`save` wrote, with its kernels if they fit.

    Kernels fit if they were made by this version of tileir for an equal device and equal options; otherwise, the
    program is compiled when it is called. Kernels are machine code, which cannot be checked: load them only from files
    whose makers may run code here, other files with ``kernels=False`` or :func:`tileir.jit`.

    Args:
        file: The bundle; or any other file that programs are read from, which has no kernels.
        device: As for :func:`tileir.jit`.
        kernels: Whether to use the kernels of the file.
        context: As for :func:`tileir.jit`.
        options: As for :func:`tileir.jit`.

    Raises:
        TileError: TIL603, the bundle is damaged; else as :func:`tileir.parse`.
    """
    path = Path(file)
    data = read_file(path) if kernels and zipfile.is_zipfile(path) else ""
    if isinstance(data, str):
        return jit(path, device, context=context, options=options)
    made = jit(read(data, str(path)), device, context=context, options=options)
    members = _members(data)
    code = {name.removeprefix(_KERNELS): content for name, content in members.items() if name.startswith(_KERNELS)}
    return attrs.evolve(made, carried=CarriedEntries(code, owner_of(context).disk_cache)) if code else made


def _code(function: Function, kernels: Iterable[object]) -> dict[str, bytes]:
    """Return cache entries by name with which a function need not be compiled.

    Raises:
        ArgumentError: TIL707, an executable was not compiled from this function.
    """
    code: dict[str, bytes] = {}
    for each in kernels:
        if not isinstance(each, Executable) or each.source != function:
            raise ArgumentError.of("TIL707", f"kernels are what the program itself was compiled to, not {each!r:.80}")
        each.carried_by(CarriedEntries(code, default_context().disk_cache, collects=True), function)
    return code


def _content(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, as_saved(array), allow_pickle=False)
    return buffer.getvalue()


def read(data: bytes, name: str) -> Function:
    """Return the program of a bundle.

    Raises:
        TileError: TIL603, it is not a bundle, is damaged, or has a format of another version.
        ParseError: The text is wrong; TIL106, it is of a newer version.
        VerifyError: The program breaks a rule.
    """
    try:
        members = _members(data)
        header = json.loads(members[_HEADER])
        text = members[_PROGRAM].decode("utf-8")
    except KeyError as error:
        raise _refused(name, f"it has no member {error}") from None
    except (zipfile.BadZipFile, ValueError, EOFError, RuntimeError, OSError) as error:
        raise _refused(name, str(error)) from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _refused(name, f"its {_HEADER} does not say that it is one")
    if header.get("version") != VERSION:
        told = f"it has version {header.get('version')!r:.80} of their form, and this tileir reads {VERSION}"
        raise _refused(name, f"{told}: upgrade tileir")
    return parse(text, f"{name}/{_PROGRAM}", arrays=_values(name, members))


def _members(data: bytes) -> dict[str, bytes]:
    """Return the members of an archive, which take no more memory than the archive itself."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
            raise ValueError("its members are compressed or encrypted; those of a bundle are stored as they are")
        if sum(entry.file_size for entry in entries) > len(data):
            raise ValueError("its members overlap")
        return {entry.filename: archive.read(entry) for entry in entries}


def _values(name: str, members: dict[str, bytes]) -> Iterable[ArrayValue]:
    """Yield the arrays of a bundle, in the type for which the digest holds."""
    for member, content in members.items():
        if not member.startswith(_ARRAYS):
            continue
        try:
            array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
            values = [ArrayValue.of(declared(array, dtype)) for dtype in possible_dtypes(array)]
            values = values if array.dtype.kind == "V" else [ArrayValue.of(array)]
        except (ValueError, EOFError, TileError, SyntaxError, TypeError, OverflowError, MemoryError) as error:
            raise _refused(name, f"{member} is no array: {error}") from None
        digest = member.removeprefix(_ARRAYS).removesuffix(".npy")
        value = next((each for each in values if each.digest == digest), None)
        if value is None:
            raise _refused(name, f"{member} has other elements than its name says")
        yield value


def _refused(name: str, why: str) -> TileError:
    return fail("TIL603", f"{name} cannot be read as a bundle: {why}")
