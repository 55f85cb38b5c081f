"""Subject of a request: a program, its inputs, and a device; from untrusted JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tileir.core import attrs, fail
from tileir_studio.design.checking import MOST_CHARACTERS

_MOST_WORD: Final = 4096
"""The most characters of a text that is no program."""


@attrs.frozen
class Subject:
    """A program and how it is compiled.

    Attributes:
        text: The program.
        values: For each input, by name, a VALUE of the command line: ``f32[3, 4]`` for random numbers, a number, or
            ``upload:`` and the name of an upload.
        device: The id of a device; None for the default.
        target: The name of a target whose passes the program gets; None for the device's own.
        passes: A pipeline instead of those; None for none.
        mesh: The ranks that the data flow is partitioned over, as in ``x=2,y=2``; None for one device.
    """

    text: str
    values: tuple[tuple[str, str], ...] = ()
    device: str | None = None
    target: str | None = None
    passes: str | None = None
    mesh: str | None = None


def subject_of(request: Mapping[str, Any]) -> Subject:
    """Return the subject of a request.

    Raises:
        TileError: TIL913, the request is of another form.
    """
    return Subject(
        text_of(request),
        tuple(texts_of(request, "values").items()),
        word_or_none(request, "device"),
        word_or_none(request, "target"),
        word_or_none(request, "passes"),
        word_or_none(request, "mesh"),
    )


def texts_of(request: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return an object of a request that has a text for each input.

    Raises:
        TileError: TIL913, it has another form.
    """
    values = request.get(name, {})
    if not isinstance(values, dict):
        raise fail("TIL913", f"`{name}` is an object with a text for each input")
    return {key: _word(f"{name}.{key}"[:64], value) or "" for key, value in values.items()}


def text_of(request: Mapping[str, Any]) -> str:
    """Return the text of the program.

    Raises:
        TileError: TIL913, there is none, or it is too long.
    """
    text = request.get("text")
    if not isinstance(text, str):
        raise fail("TIL913", "`text` is the text of a program")
    if len(text) > MOST_CHARACTERS:
        raise fail("TIL913", f"the program has {len(text)} characters; the studio looks at {MOST_CHARACTERS}")
    if "\0" in text or not _is_unicode(text):
        raise fail("TIL913", "the program holds characters that are none")
    return text


def word_of(request: Mapping[str, Any], name: str) -> str:
    """Return a required text.

    Raises:
        TileError: TIL913, it is missing.
    """
    word = word_or_none(request, name)
    if word is None:
        raise fail("TIL913", f"`{name}` is missing")
    return word


def word_or_none(request: Mapping[str, Any], name: str) -> str | None:
    """Return an optional text; None where it is missing or empty.

    Raises:
        TileError: TIL913, it has another form.
    """
    return _word(name, request.get(name))


def _word(name: str, value: object) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _MOST_WORD or not _is_unicode(value):
        raise fail("TIL913", f"`{name}` is a text of at most {_MOST_WORD} characters")
    return value


def _is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode a text: JSON may hold halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
