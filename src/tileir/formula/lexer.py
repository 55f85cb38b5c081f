"""Characters of a formula to tokens. A line is a statement, unless a bracket is open at its end."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

import attrs

from tileir.core.errors import ArgumentError, Diagnostic
from tileir.core.span import Source, Span

NAME: Final = "name"
NUMBER: Final = "number"
COLOUR: Final = "colour"
COMMENT: Final = "comment"
LINE: Final = "end of line"
END: Final = "end of text"

MAX_CHARACTERS: Final = 1_000_000
MAX_FAULTS: Final = 100


class Token(NamedTuple):
    """A piece of the text; ``kind`` is one of the constants above, or the sign itself."""

    kind: str
    text: str
    start: int
    stop: int


SIGNS: Final = "=(){}[],;%$"
"""Of the text of formulas."""

_KINDS: Final = {"name": NAME, "number": NUMBER, "colour": COLOUR, "comment": COMMENT, "line": LINE, "end": END}


@attrs.define
class Faults:
    """What is wrong with a text, in the order in which it was found; no more than :data:`MAX_FAULTS`."""

    source: Source
    found: list[Diagnostic] = attrs.field(factory=list, init=False)

    def add(self, code: str, message: str, start: int, stop: int) -> None:
        """Report some characters."""
        if len(self.found) < MAX_FAULTS:
            self.found.append(Diagnostic(code, message, Span(self.source, start, stop)))

    def in_order(self) -> tuple[Diagnostic, ...]:
        """Return what was found in the order of the text."""
        return tuple(sorted(self.found, key=lambda fault: fault.span.start if fault.span else 0))


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


def tokens(source: Source, faults: Faults, signs: str = SIGNS) -> list[Token]:
    """Return the tokens of a text; characters that are no tokens, and none of the signs, are reported and left out.

    Raises:
        ArgumentError: TIL105, the text is too long.

    """
    text = source.text
    if len(text) > MAX_CHARACTERS:
        message = f"a formula has at most {MAX_CHARACTERS:,} characters; this one has {len(text):,}"
        raise ArgumentError((Diagnostic("TIL105", message),))
    found: list[Token] = []
    pattern = _pattern(signs)
    position, open_brackets = 0, 0
    while True:
        match = pattern.match(text, position)
        assert match is not None  # the last alternative takes any character
        assert match.lastgroup is not None
        group = match.lastgroup
        start, position = match.span(group)
        piece = match.group(group)
        if group == "unknown":
            faults.add("TIL101", f"{piece!r} means nothing here", start, position)
            continue
        kind = piece if group == "sign" else _KINDS[group]
        open_brackets += (piece in "([") - (piece in ")]") if group == "sign" else 0
        if kind == LINE and open_brackets > 0:
            continue
        found.append(Token(kind, piece, start, position))
        if kind == END:
            return found
