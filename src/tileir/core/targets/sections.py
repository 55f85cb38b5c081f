"""The members of a JSON object whose values may be templates: found by their brackets, and read one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from tileir.core.errors import TileError, fail
from tileir.core.json.brackets import misplaced
from tileir.core.json.plain import Path, places_of, read_json
from tileir.core.nodes import attrs
from tileir.core.targets.template import Filled, filled
from tileir.core.targets.template_expressions import Value
from tileir.core.targets.template_parser import TAG
from tileir.core.text.span import Source, Span

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<template>""" + TAG + r""")"""
    r"""|(?P<open>[\[{])|(?P<close>[\]}])|(?P<sign>[,:])|(?P<other>[^\s"\[\]{},:/]+|.)""",
    re.DOTALL,
)
_MOST_CHARACTERS: Final = 1 << 20
"""Of a file, so that a hostile one costs seconds at most."""

_CLOSES: Final = {"{": "}", "[": "]"}
_OTHER: Final = {"}": "]", "]": "}"}
_NAME: Final = re.compile(r"[^\W\d]\w*")


@attrs.frozen
class Section:
    """The value of a member as it was written: characters ``start`` to ``stop`` of ``source``."""

    source: Source = attrs.field(repr=False, eq=lambda source: source.text)
    start: int
    stop: int
    name: Span = attrs.field(repr=False, eq=False)

    def names(self) -> frozenset[str]:
        """Return all words in it, which the names that it uses as a template are among."""
        return frozenset(_NAME.findall(self.source.text, self.start, self.stop))

    def read(self, names: Mapping[str, Value] | None = None) -> object:
        """Return its value as plain JSON; with ``names`` it is a template, and filled in first.

        Raises:
            TileError: TIL546 where it cannot be filled in, TIL601 and TIL602 where it is not JSON then, with the place.
        """
        text = self._filled(names)
        return read_json(text.text, self.source.name, text.place)

    def places(self, names: Mapping[str, Value] | None = None) -> dict[Path, Span]:
        """Return where the names and values in it stand, by the way to them; see :func:`places_of`.

        Raises:
            TileError: As :meth:`read`.
        """
        text = self._filled(names)
        return {path: text.place(start, stop) for path, (start, stop) in places_of(text.text).items()}

    def _filled(self, names: Mapping[str, Value] | None) -> Filled:
        if names is None:
            span = Span(self.source, self.start, self.stop)
            return Filled(span.text, (0,), (span,))
        return filled(self.source, self.start, self.stop, names)


def sections_of(text: str, source: str) -> dict[str, Section]:
    """Return the members of the object that ``text`` is, by name.

    Raises:
        TileError: TIL601 where the text is no object or too long, TIL602 where a name stands twice.
    """
    sections: dict[str, Section] = {}
    whole = Source(text, source)
    if len(text) > _MOST_CHARACTERS:
        raise fail("TIL601", f"{source}: such a file has at most {_MOST_CHARACTERS} characters")
    tokens = _Tokens(whole, tuple(match for match in _TOKEN.finditer(text) if match.lastgroup != "skip"))
    tokens.take("{")
    while tokens.peek() != "}":
        key, name = tokens.take_string()
        if key in sections:
            raise fail("TIL602", f"{source}: {key[:64]!r} stands twice in one object; drop one")
        tokens.take(":")
        start, stop = tokens.take_value()
        sections[key] = Section(whole, start, stop, name)
        if tokens.peek() != "}":
            tokens.take(",")
    tokens.take("}")
    if tokens.peek():
        raise tokens.unexpected("nothing")
    return sections


@attrs.define(eq=False, repr=False)
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

    def take_string(self) -> tuple[str, Span]:
        """Go past the name of a member and return it, and where it stands."""
        try:
            key: object = json.loads(self.peek() or "0")
        except ValueError:
            key = None
        if not isinstance(key, str):
            raise self.unexpected('the name of a section, such as "passes",')
        self.position += 1
        return key, Span(self.source, *self.tokens[self.position - 1].span())

    def take_value(self) -> tuple[int, int]:
        """Go past a value, whose brackets must match, and return where it starts and stops."""
        first, closing = self.position, list[str]()
        while self.position < len(self.tokens):
            token = self.tokens[self.position]
            if not closing and token[0] in (",", "}", "]"):
                break
            if token.lastgroup == "open":
                closing.append(_CLOSES[token[0]])
            elif token.lastgroup == "close" and token[0] != closing.pop():
                raise self.unexpected(f"'{_OTHER[token[0]]}'")
            self.position += 1
        if closing or first == self.position:
            raise self.unexpected(f"'{closing[-1]}'" if closing else "a value")
        return self.tokens[first].start(), self.tokens[self.position - 1].end()

    def unexpected(self, wanted: str) -> TileError:
        """Return the error for the next token, or for a bracket that does not lie as the lines do."""
        seen = self.tokens[: self.position + 1]
        brackets = (token.start() for token in seen if token.lastgroup in ("open", "close"))
        if (found := misplaced(self.source.text, brackets)) is not None:
            return fail("TIL601", found.problem, Span(self.source, found.start, found.start + 1))
        end = len(self.source.text)
        start, stop = self.tokens[self.position].span() if self.position < len(self.tokens) else (end, end)
        return fail("TIL601", f"write {wanted} here", Span(self.source, start, min(stop, start + 1)))
