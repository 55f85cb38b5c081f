"""The tokens of typed text, and the spelling of names.

The cursor reads small parts of the grammar: names, numbers, types, affine expressions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from tileir.core import DType, Source
from tileir.core.text import lexing
from tileir.core.text.lexing import Faults, Token
from tileir.poly.affine import Affine
from tileir.poly.reading import read_affine
from tileir.tile.text.lexer import FLOAT as FLOAT, INDEX, INTEGER as INTEGER
from tileir.typed.tensor_type import Shape

WORD: Final = INDEX
"""A plain name or a keyword. The arrays of Tile are read from the same tokens, so kinds are Tile's."""
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
"""The position before a statement or the end of a function."""
NEXT_INPUT: Final = re.compile(rf"[\n,][ \t]*(?={_NAME}:)|(?=\)[ \t]*->)|(?=\{{)")
"""The position before an input or the end of the inputs."""
BODY: Final = re.compile(r"(?=\{)")
"""The position before the statements of a function."""


@attrs.define(eq=False, repr=False)
class Lexer(lexing.Lexer):
    """The tokens of typed text, parts of which can be skipped."""

    @classmethod
    def of(cls, source: Source, faults: Faults) -> Lexer:
        """Return a lexer for a text; characters outside of all tokens are reported as TIL101."""
        return cls(source, faults, _PATTERN, "TIL101", _advice)

    def skip(self, pattern: re.Pattern[str], start: int) -> None:
        """Continue after the first match of a pattern after the character ``start``."""
        match = pattern.search(self.source.text, start)
        self._position = len(self.source.text) if match is None else match.end()


def _advice(word: str) -> str:
    return f"the character {word!r} has no meaning here; a name that has it stands between back quotes"


def spell(name: str) -> str:
    """Return the spelling of a name: in back quotes, with the escapes of JSON, unless it is a plain word."""
    if _PLAIN.fullmatch(name):
        return name
    escaped = json.dumps(name)[1:-1].replace("`", "\\u0060")
    return f"`{escaped}`"


def unquoted(quoted: str) -> str:
    """Return the name between back quotes.

    Raises:
        ValueError: It has an invalid escape.
    """
    name: str = json.loads(f'"{quoted[1:-1]}"')
    return name


MAX_DIGITS: Final = 4000
"""Greatest number of digits of an integer; Python converts no more than 4300."""
MAX_SIZE: Final = 2**63 - 1
"""The greatest size, axis or count."""

_DTYPES: Final[Mapping[str, DType]] = MappingProxyType({dtype.value: dtype for dtype in DType})
_WORDS: Final[Mapping[str, bool | float]] = MappingProxyType(
    {"true": True, "false": False, "inf": math.inf, "nan": math.nan}
)


@attrs.define(eq=False, repr=False)
class Cursor(lexing.Cursor):
    """The current token, and the small parts of the grammar."""

    word_kind = WORD
    lexer = Lexer.of
    tokens: Lexer

    def recover(self, pattern: re.Pattern[str]) -> None:
        """Skip to the end of the next match of a pattern after an error."""
        self.tokens.skip(pattern, self._last.stop)
        self.token = self.tokens.next()

    # --- words and names ---

    def name(self, what: str = "a name") -> str:
        """Read a name."""
        if self.token.kind == QUOTED:
            token = self.advance()
            try:
                return unquoted(token.text)
            except ValueError:
                message = 'this name has an escape that JSON does not know: write \\\\ for one \\, and \\" for "'
                raise self.report_and_abandon(message, self.span_of(token), "TIL102") from None
        return self.expect(WORD, what).text

    def names(self, *ends: str) -> tuple[str, ...]:
        """Read names separated by commas; none if one of ``ends`` comes next."""
        return () if self.token.kind in ends else self.list(self.name)

    # --- numbers ---

    def integer(self) -> int:
        """Read an integer, with or without a sign."""
        negative = self.skip("-")
        token = self.expect(INTEGER, "an integer")
        value = self._digits(token)
        return -value if negative else value

    def size(self) -> int:
        """Read a size, an axis, or a count."""
        start = self.token.start
        value = self.integer()
        if abs(value) > MAX_SIZE:
            raise self.report_and_abandon("a size is at most 2**63 - 1", self.span_from(start), "TIL104")
        return value

    def number(self) -> bool | int | float:
        """Read a number, ``true`` or ``false``."""
        start = self.token.start
        negative = self.skip("-")
        value = self._number()
        if negative and isinstance(value, bool):
            raise self.report_and_abandon("only a number has a sign", self.span_from(start), "TIL102")
        return -value if negative else value

    def _number(self) -> bool | int | float:
        if self.token.kind == WORD and self.token.text in _WORDS:
            return _WORDS[self.advance().text]
        if not self.at(FLOAT):
            return self._digits(self.expect(INTEGER, "a number, true or false"))
        token = self.advance()
        value = float(token.text)
        if math.isinf(value):
            raise self.report_and_abandon("no float is that large; write inf", self.span_of(token), "TIL104")
        return value

    def _digits(self, token: Token) -> int:
        if len(token.text) > MAX_DIGITS:
            raise self.report_and_abandon(f"an integer has at most {MAX_DIGITS} digits", self.span_of(token), "TIL104")
        return int(token.text)

    # --- types and expressions ---

    def dtype(self) -> DType:
        """Read the name of a dtype."""
        return self.one_of(_DTYPES, "a dtype")

    def dtype_ahead(self) -> DType:
        """Return the dtype whose name comes next, without taking it."""
        if self.token.kind != WORD or self.token.text not in _DTYPES:
            raise self.unexpected(f"a dtype: {', '.join(_DTYPES)}")
        return _DTYPES[self.token.text]

    def tensor_type(self) -> tuple[DType, Shape]:
        """Read a dtype and the following sizes, as in ``f32[2, 3]``."""
        dtype = self.dtype()
        return dtype, self.enclosed(self.size, "[]")

    def affine(self) -> Affine:
        """Read an affine expression of indices."""
        return read_affine(self, INTEGER, self.integer, self.name)
