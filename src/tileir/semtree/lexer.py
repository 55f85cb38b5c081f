"""Kernel text to tokens, one at a time, so that a hostile text costs no more memory than itself."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import Diagnostic, ParseError
from tileir.core.span import Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterator


class TokenKind(enum.Enum):
    """What a token is."""

    WORD = "word"
    NAME = "quoted name"
    NUMBER = "number"
    STRING = "string"
    SIGN = "sign"
    END = "end of the text"

    __hash__ = object.__hash__


@attrs.frozen
class Token:
    """One token; ``comments`` are the whole-line comments right before it."""

    kind: TokenKind
    text: str
    span: Span
    comments: tuple[str, ...] = ()


_PATTERN: Final = re.compile(
    r"""
      (?P<BLANK>[ \t\r\n]+)
    | (?P<COMMENT>//[^\n]*)
    | (?P<WORD>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<NAME>`[^`\x00-\x1f]+`)
    | (?P<NUMBER>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    | (?P<STRING>"[^"\n]*")
    | (?P<SIGN><<|>>|<=|>=|==|!=|\+=|[-+*/%&|^~<>=(){}\[\],;:?])
    """,
    re.VERBOSE,
)


def tokens(source: Source) -> Iterator[Token]:
    """Yield the tokens of a text, the last of kind END.

    Raises:
        ParseError: a character that belongs to no token (TIL101), when it is reached.

    """
    text, position = source.text, 0
    comments: list[str] = []
    while position < len(text):
        match = _PATTERN.match(text, position)
        if match is None:
            span = Span(source, position, position + 1)
            message = f"{text[position]!r} has no meaning here: remove it"
            raise ParseError((Diagnostic("TIL101", message, span),))
        group, start, position = match.lastgroup, position, match.end()
        if group == "COMMENT":
            if not text[text.rfind("\n", 0, start) + 1 : start].strip():
                comments.append(match[0][2:].removeprefix(" "))
        elif group is not None and group != "BLANK":
            yield Token(TokenKind[group], match[0], Span(source, start, position), tuple(comments))
            comments.clear()
    yield Token(TokenKind.END, "", Span(source, len(text), len(text)), tuple(comments))
