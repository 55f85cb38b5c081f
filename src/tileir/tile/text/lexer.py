"""Lexer of Tile text. It is lazy, so that a hostile text costs no more than the part that is read.

A cursor at the tokens skips to the end of a statement or header after a fault.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from tileir.core.text import lexing
from tileir.core.text.lexing import Faults, Token
from tileir.core.text.span import Source, Span
from tileir.tile.text.grammar import MAX_NAME, RESERVED, is_tensor_name

NAME: Final = "name"
INDEX: Final = "index"
INTEGER: Final = "integer"
FLOAT: Final = "float"


# Adjacent characters outside of all tokens make one fault; so does a whole name that begins with _.
_UNKNOWN: Final = r"""_[A-Za-z0-9_']* | [^_ \t\r\nA-Za-z0-9#$"+\-*/<>=&|^~?:,;()\[\]{}]+ | [#$"]"""
_QUOTED: Final = r'"(?:[^"\\\n]|\\["\\])*"'
_ESCAPED: Final = re.compile(r"\\(.)")
_TOKEN: Final = re.compile(
    rf"""
    (?: [ \t\r\n] | //[^\n]* )*+
    (?: (?P<name> [A-Z][A-Za-z0-9_]*'? )
      | (?P<index> [a-z][A-Za-z0-9_]* )
      | (?P<sign> [,;()\[\]{{}}+*/&|^~?:] | <<|<=|< | >>|>=|> | ==|= | != | ->|- )
      | (?P<float> [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
      | (?P<integer> [0-9]+ )
      | \#(?P<hashed> [A-Za-z_][A-Za-z0-9_]*'? )
      | \$(?P<dollar> [A-Za-z_][A-Za-z0-9_]* )
      | (?P<quoted> {_QUOTED} )
      | (?P<end> \Z )
      | (?P<unknown> {_UNKNOWN} )
    )
    """,
    re.VERBOSE,
)
# Text skipped by recovery: everything up to the end of a statement or of the function.
_REST: Final = re.compile(rf"""(?:[^;}}/"]|/(?!/)|//[^\n]*|{_QUOTED}|")*+""")
_REST_OF_HEADER: Final = re.compile(rf"""(?:[^{{/"]|/(?!/)|//[^\n]*|{_QUOTED}|")*+""")
_SKIPPED: Final = re.compile(
    rf"""
    //[^\n]* | {_QUOTED} | [#$]?[A-Za-z][A-Za-z0-9_]*'? | [#$]_[A-Za-z0-9_]*'? | [0-9]+(?:\.[0-9]+)? | !=
    | (?P<unknown> {_UNKNOWN} )
    """,
    re.VERBOSE,
)


@attrs.define(eq=False, repr=False)
class Lexer(lexing.Lexer):
    """The tokens of Tile text: reserved words are their own kind, and names have lost the sign in front of them."""

    @classmethod
    def of(cls, source: Source, faults: Faults) -> Lexer:
        """Return a lexer for a text; characters outside of all tokens are reported as TIL101."""
        return cls(source, faults, _TOKEN, "TIL101", _advice)

    def next(self) -> Token:
        """Return the next token; at the end of the text, an ``END`` as often as asked."""
        token = super().next()
        match token.kind:
            case "index" if token.text in RESERVED:
                return token._replace(kind=token.text)
            case "hashed":
                return Token(NAME, token.text, token.start - 1, token.stop)
            case "dollar":
                return Token(INDEX, token.text, token.start - 1, token.stop)
            case "quoted":
                return self._quoted(token)
            case _:
                return token

    def _quoted(self, token: Token) -> Token:
        """Return the name in quotes; an invalid one is reported and kept."""
        name = _ESCAPED.sub(r"\1", token.text[1:-1])
        if not is_tensor_name(name):
            message = f"a name has 1 to {MAX_NAME} characters, all of which can be printed"
            self.faults.report("TIL101", message, Span(self.source, token.start, token.stop))
        return Token(NAME, name or "_", token.start, token.stop)

    def skip_statement(self, start: int) -> None:
        """Skip the text between ``start`` and the next ``;`` or ``}``; report unknown characters there."""
        self._skip(_REST, start)

    def skip_header(self, start: int) -> None:
        """Skip the text between ``start`` and the next ``{``; report unknown characters there."""
        self._skip(_REST_OF_HEADER, start)

    def _skip(self, pattern: re.Pattern[str], start: int) -> None:
        text = self.source.text
        rest = pattern.match(text, start)
        stop = start if rest is None else rest.end()
        for match in _SKIPPED.finditer(text, max(start, self._position), stop):
            if match.lastgroup is not None:
                self._report(*match.span())
        self._position = stop


def _advice(word: str) -> str:
    """Return advice for a word that begins no token."""
    first = word[0]
    match first:
        case "_":
            return f"a name cannot begin with '_'; write #{word} for a tensor or ${word} for an index"
        case ".":
            return "a number needs digits on both sides of its point"
        case "%":
            return "there is no operator '%'; write mod(a, b)"
        case "!":
            return "there is no operator '!'; write logical_not(a)"
        case "@":
            return "there is no operator '@'; a product of matrices is O[i, j : M, N] = +(A[i, k] * B[k, j])"
        case '"':
            return "a name in quotes ends in its line, and has a backslash only in front of a quote or another one"
        case "#" | "$":
            return f"'{first}' needs a name right after it; a comment starts with //"
        case _:
            return f"the language has no character {first!r} (U+{ord(first):04X})"


@attrs.define(eq=False, repr=False)
class Cursor(lexing.Cursor):
    """The current token, and the end of the previous one."""

    word_kind = INDEX
    lexer = Lexer.of
    tokens: Lexer

    def recover(self) -> None:
        """Skip the rest of a statement, to the next ``;`` or ``}``."""
        self.tokens.skip_statement(self.token.start)
        self.token = self.tokens.next()

    def recover_header(self) -> None:
        """Skip the rest of a function's header, to the next ``{``."""
        self.tokens.skip_header(self.token.start)
        self.token = self.tokens.next()
