"""The tokens of kernel text, and the comments between them."""

from __future__ import annotations

import re
from typing import Final

from tileir.core.text.lexing import Faults, Lexer
from tileir.core.text.span import Source

WORD: Final = "word"
NAME: Final = "name"
"""A name between back quotes."""
NUMBER: Final = "number"
STRING: Final = "string"

_TOKEN: Final = re.compile(
    r"""
    (?: [ \t\r\n] | //[^\n]* )*+
    (?: (?P<word> [A-Za-z_][A-Za-z0-9_]* )
      | (?P<name> `[^`\x00-\x1f]+` )
      | (?P<number> [0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)? )
      | (?P<string> "[^"\n]*" )
      | (?P<sign> <<|>>|<=|>=|==|!=|\+=|[-+*/%&|^~<>=(){}\[\],;:?] )
      | (?P<end> \Z )
      | (?P<unknown> ``+ | . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"^[^\S\n]*//[ ]?(.*)$", re.MULTILINE)


def lexer_of(source: Source, faults: Faults) -> Lexer:
    """Return what reads the tokens of a text; characters that belong to none are reported as TIL101."""
    return Lexer(source, faults, _TOKEN, "TIL101", lambda word: f"{word!r} has no meaning here: remove it")


def comments_between(source: Source, start: int, stop: int) -> tuple[str, ...]:
    """Return the comments between two tokens that have lines of their own."""
    return tuple(match[1] for match in _COMMENT.finditer(source.text, start, stop))
