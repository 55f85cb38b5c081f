"""Cursor of a parser: its place in the tokens, and the names visible there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn, TypeAlias

import attrs

from tileir.core import DType, Source, Span
from tileir.core.text import lexing
from tileir.core.text.lexing import AbandonError, Faults, Lexer, Token
from tileir.core.text.writer import bytes_of_text
from tileir.semtree.ir import Type
from tileir.semtree.text.syntax import is_reserved, type_of

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
    """Return the lexer of a text; invalid characters are reported as TIL101."""
    return Lexer(source, faults, _TOKEN, "TIL101", lambda word: f"{word!r} has no meaning here: remove it")


def comments_between(source: Source, start: int, stop: int) -> tuple[str, ...]:
    """Return the comments on lines of their own between two tokens."""
    return tuple(match[1] for match in _COMMENT.finditer(source.text, start, stop))


_MAX_DIGITS: Final = 40

Known: TypeAlias = "Type | DType"
"""The meaning of a name: a variable of a type, or an array of a dtype."""


class HopelessError(AbandonError):
    """Error for text nested so deeply that nothing after it can be parsed."""


@attrs.define(eq=False, repr=False)
class Cursor(lexing.Cursor):
    """One token of look-ahead over a text, and the names in scope."""

    word_kind = WORD
    lexer = staticmethod(lexer_of)
    known: dict[str, Known] = attrs.field(factory=dict, init=False)

    def comments(self) -> tuple[str, ...]:
        """Return the comments on lines of their own right before the current token."""
        return comments_between(self.source, self.last.stop, self.token.start)

    def content(self) -> bytes:
        """Take bytes, written as hexadecimal digits between double quotes."""
        token = self.token
        if token.kind != STRING:
            self.reject("bytes in hexadecimal between double quotes")
        try:
            return bytes_of_text(self.advance().text[1:-1])
        except ValueError as error:
            self.fail("TIL102", str(error), self.span_of(token))

    def fail(self, code: str, message: str, span: Span | None = None) -> NoReturn:
        """Report a fault at ``span``, or at the current token, and abandon the current construct."""
        self.report(message, self.here if span is None else span, code)
        raise HopelessError if code == "TIL103" else AbandonError

    def at(self, kind: str) -> bool:
        """Return whether the current token is this sign or word."""
        return self.token.text == kind  # names and strings have their quotes

    def accept(self, text: str) -> bool:
        """Step past this sign or word if it is the current token."""
        found = self.at(text)
        if found:
            self.advance()
        return found

    def expect(self, kind: str, what: str = "") -> Token:
        """Step past this sign or word, which must be the current token."""
        if not self.at(kind):
            self.reject(what or repr(kind))
        return self.advance()

    def unexpected(self, expected: str, *notes: str) -> AbandonError:
        """Report that the current token differs from the expected one, and return the error to raise."""
        found = repr(self.token.text) if self.token.text else "end of the text"
        return self.refuse(f"expected {expected}, found {found}", *notes)

    def reject(self, wanted: str) -> NoReturn:
        """Report that the current token is not ``wanted``, and abandon the current construct."""
        raise self.unexpected(wanted)

    def name(self) -> Token:
        """Step past a name, and return its token with the name itself as the text."""
        if self.token.kind == NAME:
            token = self.advance()
            return token._replace(text=token.text[1:-1])
        if self.token.kind != WORD:
            self.reject("a name")
        if is_reserved(self.token.text):
            word = self.token.text
            self.fail("TIL102", f"{word!r} is a word of the language: write `{word}` to use it as a name")
        return self.advance()

    def kind(self) -> Type:
        """Step past the name of a type."""
        found = type_of(self.token.text) if self.token.kind == WORD else None
        if found is None:
            self.reject("a type such as f32 or f32x16")
        self.advance()
        return found

    def dtype(self) -> DType:
        """Step past the name of an element type."""
        span = self.here
        found = self.kind()
        if found.lanes != 1:
            self.fail("TIL102", f"expected an element type, found the vector {found}", span)
        return found.dtype

    def integer(self) -> int:
        """Step past an integer, with or without a minus sign."""
        sign = -1 if self.accept("-") else 1
        token = self.token
        if token.kind != NUMBER or not token.text.isdigit():
            self.reject("an integer")
        return sign * self.digits(self.advance())

    def digits(self, token: Token) -> int:
        """Return the value of a token of digits."""
        if len(token.text) > _MAX_DIGITS:
            self.fail("TIL104", f"an integer has at most {_MAX_DIGITS} digits", self.span_of(token))
        return int(token.text)

    def declare(self, name: Token, known: Known) -> None:
        """Bring a name into scope, where it must not be visible yet."""
        if name.text in self.known:
            self.fail("TIL202", f"{name.text!r} is already declared: choose another name", self.span_of(name))
        self.known[name.text] = known

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget the declarations inside the ``with`` block at its end."""
        before = len(self.known)
        try:
            yield
        finally:
            for _ in range(len(self.known) - before):
                self.known.popitem()
