"""A place in a stream of tokens: look at one, take it, say what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from tileir.core.span import Source, Span
from tileir.tile.lexer import END, Faults, Lexer, Token

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class AbandonError(Exception):
    """What is being read cannot be completed; the fault is reported, the caller recovers."""


@attrs.define
class Cursor:
    """The token that is looked at, and where the one before it stopped."""

    source: Source
    faults: Faults
    token: Token
    _lexer: Lexer
    _last: Token = Token(END, "", 0, 0)

    @classmethod
    def at_start(cls, source: Source, faults: Faults) -> Cursor:
        """Look at the first token of ``source``."""
        lexer = Lexer(source, faults)
        return cls(source, faults, lexer.next(), lexer)

    def advance(self) -> Token:
        """Take the token that is looked at."""
        self._last = taken = self.token
        self.token = self._lexer.next()
        return taken

    def at(self, kind: str) -> bool:
        """Return whether the next token is of ``kind``."""
        return self.token.kind == kind

    def skip(self, kind: str) -> bool:
        """Take the next token if it is of ``kind``, and say whether it was."""
        if self.token.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str, what: str = "") -> Token:
        """Take the next token, which must be of ``kind``; ``what`` describes it where the kind does not.

        Raises:
            AbandonError: It is another one; this is reported.

        """
        if self.token.kind != kind:
            raise self.unexpected(what or f"'{kind}'")
        return self.advance()

    def list(self, item: Callable[[], T]) -> tuple[T, ...]:
        """Read one item or more, with commas between them."""
        items = [item()]
        while self.skip(","):
            items.append(item())
        return tuple(items)

    def unexpected(self, expected: str, *notes: str) -> AbandonError:
        """Report that the next token is not what was expected, and return what the caller raises."""
        return self.refuse(f"expected {expected} but found {self.describe()}", *notes)

    def refuse(self, message: str, *notes: str) -> AbandonError:
        """Report the next token and return what the caller raises.

        Nothing is reported right after a character that the lexer reported, nor at the end of a text
        that has a fault already: those are the same fault again.
        """
        again = self._last.stop < self._lexer.unknown_stop <= self.token.start
        if not again and not (self.faults.found and self.at(END)):
            self.report(message, self.here, notes=notes)
        return AbandonError()

    def describe(self) -> str:
        """Name the next token in a message."""
        return "the end of the text" if self.token.kind == END else f"'{self.here.text}'"

    def report(self, message: str, span: Span, code: str = "TIL102", notes: tuple[str, ...] = ()) -> None:
        """Report a fault and go on."""
        self.faults.report(code, message, span, *notes)

    def report_and_abandon(self, message: str, span: Span, code: str) -> AbandonError:
        """Report a fault, and return what the caller raises since the rest cannot be understood."""
        self.report(message, span, code)
        return AbandonError()

    @property
    def here(self) -> Span:
        """The span of the next token."""
        return self.span_of(self.token)

    @property
    def last(self) -> Span:
        """The span of the token that was taken last."""
        return self.span_of(self._last)

    @property
    def on_new_line(self) -> bool:
        """Whether the next token stands on a later line than the last one that was taken."""
        return "\n" in self.source.text[self._last.stop : self.token.start]

    def span_of(self, token: Token) -> Span:
        """Return the span of one token."""
        return Span(self.source, token.start, token.stop)

    def span_from(self, start: int) -> Span:
        """Return the span from an offset to the end of the last token that was taken."""
        return Span(self.source, start, max(start, self._last.stop))

    def recover(self) -> None:
        """Pass over the rest of a statement: look at the next ``;`` or ``}``."""
        self._lexer.skip_statement(self.token.start)
        self.token = self._lexer.next()

    def recover_header(self) -> None:
        """Pass over the rest of a function's header: look at the next ``{``."""
        self._lexer.skip_header(self.token.start)
        self.token = self._lexer.next()
