"""Characters of a formula to tokens. A line is a statement, unless a bracket is open at its end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import attrs

from tileir.core import ArgumentError, Source
from tileir.core.text import lexing
from tileir.core.text.lexing import END, Faults, Token

NAME: Final = "name"
NUMBER: Final = "number"
COLOUR: Final = "colour"
COMMENT: Final = "comment"
LINE: Final = "line"

MAX_CHARACTERS: Final = 1_000_000

SIGNS: Final = "=(){}[],;%$"
"""Signs of the text of formulas."""


@cache
def _pattern(signs: str) -> re.Pattern[str]:
    listed = re.escape(signs)
    return re.compile(
        rf"""
        [ \t\r]*+
        (?: (?P<comment> //[^\n]* )
          | (?P<colour> \#[0-9A-Za-z]+ )
          | (?P<number> -?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? )
          | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
          | (?P<sign> [{listed}] )
          | (?P<line> \n )
          | (?P<end> \Z )
          | (?P<unknown> [^\sA-Za-z0-9_{listed}\#/-]+ | . )
        )
        """,
        re.VERBOSE,
    )


@attrs.define(eq=False, repr=False)
class Lexer(lexing.Lexer):
    """The tokens of a formula, without the ends of lines inside brackets, or without any."""

    lines: bool = True
    _open_brackets: int = attrs.field(default=0, init=False)

    @classmethod
    def of(cls, source: Source, faults: Faults, signs: str = SIGNS, *, lines: bool = True) -> Lexer:
        """Return a lexer for a text; unknown characters are reported as TIL101.

        Args:
            source: The text.
            faults: Where faults go.
            signs: The signs of the text.
            lines: Whether ends of lines are tokens.

        Raises:
            ArgumentError: TIL105, the text is too long.
        """
        if len(source.text) > MAX_CHARACTERS:
            message = f"a formula has at most {MAX_CHARACTERS:,} characters; this one has {len(source.text):,}"
            raise ArgumentError.of("TIL105", message)
        return cls(source, faults, _pattern(signs), "TIL101", lambda word: f"{word!r} means nothing here", lines=lines)

    def next(self) -> Token:
        """Return the next token; always ``END`` at the end of the text."""
        while True:
            token = super().next()
            self._open_brackets += (token.kind in ("(", "[")) - (token.kind in (")", "]"))
            if token.kind != LINE or (self.lines and self._open_brackets <= 0):
                return token


def tokens(lexer: Lexer) -> Iterator[Token]:
    """Yield all tokens of a text, the last one ``END``."""
    while (token := lexer.next()).kind != END:
        yield token
    yield token
