"""The tokens of typed text, and how names are spelt there.

A place in the tokens of a typed text, and its small parts: names, numbers, types, affine expressions.
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


@attrs.define(eq=False, repr=False)
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


MAX_DIGITS: Final = 4000
"""Integers with more digits are refused; Python converts no more than 4300."""
MAX_SIZE: Final = 2**63 - 1
"""The greatest size, axis or count."""

_DTYPES: Final[Mapping[str, DType]] = MappingProxyType({dtype.value: dtype for dtype in DType})
_WORDS: Final[Mapping[str, bool | float]] = MappingProxyType(
    {"true": True, "false": False, "inf": math.inf, "nan": math.nan}
)


@attrs.define(eq=False, repr=False)
class Cursor(lexing.Cursor):
    """The token that is looked at, and the small parts of the grammar."""

    word_kind = WORD
    lexer = Lexer.of
    tokens: Lexer

    def recover(self, pattern: re.Pattern[str]) -> None:
        """Pass over what cannot be read: look at what stands behind the next match of a pattern."""
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
        """Read names with commas between them; none where one of ``ends`` comes next."""
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
        """Read a dtype and the sizes behind it, as in ``f32[2, 3]``."""
        dtype = self.dtype()
        return dtype, self.enclosed(self.size, "[]")

    def affine(self) -> Affine:
        """Read an affine expression of indices."""
        return read_affine(self, INTEGER, self.integer, self.name)
