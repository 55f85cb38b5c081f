"""The members of a JSON object whose values may be templates: found by their brackets, and read one at a time."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import fail
from tileir.core.plain_json import read_json
from tileir.core.span import Source, Span
from tileir.core.template import fill

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.core.errors import TileError
    from tileir.core.template_expressions import Value

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<template>\{\{.*?\}\}|\{%.*?%\}|\[%.*?%\]|\{\#.*?\#\})"""
    r"""|(?P<open>[\[{])|(?P<close>[\]}])|(?P<sign>[,:])|(?P<other>[^\s"\[\]{},:/]+|.)""",
    re.DOTALL,
)
_NAME: Final = re.compile(r"[^\W\d]\w*")


@attrs.frozen
class Section:
    """The value of a member as it was written: characters ``start`` to ``stop`` of ``text``."""

    text: str = attrs.field(repr=False)
    start: int
    stop: int
    source: str

    def names(self) -> frozenset[str]:
        """Return all words in it, which the names that it uses as a template are among."""
        return frozenset(_NAME.findall(self.text, self.start, self.stop))

    def read(self, names: Mapping[str, Value] | None = None) -> object:
        """Return its value as plain JSON; with ``names`` it is a template, and filled in first.

        Raises:
            TileError: TIL546 where it cannot be filled in, TIL601 and TIL602 where it is not JSON then; lines and
                columns are those of the whole text up to the first part that is filled in.
        """
        above = self.text[: self.start]
        blank = "\n" * above.count("\n") + " " * (self.start - (above.rfind("\n") + 1))
        text = f"{blank}{self.text[self.start : self.stop]}"
        return read_json(text if names is None else fill(text, names, self.source), self.source)


def sections_of(text: str, source: str) -> dict[str, Section]:
    """Return the members of the object that ``text`` is, by name.

    Raises:
        TileError: TIL601 where the text is no object, TIL602 where a name stands twice.
    """
    sections: dict[str, Section] = {}
    tokens = _Tokens(Source(text, source), tuple(_tokens(text)))
    tokens.take("{")
    while tokens.peek() != "}":
        key = tokens.take_string()
        if key in sections:
            raise fail("TIL602", f"{source}: {key[:64]!r} stands twice in one object; drop one")
        tokens.take(":")
        start, stop = tokens.take_value()
        sections[key] = Section(text, start, stop, source)
        if tokens.peek() != "}":
            tokens.take(",")
    tokens.take("}")
    if tokens.peek():
        raise tokens.unexpected("nothing")
    return sections


def _tokens(text: str) -> Iterator[re.Match[str]]:
    return (match for match in _TOKEN.finditer(text) if match.lastgroup != "skip")


@attrs.define
class _Tokens:
    """Tokens from left to right; the only mutable state is the position."""

    source: Source
    tokens: tuple[re.Match[str], ...]
    position: int = 0

    def peek(self) -> str:
        """Return the next token; nothing at the end."""
        return self.tokens[self.position][0] if self.position < len(self.tokens) else ""

    def take(self, sign: str) -> None:
        """Go past a sign, which must come next."""
        if self.peek() != sign:
            raise self.unexpected(f"'{sign}'")
        self.position += 1

    def take_string(self) -> str:
        """Go past the name of a member and return it."""
        try:
            key: object = json.loads(self.peek() or "0")
        except ValueError:
            key = None
        if not isinstance(key, str):
            raise self.unexpected('the name of a section, such as "passes",')
        self.position += 1
        return key

    def take_value(self) -> tuple[int, int]:
        """Go past a value, whose brackets must match, and return where it starts and stops."""
        depth, first = 0, self.position
        while self.position < len(self.tokens):
            token = self.tokens[self.position]
            if depth == 0 and token[0] in (",", "}", "]"):
                break
            depth += (token.lastgroup == "open") - (token.lastgroup == "close")
            self.position += 1
        if depth or first == self.position:
            raise self.unexpected("']' or '}'" if depth else "a value")
        return self.tokens[first].start(), self.tokens[self.position - 1].end()

    def unexpected(self, wanted: str) -> TileError:
        """Return the error for the next token."""
        end = len(self.source.text)
        start, stop = self.tokens[self.position].span() if self.position < len(self.tokens) else (end, end)
        return fail("TIL601", f"write {wanted} here", Span(self.source, start, min(stop, start + 1)))
