"""Tokens of Stripe text, and the comments between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from tileir.core.text import lexing
from tileir.core.text.lexing import END, Faults, Token
from tileir.core.text.span import Source

MAX_CHARACTERS: Final = 1 << 28
"""Longer texts are refused."""

NAME: Final = "name"
TAG: Final = "tag"
SCALAR: Final = "scalar"
NUMBER: Final = "number"
STRING: Final = "string"

_PATTERN: Final = re.compile(
    r"""(?: [ \t\r\n] | //[^\n]* )*+
    (?: (?P<name>[A-Za-z_][A-Za-z0-9_.']*)
      | (?P<tag>\#[A-Za-z_][A-Za-z0-9_.']*)
      | (?P<scalar>\$[A-Za-z_][A-Za-z0-9_.']*)
      | (?P<number>0[xX][0-9A-Fa-f]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
      | (?P<sign>->|>=|[][(){}<>:,;=@/*+-])
      | (?P<end>\Z)
      | (?P<unknown>.)
    )""",
    re.VERBOSE,
)
_COMMENT: Final = re.compile(r"//([^\n]*)")


@attrs.define(eq=False, repr=False)
class Lexer(lexing.Lexer):
    """The tokens of Stripe text, of which lines can be passed over."""

    @classmethod
    def of(cls, source: Source, faults: Faults) -> Lexer:
        """Return what reads the tokens of a text; characters that belong to none are reported as TIL101."""
        return cls(source, faults, _PATTERN, "TIL101", lambda word: f"the character {word!r} has no meaning in Stripe")

    def skip_line(self, start: int) -> None:
        """Go on behind the line on which there is the character ``start``."""
        end = self.source.text.find("\n", start)
        self._position = max(self._position, len(self.source.text) if end < 0 else end)


def after(source: Source, token: Token) -> Token:
    """Return the token behind one, which the lexer need not have come to."""
    match = _PATTERN.match(source.text, token.stop)
    if match is None or match.lastgroup is None:
        return Token(END, "", len(source.text), len(source.text))
    word = match[match.lastgroup]
    return Token(word if match.lastgroup == "sign" else match.lastgroup, word, *match.span(match.lastgroup))


def comments(source: Source, start: int, stop: int) -> Iterator[tuple[str, bool]]:
    """Yield the comments between two tokens, and of each whether it is on the line of the first token."""
    for match in _COMMENT.finditer(source.text, start, stop):
        yield match[1].strip(), "\n" not in source.text[start : match.start()]
