"""The tokens of typed text, and how names are spelt there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.text import lexing
from tileir.tile.text.lexer import FLOAT as FLOAT
from tileir.tile.text.lexer import INDEX
from tileir.tile.text.lexer import INTEGER as INTEGER

if TYPE_CHECKING:
    from tileir.core.text.lexing import Faults
    from tileir.core.text.span import Source

WORD: Final = INDEX
"""A plain name, or a word of the language. The arrays of Tile are read from the same tokens, so kinds are Tile's."""
QUOTED: Final = "quoted"
"""A name between back quotes, with the escapes of JSON."""

_WORD: Final = r"[A-Za-z_][A-Za-z0-9_.']*"
_QUOTED: Final = r"`(?:[^`\\\n]|\\[^\n])*`"
_PLAIN: Final = re.compile(_WORD)
_PATTERN: Final = re.compile(
    rf"""
    (?: [ \t\r\n] | //[^\n]* )*+
    (?: (?P<{WORD}> {_WORD} )
      | (?P<{QUOTED}> {_QUOTED} )
      | (?P<{FLOAT}> [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
      | (?P<{INTEGER}> [0-9]+ )
      | (?P<sign> -> | == | [-+*/<>=?:;,(){{}}\[\]] )
      | (?P<end> \Z )
      | (?P<unknown> . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME: Final = rf"(?:{_WORD}|{_QUOTED})[ \t]*"
NEXT_STATEMENT: Final = re.compile(rf"\n[ \t]*(?=\[\[|\}}|{_NAME}(?::|=[ \t]*function\b))")
"""What stands in front of a statement, or of the end of a function."""
NEXT_INPUT: Final = re.compile(rf"[\n,][ \t]*(?={_NAME}:)|(?=\)[ \t]*->)|(?=\{{)")
"""What stands in front of an input, or of the end of the inputs."""
BODY: Final = re.compile(r"(?=\{)")
"""What stands in front of the statements of a function."""


@attrs.define
class Lexer(lexing.Lexer):
    """The tokens of typed text, of which parts can be passed over."""

    @classmethod
    def of(cls, source: Source, faults: Faults) -> Lexer:
        """Return what reads the tokens of a text; characters that belong to none are reported as TIL101."""
        return cls(source, faults, _PATTERN, "TIL101", _advice)

    def skip(self, pattern: re.Pattern[str], start: int) -> None:
        """Go on behind the first match of a pattern behind the character ``start``."""
        match = pattern.search(self.source.text, start)
        self._position = len(self.source.text) if match is None else match.end()


def _advice(word: str) -> str:
    return f"the character {word!r} has no meaning here; a name that has it stands between back quotes"


def spell(name: str) -> str:
    """Return a name as a text has it: between back quotes, with the escapes of JSON, where it is not a plain word."""
    if _PLAIN.fullmatch(name):
        return name
    escaped = json.dumps(name)[1:-1].replace("`", "\\u0060")
    return f"`{escaped}`"


def unquoted(quoted: str) -> str:
    """Return the name that stands between back quotes.

    Raises:
        ValueError: JSON does not know an escape in it.

    """
    name: str = json.loads(f'"{quoted[1:-1]}"')
    return name
