"""Tokens of Stripe text, made one at a time so that hostile text costs no memory."""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple

import attrs

from tileir.core.errors import Diagnostic, ParseError
from tileir.core.span import Source, Span

MAX_CHARACTERS: Final = 1 << 28
"""Longer texts are refused."""


class Kind(enum.Enum):
    """What a token is."""

    NAME = "a name"
    TAG = "a #tag"
    SCALAR = "a $scalar"
    NUMBER = "a number"
    STRING = "a string"
    COMMENT = "a comment"
    PUNCTUATION = "punctuation"
    END = "the end of the text"
    UNKNOWN = "an unknown character"

    __hash__ = object.__hash__


class Token(NamedTuple):
    """A piece of the text: characters ``start`` to ``stop``."""

    kind: Kind
    text: str
    start: int
    stop: int


_PATTERN: Final = re.compile(
    r"""[ \t\r\n]*(?:
    (?P<NAME>[A-Za-z_][A-Za-z0-9_.']*)
  | (?P<TAG>\#[A-Za-z_][A-Za-z0-9_.']*)
  | (?P<SCALAR>\$[A-Za-z_][A-Za-z0-9_.']*)
  | (?P<NUMBER>0[xX][0-9A-Fa-f]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
  | (?P<STRING>"(?:[^"\\\n]|\\[^\n])*")
  | (?P<COMMENT>//[^\n]*)
  | (?P<PUNCTUATION>->|>=|[][(){}<>:,;=@/*+-])
  | (?P<END>\Z)
  | (?P<UNKNOWN>.)
    )""",
    re.VERBOSE,
)
_KINDS: Final = {kind.name: kind for kind in Kind}


@attrs.define
class Lexer:
    """A position in a text, with the next token looked up."""

    source: Source
    token: Token = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if len(self.source.text) > MAX_CHARACTERS:
            message = f"the text has {len(self.source.text)} characters: split the program; at most {MAX_CHARACTERS}"
            raise ParseError([Diagnostic("TIL105", message)])
        self.token = self._match(0)

    def advance(self) -> Token:
        """Return the next token and step behind it; at the end of the text it stays there."""
        token = self.token
        self.token = self._match(token.stop)
        return token

    def after(self) -> Token:
        """Return the token behind the next one."""
        return self._match(self.token.stop)

    def next_line(self, token: Token) -> None:
        """Skip what is left of the line on which ``token`` starts."""
        end = self.source.text.find("\n", token.start)
        end = len(self.source.text) if end < 0 else end
        if self.token.start < end:
            self.token = self._match(end)

    def span(self, token: Token) -> Span:
        """Return where ``token`` is written."""
        return Span(self.source, token.start, token.stop)

    def _match(self, position: int) -> Token:
        match = _PATTERN.match(self.source.text, position)
        if match is None or match.lastgroup is None:  # cannot be: UNKNOWN takes any character, END the rest
            return Token(Kind.END, "", len(self.source.text), len(self.source.text))
        group = match.lastgroup
        return Token(_KINDS[group], match[group], match.start(group), match.end(group))
