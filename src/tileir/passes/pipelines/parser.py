"""The text of pipelines, up to what was written: which passes and options exist is not known here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from tileir.core import Span, attrs
from tileir.core.text.lexing import END, AbandonError, Cursor, Lexer, Token, everything, source_of
from tileir.passes.pipelines.options import WORDS, Written

_TOKEN: Final = re.compile(
    r"""
    \s*+
    (?: (?P<number> [+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf|nan)(?![\w.]) )
      | (?P<word> [^\W\d]\w* )
      | (?P<string> "(?:[^"\\\n]|\\.)*" )
      | (?P<sign> [{}(),=:] )
      | (?P<end> \Z )
      | (?P<unknown> . )
    )
    """,
    re.VERBOSE,
)
_MOST_DIGITS: Final = 400
_MOST_DEPTH: Final = 50
"""Tuples and records inside one another."""
_ADVICE: Final = "write a name, a value or one of {}(),=: here"
_SCALARS: Final = frozenset(("number", "word", "string"))


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
        ParseError: TIL102 where the text does not follow the grammar, TIL103 where values are nested too deeply; one
            diagnostic for each faulty pass.
    """
    return everything(_Cursor, source_of(text, name), lambda cursor: _Parser(cursor).pipeline())


@attrs.define(eq=False, repr=False)
class _Cursor(Cursor):
    """A place in the text of a pipeline, and how many brackets are open there."""

    lexer = staticmethod(partial(Lexer, pattern=_TOKEN, code="TIL102", advice=lambda _: _ADVICE))
    open: int = attrs.field(default=0, init=False)

    def advance(self) -> Token:
        """Take the token that is looked at."""
        if self.token.kind in ("(", "{"):
            self.open += 1
        elif self.token.kind in (")", "}"):
            self.open = max(0, self.open - 1)
        return super().advance()

    def unexpected(self, expected: str, *notes: str) -> AbandonError:
        """Report that the next token is not what should be written, and return what the caller raises."""
        return self.refuse(f"write {expected} here", *notes)

    def recover(self) -> None:
        """Pass over the rest of a pass: look at the comma behind it."""
        while not self.at(END) and (self.open or not self.at(",")):
            self.advance()


@attrs.frozen(repr=False)
class _Parser:
    """Recursive descent over one text. Where a pass is faulty, those after it are read all the same."""

    cursor: _Cursor

    def pipeline(self) -> tuple[Request, ...]:
        """Parse all of the text."""
        if self.cursor.at(END):
            return ()
        requests = list(self._recovered())
        while self.cursor.skip(","):
            requests.extend(self._recovered())
        return tuple(requests)

    def _recovered(self) -> Iterator[Request]:
        """Yield a request, or none where it is faulty."""
        try:
            request = self._request()
            if not self.cursor.at(END) and not self.cursor.at(","):
                raise self.cursor.unexpected("','")
            yield request
        except AbandonError:
            self.cursor.recover()

    def _request(self) -> Request:
        cursor = self.cursor
        name = cursor.expect("word", "the name of a pass")
        label = ""
        if cursor.skip(":"):
            label = name.text
            name = cursor.expect("word", "the name of a pass")
        settings = self._settings(0) if cursor.at("{") else ()
        return Request(name.text, settings, cursor.span_of(name), label)

    def _settings(self, depth: int) -> tuple[Setting, ...]:
        return self.cursor.enclosed(lambda: self._setting(depth), "{}")

    def _setting(self, depth: int) -> Setting:
        name = self.cursor.expect("word", "the name of an option")
        self.cursor.expect("=")
        start = self.cursor.token.start
        value = self._value(depth)
        return Setting(name.text, value, self.cursor.span_of(name), self.cursor.span_from(start))

    def _value(self, depth: int) -> Written:
        cursor = self.cursor
        if not cursor.at("(") and not cursor.at("{"):
            named = cursor.at("word")
            scalar = self._scalar()
            if not (named and isinstance(scalar, str) and cursor.at("{")):
                return scalar
            return {scalar: self._value(depth)}
        if depth == _MOST_DEPTH:
            raise cursor.report_and_abandon(f"values are nested more than {_MOST_DEPTH} deep", cursor.here, "TIL103")
        return self._tuple(depth + 1) if cursor.at("(") else self._record(depth + 1)

    def _tuple(self, depth: int) -> tuple[Written, ...]:
        self.cursor.expect("(")
        items: list[Written] = []
        while not self.cursor.at(")"):
            items.append(self._value(depth))
            if not self.cursor.at(")"):
                self.cursor.expect(",")
        self.cursor.expect(")")
        return tuple(items)

    def _record(self, depth: int) -> dict[str, Written]:
        record: dict[str, Written] = {}
        for setting in self._settings(depth):
            if setting.name in record and setting.name_span is not None:
                self.cursor.report(f"{setting.name} is given twice; drop one", setting.name_span, "TIL542")
            record[setting.name] = setting.value
        return record

    def _scalar(self) -> Written:
        token = self.cursor.token
        if token.kind not in _SCALARS:
            raise self.cursor.unexpected("a value")
        try:
            value = _scalar_of(token.kind, token.text)
        except ValueError:
            raise self.cursor.unexpected("a value that can be read") from None
        self.cursor.advance()
        return value


def _scalar_of(group: str, text: str) -> Written:
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
