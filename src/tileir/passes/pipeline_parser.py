"""The text of pipelines, up to what was written: which passes and options exist is not known here."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import Diagnostic, ParseError
from tileir.core.span import Source, Span
from tileir.passes.options import WORDS

if TYPE_CHECKING:
    from tileir.passes.options import Written

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf|nan)(?![\w.]))|(?P<word>[^\W\d]\w*)"""
    r"""|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<sign>[{}(),=:]))""",
)
_SPACE: Final = re.compile(r"\s*")
_MOST_DIGITS: Final = 400
_MOST_DEPTH: Final = 50
"""Tuples and records inside one another."""


@attrs.frozen
class Setting:
    """An option as it was written."""

    name: str
    value: Written
    name_span: Span | None = None
    value_span: Span | None = None


@attrs.frozen
class Request:
    """A pass as it was written; ``label`` is what the step is called, empty where it has no name of its own."""

    name: str
    settings: tuple[Setting, ...]
    span: Span | None = None
    label: str = ""


def parse_requests(text: str, name: str) -> tuple[Request, ...]:
    """Return what a text asks for: ``label: pass{option=value, …}, …``.

    Raises:
        ParseError: TIL102 where the text does not follow the grammar, TIL103 where values are nested too deeply.
    """
    return _Parser(Source(text, name)).pipeline()


@attrs.define
class _Parser:
    """Recursive descent over one text; the only mutable state is the position."""

    source: Source
    position: int = 0

    def pipeline(self) -> tuple[Request, ...]:
        """Parse all of the text."""
        requests: list[Request] = []
        if self._peek() is None:
            return ()
        requests.append(self._request())
        while self._peek() is not None:
            self._expect(",")
            requests.append(self._request())
        return tuple(requests)

    def _request(self) -> Request:
        name, span = self._word("the name of a pass")
        label = ""
        if self._next_sign() == ":":
            self._expect(":")
            label = name
            name, span = self._word("the name of a pass")
        if self._next_sign() != "{":
            return Request(name, (), span, label)
        return Request(name, self._settings(0), span, label)

    def _settings(self, depth: int) -> tuple[Setting, ...]:
        self._expect("{")
        settings: list[Setting] = []
        if self._next_sign() != "}":
            settings.append(self._setting(depth))
            while self._next_sign() == ",":
                self._expect(",")
                settings.append(self._setting(depth))
        self._expect("}")
        return tuple(settings)

    def _setting(self, depth: int) -> Setting:
        name, name_span = self._word("the name of an option")
        self._expect("=")
        start = self._skip_space()
        value = self._value(depth)
        return Setting(name, value, name_span, Span(self.source, start, self.position))

    def _value(self, depth: int) -> Written:
        sign = self._next_sign()
        if sign not in ("(", "{"):
            return self._scalar()
        if depth == _MOST_DEPTH:
            span = Span(self.source, self.position, self._skip_space() + 1)
            raise ParseError((Diagnostic("TIL103", f"values are nested more than {_MOST_DEPTH} deep", span),))
        return self._tuple(depth + 1) if sign == "(" else self._record(depth + 1)

    def _tuple(self, depth: int) -> tuple[Written, ...]:
        self._expect("(")
        items: list[Written] = []
        while self._next_sign() != ")":
            items.append(self._value(depth))
            if self._next_sign() != ")":
                self._expect(",")
        self._expect(")")
        return tuple(items)

    def _record(self, depth: int) -> dict[str, Written]:
        record: dict[str, Written] = {}
        for setting in self._settings(depth):
            if setting.name in record:
                message = f"{setting.name} is given twice; drop one"
                raise ParseError((Diagnostic("TIL542", message, setting.name_span),))
            record[setting.name] = setting.value
        return record

    def _scalar(self) -> Written:
        token = self._peek()
        if token is None or token.lastgroup == "sign":
            raise self._unexpected("a value")
        text = token[token.lastgroup or 0]
        try:
            value = _scalar_of(token.lastgroup, text)
        except ValueError:
            raise self._unexpected("a value that can be read") from None
        self.position = token.end()
        return value

    def _word(self, what: str) -> tuple[str, Span]:
        token = self._peek()
        if token is None or token.lastgroup != "word":
            raise self._unexpected(what)
        self.position = token.end()
        return token["word"], Span(self.source, token.start("word"), token.end())

    def _expect(self, sign: str) -> None:
        if self._next_sign() != sign:
            raise self._unexpected(f"'{sign}'")
        token = self._peek()
        self.position = self.position if token is None else token.end()

    def _next_sign(self) -> str | None:
        token = self._peek()
        return None if token is None else token["sign"]

    def _skip_space(self) -> int:
        match = _SPACE.match(self.source.text, self.position)
        return self.position if match is None else match.end()

    def _peek(self) -> re.Match[str] | None:
        """Return the next token; None at the end."""
        if self._skip_space() == len(self.source.text):
            return None
        token = _TOKEN.match(self.source.text, self.position)
        if token is None:
            raise self._unexpected("a name, a value or one of {}(),=:")
        return token

    def _unexpected(self, what: str) -> ParseError:
        start = self._skip_space()
        token = _TOKEN.match(self.source.text, self.position)
        stop = token.end() if token is not None else min(start + 1, len(self.source.text))
        return ParseError((Diagnostic("TIL102", f"write {what} here", Span(self.source, start, stop)),))


def _scalar_of(group: str | None, text: str) -> Written:
    """Return the value of a token.

    Raises:
        ValueError: A number with too many digits, or an unknown escape in a string.

    """
    if group == "string":
        return str(json.loads(text))
    if group == "word":
        return WORDS.get(text, text)
    if len(text) > _MOST_DIGITS:
        raise ValueError("too many digits")
    return int(text) if text.lstrip("+-").isdigit() else float(text)
