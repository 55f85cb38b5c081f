"""Text forms of programs of all stages, and the rules of each stage."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, assert_never

from tileir.core import ArgumentError, ParseError, attrs, fail, format_of, from_json
from tileir.driver.frontends import frontend_of
from tileir.driver.programs import Program, made
from tileir.semtree.ir import Program as SemProgram
from tileir.stripe.ir import Program as StripeProgram
from tileir.tile.ir import Function as TileFunction
from tileir.typed.ir import Function as TypedFunction

if TYPE_CHECKING:
    from tileir.core.array_value import Array, ArrayValue

STAGES: Final[Mapping[str, type[Program]]] = MappingProxyType(
    {"tile": TileFunction, "typed": TypedFunction, "stripe": StripeProgram, "sem": SemProgram}
)
"""Classes of programs at each stage."""

_SPACE: Final = re.compile(r"(?:\s+|//[^\n]*)*")
_SEMTREE: Final = re.compile(r"program\s*\{")
_STRIPE: Final = re.compile(r"program\s*\(|0\s*:\s*(?:#[^\s#]+\s+)*block\b")
_TYPED: Final = re.compile(
    r"""
    function\b (?: [^{"`/] | "(?:[^"\\\n]|\\.)*" | `(?:[^`\\\n]|\\.)*` | //[^\n]* | / )*+ \{
    (?: \s | //[^\n]* | \[\[ [^]\n]* \]\] )*+
    (?: [A-Za-z_][\w.']*+ | `[^`\n]*` ) \s* (?: : | =\s*function\b )  # the type of a value, or the step of a loop
    """,
    re.VERBOSE,
)
_BUNDLE: Final = b"PK"
_FILE: Final = re.compile(r"[^\s(){}]+\.\w+")


def parse_any(source: str | bytes | Path, name: str = "<text>") -> Program:
    """Return the program of a text, of JSON, or of a file; the text determines the stage, the suffix the front end.

    Args:
        source: A text of some stage, JSON, a bundle, or the path of a file with one of these or of a front end's; the
            path ``file.tile:function`` is one of several functions.
        name: Name of the text in errors.

    Raises:
        ParseError: The text is wrong.
        VerifyError: The program breaks a rule of its stage.
        TileError: TIL601 or TIL602, the JSON is wrong; TIL603, the bundle is; TIL901, the file cannot be read.
        ArgumentError: TIL707, the text is the name of a file.
    """
    entry, folder = None, None
    if isinstance(source, Path):
        frontend = frontend_of(source)
        if frontend is not None:
            return made(frontend.load(source))
        source, entry = file_and_entry(source)
        name, folder, source = str(source), source.parent, read(source)
    if isinstance(source, bytes) and is_bundle(source):
        from tileir.driver.bundles import read as read_bundle  # most programs come as text

        return read_bundle(source, name)
    text = source if isinstance(source, str) else decoded(source)
    if _FILE.fullmatch(text.strip()):
        message = f"{text.strip()!r:.80} is no program; to read one from that file, pass its pathlib.Path"
        raise ArgumentError.of("TIL707", message)
    return parse_stage(text, "any", name, entry=entry, folder=folder)


def file_and_entry(path: Path) -> tuple[Path, str | None]:
    """Return the file of a path, and the name of a function in it after a colon, if any."""
    head, colon, entry = path.name.rpartition(":")
    if not colon or not entry.isidentifier() or not head or path.exists():
        return path, None
    return path.with_name(head), entry


def parse_stage(
    text: str,
    stage: str,
    name: str = "<text>",
    arrays: Iterable[ArrayValue | Array] = (),
    *,
    entry: str | None = None,
    folder: Path | None = None,
) -> Program:
    """Return the program of a text, or of JSON, and verify it.

    Args:
        text: The text.
        stage: A name of :data:`STAGES`, or ``any`` for the stage that the text determines.
        name: Name of the text in errors.
        arrays: Arrays that a Tile or typed text names by digests alone.
        entry: Name of one function of a Tile text.
        folder: Folder from which a Tile text imports.

    Raises:
        ParseError: The text is wrong, or of another stage.
        ArgumentError: TIL206, it has no such function.
        VerifyError: The program breaks a rule of its stage.
        TileError: TIL601 or TIL602, the JSON is wrong; TIL702, arrays are not supported.
    """
    told = _stage_of(text)
    if told == "json" and entry is not None:
        raise _no_entry(entry)
    if told == "json":
        return _from_json(text, tuple(STAGES.values()) if stage == "any" else (STAGES[stage],))
    try:
        kind = told if stage == "any" else stage
        if kind == "tile":
            from tileir.tile.text.parser import parse as parse_tile  # built functions have no text

            return parse_tile(text, name, arrays=arrays, entry=entry, folder=folder)  # which is verified
        program = _parsed(text, kind, name, arrays)
        if entry is not None:
            raise _no_entry(entry)
        return checked(program)
    except ParseError as error:
        if stage in (told, "any") or told == "tile":  # any other text counts as Tile
            raise
        note = f"this looks like the text of another stage: stage={told!r} reads it, and stage='any' reads each"
        first, *others = error.diagnostics
        raise ParseError((attrs.evolve(first, notes=(*first.notes, note)), *others)) from None


def _stage_of(text: str) -> str:
    """Return the stage of a text, by its first words; ``json`` for JSON."""
    start = _SPACE.match(text)
    body = text[start.end() :] if start else text
    if body.startswith("{"):
        return "json"
    told = {"sem": _SEMTREE, "stripe": _STRIPE, "typed": _TYPED}
    return next((stage for stage, pattern in told.items() if pattern.match(body)), "tile")


def _parsed(text: str, stage: str, name: str, arrays: Iterable[ArrayValue | Array]) -> Program:
    match stage:
        case "typed":
            from tileir.typed.text.parser import parse as parse_typed

            return parse_typed(text, name, arrays=arrays)
        case "stripe":
            from tileir.stripe.text.parser import parse as parse_stripe

            return parse_stripe(text, name)
        case _:
            from tileir.semtree.text.parser import parse_program

            return parse_program(text, name)


def _no_entry(entry: str) -> ArgumentError:
    """Return the error for a named function of a text without several, to be raised by the caller."""
    message = f"only texts of Tile have several functions by name, and this is no such text: leave {entry!r:.80} out"
    return ArgumentError.of("TIL206", message)


def read(file: Path) -> str | bytes:
    """Return the text of a file, or the bytes of a bundle.

    Raises:
        TileError: TIL901, it cannot be read.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read()
        return content if is_bundle(content) else content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise fail("TIL901", f"cannot read {file}: {error}") from None


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically, through a temporary file beside it.

    Links and permissions are preserved; devices and other special files are written to directly.

    Raises:
        TileError: TIL901, it cannot be written.
    """
    from uuid import uuid4  # slow to load, and most programs write nothing

    try:
        real = Path(os.path.realpath(path))
        if real.exists() and not real.is_file():
            real.write_bytes(data)
            return
        temporary = real.with_name(f".{real.name}.{uuid4().hex}")
        try:
            temporary.write_bytes(data)
            if real.exists():
                temporary.chmod(real.stat().st_mode & 0o777)
            temporary.replace(real)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise fail("TIL901", f"cannot write {path}: {error}") from None


def is_bundle(data: bytes) -> bool:
    """Return whether bytes begin like a bundle, not like a text."""
    return data.startswith(_BUNDLE)


def decoded(data: bytes) -> str:
    """Return the text of JSON bytes, or of any UTF-8 text.

    Raises:
        TileError: TIL601, it is neither.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail("TIL601", f"this is no text in UTF-8: {error}") from None


def _from_json(text: str, kinds: Iterable[type[Program]]) -> Program:
    """Return the program of a JSON document, which names its kind among those allowed."""
    import orjson

    try:
        document: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise fail("TIL601", f"this is not JSON: {error}") from None
    named = document.get("format") if isinstance(document, dict) else None
    classes = {format_of(kind): kind for kind in kinds}
    kind = classes.get(named) if isinstance(named, str) else None
    if kind is None:
        import difflib  # for faults only, and slow to load

        listed = f"expected {'one of ' * (len(classes) > 1)}{', '.join(classes)}"
        alike = difflib.get_close_matches(str(named)[:64], classes, 1, 0.9)  # all have one beginning
        raise fail("TIL602", f"$.format is {named!r:.80}; {f'did you mean {alike[0]}?' if alike else listed}")
    program: Program = from_json(text, kind)
    return checked(program)


def checked(program: Program) -> Program:
    """Return a program after verifying it by the rules of its stage.

    Raises:
        VerifyError: It breaks a rule.
    """
    verify(program)
    return program


def verify(program: Program) -> None:
    """Verify a program by the rules of its stage.

    Raises:
        VerifyError: It breaks rules; one diagnostic for each fault.
    """
    match program:
        case TileFunction():
            from tileir.tile.checks.verifier import verify as verify_tile

            verify_tile(program)
        case TypedFunction():
            from tileir.typed.verifier import verify as verify_typed

            verify_typed(program)
        case StripeProgram():
            from tileir.stripe.check.verifier import verify as verify_stripe

            verify_stripe(program)
        case SemProgram():
            from tileir.semtree.check.verifier import verify_program

            verify_program(program)
        case _:
            assert_never(program)
