"""The place of a parser in its tokens, and what it knows about names there."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

import attrs

from tileir.core.errors import Diagnostic, ParseError
from tileir.core.text import bytes_of_text
from tileir.semtree.ir import Type
from tileir.semtree.lexer import Token, TokenKind, tokens
from tileir.semtree.syntax import is_reserved, type_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.core.dtype import DType
    from tileir.core.span import Source, Span

_MAX_DIGITS: Final = 40

Known: TypeAlias = "Type | DType"
"""What a name stands for: a variable of a type, or an array of a dtype."""


@attrs.define
class Cursor:
    """One token of look-ahead over a text, the place of the token before, and the names in scope."""

    _tokens: Iterator[Token]
    token: Token
    last: Span
    known: dict[str, Known] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, source: Source) -> Cursor:
        """Return a cursor at the first token."""
        stream = tokens(source)
        first = next(stream)
        return cls(stream, first, first.span)

    def advance(self) -> Token:
        """Return the current token and step past it; the end of the text stays."""
        token = self.token
        if token.kind is not TokenKind.END:
            self.last, self.token = token.span, next(self._tokens)
        return token

    def content(self) -> bytes:
        """Take bytes, which are written as hexadecimal digits between double quotes."""
        token = self.token
        if token.kind is not TokenKind.STRING:
            self.unexpected("bytes in hexadecimal between double quotes")
        try:
            return bytes_of_text(self.advance().text[1:-1])
        except ValueError as error:
            self.fail("TIL102", str(error), token.span)

    def fail(self, code: str, message: str, span: Span | None = None) -> NoReturn:
        """Raise a fault at ``span``, or at the current token."""
        raise ParseError((Diagnostic(code, message, self.token.span if span is None else span),))

    def at(self, text: str) -> bool:
        """Return whether the current token is this sign or word."""
        return self.token.text == text and self.token.kind in (TokenKind.SIGN, TokenKind.WORD)

    def accept(self, text: str) -> bool:
        """Step past this sign or word where it is the current token."""
        found = self.at(text)
        if found:
            self.advance()
        return found

    def expect(self, text: str) -> Token:
        """Step past this sign or word, which must be the current token."""
        if not self.at(text):
            self.unexpected(repr(text))
        return self.advance()

    def unexpected(self, wanted: str) -> NoReturn:
        """Raise the fault that something else than ``wanted`` stands here."""
        found = repr(self.token.text) if self.token.text else self.token.kind.value
        self.fail("TIL102", f"expected {wanted}, found {found}")

    def name(self) -> Token:
        """Step past a name, and return its token with the name itself as the text."""
        if self.token.kind is TokenKind.NAME:
            token = self.advance()
            return attrs.evolve(token, text=token.text[1:-1])
        if self.token.kind is not TokenKind.WORD:
            self.unexpected("a name")
        if is_reserved(self.token.text):
            word = self.token.text
            self.fail("TIL102", f"{word!r} is a word of the language: write `{word}` to use it as a name")
        return self.advance()

    def kind(self) -> Type:
        """Step past the name of a type."""
        found = type_of(self.token.text) if self.token.kind is TokenKind.WORD else None
        if found is None:
            self.unexpected("a type such as f32 or f32x16")
        self.advance()
        return found

    def dtype(self) -> DType:
        """Step past the name of an element type."""
        span = self.token.span
        found = self.kind()
        if found.lanes != 1:
            self.fail("TIL102", f"expected an element type, found the vector {found}", span)
        return found.dtype

    def integer(self) -> int:
        """Step past an integer, with or without a minus sign."""
        sign = -1 if self.accept("-") else 1
        token = self.token
        if token.kind is not TokenKind.NUMBER or not token.text.isdigit():
            self.unexpected("an integer")
        return sign * self.digits(self.advance())

    def digits(self, token: Token) -> int:
        """Return the value of a token of digits."""
        if len(token.text) > _MAX_DIGITS:
            self.fail("TIL104", f"an integer has at most {_MAX_DIGITS} digits", token.span)
        return int(token.text)

    def integers(self) -> tuple[int, ...]:
        """Step past integers with commas between them; none before a closing bracket."""
        if self.at(")") or self.at("]"):
            return ()
        found = [self.integer()]
        while self.accept(","):
            found.append(self.integer())
        return tuple(found)

    def declare(self, name: Token, known: Known) -> None:
        """Bring a name into scope, where it must not be yet."""
        if name.text in self.known:
            self.fail("TIL202", f"{name.text!r} is already declared: choose another name", name.span)
        self.known[name.text] = known

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget what is declared inside the ``with`` block at its end."""
        before = len(self.known)
        try:
            yield
        finally:
            for _ in range(len(self.known) - before):
                self.known.popitem()
